// The selected step, or the run itself: what came of it first, then how (its conversation, its attempts or calls), what went in, its definition.

const AGAIN = 1000; // milliseconds between two requests for a step that changes, half of them for one with a list of calls

class Panel {
  constructor(view) {
    this.view = view;
    this.state = view.state;
    this.node = element("div", { class: "panel", role: "group", "aria-label": "Details", tabindex: 0 });
    this.id = null;
    this.parts = new Map(); // what a person may have opened stays while the step changes
    this.place = {}; // below the beginning of a conversation. `isFollowed`: the end of a reply stays in sight, until a person scrolls
    this.node.addEventListener("scroll", () => {
      const { scrollTop } = this.node;
      if (scrollTop !== this.wasPut) this.place.top = scrollTop && scrollTop - this.above; // a person scrolled
    }, { passive: true });
    this.sizes = new ResizeObserver(() => this.keepPlace(this.parts.get("session")?.node)); // its Markdown comes later
    for (const event of ["wheel", "pointerdown", "keydown"]) this.node.addEventListener(event, () => { this.place.isFollowed = false; }, { passive: true });
  }

  // Ask again for what is selected if it changed; soon, if it was asked for just now.
  changed(rows, before) {
    const i = this.view.chosen, isMine = row => row === i || (this.parts.has("session") && this.state.isInside(row, i));
    const { live, status, dropped } = this.state.last, pause = AGAIN * (this.parts.has("calls") ? 2 : i < 0 ? 0.4 : 1);
    // The time of a step that runs goes on between two updates; that of another one stays, with what a person has selected in it.
    if (rows.includes(i) || this.state.rows[i]?.[Now.end] === null) this.node.querySelector(":scope > .facts")?.replaceWith(this.head());
    const isDue = !live || performance.now() - (this.asked ?? 0) > pause;
    this.isOld ||= i < 0 ? before !== status || dropped !== this.dropped : rows.some(isMine);
    if (isDue && this.isOld && !this.state.isDeaf) this.fetch();
  }

  async fetch() {
    const row = this.state.tree[this.view.chosen], id = row ? row[Step.id] : "";
    const title = element("h3", {}, row ? this.state.nameOf(this.view.chosen) : this.state.name);
    const isBusy = this.state.isDeaf;
    this.asked = isBusy ? undefined : performance.now();
    this.isOld = isBusy;
    this.dropped = this.state.last.dropped; // what the list of a run is about
    if (this.id !== id || isBusy || this.wasBusy) {
      this.wasBusy = isBusy;
      this.id = id;
      this.facts = null;
      this.parts.clear();
      // At its end a cell is shown by a new view, which is where the last one was.
      const of = `${this.state.runId} ${id}`, { kept } = this.state;
      this.place = kept.place = kept.place?.of === of ? { ...kept.place } : { of };
      this.node.replaceChildren(title, element("p", { class: isBusy ? "hint deaf" : "hint" }, isBusy ? "Details come when the cell has ended." : "…"));
    }
    if (isBusy) return;
    // The calls come with the step: each request shows a busy kernel in all of JupyterLab, which costs more than the answer.
    const calls = this.parts.get("calls")?.shown?.wish;
    let found;
    try { found = await (row ? this.state.request("step", calls ? { step: id, calls } : { step: id }) : this.state.request("run")); }
    catch (error) {
      this.isOld = true; // of a run that goes on it is asked again
      if (id === this.id) this.node.replaceChildren(title, errorElement(error.message));
      return;
    }
    if (found.calls) found.calls.of = JSON.stringify(calls);
    const facts = JSON.stringify(found);
    if (id !== this.id) return;
    if (facts === this.facts) return this.parts.get("session")?.fetch(); // what arrives is in the session alone
    this.facts = facts;
    const top = this.node.scrollTop;
    if (row) this.show(found); else this.showRun(found);
    this.node.scrollTop = top;
    this.keepPlace(this.parts.get("session")?.node);
    if (found.session) this.widen();
    this.fitLines();
  }

  // The lines of an excerpt, whose carets are below what they mean. The answer may come before the panel has its size.
  fitLines() { for (const line of this.node.querySelectorAll(".excerpt")) this.fit(line); }

  // It needs the room below the steps, also where there is room beside them, and stays there.
  widen() {
    if (this.isWide) return;
    this.isWide = true;
    this.view.arrange();
    this.view.draw();
  }

  // A table or a line that does not fit beside the steps goes below them. So does a table that is there without its last column.
  fit(node) {
    const isWhole = node.scrollWidth <= node.clientWidth && node.querySelector("th:last-child")?.offsetWidth !== 0;
    if (isWhole || this.view.isBelow) return;
    this.widen();
  }

