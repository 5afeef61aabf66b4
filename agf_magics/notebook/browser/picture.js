// The picture of the flow. The kernel draws it once and without states; the page copies shapes and texts, attribute by
// attribute, and paints the states on the copy.

const TAGS = new Set(["svg", "g", "rect", "path", "polygon", "text", "title", "desc"]);
const ATTRIBUTES = new Set(["viewBox", "width", "height", "x", "y", "rx", "d", "points", "fill", "stroke",
  "stroke-opacity", "stroke-width", "stroke-dasharray", "paint-order", "font-family", "font-size", "font-weight", "text-anchor", "class", "data-step", "data-from", "data-lines"]);
const DIRECTION_NAMES = { auto: "as it fits", TB: "top to bottom", LR: "left to right" };
const SECOND_CLICK = 600; // milliseconds within which it follows the first
const LETTER = 6.3; // about the width of a letter of a state
const SMALL_LETTER = 5.9; // and of a letter of the small texts
const FARTHEST = 24; // pixels by which an arrow is made shorter, at most, where a state stands in its way
const BESIDE = 0.6; // the share of the width beside the panel
const LARGEST = 1; // the scale of a small picture
const AROUND = 300; // pixels of a window above and below a picture: the bars of JupyterLab, the first lines of the panel
const MARGIN = 12; // units at the edge of a picture that are empty
const READABLE = 0.84; // the scale below which words cannot be read: the small ones have 11 units
const WORST = ["running", "waiting", "failed", "error", "damaged", "cancelled", "interrupted", "left", "lost", "kept", "dropped", "ok", "skipped", "pending"]; // what a group says
const NOT_ENDED = new Set(["running", "waiting", "pending"]);
const SIGHT = ["folded", "kept", "box", "fitted", "wide", "scale", "isMoved"];
const UNSEEN = { kept: null, box: null, isMoved: false, isFollowing: false }; // nothing is in sight yet
const WAYS = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

