// The lanes of a repeated step: its calls over time, below the timeline.

const [PIECES, GAP] = [60, 1 / 400]; // of a bar at most; and the share of it that is too short to see

function drawsLanes({ named, element, button, number, setText, duration, marked }) {
  // The failed calls of `found` on the lower half of a bar, or more of it if more failed; empty if no call did. The bar begins `start`
  // milliseconds after the run, and is `took` long.
  function failuresOf({ bars, density, began, end }, start, took, lost) {
    const each = bars ? named("BarRow", bars) : named("DensityRow", density).map(({ failed }, k) => ({ failed, start: k / density.length * end, end: (k + 1) / density.length * end }));
    const stops = [], place = at => Math.max(0, Math.min(1, (at + began - start) / took)) * 100;
    let last = 0;
    for (const { start: from, end: to } of each.filter(({ failed }) => failed)) {
      if (place(to) < last + 0.2) continue; // as good as in the mark before it
      const first = Math.max(last, place(from));
      stops.push(`transparent ${last}% ${first}%, var(--bad) ${first}% ${last = Math.max(place(to), place(from) + 0.5)}%`);
    }
    return stops.length && `linear-gradient(to right, ${stops.join(", ")}, transparent ${last}%) 0 100% / 100% max(50%, ${lost * 100}%) no-repeat`;
  }

  // The calls of a repeated step: each in the first lane that is free; or, if they are many, how many ran at a time.
  // `range`: what the axis above them shows, in milliseconds after the first start.
  function lanesOf(name, found, width, range, open) {
    return found.density ? densityOf(name, found, width, range) : barsOf(name, found, width, range, open);
  }

  function densityOf(name, { total, end, most, density }, width, [low, high]) {
    const parts = named("DensityRow", density), highest = Math.max(1, ...parts.map(({ ran }) => ran)), height = 80;
    const x = k => (k / parts.length * end - low) / (high - low) * width, step = x(1) - x(0);
    const title = `${name}: ${number(total)} calls, at most ${number(most)} at a time, ${duration(end / 1e3)}`;
    const canvas = newCanvas(`${title}; the panel lists them`, width, height);
    parts.forEach(({ ran, failed }, k) => {
      canvas.pen.fillStyle = "#27894f";
      canvas.pen.fillRect(x(k), height * (1 - ran / highest), step, height * ran / highest);
      canvas.pen.fillStyle = "#d64545";
      canvas.pen.fillRect(x(k), height * (1 - failed / highest), step, height * failed / highest);
    });
    return [element("h4", {}, title), element("div", { class: "marked" }, canvas)];
  }

  function barsOf(name, { bars, total }, width, shown, open) {
    const free = [];
    const placed = named("BarRow", bars).map(({ start, end, failed, number: id }) => {
      let lane = free.findIndex(until => until <= start);
      if (lane < 0) lane = free.length;
      free[lane] = end;
      return { lane, start, end, failed, id };
    });
    const end = Math.max(1, ...placed.map(bar => bar.end)), height = Math.max(4, Math.min(14, 160 / (free.length || 1)));
    const failed = placed.filter(bar => bar.failed).length;
    const lanes = `${number(free.length)} lane${free.length === 1 ? "" : "s"}`, title = `${name}: ${number(total)} call${total === 1 ? "" : "s"} in ${lanes}, ${duration(end / 1e3)}`;
    const canvas = newCanvas(`${title}, ${number(failed)} failed; the panel lists them`, width, free.length * height + 4);
    let [low, high] = shown;
    const draw = range => {
      [low, high] = range;
      canvas.pen.clearRect(0, 0, width, free.length * height + 4);
      for (const { lane, start: from, end: to, failed: bad } of placed) {
        canvas.pen.fillStyle = bad ? "#d64545" : "#27894f";
        canvas.pen.fillRect((from - low) / (high - low) * width, lane * height + 1, Math.max(0.6, (to - from) / (high - low) * width - 0.3), height - 1);
      }
      all.hidden = low === shown[0] && high === shown[1];
      setText(times, `${after(low)} to ${after(high)} after the first start. Drag: zoom, click: the call`);
    };
    const times = element("span", { class: "hint" }), after = at => duration(Math.max(0, at) / 1e3), all = button("All", () => draw(shown), { title: "Show all of the time" });
    const found = event => {
      const at = low + event.offsetX / canvas.clientWidth * (high - low), lane = Math.floor((event.offsetY - 1) / height), near = (high - low) / width * 2;
      return placed.find(bar => bar.lane === lane && bar.start - near <= at && at <= bar.end + near);
    };
    canvas.addEventListener("pointermove", event => {
      const bar = found(event);
      canvas.title = bar ? `${bar.failed ? "✗ failed" : "✓ ok"} · ${duration((bar.end - bar.start) / 1e3)} · began ${duration(bar.start / 1e3)} after the first` : "";
      canvas.style.cursor = bar ? "pointer" : "";
    });
    const place = element("div", { class: "marked" }, canvas);
    let isMarked = false;
    canvas.addEventListener("pointerdown", event => {
      isMarked = false;
      marked(event, place, (first, last) => draw([low + (high - low) * first, low + (high - low) * last]), () => { isMarked = true; });
    });
    canvas.addEventListener("click", event => { const bar = !isMarked && found(event); if (bar) open(bar.id); });
    draw(shown);
    return [element("h4", {}, title), place, element("div", { class: "actions" }, times, all)];
  }

  function newCanvas(label, width, height) {
    const scale = devicePixelRatio || 1;
    const canvas = element("canvas", { role: "img", "aria-label": label, width: width * scale, height: height * scale });
    canvas.pen = canvas.getContext("2d");
    canvas.pen.scale(scale, scale);
    return canvas;
  }

  // Calls that follow each other, as `from`, `to` and `failed` in shares of the bar, which is `took` milliseconds long; the first
  // call began `later` than the bar, and one that goes on began `open` after it. Null if some overlap, if there are too many, or if
  // they are of another time: those that a run reuses. Many calls without a gap are one piece.
  function piecesOf(bars, later, took, open) {
    const pieces = [];
    for (const { start, end, failed } of bars) {
      const last = pieces.at(-1), from = (start + later) / took, to = (end + later) / took;
      if (from < (last ? last.to - GAP : -10 * GAP) || to > 1 + 10 * GAP) return null;
      if (bars.length > PIECES && last && from - last.to < GAP && last.failed === failed) last.to = to;
      else pieces.push({ from, to, failed });
    }
    if (open >= 0) pieces.push({ from: open / took, to: 1, isOpen: true });
    return pieces.length && pieces.length <= PIECES + 1 ? pieces : null;
  }

  // Between two calls is a gap.
  function piecesGradient(pieces, ok, open) {
    const place = share => Math.max(0, Math.min(1, share)) * 100;
    let before = 0;
    const stops = pieces.map(({ from, to, failed, isOpen }) => {
      const first = place(from), last = place(Math.max(to - (isOpen ? 0 : GAP), from + GAP)), paint = failed ? "var(--bad)" : isOpen ? open : ok;
      const stop = `transparent ${before}% ${first}%, ${paint} ${first}% ${last}%`;
      before = last;
      return stop;
    });
    return `linear-gradient(to right, ${stops.join(", ")}, transparent ${before}%)`;
  }

  return { lanesOf, failuresOf, piecesOf, piecesGradient };
}