  // A part grows, or what is above it: its end stays in sight if it is followed; else what a person reads.
  keepPlace(node) {
    if (!node?.clientHeight) return; // not here yet, or not any more
    if (this.place.isFollowed) this.node.scrollTop += node.getBoundingClientRect().bottom - this.node.getBoundingClientRect().bottom + 8;
    else if (this.place.top) this.node.scrollTop = this.place.top + this.above;
    this.wasPut = this.node.scrollTop;
  }

  // The pixels above the conversation.
  get above() { return (this.parts.get("session")?.node.offsetTop ?? this.node.offsetTop) - this.node.offsetTop; }

  showRun(run) {
    const children = [element("h3", {}, run.name), element("code", {}, run.id)];
    const part = (title, ...inner) => children.push(element("h4", {}, title), ...inner);
    if (run.note) children.push(hint(run.note));
    if (run.error) part("Error", errorElement(run.error));
    if (run.python) children.push(element("p", {}, "in Python: ", element("code", {}, run.python)));
    if (run.how) children.push(element("p", {}, "to continue: ", element("code", {}, run.how)));
    if (run.table) children.push(this.part("table", () => new LaterPart(this.view, "table")));
    if (run.output) part("Output", this.copy({}), valueElement(run.output, this.whole({})));
    if (run.stores.length) part("Stores", ...named("NamedStoreRow", run.stores).map(({ name, about }, number) => this.store(`${name} · ${about}`, number)));
    if (run.input) part("Input", details("input", [valueElement(run.input)], !run.output));
    if (run.dropped.length) part("Failed and dropped", ...named("DroppedRow", run.dropped).map(({ why, times, places }) => failureElement(why, times, places)));
    if (run.warnings.length) part("Warnings", ...run.warnings.map(errorElement));
    if (children.length === 2) children.push(hint("Select a step to see what went in and out."));
    this.put(children);
  }

  // Copies a value: a text as it is.
  copy(what) {
    const copied = async event => {
      const pressed = event.currentTarget;
      try {
        const { text } = await this.state.request("text", what);
        await navigator.clipboard.writeText(text[0] === '"' ? JSON.parse(text) : text);
        setText(pressed, "Copied");
      } catch (error) { this.view.inform(navigator.clipboard ? error.message : "this page may not copy: it is neither local nor https"); }
    };
    return button("Copy", copied, { class: "copy", title: "Copy the text, or the value as JSON" });
  }

  // Gets all of a text, which a report does not have.
  whole(what) { return this.state.fixed ? null : async () => JSON.parse((await this.state.request("text", what)).text); }

  // A store is fetched when it is opened.
  store(name, number) {
    const node = details(name, [], false);
    node.addEventListener("toggle", async () => {
      if (!node.open || node.children.length > 1) return;
      try { node.append(this.copy({ number }), valueElement(await this.state.request("store", { number }), this.whole({ number }))); }
      catch (error) { node.append(hint(error.message)); }
    });
    return node;
  }

  // The first line. State and counters are those of the row, which an update brings before the kernel is asked.
  head() {
    const { step } = this, { chosen } = this.view, row = this.state.rows[chosen], look = this.state.look(chosen);
    const { took, within } = this.state.tookOf(chosen), attempts = step.attempts ? ` in ${number(step.attempts.length)} attempts` : "";
    const facts = [took && took + attempts + within, row[Now.counted], step.why].filter(Boolean).join(" · ");
    const color = `color-mix(in srgb, ${look.color} 45%, var(--jp-ui-font-color1, CanvasText))`;
    return element("div", { class: "facts", title: step.id }, element("span", { style: { color, fontWeight: 600 } }, row[Now.words] || `${look.mark} ${look.word}`),
      [facts, step.does, this.within(chosen)].filter(Boolean).map(text => ` · ${text}`).join(""));
  }

  // The steps around this one, by their names.
  within(i) {
    const names = [];
    for (let outer = this.state.parent[i]; outer >= 0; outer = this.state.parent[outer]) if (this.state.isListed(outer)) names.unshift(this.state.nameOf(outer));
    return names.length ? `in ${names.join(" ▸ ")}` : "";
  }

  show(step) {
    this.step = step;
    const children = [element("h3", {}, step.name), this.head(), ...this.view.extras.panelParts(step, this.view.chosen)];
    const part = (title, ...inner) => children.push(element("h4", {}, title), ...inner);
    if (step.error) part(step.many ? "Error of the last call that failed" : "Error", errorElement(step.error));
    if (step.output) part("Output", this.copy({ step: step.id }), valueElement(step.output, this.whole({ step: step.id })));
    for (const [name, text] of step.arriving ?? []) part(`Arriving: ${name}`, element("pre", {}, text));
    if (step.session) part("Conversation", this.part("session", () => new LaterPart(this.view, "session", step.session)));
    if (step.printed) part("Printed", element("pre", {}, step.printed));
    if (step.attempts) part("Attempts", this.attempts(step));
    if (step.evaluates) children.push(this.part("values", () => new LaterPart(this.view, "evaluations", step.id, step.evaluates)));
    if (step.many && !step.note) children.push(this.part("calls", () => new LaterPart(this.view, "calls", step.id, step.elements, step.evaluates), step.calls));
    if (step.input) part("Input", valueElement(step.input));
    if (step.note) children.push(hint(step.note));
    if (step.definition) part([placeElement(`Definition: ${step.definition.name}, line ${step.definition.first}`), " · in Python: ", element("code", {}, step.id)], definitionElement(step.definition));
    this.put(children);
    const { wanted } = this;
    if (wanted) this.withCalls(calls => calls.openElement(wanted));
    this.wanted = null;
  }

