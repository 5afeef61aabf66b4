// One view of a run: the header with its buttons, one of three views of the steps, and the panel of the selected step.

const ROOM_OF_TABLES = 1250; // pixels below which the tables of calls have no room beside the steps
const AGENT = "✦"; // of a step that has a conversation
const NARROW = 640; // pixels below which the panel is below the steps
const SMALL = 900; // pixels below which rows have no ids
const TALL = 1200; // pixels below which the buttons have a line of their own below the words
const SHORTEST = 520; // pixels of the steps below which states are marks
const ROOMY = 640; // pixels of the steps below which the counters of fan-outs are brief
const TICK = 250; // milliseconds between two looks at the clock
const LONG = 10; // seconds from which the kernel sends counters half as often
const BUTTONS = 8; // choices of a question that are buttons
const TWICE = 1000; // milliseconds in which a click after one on Cancel may be its second one
const QUIET = 2000; // milliseconds between two failures that a screen reader hears
const TABS = { steps: "Steps", picture: "Picture", timeline: "Timeline" };

class Explorer {
  constructor(state, host) {
    this.state = state;
    // A later view of the same run begins as the last one was.
    const kept = state.kept ??= { folded: new Set(), chosen: -1, tab: state.draw ? "picture" : "steps", sizes: {} };
    Object.assign(this, { folded: kept.folded, chosen: kept.chosen, tab: kept.tab, sizes: kept.sizes, isNarrow: false, isBelow: false, showsUnused: false, said: 0 });
    this.title = element("button", { type: "button", class: "title", title: "Show the result of the run", on: { click: () => this.pick(-1) } });
    this.titles = { name: element("b"), status: element("span", { class: "state", style: { width: "auto" } }), counts: element("span", { class: "counts" }), dropped: button("", () => this.nextFailed(DROPPED), { class: "link bad", title: "The next step that failed" }) };
    this.title.append(this.titles.name, " · ", this.titles.status, this.titles.counts, " · ", this.took = element("span"));
    this.buttons = {
      cancel: button("Cancel", () => this.act("cancel"), { title: "Cancel this run; Kernel ▸ Interrupt (■) does the same" }),
      resume: button("Resume", () => this.act("resume"), { title: "Resume this run: completed calls are not repeated" }),
      rerun: button("Run from here", () => this.act("rerun", { step: this.state.tree[this.chosen][Step.id] }),
        { title: "A new run that reuses the results on which this step depends" }),
    };
    this.tabs = Object.fromEntries(Object.entries(TABS).map(([name, text]) => [name, element("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "main",
      on: { click: () => this.open(name), keydown: event => this.tabKey(event) } }, text)]));
    this.main = element("div", { class: "main", id: "main", role: "tabpanel" });
    this.panel = new Panel(this);
    const fill = "Fill the screen, or return";
    this.full = button("⤢", () => isFull() ? document.exitFullscreen() : this.box.requestFullscreen?.(), { title: fill, "aria-label": fill });
    this.divider = grip("Size of the details", (dx, dy) => this.divide(dx, dy));
    this.lower = grip("Height", (dx, dy) => this.stretch(dy));
    this.deaf = element("span", { class: "deaf", hidden: true }, "This kernel hears no click while a cell runs: ■ cancels");
    this.message = element("div", { class: "message", hidden: true });
    this.extras = new Extras(this);
    this.questions = element("div", { class: "questions", hidden: true });
    this.hiding = element("style"); // an element of the document: the shadow root has a style of its own
    this.live = element("div", { class: "hidden-text", role: "status", "aria-live": "polite" });
    this.box = element("div", { class: "explorer", role: "region", "aria-label": `Run of ${state.name}: ${state.runId}`, on: {
      keydown: event => this.key(event), focusin: ({ target, relatedTarget }) => {
        this.focused = target;
        if (this.main.contains(relatedTarget)) this.before = relatedTarget;
      },
      focusout: event => { if (event.relatedTarget) this.focused = null; } } },
      element("header", { role: "group", "aria-label": "Run" }, element("span", { class: "titles" }, this.title, this.titles.dropped), element("span", { class: "controls" }, this.buttons.resume, // never where Cancel was
        element("span", { class: "tabs", role: "tablist", "aria-label": "Views" }, Object.values(this.tabs)),
        this.extras.bell, this.extras.time, this.extras.stale, this.full, this.deaf, this.buttons.cancel)),
      this.message, this.extras.old, this.extras.note, this.questions, this.extras.place, this.columns = element("div", { class: "columns" }, this.main, this.divider, this.panel.node), this.lower, this.live);
    this.box.addEventListener("scroll", ({ target }) => this.scrolled.set(target, [target.scrollLeft, target.scrollTop]), true);
    this.scrolled = new Map();
    this.settle(host);
    this.sized = new ResizeObserver(([entry]) => this.resize(entry.contentRect.width));
    this.sized.observe(this.box); // not its host, which stays as it is when the box fills the screen
    // The panel is as high as what is beside it, and may always be as high as a short list.
    this.beside = new ResizeObserver(([entry]) => this.limit(Math.max(TALLEST, this.isBelow ? innerHeight * 0.6 : entry.contentRect.height)));
    this.beside.observe(this.main);
    // Of a run that goes on, the header keeps the lines that its words once needed: what is below does not jump.
    this.high = new ResizeObserver(([{ target, contentRect: { height } }]) => { target.style.minHeight = state.last.live ? `${height}px` : ""; });
    this.high.observe(this.title.parentNode);
    state.views.add(this);
    this.box.classList.toggle("alone", Boolean(state.alone));
    this.reset();
    this.clock = setInterval(() => this.tick(), TICK);
  }

  // In an element: the first one, or one by which the kernel has replaced it. A view that moves stays as it is; only the
  // document forgets what is scrolled and what has the focus.
  settle(host) {
    this.host = host;
    this.cell = host.closest(".jp-Cell");
    host.explorer = this; // for scripts in the page
    host.addEventListener("pointerenter", () => this.extras.come());
    host.dataset.lmSuppressShortcuts = "true"; // JupyterLab's keys do not act in here
    this.root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    if (this.hiding.parentNode) host.append(this.hiding);
    const { focused, scrolled } = this;
    this.scrolled = new Map();
    this.root.replaceChildren(element("style", {}, STYLE), this.box);
    for (const [node, place] of scrolled) node.scrollTo(...place);
    // Unless the person works elsewhere by now.
    if (focused && (document.activeElement ?? document.body) === document.body) focused.focus({ preventScroll: true });
  }

  close() {
    clearInterval(this.clock);
    this.sized.disconnect();
    this.high.disconnect();
    this.beside.disconnect();
    this.state.views.delete(this);
    this.hiding.remove();
  }

  tick() {
    const { live, status } = this.state.last;
    if (!live || !this.host.isConnected) return;
    // Not where an update has just drawn it; and of a long run nobody reads the tenths.
    if (performance.now() - this.drawn > TICK * (this.state.now() > LONG ? 2.5 : 0.5)) this.draw();
    this.panel.changed([], status);
  }

  reset() {
    this.picture = null;
    if (!this.state.kept.isChosen || this.chosen >= this.state.rows.length) this.chosen = this.first();
    this.panel.id = null;
    this.decide();
    this.panel.fetch(); // before the picture, which takes longest to answer
    this.open(this.tab);
    this.header();
    this.tellEnd();
  }

  // What is selected first: the last step that failed the run, else the run itself.
  first() {
    if (this.state.last.status !== "error") return -1;
    return this.state.listedFor(this.state.rows.findLastIndex((_, i) => this.state.look(i).name === "failed"));
  }

  // Until a person chooses: a step whose reply arrives, as long as another one does not follow it; at the end the run, or what failed it.
  rest() {
    const { state, chosen } = this, failed = this.first(), speaks = i => state.tree[i]?.[Step.glyph] === AGENT && state.arriving(i);
    if (state.kept.isChosen || failed < 0 && this.panel.place.isFollowed === false) return chosen; // a person reads
    return state.last.live ? [chosen, ...state.tree.keys()].find(speaks) ?? chosen : failed;
  }

  resize(width) {
    if (!width) return; // between two elements
    if (width !== this.wide) {
      this.title.parentNode.style.minHeight = "";
      this.wide = width;
      this.decide();
    }
    this.isNarrow = width < NARROW;
    this.box.classList.toggle("narrow", this.isNarrow);
    this.box.classList.toggle("small", width < SMALL);
    this.box.classList.toggle("tall", width < TALL);
    if (this.picture?.svg) this.picture.fitRoom(); else this.arrange();
    this.panel.fitLines();
    this.draw();
  }

  // Where the panel is, for this run and width: a click on a step does not move it. Conversations and tables need the room below.
  decide() {
    this.panel.isWide = this.state.tree.some(step => step[Step.glyph] === AGENT || step[Step.repeats] && this.wide < ROOM_OF_TABLES);
  }

  // The panel is beside the steps, or below them: where the window is narrow, where a wide picture or the bars of the time
  // need the room, and as decided.
  arrange() {
    const isWide = { picture: this.picture?.isWide, timeline: this.columns.clientWidth < SMALL }[this.tab];
    this.isBelow = this.isNarrow || Boolean(isWide || this.panel.isWide);
    this.box.classList.toggle("below", this.isBelow);
    this.divider.setAttribute("aria-orientation", this.isBelow ? "horizontal" : "vertical");
    const share = this.isBelow ? this.main.clientHeight / (this.columns.clientHeight || 1) : this.main.clientWidth / (this.columns.clientWidth || 1);
    this.divider.setAttribute("aria-valuenow", Math.round(100 * share));
    this.lower.setAttribute("aria-valuenow", Math.round(this.box.clientHeight));
    this.main.style.flexBasis = this.sizes.share && !this.isBelow ? `${this.sizes.share * 100}%` : "";
    for (const name of ["share", "tall"]) this.box.classList.toggle(`has-${name}`, Boolean(this.sizes[name]));
    this.isShort = this.isNarrow || this.main.clientWidth < SHORTEST;
    this.isBrief = this.main.clientWidth < ROOMY;
    this.room = this.main.clientWidth - (this.isShort ? 190 : 290); // for the counters of a row
    this.box.classList.toggle("short", this.isShort);
    if (this.sizes.tall) this.box.style.setProperty("--tall", `${this.sizes.tall}px`);
  }

  // The border between the steps and the panel moves by so many pixels.
  divide(dx, dy) {
    if (this.isBelow) this.sizes.tall = bounded(120, this.main.clientHeight - this.above() + dy, innerHeight);
    else this.sizes.share = bounded(0.15, (this.main.clientWidth + dx) / this.columns.clientWidth, 0.85);
    this.arrange();
    this.draw();
  }

  // The lower border of the explorer moves.
  stretch(dy) {
    const high = this.panel.node.clientHeight + dy;
    this.sizes.low = bounded(120, high, 2 * innerHeight);
    if (!this.isBelow) this.sizes.tall = bounded(120, this.columns.clientHeight + dy - this.above(), 2 * innerHeight);
    this.limit();
    this.arrange();
    this.draw();
  }

  // The pixels of the main part above its list or picture, and of the tools below the picture.
  above() { return this.shown.sized.offsetTop + (this.shown.tools?.offsetHeight ?? 0); }

  // The panel is at most so many pixels high, or as a person wants it.
  limit(most) {
    const { low } = this.sizes;
    Object.assign(this.panel.node.style, { maxHeight: `${low ?? most}px`, minHeight: low ? `${low}px` : "" });
  }

  changed(rows, before) {
    // The kernel has replaced the element, or the notebook has put it away: what changes meanwhile is drawn when it is back.
    if (!this.host.isConnected) {
      this.missed ??= before;
      return;
    }
    this.missed = null;
    if (before !== this.state.last.status) {
      this.say(`run ${this.status().word}`);
      this.tellEnd();
    } else this.sayFailure(rows);
    const rest = this.rest();
    if (rest !== this.chosen) this.show(rest);
    this.draw(); // first: it reads sizes, which are not known any more when the header has changed
    this.header();
    this.panel.changed(rows, before);
    this.extras.changed(before);
  }

  catchUp() {
    if (this.missed) this.changed([...this.state.rows.keys()], this.missed);
  }

  status() { return this.state.byName.get(this.state.last.status) ?? { mark: "·", word: this.state.last.status, color: "" }; }

  say(text) {
    this.said = performance.now();
    this.live.textContent = text;
  }

  sayFailure(rows) {
    const i = rows.find(row => this.state.look(row).name === "failed");
    if (i != null && performance.now() - this.said > QUIET) this.say(`${this.state.nameOf(i)} failed`);
  }

  header() {
    const { last, name } = this.state, { mark, word, color } = this.status(), can = new Set(last.can), parts = this.titles;
    parts.status.style.setProperty("--state", color);
    setText(parts.name, name);
    setText(parts.status, `${mark} ${word}`);
    setText(parts.counts, ` · ${last.counts.join(" · ")}`, last.counts.join(" · "));
    setText(this.took, duration(this.state.now()));
    setText(parts.dropped, last.dropped ? droppedWords(last.dropped) : "");
    parts.dropped.hidden = !last.dropped;
    this.deaf.hidden = !this.state.isDeaf;
    this.buttons.cancel.hidden = !last.live || this.state.isDeaf;
    this.buttons.cancel.disabled = !can.has("cancel");
    this.ask(last.questions ?? [], can.has("answer"));
    this.buttons.resume.hidden = !can.has("resume");
    const wait = this.state.kept.cancelled + TWICE - performance.now();
    this.buttons.resume.disabled = wait > 0;
    if (wait > 0) setTimeout(() => this.header(), wait);
    this.extras.header(can);
    this.buttons.rerun.hidden = !can.has("rerun");
  }

  // The open questions; those of a background run with a field. A field stays while a person types.
  ask(questions, canAnswer) {
    const now = JSON.stringify([questions, canAnswer]);
    if (now === this.asked) return;
    this.asked = now;
    this.questions.hidden = !questions.length;
    // The question stands in the cell too, for a document without a kernel.
    setText(this.hiding, `.agf-asked[data-run="${CSS.escape(this.state.runId)}"] { display: none; }`);
    if (questions.length && !this.hiding.isConnected) this.host.append(this.hiding);
    // Where the kernel hears no click, the cell asks, and it is not asked twice.
    this.questions.replaceChildren(...(canAnswer ? questions.map(question => element("div", {}, element("b", {}, "? "), question.text, " ",
      element("small", { class: "hint" }, question.step), " ", this.callOf(question), this.fields(question)))
      : questions.length ? [element("span", { class: "hint" }, "The cell asks a question below.")] : []));
    if (questions.length) this.say(`question: ${questions[0].text}`);
  }

  // The whole call that a person approves, folded if it is long.
  callOf({ call }) {
    if (!call?.length) return "";
    const text = call.join("\n"), isShort = text.length <= 1000 && call.length <= 10;
    return element("details", isShort ? { open: true } : {}, element("summary", {}, "the call"), element("pre", {}, text));
  }

  // Buttons for few choices, a list for many; a field for a text or for other arguments of a call.
  fields({ text, where, mark, choices, approval, more, change }) {
    const give = answer => this.act("answer", { where, mark, ...answer });
    const field = (name, hint = "") => {
      const input = element("input", { type: "text", size: Math.max(20, hint.length), placeholder: hint, "aria-label": `${name}: ${text}`, on: {
        keydown: event => event.key === "Enter" && give({ text: input.value }) } });
      return [input, button(name, () => give({ text: input.value }))];
    };
    if (approval) return [...choices.map(choice => button(choice, () => give({ text: choice }))),
      change ? field("Use instead", change) : ""].flat();
    if (!choices.length) return field("Answer");
    if (choices.length <= BUTTONS) return choices.map((choice, k) => button(choice, () => give({ choice: k })));
    const list = element("select", { "aria-label": text }, choices.map((choice, k) => element("option", { value: k }, choice)));
    return [list, button("Answer", () => give({ choice: Number(list.value) })), more ? field("Other", "another choice") : ""].flat();
  }

  // A button that comes where Cancel was, also in the view after the end of the cell: the second of two quick clicks means nothing.
  afterCancel(act) { return () => performance.now() - this.state.kept.cancelled < TWICE || act(); }

  async act(name, given) {
    if (name === "cancel") this.state.kept.cancelled = performance.now();
    this.message.hidden = true;
    if (name === "rerun") this.extras.forget();
    // Another run will be shown here: the error of the one before is no longer the end of the cell. The end of the next one may come
    // before the answer.
    const detail = name === "resume" || name === "rerun" ? this.tell("agf-continued", { how: name, was: this.state.last.status }) : {};
    try { await this.state.request(name, { ...given, cells: detail.how && this.cells() }); } catch (error) {
      detail.undo?.();
      this.inform(error.message);
    }
  }

  // An event for JupyterLab.
  tell(name, detail) {
    this.host.dispatchEvent(new CustomEvent(name, { bubbles: true, composed: true, detail }));
    return detail;
  }

  // The present texts of the notebook's cells, if JupyterLab's extension gives them: a cell may be edited and not run.
  cells() { return this.tell("agf-cells", {}).cells; }

  tellEnd() { if (!this.state.last.live) this.tell("agf-ended", { status: this.state.last.status }); }

  // A message above the views; without parts there is none.
  inform(...parts) {
    this.message.hidden = !parts.length;
    this.message.replaceChildren(...parts);
    this.say(this.message.textContent);
  }

  open(tab) {
    this.tab = this.state.kept.tab = tab;
    for (const [name, node] of Object.entries(this.tabs)) {
      node.setAttribute("aria-selected", name === tab);
      node.tabIndex = name === tab ? 0 : -1;
    }
    this.main.setAttribute("aria-labelledby", `tab-${tab}`);
    this.arrange();
    if (tab === "picture") {
      if (!this.picture?.svg) this.picture = new PictureView(this); // asked again after a failure
      this.shown = this.picture;
      this.main.replaceChildren(this.picture.node);
      if (!this.picture.svg) this.picture.fetch();
    } else {
      this.shown = new StepList(this, tab === "timeline");
      const { search, axis, node, lanes } = this.shown;
      this.main.replaceChildren(search, tab === "timeline" ? axis : "", node, lanes);
    }
    this.draw();
    this.shown.reveal(this.chosen);
  }

  draw() {
    if (!this.shown) return;
    this.drawn = performance.now();
    this.shown.draw();
    setText(this.took, duration(this.state.now()));
  }

  choose(i) {
    this.state.kept.isChosen = true;
    this.show(i);
  }

  // A person clicked on a step: the first lines of its panel come in sight.
  pick(i) {
    this.choose(i);
    this.panel.node.querySelector("h3")?.scrollIntoView({ block: "nearest" });
  }

  show(i) {
    this.chosen = this.state.kept.chosen = i;
    this.title.setAttribute("aria-pressed", i < 0);
    this.shown.chose(i);
    this.header();
    this.panel.fetch();
  }

  tabKey(event) {
    const names = Object.keys(TABS), at = names.indexOf(this.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to == null) return;
    const name = names[(to + names.length) % names.length];
    this.open(name);
    this.tabs[name].focus();
    event.preventDefault();
  }

  // Escape closes what is open around the focus: a call, the state over time. From the details the focus goes back to where it was.
  back(from) {
    const { extras, panel } = this;
    if (extras.place.contains(from) || (from === extras.time && !extras.place.hidden)) {
      extras.openTime();
      extras.time.focus();
    } else if (panel.node.contains(from)) {
      const opened = panel.node.querySelector(".back");
      if (opened) opened.click(); else (this.before?.isConnected ? this.before : this.main.querySelector(".list") ?? this.title).focus();
    } else return false;
    return true;
  }

  // `n`: the next failed step.
  key(event) {
    if (event.key === "Escape" && this.back(event.target)) return event.stopPropagation();
    if (event.key !== "n" || event.altKey || event.ctrlKey || event.metaKey || event.target.tagName === "INPUT") return;
    event.preventDefault();
    this.nextFailed(FAILED);
  }

  nextFailed(states) {
    const i = this.state.failedAfter(this.chosen, states);
    if (i < 0) return this.say("no failed step");
    this.choose(i);
    this.shown.bring(i);
  }
}

function bounded(low, size, high) { return Math.max(low, Math.min(high, size)); }

// A border that a person drags, or moves by the arrow keys.
function grip(label, move) {
  const STEP = 24, ways = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
  const node = element("div", { class: "grip", role: "separator", tabindex: 0, "aria-label": label, "aria-valuenow": 0, "aria-valuemin": 0, "aria-valuemax": 10000, on: {
    keydown: event => {
      if (!ways[event.key]) return;
      move(...ways[event.key]);
      event.preventDefault();
    },
    pointerdown: event => {
      let { clientX: x, clientY: y } = event;
      dragged(to => {
        move(to.clientX - x, to.clientY - y);
        [x, y] = [to.clientX, to.clientY];
      });
    } } });
  return node;
}

// Until the pointer is released, also outside of the window, `move` is called with its events, and then `end`.
function dragged(move, end = () => {}) {
  const drag = new AbortController(), next = event => {
    if (event.buttons && event.type === "pointermove") return move(event);
    drag.abort();
    end();
  };
  for (const name of ["pointermove", "pointerup", "pointercancel"]) addEventListener(name, next, drag);
}
