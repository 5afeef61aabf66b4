// The steps as a tree of rows, or on a time axis with the lanes of what ran at the same time. Only rows in sight are in
// the page.

const ROW = 24; // pixels, as in the style
const TALLEST = 18 * ROW;
const NUMBER = 56; // pixels from a label of the axis to the next one at least
const SEARCHED = 15; // rows from which a tree has a field to search
const ENDS = 130; // pixels of the state and the time beside a name and its bar, with the gaps
const PAUSE = 1000; // milliseconds between two questions for the calls of steps that run
const [STATES, WIDEST] = [126, 210]; // pixels of a state, as in the style; where there is room, at most
const [COMMON, LAST] = [8, 12]; // characters with which two names may begin alike; and that are left of a name at least
const [TIME, SIGN] = [94, 28]; // pixels of the time of a row with the gaps, and of a state that is its sign alone, as in the style
const BEYOND = 4; // rows above and below those in sight
const SLACK = 6; // rows by which a list is higher than it may be if nothing is hidden then
const [UNCOUNTED, COUNTED] = [60, 30]; // pixels that a row without counters has more for its name than `room`, and one with them less

class StepList {
  constructor(view, isTimeline) {
    this.view = view;
    this.state = view.state;
    this.isTimeline = isTimeline;
    this.elements = new Map();
    this.pieces = new Map(); // of the bars of steps that run several times
    this.inner = element("div");
    this.node = element("div", {
      class: `list ${isTimeline ? "timeline" : ""}`, role: "tree", tabindex: 0, "aria-label": "Steps",
      on: { scroll: () => { this.state.kept.top = this.node.scrollTop; this.draw(); }, keydown: event => this.key(event), click: event => this.click(event) },
    }, this.inner);
    this.ticks = element("div", { class: "bar", "aria-hidden": "true" });
    this.all = button("All", () => this.show(null), { title: "Show all of the time", hidden: true });
    this.axis = element("div", { class: "axis" }, this.ticks, this.all);
    this.range = null; // the part of the time that is shown, in seconds; null: all
    if (isTimeline) this.inner.addEventListener("pointerdown", event => event.target.closest(".bar") && this.zoom(event, event.target.closest(".bar")));
    this.search = element("input", { type: "search", placeholder: "Find a step", "aria-label": "Find a step", on: { input: () => this.find() } });
    this.lanes = element("div", { class: "lanes" });
    // The steps that never ran: below the last row, so that no row is hidden between them.
    this.node.append(this.rest = button("", () => this.showRest(!this.view.showsUnused), { class: "link rest", role: "treeitem", hidden: true }));
    this.sized = this.node;
    // A person scrolled or chose: the list no longer follows the run, in a later view neither. `isAtRest`: it has followed to the end.
    this.isAtRest = false;
    this.states = STATES;
    this.waited = 0; // milliseconds for the last answer about calls
    for (const event of ["wheel", "pointerdown", "keydown"]) this.node.addEventListener(event, () => { this.view.state.kept.isMoved = true; }, { passive: true });
    this.order();
  }

  // The rows in sight of an unfolded tree.
  order() {
    const { tree, rows } = this.state, words = this.search.value.trim().toLowerCase();
    let hidden = Infinity, inUnused = Infinity;
    const unused = [0, 0]; // of the outermost steps, which the header counts, and of those inside steps that ran
    this.shown = [];
    this.lists = this.state.lists;
    this.search.hidden = tree.filter((_, i) => this.state.isListed(i)).length < SEARCHED;
    tree.forEach((row, i) => {
      if (!this.state.isListed(i)) return;
      if (words) {
        if (`${this.state.nameOf(i)} ${row[Step.does]} ${row[Step.id]}`.toLowerCase().includes(words)) this.shown.push(i);
        return;
      }
      if (row[Step.depth] <= inUnused) inUnused = Infinity;
      if (rows[i][Now.isUnused]) {
        if (row[Step.depth] < inUnused) unused[Number(row[Step.depth] > 0)]++;
        inUnused = Math.min(inUnused, row[Step.depth]);
        if (!this.view.showsUnused) return;
      }
      if (row[Step.depth] > hidden) return;
      hidden = this.view.folded.has(i) ? row[Step.depth] : Infinity;
      this.shown.push(i);
    });
    this.place = new Map(this.shown.map((i, place) => [i, place]));
    const names = this.shown.map(i => this.state.nameOf(i));
    this.twice = new Set([...names].sort().filter((name, k, all) => name === all[k + 1]));
    if (this.isTimeline) this.alike = [...new Set(this.shown.map(i => this.labelOf(i)))].sort();
    this.longest = null;
    const never = unused.map((count, k) => count ? `${number(count)} ${k ? "inner " : ""}step${count === 1 ? "" : "s"}` : "").filter(Boolean).join(" and ");
    this.rest.hidden = !never;
    setText(this.rest, `${never} did not run: ${this.view.showsUnused ? "hide" : "show"}`);
  }

