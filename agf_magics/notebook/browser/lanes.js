// The lanes of a repeated step: its calls over time, below the timeline.

const [PIECES, GAP] = [60, 1 / 400]; // of a bar at most; and the share of it that is too short to see
const [DENSE, LEAST] = [80, 1000]; // pixels of the lanes of many calls; and the least milliseconds between two questions

function drawsLanes({ named, element, button, hint, number, setText, duration, marked }) {
  // Where calls of `found` failed, as marks on a bar; empty if no call did. The bar begins `start` milliseconds after the run, and is
  // `took` long. A failure is a moment: the times of a few calls would cover the bar of a fan-out.
  function failuresOf({ bars, density, began, end }, start, took) {
    const each = bars ? named("BarRow", bars).map(({ failed, end }) => ({ failed, start: end, end })) : named("DensityRow", density).map(({ failed }, k) => ({ failed, start: k / density.length * end, end: (k + 1) / density.length * end }));
    const stops = [], place = at => Math.max(0, Math.min(1, (at + began - start) / took)) * 100;
    let last = 0;
    for (const { start: from, end: to } of each.filter(({ failed }) => failed)) {
      if (last && place(to) < last + 0.2) continue; // as good as in the mark before it
      const first = Math.max(last, Math.min(99.5, place(from)));
      stops.push(`transparent ${last}% ${first}%, var(--bad) ${first}% max(${last = Math.max(place(to), place(from) + 0.5)}%, ${first}% + 4px)`);
    }
    return stops.length && `linear-gradient(to right, ${stops.join(", ")}, transparent ${last}%)`;
  }

  // The lanes of the chosen step of a list: each of its calls in the first lane that is free; or, if they are many, how many ran at
  // a time. They follow the axis above them. While the run goes on, they ask for the calls that have ended since.
  class Lanes {
    constructor(list, i, step) {
      Object.assign(this, { list, i, step, state: list.state, part: null, took: 0 }); // `part`: what a person has marked, in seconds of the run
      this.name = element("h4");
      this.canvas = element("canvas", { role: "img", on: {
        pointermove: event => this.point(event),
        pointerdown: event => this.mark(event),
        click: event => { const bar = !this.isMarked && this.under(event); if (bar) list.view.panel.openCall(bar.id); },
      } });
      this.pen = this.canvas.getContext("2d");
      this.place = element("div", { class: "marked" }, this.canvas);
      this.times = element("span", { class: "hint" });
      this.all = button("All", () => this.zoom(null), { title: "Show all of the time" });
      this.actions = element("div", { class: "actions" }, this.times, this.all);
    }

    // Something has happened in the run since the last question.
    get isDue() {
      if (this.isAsking || this.news === this.state.count) return false;
      return this.news == null || !this.state.isDeaf && !(this.state.last.live && performance.now() - this.asked < Math.max(LEAST, 10 * this.took));
    }

    async fetch() {
      Object.assign(this, { news: this.state.count, asked: performance.now(), isAsking: true });
      let found, why;
      try { found = await this.state.request("spans", { step: this.step }); } catch (error) { why = error.message; }
      Object.assign(this, { isAsking: false, took: performance.now() - this.asked });
      if (!this.isShown) return;
      if (why) this.list.lanes.replaceChildren(hint(why));
      else {
        this.load(found);
        if (!this.name.isConnected) this.list.lanes.replaceChildren(this.name, this.place, this.actions);
      }
      this.draw();
    }

    get isShown() { return this.list.laned === this && this.list.view.chosen === this.i; }

    load(found) {
      const free = [], { total, bars = [], density = [], most } = found, isDense = density.length > 0;
      const columns = named("DensityRow", density);
      const highest = Math.max(1, ...columns.map(({ ran }) => ran));
      this.columns = columns.map(({ ran, failed }) => [DENSE * ran / highest, DENSE * failed / highest]);
      this.bars = named("BarRow", bars).map(({ start, end, failed, number: id }) => {
        let lane = free.findIndex(until => until <= start);
        if (lane < 0) lane = free.length;
        free[lane] = end;
        return { lane, start, end, failed, id };
      });
      this.found = found;
      this.actions.hidden = isDense;
      this.high = isDense ? DENSE : Math.max(4, Math.min(14, 160 / (free.length || 1)));
      this.height = isDense ? DENSE : free.length * this.high + 4;
      const calls = `${this.state.nameOf(this.i)}: ${number(total)} call${total === 1 ? "" : "s"}`, { took = "", within = "" } = this.state.tookOf(this.i);
      const title = `${calls}${isDense ? `, at most ${number(most)} at a time` : ` in ${number(free.length)} lane${free.length === 1 ? "" : "s"}`}, ${took}${within}`;
      setText(this.name, title);
      const failed = isDense ? "" : `, ${number(this.bars.filter(bar => bar.failed).length)} failed`;
      this.canvas.setAttribute("aria-label", `${title}${failed}; the panel lists them`);
    }

    get isAnyFailed() { return this.bars.some(({ failed }) => failed) || this.columns.some(([, failed]) => failed); }

    // What is shown, in milliseconds after the first start.
    get range() {
      const [from, to] = this.part ?? this.list.times(), { began } = this.found;
      return [from * 1e3 - began, to * 1e3 - began];
    }

    draw() {
      if (!this.isShown) return;
      if (this.isDue) this.fetch();
      if (!this.found) return;
      if (this.axis !== this.list.range) this.part = null; // a person has chosen another time above
      this.axis = this.list.range;
      const scale = devicePixelRatio || 1, width = this.list.ticks.clientWidth || 600, [low, high] = this.range, x = at => (at - low) / (high - low) * width;
      // A new size empties the canvas.
      Object.assign(this.canvas, { width: width * scale, height: this.height * scale });
      this.canvas.style.height = `${this.height}px`;
      this.pen.scale(scale, scale);
      this.columns.forEach((heights, k) => this.column(x, k, heights));
      for (const { lane, start, end, failed } of this.bars) this.paint(failed, x(start), lane * this.high + 1, Math.max(0.6, x(end) - x(start) - 0.3), this.high - 1);
      this.all.hidden = !this.part;
      const after = at => duration(Math.max(0, at) / 1e3);
      const which = low > 0 ? `${after(low)} to ${after(high)} after the first start` : `The first ${after(high)}`;
      setText(this.times, `${which}. Drag to zoom, click a bar to open its call${this.isAnyFailed ? "; failed calls are red" : ""}.`);
    }

    column(x, k, [ran, failed]) {
      const place = count => x(count / this.columns.length * this.found.end), wide = place(1) - place(0);
      this.paint(false, place(k), DENSE - ran, wide, ran);
      this.paint(true, place(k), DENSE - failed, wide, failed);
    }

    paint(isBad, ...box) {
      this.pen.fillStyle = isBad ? "#d64545" : "#27894f";
      this.pen.fillRect(...box);
    }

    zoom(part) {
      this.part = part;
      this.draw();
    }

    mark(event) {
      this.isMarked = false;
      if (this.columns.length) return;
      const share = place => { const [low, high] = this.part ?? this.list.times(); return low + (high - low) * place; };
      marked(event, this.place, (first, last) => this.zoom([share(first), share(last)]), () => { this.isMarked = true; });
    }

    // The bar below the pointer.
    under(event) {
      const [low, high] = this.range, span = (high - low) / this.canvas.clientWidth, at = low + event.offsetX * span;
      const lane = Math.floor((event.offsetY - 1) / this.high), near = span * 2;
      return this.bars.find(bar => bar.lane === lane && bar.start - near <= at && at <= bar.end + near);
    }

    point(event) {
      const bar = this.under(event);
      this.canvas.title = bar ? `${bar.failed ? "✗ failed" : "✓ ok"} · ${duration((bar.end - bar.start) / 1e3)} · began ${duration(bar.start / 1e3)} after the first` : "";
      this.canvas.style.cursor = bar ? "pointer" : "";
    }
  }

  // Calls as `from`, `to` and `failed` in shares of the bar, which is `took` milliseconds long; those at the same time are one piece,
  // which is `mixed`. The first call began `later` than the bar, and one that goes on began `open` after it. Null if there are too many,
  // or if they are of another time: those that a run reuses. Many calls without a gap are one piece.
  function piecesOf(bars, later, took, open) {
    const pieces = [];
    for (const { start, end, failed } of bars) {
      const last = pieces.at(-1), from = (start + later) / took, to = (end + later) / took;
      if (from < -10 * GAP || to > 1 + 10 * GAP) return null;
      if (last && from < last.to - GAP) Object.assign(last, { to: Math.max(last.to, to), mixed: true });
      else if (bars.length > PIECES && last && from - last.to < GAP && last.failed === failed) last.to = to;
      else pieces.push({ from, to, failed });
    }
    if (open >= 0) pieces.push({ from: open / took, to: 1, isOpen: true });
    return pieces.length && pieces.length <= PIECES + 1 ? pieces : null;
  }

  // Between two calls is a gap.
  function piecesGradient(pieces, ok, open) {
    const place = share => Math.max(0, Math.min(1, share)) * 100;
    let before = 0;
    const stops = pieces.map(({ from, to, failed, isOpen, mixed }) => {
      const first = place(from), last = place(Math.max(to - (isOpen ? 0 : GAP), from + GAP)), paint = mixed || isOpen ? open : failed ? "var(--bad)" : ok;
      const stop = `transparent ${before}% ${first}%, ${paint} ${first}% ${last}%`;
      before = last;
      return stop;
    });
    return `linear-gradient(to right, ${stops.join(", ")}, transparent ${before}%)`;
  }

  return { lanes: (...given) => new Lanes(...given), failuresOf, piecesOf, piecesGradient };
}