function copied(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  if (node.nodeType !== Node.ELEMENT_NODE || node.namespaceURI !== SVG || !TAGS.has(node.localName)) return null;
  const copy = document.createElementNS(SVG, node.localName);
  for (const { name, value } of node.attributes) if (ATTRIBUTES.has(name) && !/url\(|javascript:/i.test(value)) copy.setAttribute(name, value);
  for (const child of node.childNodes) copy.append(copied(child) ?? "");
  return copy;
}

// The head of an arrow: where it ends, from where it comes, and what it covers.
function headOf(node) {
  const points = node.getAttribute("points").split(" ").map(point => point.split(",").map(Number)), [[x, y], one, other] = points;
  const [dx, dy] = [x - (one[0] + other[0]) / 2, y - (one[1] + other[1]) / 2], long = Math.hypot(dx, dy) || 1, [across, down] = [0, 1].map(k => points.map(point => point[k]));
  return { node, x, y, dx: dx / long, dy: dy / long, left: Math.min(...across), right: Math.max(...across), top: Math.min(...down), bottom: Math.max(...down) };
}

// The way back along an arrow until a state covers nothing of its head, as `shortened` in Python.
function moved(head, pill) {
  for (let back = 0; back < FARTHEST; back++) {
    const [x, y] = [back * head.dx, back * head.dy];
    if (head.left - x >= pill.right || head.right - x <= pill.left || head.top - y >= pill.bottom || head.bottom - y <= pill.top) return back ? `translate(${(-x).toFixed(1)} ${(-y).toFixed(1)})` : "";
  }
  return "scale(0)"; // too far from its end: the line alone shows the way
}

// A reply that arrives, without the signs of Markdown.
function plainWords(text) { return text.replace(/[*_`#|>]+|-{2,}/g, " ").replace(/\s+/g, " ").trim(); }

// The last words of a text, and the first ones, in as many lines as a box has.
function ending(text, { letters, tails }) {
  const lines = [];
  let rest = text;
  while (rest && lines.length < tails.length) {
    const cut = rest.length > letters ? rest.indexOf(" ", rest.length - letters) : 0, from = cut < 0 || cut > rest.length - letters / 2 ? Math.max(0, rest.length - letters) : cut;
    lines.unshift(rest.slice(from).trim());
    rest = rest.slice(0, from).trim();
  }
  if (rest && lines.length) lines[0] = `…${lines[0].slice(lines[0].length < letters ? 0 : 1)}`;
  return lines;
}

// The first of some texts that has room in the lines of a box, else as much of the last one as has: whole counts, and whole words.
function fitted(texts, { letters, tails }) {
  let lines = [];
  for (const text of tails.length ? texts.filter(Boolean) : []) {
    lines = [""];
    const pieces = text.split(/(?<=,) | (?=· )/).flatMap(part => /^(· )?\p{L}/u.test(part) ? part.split(/(?<!·) /) : part); // a number stays with its word
    if (pieces.every(piece => {
      const last = `${lines.at(-1)} ${piece}`.trim();
      if (last.length <= letters) lines[lines.length - 1] = last;
      else if (lines.length < tails.length && piece.length <= letters) lines.push(piece.replace("· ", ""));
      else return false;
      return true;
    })) break;
    lines.push(lines[0] ? lines.pop().replace(/,?$/, " …") : `${text.slice(0, letters - 1)}…`);
  }
  return lines.filter(Boolean);
}

// How often an edge was taken, from the numbers of its rounds.
function timesOf(numbers) {
  const parts = numbers.split(", ");
  return numbers.endsWith("×") ? parts.at(-1).replace("… ", "") : numbers && `${parts.length}×`;
}

// The most pixels of a picture above its panel or beside it.
const highest = isBelow => Math.max(Math.min(innerHeight * 0.8, innerHeight - (isBelow ? AROUND : 0)), TALLEST);

const isFull = () => Boolean(document.fullscreenElement);

class PictureView {
  constructor(view) {
    this.view = view;
    this.state = view.state;
    this.flow = [];
    this.folded = null; // the kernel decides
    this.kept = null; // the direction and the lines, after something was folded or unfolded
    this.boxes = new Map();
    const tool = (sign, title, click) => button(sign, click, { title, "aria-label": title });
    this.direction = "auto";
    this.canvas = element("div", { class: "picture", on: { pointerover: event => this.tell(event.target),
      wheel: event => this.wheel(event), pointerdown: event => this.drag(event), keydown: event => this.key(event), focusin: event => { this.ringAround(this.boxes.get(Number(event.target.dataset.row))); this.tell(event.target); } } });
    this.crumbs = element("nav", { class: "crumbs", "aria-label": "Flows" });
    this.seen = new Map(); // the part of each flow that was in sight, by the path to it
    this.node = element("div", {}, this.crumbs, this.canvas, this.tools = element("div", { class: "tools" },
      tool("−", "Zoom out", () => this.zoom(1.25)), tool("+", "Zoom in", () => this.zoom(0.8)), tool("⊡", "Fit", () => this.fit()),
      this.turn = tool("⇄", "Direction: as it fits", () => this.turnTo(this.direction !== "auto" ? "auto" : this.found?.down ? "LR" : "TB")), this.state.alone ? this.view.full : ""));
    this.isMoved = false; // a person moved the view, or folded: it follows the run no more
    this.isFull = isFull();
    this.follow = () => this.canvas.classList.toggle("dark", document.body.dataset.jpThemeLight === "false");
    new MutationObserver(this.follow).observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
    this.follow();
    this.sized = this.canvas;
    new ResizeObserver(() => this.resized()).observe(this.canvas);
  }

  async fetch() {
    const { flow, folded, direction } = this, room = this.asked = this.room();
    this.isAsking = true;
    if (!this.svg) this.canvas.replaceChildren(hint("The picture is on its way …")); // one that is there keeps the focus
    try {
      const found = await this.state.request("picture", { flow, direction, ...room, ...(folded ? { folded } : {}), ...this.kept });
      this.isAsking = false;
      if (flow === this.flow && folded === this.folded && direction === this.direction) this.put(found);
    } catch (error) {
      this.isAsking = false;
      this.anchor = null;
      if (flow === this.found?.flow && this.svg && folded) { // too much was unfolded
        this.folded = this.found.folded;
        return this.view.inform(error.message);
      }
      this.svg = null;
      this.boxes.clear();
      this.canvas.replaceChildren(hint(error.message));
    }
    this.showCrumbs();
  }

  // The pixels for which a picture is arranged.
  room() { return { width: Math.round(this.view.columns.clientWidth || 900), height: Math.round(highest(true)) }; }

  // Another flow, at the place where it was left.
  enter(flow) {
    this.seen.set(this.flow.join("/"), this.look());
    Object.assign(this, { flow, folded: null }, UNSEEN, this.seen.get(flow.join("/")));
    this.fetch();
  }

  // The flows that lead to the one that is shown; each is a button.
  showCrumbs() {
    const names = this.flow.map((id, k) => this.state.tree[this.rowOf(this.flow.slice(0, k), id)]?.[Step.name] || id);
    const last = names.length ? names.pop() : "";
    const crumbs = [this.state.name, ...names].map((name, k) => button(name, () => this.enter(this.flow.slice(0, k)), { class: "link", title: "Back to this flow" }));
    this.crumbs.replaceChildren(...(last ? crumbs.flatMap(crumb => [crumb, " ▸ "]) : []), last && element("b", { "aria-current": "page" }, last));
  }

  rowOf(flow, id) { return this.state.byId.get([...flow, id].join("/")); }

  put(found) {
    const focused = [...this.boxes.values()].find(box => box.group === this.view.root.activeElement)?.id;
    this.found = found;
    const document_ = new DOMParser().parseFromString(found.svg, "image/svg+xml");
    this.svg = copied(document_.documentElement);
    const [x, y, width, height] = this.svg.getAttribute("viewBox").split(" ").map(Number);
    this.whole = [x, y, width, height];
    for (const name of ["width", "height"]) this.svg.removeAttribute(name);
    this.svg.setAttribute("preserveAspectRatio", "xMinYMin meet");
    this.svg.setAttribute("role", "group");
    this.svg.prepend(svgElement("rect", { x: x - 5000, y: y - 5000, width: width + 10000, height: height + 10000, class: "p", fill: "#ffffff" }));
    this.heads = [...this.svg.querySelectorAll("polygon")].map(headOf);
    const grouped = kind => new Map([...this.svg.querySelectorAll(`g.${kind}`)].map(group => [group.dataset.step, group]));
    const boxes = grouped("box"), frames = grouped("frame"), titles = grouped("title");
    this.boxes = new Map();
    this.groups = []; // the rows of each group of steps, whose numbers begin at -2: -1 is the run
    const rowOf = id => found.groups[id] ? -1 - this.groups.push(found.groups[id].map(step => this.rowOf(found.flow, step))) : this.rowOf(found.flow, id);
    for (const id of found.frames) this.addBox(titles.get(id), rowOf(id), id, frames.get(id));
    for (const id of found.boxes) this.addBox(boxes.get(id), rowOf(id), id, boxes.get(id));
    for (const id of found.frames) this.addFold(frames.get(id), id, "−");
    for (const id of found.folded) this.addFold(boxes.get(id), id, "+");
    this.addEdges(found.edges ?? []);
    this.dark = element("style", {}, `.picture.dark { ${found.dark} }`);
    this.fitRoom();
    this.svg.append(this.focus = svgElement("rect", { class: "focus", rx: 8 }));
    this.canvas.replaceChildren(this.dark, this.svg);
    if (this.anchor) this.restore(this.anchor); else this.settle();
    this.draw();
    // The box that had it is not there any more, and JupyterLab would give it to its active cell.
    if (focused) [...this.boxes.values()].find(box => box.id === focused)?.group.focus({ preventScroll: true });
  }

  // After a frame was folded or unfolded, it stays below the pointer, in the same size, and is moved or made smaller only as far as all of
  // it is in sight; of one that is too large to be read, its beginning.
  restore({ id, corner, pointer, scale: before }) {
    this.anchor = null;
    const box = [...this.boxes.values()].find(box => box.id === id), [x, y, ...size] = box ? box.area : this.whole, room = [this.canvas.clientWidth, this.canvas.clientHeight];
    const scale = Math.min(before, Math.max(READABLE, Math.min(...room.map((side, k) => side / (size[k] + 2 * MARGIN))))), seen = room.map(side => side / scale);
    const at = [x, y].map((low, k) => {
      const same = low + bounded(0, pointer[k] - corner[k], size[k]) - (pointer[k] - this.box[k]) * before / scale;
      return Math.min(low - MARGIN, Math.max(low + size[k] + MARGIN - seen[k], same));
    });
    this.show([...at, ...seen]);
  }

  // A picture that cannot be read beside the panel has the whole width, and the panel is below it. The place is as high as the picture
  // there, or higher: as the panel beside it. Below it, the first lines of the panel are in sight.
  fitRoom() {
    const [, , width, height] = this.whole, all = this.view.columns.clientWidth || 900, [beside, whole] = [all * BESIDE, all].map(room => Math.min(1, room / width));
    if (!this.kept) this.isWide = beside < READABLE && whole > beside * 1.1;
    this.view.arrange();
    const { isBelow } = this.view, scale = Math.max(READABLE, isBelow ? whole : beside);
    this.canvas.style.minHeight = `${bounded(140, 16 + height * scale, highest(isBelow))}px`;
  }

  // On the whole screen the picture has a layout of its own.
  resized() {
    if (!this.svg || !this.box || !this.canvas.clientWidth) return;
    if (this.isFull === isFull()) this.settle(); else this.fill();
  }

  // In a place of another size: what was fitted is fitted again; what a person moved keeps its scale and its middle, and in the same width its upper side.
  settle() {
    const { box, fitted, isMoved, scale, canvas: { clientWidth, clientHeight } } = this, isSame = clientWidth === this.wide, size = [clientWidth / scale, clientHeight / scale];
    if (box && !clientWidth) return; // another view is open
    if (!box || !isMoved && !this.isFollowing || isMoved === "folded" && !isSame) {
      this.begin();
      const { width, height } = this.room();
      if (this.isCut && !this.isAsking && !this.kept && (width !== this.asked.width || height !== this.asked.height)) this.fetch(); // it was arranged for a larger one
    }
    else if (box === fitted) this.fit();
    else this.show([...size.map((side, k) => box[k] + (isSame ? 0 : box[k + 2] - side) / 2), ...size]);
  }

  // What is in sight, and how.
  look() { return this.box && Object.fromEntries(SIGHT.map(name => [name, this[name]])); }

  // To the whole screen, where the picture is arranged anew, or back to the view before.
  fill() {
    const { flow, folded, before } = this, isSame = before?.flow === flow && before.folded === folded;
    this.isFull = isFull();
    Object.assign(this, UNSEEN, this.isFull ? { before: { flow, ...this.look() } } : isSame && before);
    this.fetch();
  }

  // The box or the title of a row, and the border that shows its state.
  addBox(group, i, id, bordered) {
    const ring = [...(bordered?.children ?? [])].filter(child => child.localName === "rect" && child.getAttribute("stroke-opacity") == null)[0];
    if (!group || !ring || i == null) return;
    const [x, y, width, height] = ["x", "y", "width", "height"].map(name => Number(ring.getAttribute(name)));
    const bar = color => svgElement("rect", { x: x + 10, y: y + height - 4.5, height: 2.5, width: 0, fill: color });
    const box = { id, group, ring, area: [x, y, width, height], isFolded: this.found.folded.includes(id), x: x + width / 2, y: y + height / 2, top: y, left: x + 10, right: x + width - 6, room: width - 20, done: bar("#27894f"), lost: bar("#d64545") };
    box.pill = svgElement("rect", { y: y - 9, height: 16, rx: 8 });
    box.corner = svgElement("text", { y: y + 3, fill: "#ffffff", "text-anchor": "middle", "font-weight": "bold" });
    box.border = { role: ring.getAttribute("class"), stroke: ring.getAttribute("stroke"), "stroke-width": ring.getAttribute("stroke-width") ?? 1 };
    box.titles = [group, bordered].map(part => part.querySelector("title"));
    const name = box.name = box.titles[0]?.textContent ?? id;
    for (const [key, value] of Object.entries({ role: "button", tabindex: "-1", "aria-label": name, "data-row": i })) group.setAttribute(key, value);
    // What a running step does is written in place of the lines below its name.
    box.more = group.querySelector("g.more");
    const [at, ...lines] = (box.more?.dataset.lines ?? "").split(" ").map(Number);
    box.tails = lines.slice(0, 2).map(low => svgElement("text", { x: at, y: low, class: "tail" }));
    box.letters = Math.floor((x + width - 8 - at) / SMALL_LETTER);
    box.heads = this.heads.filter(head => head.x > x - 20 && head.x < x + width + 20 && Math.abs(head.y - y) < FARTHEST);
    group.append(box.pill, box.corner, box.done, box.lost, ...box.tails);
    const sign = [...group.children].find(child => child.textContent === "›");
    if (sign) {
      sign.setAttribute("class", `${sign.getAttribute("class") ?? ""} opens`);
      sign.append(svgElement("title", {}, "Open the called flow (double click)"));
      sign.addEventListener("click", event => { event.stopPropagation(); this.enter([...this.flow, ...id.split("/")]); });
    }
    for (const part of new Set([group, bordered])) {
      part.addEventListener("click", event => {
        if (this.moved || event.detail > 1) return;
        if (i >= 0) this.view.pick(i);
        else if (box.isFolded) this.toggle(id, this.point(event)); // a group has nothing else to show
        this.expectSecond(() => i >= 0 && this.open(i, id, this.point(event)));
      });
    }
    this.boxes.set(i, box);
  }

  // The first click may move the picture away below the pointer. So the second one is of the same box, wherever it falls.
  expectSecond(open) {
    this.isTwice = true; // a second click may follow
    addEventListener("dblclick", open, { capture: true });
    setTimeout(() => {
      this.isTwice = false;
      removeEventListener("dblclick", open, { capture: true });
    }, SECOND_CLICK);
  }

  turnTo(direction) {
    this.direction = direction;
    this.turn.title = this.turn.ariaLabel = `Direction: ${DIRECTION_NAMES[direction]}`;
    Object.assign(this, UNSEEN);
    this.fetch();
  }

  // The button at the corner of a frame that folds and unfolds it.
  addFold(bordered, id, sign) {
    const rect = bordered?.querySelector("rect");
    if (!rect) return;
    const cx = Number(rect.getAttribute("x")), cy = Number(rect.getAttribute("y"));
    const label = `${sign === "−" ? "Fold" : "Unfold"} ${id}`, box = [...this.boxes.values()].find(box => box.id === id);
    const group = svgElement("g", { role: "button", tabindex: "-1", "aria-label": label, style: "cursor:pointer" });
    group.append(svgElement("title", {}, label), svgElement("circle", { cx, cy, r: 7, fill: "#f5f5f5", stroke: "#7d7d7d" }),
      svgElement("text", { x: cx, y: cy + 3.6, "text-anchor": "middle", fill: "#1b1b1b", "font-weight": "bold" }, sign));
    group.addEventListener("click", event => event.detail > 1 && this.isTwice || this.toggle(id, box?.area));
    this.svg.append(group);
  }

  // The lines of the edges, which get the colour of those that were taken, and room for the numbers of the rounds after which they were.
  addEdges(edges) {
    const lines = this.svg.querySelectorAll('path[fill="none"]');
    this.edges = named("EdgeRow", edges).map(({ key, line, x, y, side, room, leader }) => {
      const back = svgElement("rect", { y: y - 7.5, height: 15, rx: 7.5, fill: this.state.byName.get("taken").ink });
      const text = svgElement("text", { x, y: y + 3.5, fill: "#ffffff", "font-weight": "bold", "text-anchor": "middle" });
      const group = svgElement("g", { visibility: "hidden" }), help = svgElement("title", {});
      if (leader) group.append(svgElement("line", { x1: leader[0], y1: leader[1], x2: x, y2: y, stroke: this.state.byName.get("taken").color, "stroke-dasharray": "2 2" }));
      group.append(help, back, text);
      this.svg.append(group);
      return { key, line: lines[line], x, side, room, back, text, help, group };
    });
  }

  // Who points at a box, or goes to it, is told more.
  tell(target) { loadLater(this.state).then(views => views.tell(this, target), () => {}); }

  // Everything else moves: the frame itself stays at the pointer, and the picture keeps its direction.
  toggle(id, at) {
    const folded = this.found.folded, box = [...this.boxes.values()].find(box => box.id === id);
    this.folded = folded.includes(id) ? folded.filter(other => other !== id) : [...folded, id];
    if (box) this.anchor = { id, corner: box.area, pointer: at ?? box.area, scale: this.scale };
    this.isMoved ||= "folded";
    this.kept = { direction: this.found.down ? "TB" : "LR", breaks: this.found.breaks };
    this.fetch();
  }

  // A frame folds; a call opens the flow that it calls; of another box, a key leads to the details.
  open(i, id, at) {
    if (this.found.frames.includes(id) || this.found.folded.includes(id)) this.toggle(id, at);
    else if (this.state.tree[i + 1]?.[Step.id].startsWith(`${this.state.tree[i][Step.id]}/`)) this.enter([...this.flow, ...id.split("/")]);
    else if (!at) this.view.panel.node.focus();
  }

  draw() {
    this.following();
    for (const [i, box] of this.boxes) {
      this.view.extras.paintBox(box, i);
      const { look, words, done, lost, does = [], tail } = i < 0 ? this.groupNow(this.groups[-2 - i]) : this.stepNow(i);
      const isChosen = i === this.view.chosen || (i < 0 && box.isFolded && this.groups[-2 - i].includes(this.view.chosen));
      this.write(box, tail ? ending(plainWords(tail), box) : fitted(does, box), tail || does[0]);
      const now = `${look.name} ${words} ${done} ${lost} ${isChosen}`;
      if (box.now === now) continue;
      box.now = now;
      const wide = words.length * LETTER + 12;
      for (const [key, value] of Object.entries({ x: box.right - wide, width: wide, fill: look.ink, visibility: words ? "visible" : "hidden" })) box.pill.setAttribute(key, value);
      box.corner.textContent = words;
      box.corner.setAttribute("x", box.right - wide / 2);
      for (const head of box.heads) head.node.setAttribute("transform", words ? moved(head, { left: box.right - wide - 1, right: box.right + 1, top: box.top - 10, bottom: box.top + 8 }) : "");
      const plain = !words; // a state has one colour in both themes, so its border has no class
      box.ring.setAttribute("class", plain ? box.border.role : box.border.role.replace(/ s\d+/, ""));
      box.ring.setAttribute("stroke", plain ? box.border.stroke : look.color);
      box.ring.setAttribute("stroke-width", plain ? box.border["stroke-width"] : look.ring);
      box.ring.classList.toggle("chosen", isChosen);
      box.group.setAttribute("tabindex", isChosen ? 0 : -1);
      box.group.setAttribute("aria-pressed", isChosen);
      box.group.setAttribute("aria-label", `${box.name}, ${look.word}`);
      box.done.setAttribute("width", box.room * (done ?? 0));
      box.lost.setAttribute("x", box.left + box.room * (done ?? 0));
      box.lost.setAttribute("width", box.room * (lost ?? 0));
    }
    if (this.isCut) this.drawMap(); // its boxes have the colours of their states
    // The rounds of all edges; if those of one have no room, how often each was taken.
    const edges = this.edges ?? [], roundsOf = edge => (this.state.then ?? this.state).edges[[...this.flow, edge.key].join("/")] ?? "";
    const isCounted = edges.some(edge => roundsOf(edge).length > edge.room || roundsOf(edge).endsWith("×"));
    for (const edge of edges) {
      const all = roundsOf(edge), count = isCounted ? timesOf(all) : all, words = count.length > edge.room ? "" : count;
      if (edge.all === count) continue;
      edge.all = count;
      const { color, ring } = this.state.byName.get("taken"), head = edge.line.nextElementSibling;
      Object.assign(edge.line.style, { stroke: all && color, strokeWidth: all && ring });
      if (head?.localName === "polygon") head.style.fill = all && color;
      edge.text.textContent = words;
      edge.help.textContent = words.endsWith("×") ? "How often the run went this way" : `The rounds in which the run went this way: ${all}`;
      const width = 10 + 3.7 * words.length + 3.1 * words.replace(/[, ]/g, "").length; // as the kernel reserves it: a sign is narrower than a digit
      const left = edge.x + width * (edge.side - 1) / 2; // it touches its line, also if it is shorter than its room
      edge.back.setAttribute("x", left);
      edge.text.setAttribute("x", left + width / 2);
      edge.back.setAttribute("width", width);
      edge.group.setAttribute("visibility", words ? "visible" : "hidden");
    }
    if (!this.boxes.has(this.view.chosen)) this.boxes.values().next().value?.group.setAttribute("tabindex", 0);
  }

  lookOf(i) { return i < 0 ? this.groupNow(this.groups[-2 - i]).look : this.state.states[this.rowNow(i)[Now.state]]; }

  // The row of a step, or what it was at the moment of the state over time.
  rowNow(i) { return this.state.then?.rows[i] ?? this.state.rows[i]; }

  // What the box of a step shows.
  stepNow(i) {
    const look = this.lookOf(i), row = this.rowNow(i), isRunning = look.name === "running", [done, lost] = [row[Now.okShare], row[Now.failedShare]];
    const does = isRunning ? [row[Now.counted], row[Now.brief]] : []; // its progress, its pace
    return { look, words: look.name === "pending" ? "" : row[Now.corner], done, lost, does, tail: isRunning ? this.state.arriving(i) : "" };
  }

  // What the box of a group of steps shows: the state that matters most, how many have ended, and which one runs.
  groupNow(rows) {
    const looks = rows.map(i => this.lookOf(i)), found = looks.reduce((worst, look) => WORST.indexOf(look.name) < WORST.indexOf(worst.name) ? look : worst);
    const ended = looks.filter(look => !NOT_ENDED.has(look.name)).length, running = rows.find((_, k) => looks[k].name === "running");
    const look = found.name === "ok" && ended < rows.length && this.state.last.live ? this.state.byName.get("running") : found; // between two of them
    const counted = `${ended}/${rows.length}`, alike = looks.filter(other => other.name === look.name).length; // as `_corner_counts` in Python
    return { look, words: look.name === "pending" ? "" : "✓!".includes(look.mark) ? `${look.mark} ${counted}` : `${counted} ${look.mark}${alike || ""}`, does: running == null ? [] : [this.state.nameOf(running)] };
  }

  // Lines in place of those below the name of a box; none: its own. The tooltip has the whole text.
  write(box, lines, whole) {
    const now = lines.join("\n");
    if (box.written === now) return;
    box.written = now;
    if (now) box.more?.setAttribute("visibility", "hidden"); else box.more?.removeAttribute("visibility");
    box.tails.forEach((tail, k) => tail.replaceChildren(lines[k] ?? "", lines[k] ? svgElement("title", {}, whole) : ""));
  }

  // A step outside of the called flow that is shown: the flow that has it is shown.
  chose(i) {
    const path = this.state.tree[i]?.[Step.id].split("/") ?? this.flow.concat(""), far = this.flow.findIndex((id, k) => id !== path[k] || k === path.length - 1);
    if (far >= 0) this.enter(this.flow.slice(0, far)); else this.draw();
  }

  // The frame around the box that has the focus, and around its state.
  ringAround(box) {
    if (!box) return;
    const [x, y, width, height] = box.area;
    for (const [name, value] of Object.entries({ x: x - 5, y: y - 13, width: width + 10, height: height + 18 })) this.focus.setAttribute(name, value);
  }

  reveal() {}

  // The box of a row, or the one that it is in.
  boxOf(i) {
    const isIn = k => k === i || k < -1 && this.groups[-2 - k].includes(i);
    let box;
    for (; i >= 0 && !box; i = this.state.parent[i]) box = this.boxes.get([...this.boxes.keys()].find(isIn));
    return box;
  }

  // It comes in sight.
  bring(i) {
    const box = this.boxOf(i);
    if (!box || !this.box) return;
    const [x, y, width, height] = this.box;
    this.isMoved = true;
    this.show([box.x < x || box.x > x + width ? box.x - width / 2 : x, box.y < y || box.y > y + height ? box.y - height / 2 : y, width, height]);
    box.group.scrollIntoView({ block: "nearest" });
  }

  // A part of the picture is in sight, and beside it no more than has to be: all of a picture that is smaller than its place.
  show([x, y, ...size]) {
    const at = [x, y].map((place, k) => {
      const low = this.whole[k], last = low + this.whole[k + 2] - size[k];
      return bounded(Math.min(low, last), place, Math.max(low, last));
    });
    this.box = [...at, ...size];
    this.scale = (this.wide = this.canvas.clientWidth || 500) / size[0];
    this.svg.setAttribute("viewBox", this.box.map(side => side.toFixed(2)).join(" "));
    this.drawMap();
  }

  // An overview as soon as a part of the picture is out of sight.
  drawMap() {
    this.isCut = [0, 1].some(k => this.box[k] > this.whole[k] + MARGIN || this.box[k] + this.box[k + 2] < this.whole[k] + this.whole[k + 2] - MARGIN);
    if (this.map) this.map.draw();
    else if (this.isCut) loadLater(this.state).then(views => { (this.map ??= views.overview(this)).draw(); }, () => {});
  }

  // While the run goes on, the step that runs is in sight, until a person moves the view. At its end it rests as it would begin.
  following() {
    if (this.isMoved || !this.box) return;
    if (!this.state.last.live) {
      if (this.isFollowing) this.begin();
      this.isFollowing = false;
      return;
    }
    const running = [...this.boxes].filter(([i]) => this.lookOf(i).name === "running").map(([, box]) => box);
    const box = running.at(-1), [x, y, width, height] = this.box;
    if (!box || (box.x > x && box.x < x + width && box.top > y && 2 * box.y - box.top < y + height)) return;
    this.isFollowing = true;
    this.show([width < this.whole[2] ? box.x - width / 2 : x, height < this.whole[3] ? box.y - height / 2 : y, width, height]);
  }

  // All of it on the whole screen, or where its words can be read, else from its beginning: the upper left. What a person has selected is in sight, and after the end what failed, as in the list. A picture that
  // is less high than its place, which is as high as the panel, stands at the top: it is seen as soon as its run is.
  begin() {
    const [x, y, width, height] = this.whole, room = [this.canvas.clientWidth || 500, this.canvas.clientHeight || TALLEST];
    const scale = bounded(this.isFull ? 0 : READABLE, Math.min(room[0] / width, room[1] / height), LARGEST * (this.isFull ? 2 : 1)), [seenX, seenY] = room.map(side => side / scale);
    const { chosen: row } = this.view, { kept, last } = this.state;
    const chosen = this.boxOf(kept.isChosen ? row : last.live ? -1 : row < 0 ? this.state.failedAfter(-1) : row);
    const start = (at, low, all, seen, before) => all <= seen ? low - (seen - all) * before : at == null || at < low + seen * 0.9 ? low : Math.min(low + all - seen, at - seen / 2);
    this.show([start(chosen?.x, x, width, seenX, 0.5), start(chosen?.y, y, height, seenY, 0), seenX, seenY]);
  }

  // The whole picture in the form of its place.
  fit() {
    this.isMoved = true;
    if (!this.svg) return;
    const [x, y, width, height] = this.whole, room = [this.canvas.clientWidth || 500, this.canvas.clientHeight || TALLEST];
    const scale = Math.min(room[0] / width, room[1] / height), [seenX, seenY] = room.map(side => side / scale);
    this.show([x - (seenX - width) / 2, y - (seenY - height) / 2, seenX, seenY]);
    this.fitted = this.box; // until something else is shown
  }

  zoom(factor, at) {
    if (!this.svg) return;
    const [x, y, width, height] = this.box, largest = Math.max(this.whole[2], this.whole[3]) * 4;
    if (width * factor > largest || width * factor < 40) return;
    this.isMoved = true;
    const [px, py] = at ?? [x + width / 2, y + height / 2];
    this.show([px - (px - x) * factor, py - (py - y) * factor, width * factor, height * factor]);
  }

  point({ clientX, clientY }, svg = this.svg) {
    const { x, y } = new DOMPoint(clientX, clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [x, y];
  }

  wheel(event) {
    if (!this.svg || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.1 : 0.9, this.point(event));
  }

  drag(event) {
    if (event.button || !this.svg) return;
    const begin = [event.clientX, event.clientY];
    let last = this.point(event);
    this.moved = false;
    const move = moved => {
      if (!this.moved && Math.hypot(moved.clientX - begin[0], moved.clientY - begin[1]) < 4) return;
      this.moved = this.isMoved = true;
      const [px, py] = this.point(moved), [x, y, width, height] = this.box;
      this.show([x - px + last[0], y - py + last[1], width, height]);
      last = this.point(moved);
    };
    dragged(move, () => setTimeout(() => { this.moved = false; })); // after the click
  }

  key(event) {
    if (event.key in WAYS) this.neighbour(WAYS[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(0.8);
    else if (event.key === "-") this.zoom(1.25);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter" || event.key === " ") {
      const i = event.target.dataset?.row;
      if (i == null) event.target.dispatchEvent(new MouseEvent("click"));
      else this.open(Number(i), this.boxes.get(Number(i)).id);
    } else return;
    event.preventDefault();
  }

  // The nearest box in a direction.
  neighbour([dx, dy]) {
    const focused = [...this.boxes.values()].find(box => box.group === this.view.root.activeElement);
    const me = focused ?? this.boxes.get(this.view.chosen) ?? this.boxes.values().next().value;
    let best = null, least = Infinity;
    for (const [i, box] of this.boxes) {
      const x = box.x - me.x, y = box.y - me.y, ahead = x * dx + y * dy, far = ahead + 2 * (Math.abs(x * dy) + Math.abs(y * dx));
      if (box !== me && ahead > 1 && far < least) [best, least] = [i, far];
    }
    if (best == null) return;
    if (best >= 0) this.view.choose(best);
    this.boxes.get(best).group.focus();
  }
}