  // The name of a row of the timeline; of one of several with this name, with what the step does.
  labelOf(i) {
    const name = this.state.nameOf(i), does = this.state.tree[i][Step.does];
    return this.twice.has(name) ? `${name} ${does}` : name;
  }

  // A name that has no room, without the words with which another one begins, too.
  distinct(name) {
    const at = this.alike.indexOf(name), same = other => { let k = 0; while (other && k < name.length && other[k] === name[k]) k++; return k; };
    const words = name.slice(0, at < 0 ? 0 : Math.min(name.length - LAST, Math.max(same(this.alike[at - 1]), same(this.alike[at + 1]))));
    const cut = words.search(/[^\s_.-]*$/);
    return cut > COMMON ? `…${name.slice(cut)}` : name;
  }

  // The pixels of the name of a row, with what is before it.
  wide(i, name = this.state.nameOf(i)) { return this.state.tree[i][Step.depth] * 14 + 42 + this.measured(name); }

  measured(text, font = "bold 13px") {
    this.pen ??= document.createElement("canvas").getContext("2d");
    this.pen.font = `${font} ${getComputedStyle(this.node).fontFamily}`;
    return Math.ceil(this.pen.measureText(text).width);
  }

  showRest(isShown) {
    this.view.showsUnused = isShown;
    this.order();
    this.draw();
  }

  find() {
    this.order();
    this.node.scrollTop = 0;
    this.draw();
  }

  // While the run goes on, the last step that began is in sight; at its end, the first one that failed. A person who has moved the
  // list finds it, in the view of the ended cell, as it was.
  follow() {
    const { live } = this.state.last, { kept } = this.state;
    if (!this.node.clientHeight || this.isAtRest && !live) return;
    this.isAtRest = !live;
    if (kept.isMoved) this.node.scrollTop ||= kept.top;
    else if (live) this.scrollTo(this.state.rows.findLastIndex((row, k) => this.state.look(k).name === "running" && !this.state.hasInner[k]));
    else this.scrollTo(this.view.chosen < 0 ? this.state.failedAfter(-1) : this.view.chosen, true);
  }

  drawAxis([from, to]) {
    const all = to - from, room = this.ticks.clientWidth || 600, steps = TICKS.filter(step => all / step * NUMBER <= room && step < all);
    let labels = null;
    for (const step of [...steps, all, 2 * all]) if (labels ??= this.labels(from, to, step, room)) break;
    const ticks = (labels ?? []).map(({ text, x, isBefore }) => element("span", { class: isBefore && "before", style: { left: `${x / room * 100}%` } }, text));
    this.ticks.replaceChildren(...ticks);
    this.all.hidden = !this.range;
  }

  // The labels of the axis at each `step`; null if two of them would touch. One at the end stands before its line, or is left out.
  labels(from, to, step, room) {
    const labels = [];
    let taken = 0; // in pixels
    for (let times = Math.ceil(from / step - 1e-9), at; (at = times * step) <= to; times++) {
      const text = at ? tickText(at, step, to) : "0", x = (at - from) / (to - from) * room, wide = this.measured(text, "11px") + 8, isBefore = x + wide > room;
      const hasRoom = (isBefore ? x - wide : x) >= taken;
      if (!hasRoom && !isBefore) return null;
      labels.push({ text: hasRoom ? text : "", x, isBefore });
      taken = isBefore ? x : x + wide;
    }
    return labels;
  }

