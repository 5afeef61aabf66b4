// What is loaded when it is needed: the marks of stale steps, the state over time. The buttons and the few lines that an
// unopened explorer needs are here, the rest is in later.js, which the kernel sends on request.

let later = null; // all explorers of a page share it
const FOR_LATER = { Now, Step, named, element, svgElement, button, hint, table, details, valueElement, markdownElement, errorElement, number, setText, duration, ends, marked, dragged };

function loadLater(state) {
  later ??= state.request("later").then(async ({ code }) => {
    const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    try { return (await import(url)).default(FOR_LATER); }
    finally { URL.revokeObjectURL(url); }
  });
  later.catch(() => { later = null; }); // the next click asks again
  return later;
}

class Extras {
  constructor(view) {
    this.view = view;
    this.state = view.state;
    this.state.extras ??= { marks: new Map(), summary: "", isOpen: false }; // all views of a run show the same
    this.stale = button("Check edits", view.afterCancel(() => this.check()), {
      title: "Mark the steps that a new run with --reuse would run again after your edits. Nothing runs." });
    this.time = button("State over time", () => this.openTime(), { title: "The stores or the state of the run at each moment", "aria-expanded": "false" });
    this.bell = bell();
    this.openButton = button("Open here", () => this.openHere(this.opens.id), {
      title: "Put the arguments of its last call (the last failed one first) into the variable `arguments`, and add a cell that makes the call" });
    this.before = element("span", { class: "hint", role: "status" });
    for (const name of ["pointerenter", "focus"]) view.buttons.rerun.addEventListener(name, () => this.foresee());
    this.actions = element("div", { class: "actions" }, view.buttons.rerun, this.openButton, this.before); // one for all steps: see `Panel.put`
    this.note = element("div", { class: "message", role: "status", hidden: true });
    this.oldWords = element("span", { class: "badge" });
    this.again = button("Run again with the edits", () => view.act("rerun", { edits: true }), { title: "A new run: the calls of what was edited are made again, and other results are reused" });
    this.old = element("div", { class: "message", role: "status", hidden: true }, this.oldWords, " ", this.again);
    this.place = element("div", { class: "time", hidden: true });
    if (this.state.extras.isOpen) this.openTime();
    this.isDue = !this.state.last.live; // an ended run is compared when a person comes to it
  }

  header(can) {
    this.stale.hidden = !can.has("rerun");
    this.time.hidden = !can.has("moments");
    const { old } = this.state.last;
    this.old.hidden = !old;
    this.again.hidden = !can.has("edits");
    setText(this.oldWords, old ? `${old}.` : "");
    if (can.has("rerun") && this.opens?.id === this.state.tree[this.view.chosen]?.[Step.id]) this.foresee();
    this.bell.hidden = !(this.state.notices && this.state.last.live && globalThis.Notification?.permission === "default");
  }

  // Another run is shown.
  reset() {
    Object.assign(this.state.extras, { marks: new Map(), around: new Set(), summary: "", again: undefined });
    this.forget();
    this.more?.reset();
    this.paint();
  }

  load() { return loadLater(this.state); }

  // A cell ran: the definition or a function may have changed. Out of sight, this waits until a person comes.
  edited() {
    if (this.stale.hidden) return;
    if (this.view.host.offsetParent && document.visibilityState === "visible") this.check(true);
    else this.isDue = true;
  }

  come() {
    if (!this.isDue || this.stale.hidden) return;
    this.isDue = false;
    this.check(true);
  }

  async check(auto = false) {
    const { extras, runId } = this.state;
    this.stale.disabled = true;
    try {
      const found = await this.state.request("stale", { auto, cells: auto || this.view.cells() });
      if (runId !== this.state.runId) return; // another run is shown by now
      extras.again = found.marks?.length;
      if (found.skipped) extras.summary = extras.marks.size ? `The marks may be out of date: ${found.skipped}. Check edits compares again.` : found.edited ? "Edited since this run. Click Check edits to see which steps would run again." : "";
      else {
        const isNews = found.edited || !auto || extras.summary, begin = found.edited ? "After your edits " : `No edits found${found.marks.length ? ", but " : ": "}`;
        extras.marks = new Map(isNews ? named("StaleRow", found.marks).map(({ number, state, why, change }) => [number, { state, why, change }]) : []);
        extras.summary = isNews ? `${begin}${found.summary}${found.new.length ? `: new ${found.new.join(", ")}` : ""}` : "";
      }
    } catch (error) {
      extras.summary = auto && !extras.summary ? "" : `Edits cannot be checked: ${error.message}`;
      extras.marks = new Map();
    } finally { this.stale.disabled = false; }
    extras.around = new Set();
    for (const i of extras.marks.keys()) for (let outer = this.state.parent[i]; outer >= 0; outer = this.state.parent[outer]) extras.around.add(outer);
    for (const { extras: shown, panel, chosen } of this.state.views) {
      shown.forget();
      shown.paint();
      if (chosen >= 0 && panel.facts) panel.show(panel.step); // the reason of the mark, and what runs before it
    }
  }