  // What is as before stays in the page: to lay out a long table each second is half of the work of a running step, and a
  // button that is taken out of the page between two halves of a click does not hear it.
  put(children) {
    const wished = new Set(children);
    let old = this.node.firstElementChild;
    const drop = () => {
      const next = old.nextElementSibling;
      old.remove();
      old = next;
    };
    for (const child of children) {
      const isThis = () => old === child || old.isEqualNode(child);
      while (old && !isThis() && !wished.has(old)) drop();
      if (old && isThis()) old = old.nextElementSibling; else this.node.insertBefore(child, old);
    }
    while (old) drop();
    for (const child of children) this.sizes.observe(child);
  }

  // One call of the selected step, by its number.
  openCall(number_) {
    this.withCalls(calls => calls.open(number_));
    this.parts.get("calls")?.node.scrollIntoView({ block: "nearest" });
  }

  withCalls(use) { this.parts.get("calls")?.load().then(use, () => {}); }

  // Select a step, and show the calls of one of its elements.
  openElement(step, index) {
    this.wanted = index; // until its panel is there
    this.view.choose(step);
  }

  part(name, make, news) {
    const part = this.parts.get(name) ?? make();
    this.parts.set(name, part);
    part.fetch(news);
    return part.node;
  }

  attempts(step) {
    const rows = step.attempts.map(call => ({ bad: call.failed, cells: [call.failed ? "✗ failed" : "✓ ok", String(call.attempt), call.took, call.output] }));
    const shown = table(["", "attempt", "took", "output or error"], rows);
    shown.classList.add("attempts");
    return shown;
  }
}

// Failures with one message: how many, and where.
function failureElement(why, count, places) {
  const more = count > places.length ? ` … and ${number(count - places.length)} more` : "";
  return details(element("span", { class: "bad" }, `${number(count)} × ${why}`), [element("code", {}, places.join(", ") + more)], false);
}

// Messages break between words; the lines of an excerpt keep their columns.
function errorElement(text) {
  const isExcerpt = line => /^\s*\d* \| /.test(line);
  return element("pre", { class: "error" }, text.split("\n").map(line => element("div", isExcerpt(line) ? { class: "excerpt", title: line } : {}, placeElement(line) || "\u00a0")));
}

// A text that names a line of a cell: a link to it. A cell that runs has no number yet.
function placeElement(text) {
  const place = /\bIn\[(\d+)\][^,]*, line (\d+)/.exec(text);
  if (!place || !document.querySelector(".jp-Notebook")) return text;
  const go = event => {
    const prompt = [...document.querySelectorAll(".jp-InputPrompt")].find(node => node.textContent.trim() === `[${place[1]}]:`);
    if (!prompt) return setText(event.target, `${place[0]} (no longer in this notebook)`);
    const cell = prompt.closest(".jp-Cell"), line = cell.querySelectorAll(".cm-line")[place[2] - 1] ?? cell;
    line.scrollIntoView({ block: "center", behavior: "smooth" });
    line.animate([{ background: "#e0a50099" }, { background: "transparent" }], 2500);
  };
  return element("span", {}, text.slice(0, place.index), button(place[0], go, { class: "link", title: "Show this line in its cell" }), text.slice(place.index + place[0].length));
}

function definitionElement({ start, first, last, lines }) {
  return element("pre", { class: "definition", tabindex: 0 }, lines.map((line, k) => {
    const n = start + k, text = `${String(n).padStart(4)}  ${line}`;
    return n >= first && n <= last ? element("mark", {}, text) : element("div", {}, text);
  }));
}

// A part whose script comes when it is shown: the table of a run over a table, the values of a step that only evaluates, calls, a
// conversation.
class LaterPart {
  constructor(view, name, ...given) {
    Object.assign(this, { view, name, given, node: element("div") });
  }

  async load() {
    const views = await loadLater(this.view.state);
    return this.shown ??= views[this.name](this.view, this.node, ...this.given);
  }

  async fetch(news) {
    try { await this.load(); } catch (error) { return this.node.replaceChildren(hint(error.message)); }
    this.shown.fetch(news);
  }
}