  show(range) {
    this.range = range;
    this.draw();
  }

  // The time that a person marks on a bar is the time that is shown.
  zoom(event, bar) {
    const [from, to] = this.times();
    marked(event, bar, (first, last) => this.show([from + (to - from) * first, from + (to - from) * last]), () => { this.isMarked = true; setTimeout(() => { this.isMarked = false; }); });
  }

  times() { return this.range ?? [0, Math.max(this.state.now(), 0.001)]; }

  draw() {
    if (this.lists !== this.state.lists) this.order();
    const high = `${this.shown.length * ROW}px`;
    if (this.inner.style.height !== high) this.inner.style.height = high; // first: the height of the place follows from it
    this.node.classList.toggle("whole", this.shown.length * ROW <= Math.max(TALLEST, innerHeight * 0.6) + SLACK * ROW);
    this.follow();
    // It fades where more of it is hidden: not each system shows a scroll bar.
    const { scrollTop, scrollHeight, clientHeight } = this.node;
    this.node.classList.toggle("more-up", scrollTop > 1);
    this.node.classList.toggle("more-down", scrollTop + clientHeight < scrollHeight - 1);
    const height = this.node.clientHeight || Math.min(this.shown.length * ROW, TALLEST);
    if (this.isTimeline) {
      // The names have the room that they need, and the bars at least half of what is left beside the state and the time.
      this.longest ??= Math.max(0, ...this.shown.map(i => this.wide(i, this.labelOf(i))));
      this.names = bounded(100, this.longest, ((this.node.clientWidth || 616) - ENDS) / 2);
      for (const node of [this.node, this.axis, this.lanes]) node.style.setProperty("--names", `${Math.round(this.names)}px`);
      this.drawAxis(this.times());
      this.laned?.draw();
    }
    const first = Math.max(0, Math.floor(this.node.scrollTop / ROW) - BEYOND);
    const last = Math.min(this.shown.length, first + Math.ceil(height / ROW) + 2 * BEYOND);
    const inSight = new Set(this.shown.slice(first, last));
    for (let place = first; place < last; place++) this.drawRow(this.shown[place], place);
    for (const [i, node] of this.elements) {
      if (inSight.has(i)) continue;
      node.remove();
      this.elements.delete(i);
    }
    if (this.elements.has(this.view.chosen)) this.node.setAttribute("aria-activedescendant", `row-${this.view.chosen}`);
    else this.node.removeAttribute("aria-activedescendant");
  }