  // Before a person clicks: what else would run again. If no step of the run would, nothing is asked.
  async foresee() {
    if (!this.opens) return; // the button is of no step yet
    const { id } = this.opens, of = `${this.state.runId} ${id}`;
    if (this.foreseen === of || !this.state.last.can?.includes("rerun")) return;
    this.forget();
    this.foreseen = of;
    if (this.state.extras.again === 0) return;
    try {
      const { before } = await this.state.request("stale", { step: id });
      if (this.foreseen === of) setText(this.before, before);
    } catch { if (this.foreseen === of) this.foreseen = null; } // the click says why
  }

  // The steps are not what they were: what was said before the click holds no more.
  forget() {
    this.foreseen = null;
    setText(this.before, "");
  }

  paint() {
    const { summary } = this.state.extras;
    this.note.hidden = !summary;
    setText(this.note, summary);
    this.view.draw();
  }

  // The mark of a row; a folded row shows that there is one inside.
  mark(i, isFolded = false) {
    const { marks, around } = this.state.extras;
    const old = this.state.rows[i]?.[Now.old];
    if (old && !marks.has(i)) return { state: "old", why: `Up to ${number(old)} of its results were made before its function was edited` };
    return marks.get(i) ?? (isFolded && around?.has(i) ? { state: "inside", why: "A step inside has a mark" } : undefined);
  }

  // A row of the tree: a badge after its name.
  paintRow(node, i) {
    const mark = this.mark(i, this.view.folded.has(i)), now = mark ? `${badgeOf(mark)} ${mark.why}` : "";
    if (node.marked === now || (!now && !node.badge)) return;
    node.marked = now;
    node.badge ??= node.insertBefore(element("span", { class: "badge" }), node.took);
    setText(node.badge, mark ? badgeOf(mark) : "", mark ? mark.why : "");
  }

  // A box of the picture: a dashed border, and a label on its lower edge.
  paintBox(box, i) {
    const rows = i >= 0 ? [i] : box.isFolded ? this.view.picture.groups[-2 - i] : [], mark = rows.map(row => this.mark(row, box.isFolded)).find(Boolean), now = mark ? `${badgeOf(mark)} ${mark.why}` : "";
    if (box.marked === now || (!now && !box.badge)) return;
    box.marked = now;
    const [x, y, width, height] = ["x", "y", "width", "height"].map(name => Number(box.ring.getAttribute(name)));
    if (!box.badge) {
      const back = svgElement("rect", { y: y + height - 7, height: 14, rx: 7, fill: "#8a5300" });
      const text = svgElement("text", { x: x + width - 12, y: y + height + 3.5, fill: "#ffffff", "font-size": "9.5", "font-weight": "bold", "text-anchor": "end" });
      box.badge = svgElement("g", { class: "badge" });
      box.badge.append(back, text);
      box.group.append(box.badge);
    }
    const words = mark ? badgeOf(mark) : "", [back, text] = box.badge.children, long = 12 + 5.6 * words.length;
    text.textContent = words;
    back.setAttribute("x", x + width - 6 - long);
    back.setAttribute("width", long);
    box.badge.setAttribute("visibility", words ? "visible" : "hidden");
    box.ring.setAttribute("stroke-dasharray", mark ? "5 3" : "none");
  }

  // What the panel of a step says about it, and its buttons.
  panelParts(step, i) {
    const mark = this.mark(i);
    this.opens = step;
    this.foresee();
    this.openButton.hidden = !step.opens;
    return [mark ? element("p", { class: "badge" }, `${badgeOf(mark)}: ${mark.why}`) : null, this.actions].filter(Boolean);
  }

  async openHere(step) {
    try { (await this.load()).opened(this.view, await this.state.request("open", { step })); }
    catch (error) { this.view.inform(error.message); }
  }

  async openTime() {
    const { extras } = this.state;
    if (this.more) {
      extras.isOpen = this.place.hidden;
      return this.more.toggle();
    }
    extras.isOpen = true;
    this.place.hidden = false;
    this.place.replaceChildren(hint("…"));
    try {
      const { time } = await this.load();
      this.more ??= time(this.view, this.place, this.time);
    } catch (error) { this.place.replaceChildren(hint(error.message)); }
  }

  changed(before) { this.more?.changed(before); }
}

const BADGES = { again: "↻ stale", retry: "↻ retry", depends: "↻ depends", evaluated: "↻ depends", unknown: "? unknown", inside: "↻ inside", old: "old code" };

function badgeOf({ state, change }) { return [BADGES[state], change].filter(Boolean).join(", "); }