  drawRow(i, place) {
    const row = this.state.rows[i], look = this.state.look(i), node = this.elements.get(i) ?? this.newRow(i);
    const { took = "", within = "" } = this.state.tookOf(i);
    setText(node.took, took, took + within);
    this.drawBar(node, i, row, look, this.state.endOf(i));
    this.view.extras.paintRow(node, i);
    // The rest is as before unless an update has brought the row, or something about the list has changed.
    const { folded, chosen, isBrief } = this.view, isShort = this.isTimeline || this.view.isShort, room = this.view.room - (this.states - STATES);
    const now = `${place} ${this.shown.length} ${folded.has(i)} ${i === chosen} ${isShort} ${isBrief} ${room} ${this.lists} ${this.names}`;
    if (node.row === row && node.now === now) return;
    const name = this.state.nameOf(i), short = row[Now.briefName];
    // What arrives is more interesting than the counters, until the step ends. A name with counts has others only where it is cut.
    const isNamed = short && this.wide(i) <= room + UNCOUNTED, counted = isBrief && !isNamed && row[Now.brief] || row[Now.counted], arrived = plainWords(row[Now.tail] ?? ""), shown = (row[Now.end] === null && arrived) || counted || arrived || (isShort && look.name === "left" ? look.word : ""); // few know its mark
    const isArriving = arrived && shown === arrived, beside = isArriving ? room / 2 : room + (shown ? -COUNTED : UNCOUNTED);
    const label = this.isTimeline ? this.labelOf(i) : name, long = this.wide(i, label), isCut = long > (this.isTimeline ? this.names : beside);
    const words = isCut ? short || (this.isTimeline ? this.distinct(label) : name) : label;
    if (this.isTimeline) this.longest = Math.max(this.longest, long);
    if (node.label.textContent !== words) {
      node.label.textContent = words;
      // The name first: what is beside it has its least width, and no more.
      if (!this.isTimeline) node.name.style.minWidth = `min(62%, 100% - var(--beside), ${this.wide(i, words)}px)`;
    }
    if (node.name.title !== (node.whole = [`${name} — ${this.state.tree[i][Step.does]}`, this.state.tree[i][Step.id]].join("\n"))) node.name.title = node.whole;
    Object.assign(node, { row, now });
    const state = (row[Now.words] || `${look.mark} ${look.word}`).replace("ok, ↺", "↺");
    node.style.top = `${place * ROW}px`;
    // Where there is room, all states are as wide as the widest; elsewhere a long one lacks its end, or is its word, which the counts complete.
    const wide = isShort ? 0 : this.measured(state);
    if (!isBrief && wide > this.states) this.node.style.setProperty("--states", `${this.states = Math.min(wide, WIDEST)}px`);
    const again = state.match("↺") ?? "", brief = isShort ? [look.mark + again] : [state, state.replace(/↺.*/, "↺")];
    setText(node.state, brief.find(text => isShort || this.measured(text) <= this.states) ?? `${look.mark} ${look.word}${again && ` ${again}`}`, state);
    if (node.said !== state) node.state.setAttribute("aria-label", node.said = state); // a mark alone says nothing
    node.state.style.setProperty("--state", look.color);
    setText(node.twist, !this.state.hasInner[i] ? "" : folded.has(i) ? "▸" : "▾");
    const whole = [row[Now.counted], row[Now.tail]].filter(Boolean).join("\n"), isNumbers = shown === counted && /^[^a-z]/i.test(shown); // not why a step was skipped
    if (node.shown !== shown) {
      const parts = isNumbers ? shown.split(/(?= · )/) : [];
      node.counted.replaceChildren(...(isNumbers ? parts.map(part => element("span", {}, part)) : [isArriving ? element("bdi", { dir: "ltr" }, shown) : shown]));
      // No part of the counts is cut inside, so the name leaves it its room: else the time would be beyond the edge.
      node.widest = Math.max(0, ...parts.map(part => this.measured(part, "13px")));
    }
    node.style.setProperty("--beside", node.widest ? `${(isShort ? SIGN : this.states) + TIME + node.widest}px` : "");
    node.shown = shown;
    if (node.counted.title !== whole) node.counted.title = whole;
    // The name comes first, then the counts; the last parts of these are left out. Below those of a fan-out, a line shows its shares.
    node.counted.classList.toggle("numbers", isNumbers);
    node.counted.classList.toggle("arriving", Boolean(isArriving));
    // A fan-out, or a reply that arrives, has the room of the time, too. All bars of a timeline are as wide.
    node.classList.toggle("tight", !this.isTimeline && Boolean(isArriving ? shown.length * LETTER > room / 2 : isNumbers && row[Now.brief] != null && shown.length * LETTER > room));
    const ok = row[Now.okShare] * 100, ended = ok + row[Now.failedShare] * 100;
    node.counted.style.backgroundImage = row[Now.okShare] == null ? "" :
      `linear-gradient(to right, var(--ok) ${ok}%, var(--bad) ${ok}% ${ended}%, var(--line) ${ended}%)`;
    node.setAttribute("aria-selected", i === chosen);
    node.setAttribute("aria-setsize", this.shown.length);
    node.setAttribute("aria-posinset", place + 1);
    if (this.state.hasInner[i]) node.setAttribute("aria-expanded", !folded.has(i));
  }

  // A bar, which ends at `end`: when each call of the step ran; of calls at the same time, which the lanes show, when any did and when the failed did.
  paintOf(i, row, look, end) {
    const start = row[Now.start] * 1e3, took = end * 1e3 - start, known = this.pieces.get(i), found = known?.found, isOpen = row[Now.end] == null;
    const lost = row[Now.failedShare] / (row[Now.okShare] + row[Now.failedShare]), marks = lost && took > 0 && found && known.views.failuresOf(found, start, took);
    // What failed at no known time is a small mark at the end: a line along the bar would name times.
    const over = lost ? `${marks || "linear-gradient(var(--bad) 0 0) 100% / 4px 50% no-repeat"}, ` : "", whole = over + look.color;
    if (!(this.state.tree[i][Step.repeats] || row[Now.hasAttempts]) || this.state.isDeaf || !(took > 0)) return whole;
    const pieces = found && known.views.piecesOf(named("BarRow", found.bars ?? []), found.began - start, took, isOpen ? (found.open ?? NaN) - start : NaN), isMixed = pieces?.some(({ mixed }) => mixed);
    // A fan-out at work has an answer that only grows: it is asked for again if some failed.
    const key = `${row[Now.end]} ${row[Now.counted]} ${row[Now.name]}`, isParallel = isOpen && found?.total && (isMixed || !pieces) && !lost, { live } = this.state.last;
    if (known?.key !== key && !isParallel && !(live && performance.now() - this.asked < Math.max(PAUSE, 10 * this.waited))) {
      const asked = { ...known, key }, began = this.asked = performance.now();
      this.pieces.set(i, asked);
      this.state.request("spans", { step: this.state.tree[i][Step.id] }).then(async found => {
        this.waited = performance.now() - began;
        Object.assign(asked, { views: await loadLater(this.state), found });
        this.draw();
      }).catch(() => {});
    }
    // A step that only evaluates has no calls: its first and its last time are marks.
    if (known?.found?.total === 0 && !isOpen && !lost && !this.state.hasInner[i]) return `linear-gradient(to right, ${look.color} 2px, color-mix(in srgb, ${look.color} 25%, #0000) 2px calc(100% - 2px), ${look.color} 0)`;
    return pieces && !(isOpen && isMixed) ? (isMixed ? over : "") + known.views.piecesGradient(pieces, this.state.byName.get("ok").color, look.color) : whole;
  }

  drawBar(node, i, row, look, end) {
    if (!this.isTimeline || row[Now.start] == null) return;
    const [from, to] = this.times();
    Object.assign(node.bar.style, { left: `min(${(row[Now.start] - from) / (to - from) * 100}%, 100% - ${row[Now.start] > to ? 0 : 2}px)`, width: `${(end - row[Now.start]) / (to - from) * 100}%`,
      background: this.paintOf(i, row, look, end) });
  }

  newRow(i) {
    const [{ id, depth, glyph, does }] = named("StepRow", [this.state.tree[i]]);
    const node = element("div", { class: "row", role: "treeitem", id: `row-${i}`, "aria-level": depth + 1 });
    node.state = element("span", { class: "state", role: "img" });
    node.twist = element("span", { class: "twist", "aria-hidden": "true" });
    node.counted = element("span", { class: "counted" });
    node.took = element("span", { class: "took" });
    node.bar = element("u");
    node.label = element("b");
    node.name = element("span", { class: "name", style: { paddingLeft: `${depth * 14}px` } },
      node.twist, `${glyph} `, node.label, element("i", {}, `  ${does}`), element("i", { class: "id" }, `  ${id}`));
    node.append(node.state, node.name, this.isTimeline ? element("span", { class: "bar" }, node.bar) : node.counted, node.took);
    this.elements.set(i, node);
    this.inner.append(node);
    return node;
  }

  click(event) {
    const node = event.target.closest(".row");
    if (!node || this.isMarked) return;
    const i = Number(node.id.slice(4));
    if (event.target.closest(".twist") && this.state.hasInner[i]) this.toggle(i); else this.view.pick(i);
  }

  toggle(i, fold = !this.view.folded.has(i)) {
    if (fold) this.view.folded.add(i); else this.view.folded.delete(i);
    this.order();
    this.draw();
  }

  key(event) {
    const i = this.view.chosen, place = this.place.get(i) ?? -1, page = Math.floor(this.node.clientHeight / ROW) - 1;
    const { hasInner, parent } = this.state, { folded } = this.view;
    const to = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: Infinity, PageDown: place + page, PageUp: place - page }[event.key];
    if (to != null) this.view.choose(this.shown[Math.max(0, Math.min(this.shown.length - 1, to))]);
    else if (event.key === "ArrowRight" && hasInner[i]) { if (folded.has(i)) this.toggle(i, false); else this.view.choose(this.shown[place + 1] ?? i); }
    else if (event.key === "ArrowLeft" && hasInner[i] && !folded.has(i)) this.toggle(i, true);
    else if (event.key === "ArrowLeft" && parent[i] >= 0) this.view.choose(parent[i]);
    else if (event.key === "Enter") this.view.panel.node.focus();
    else return;
    event.preventDefault();
  }

  // The chosen row comes in sight.
  chose(i) {
    if (i < 0) {
      this.lanes.replaceChildren();
      return this.draw();
    }
    if (!this.place.has(i)) {
      if (this.state.rows[i][Now.isUnused]) this.view.showsUnused = true;
      for (let outer = this.state.parent[i]; outer >= 0; outer = this.state.parent[outer]) this.view.folded.delete(outer);
      this.order();
    }
    this.reveal(i);
    this.draw();
  }

  // Scrolls to a row, unless it is folded away, and draws its lanes.
  reveal(i) {
    if (this.isTimeline) this.drawLanes(i);
    this.scrollTo(i);
  }

  // `isFar`: a row that is out of sight comes into the upper half, with what is around it.
  scrollTo(i, isFar) {
    if (!this.place.has(i)) return;
    // With the row before it or after it: at its edges the list fades.
    const top = this.place.get(i) * ROW, bottom = top + ROW - this.node.clientHeight, near = bounded(bottom + ROW, this.node.scrollTop, Math.max(0, top - ROW));
    this.node.scrollTop = isFar && near !== this.node.scrollTop ? top - Math.round(this.node.clientHeight / ROW / 3) * ROW : near;
  }

  // It is in sight in the page, too.
  bring(i) {
    this.scrollTo(i, true);
    this.draw();
    this.elements.get(i)?.scrollIntoView({ block: "nearest" });
  }

  async drawLanes(i) {
    const row = this.state.tree[i];
    if (!row?.[Step.repeats]) return this.lanes.replaceChildren();
    try { this.laned = (await loadLater(this.state)).lanes(this, i, row[Step.id]); } catch (error) { return this.lanes.replaceChildren(hint(error.message)); }
    this.laned.draw();
  }
}

// The seconds between two labels of the axis: 1, 2 or 5 of a unit that a person reads.
const TICKS = [[1e-3, 1], [1, 60], [60, 3600], [3600, 1e7]].flatMap(([unit, next]) =>
  [1, 2, 5, 10, 20, unit === 1 || unit === 60 ? 30 : 50, 100, 200, 500].map(times => times * unit).filter(step => step < next));

// A time of an axis that ends at `to`: with the unit of that end, and as exact as the steps.
function tickText(at, step, to) {
  const places = step < 1 ? Math.ceil(-Math.log10(step) - 1e-9) : 0, whole = Math.round(at * 1e3) / 1e3;
  if (to < 1) return `${Math.round(at * 1e3)} ms`;
  if (to < 60) return `${at.toFixed(places)} s`;
  const parts = [[Math.floor(whole / 3600), "h"], [Math.floor(whole % 3600 / 60), "min"], [(whole % 60).toFixed(places), "s"]];
  return parts.filter(([count]) => Number(count)).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

function setText(node, text, title) {
  if (node.textContent !== text) node.textContent = text;
  if (title != null && node.title !== title) node.title = title;
}

// The part of a node's width, from 0 to 1, that a person marks by dragging; `begin` is called when it is a drag.
function marked(event, node, use, begin = () => {}) {
  if (event.button) return;
  const room = node.getBoundingClientRect(), place = x => bounded(0, (x - room.left) / room.width, 1), first = place(event.clientX);
  const mark = element("div", { class: "mark" });
  let last = first;
  dragged(to => {
    last = place(to.clientX);
    Object.assign(mark.style, { left: `${Math.min(first, last) * 100}%`, width: `${Math.abs(last - first) * 100}%` });
    if (!mark.isConnected && Math.abs(last - first) * room.width > 4) node.append(mark);
  }, () => {
    if (!mark.isConnected) return;
    mark.remove();
    begin();
    use(Math.min(first, last), Math.max(first, last));
  });
}
