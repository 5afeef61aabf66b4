// A run as the page knows it, shared by all its views, and the requests to the kernel.

// These only read, or do the same when they are repeated.
const REPEATABLE = new Set(["start", "run", "store", "picture", "step", "text", "calls", "call", "spans", "session", "elements", "cancel",
  "later", "stale", "moments", "moment", "table", "label", "evaluations"]);
const REPEAT_AFTER = [300, 1500, 5000]; // milliseconds
const PATIENCE = 15000;
const FAILED = ["failed", "kept", "left", "lost"], DROPPED = ["dropped", "lost"]; // the states of a step that failed, and of one in which something was dropped
const NO_KERNEL = "the kernel was shut down: start it, then run the cell again";
const NO_ANSWER = "the kernel does not answer: it may be busy with the cell";

// Where the fields of a row are, by their names: of a row of the tree, and of one that changes. WIRE has the names, from wire.py.
const placesOf = kind => Object.fromEntries(WIRE[kind].map((name, place) => [name, place]));
const Step = placesOf("StepRow"), Now = placesOf("UpdateRow");

// The rows of an answer as objects.
function named(kind, rows) {
  const names = WIRE[kind];
  return rows.map(row => {
    const found = {};
    for (let place = 0; place < names.length; place++) found[names[place]] = row[place];
    return found;
  });
}

// What the page asks about a run or a context, and the answers.
class Requests {
  constructor(model, mark) {
    this.model = model;
    this.mark = mark;
    this.waiting = new Map();
    this.requests = 0;
  }

  reply({ id, ok, value, why }) {
    const request = this.waiting.get(id);
    this.waiting.delete(id);
    if (!request) return;
    if (ok) request.resolve(value); else request.reject(new Error(why));
  }

  // JupyterLab may send the first message to the shell that waits for the cell, so a request is repeated.
  request(name, given = {}) {
    const id = ++this.requests;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      const pauses = REPEATABLE.has(name) ? [...REPEAT_AFTER] : [PATIENCE];
      if (name === "picture") pauses.push(PATIENCE); // the first one of a kernel loads graphviz
      const send = () => {
        if (!this.waiting.has(id)) return;
        if (!pauses.length) {
          this.waiting.delete(id);
          reject(new Error(NO_ANSWER));
          return;
        }
        this.model.send({ mark: this.mark, do: name, id, with: given });
        setTimeout(send, pauses.shift());
      };
      try { send(); } // fails if the kernel was shut down
      catch { this.reply({ id, why: NO_KERNEL }); }
    });
  }
}

class RunState extends Requests {
  constructor(model, mark, start) {
    super(model, mark);
    this.views = new Set();
    this.notice = new Notices(this);
    this.load(start);
  }

  load({ tree, update, hears, draw, id, notices, alone, fixed }) {
    this.alone = alone; // a picture without a run
    this.fixed = fixed; // a report, without a kernel
    this.notices = notices;
    this.name = tree.name;
    this.runId = id;
    this.hears = hears;
    this.draw = draw;
    this.states = named("StateRow", tree.states);
    this.byName = new Map(this.states.map(state => [state.name, state]));
    this.tree = tree.rows;
    const blank = { state: 0, corner: "", words: "", counted: "" };
    this.rows = tree.rows.map((_, number) => WIRE.UpdateRow.map(name => ({ ...blank, number })[name] ?? null));
    this.byId = new Map(tree.rows.map((row, i) => [row[Step.id], i]));
    this.edges = {};
    this.parent = [];
    const outer = [];
    tree.rows.forEach((row, i) => {
      outer.length = Math.min(outer.length, row[Step.depth]);
      this.parent[i] = outer.at(-1) ?? -1;
      outer[row[Step.depth]] = i;
    });
    this.findInner();
    this.count = update.n;
    this.last = {};
    this.fold(update);
  }

  // Whether the kernel answers only when the cell has ended.
  get isDeaf() { return this.last.live && !this.hears; }

  // An update has only what changed.
  fold(update) {
    this.last = { ...this.last, ...update };
    this.received = performance.now();
    if (update.hears != null) this.hears = update.hears;
    if (update.edges) this.edges = update.edges;
    let isOther = false; // whether the list has other rows now
    for (const row of update.rows) {
      const i = row[Now.number], before = this.rows[i];
      isOther ||= (before[Now.name] == null) !== (row[Now.name] == null) || Boolean(before[Now.isUnused]) !== Boolean(row[Now.isUnused]);
      this.rows[i] = row;
    }
    if (isOther) this.findInner();
    this.notice.look();
    return update.rows.map(row => row[Now.number]);
  }

  // Which rows have rows below them in the list.
  findInner() {
    this.lists = (this.lists ?? 0) + 1;
    this.hasInner = this.tree.map(() => false);
    this.tree.forEach((_, i) => { if (this.isListed(i) && this.parent[i] >= 0) this.hasInner[this.parent[i]] = true; });
  }

  // Seconds since the start; the clock runs here.
  now() {
    return this.last.now + (this.last.live ? (performance.now() - this.received) / 1e3 : 0);
  }

  // When a row ended, in seconds of the run; of one that runs, now.
  endOf(i) { return this.rows[i][Now.end] ?? (["running", "waiting"].includes(this.look(i).name) ? Math.max(this.now(), 0.001) : this.rows[i][Now.start]); }

  // The seconds in which a row ran, in words, and from its first begin to its last end if that is a tenth longer.
  tookOf(i) {
    const row = this.rows[i], whole = this.endOf(i) - row[Now.start], seconds = whole - (row[Now.idle] ?? 0);
    return row[Now.start] == null || row[Now.isReused] ? {} : { took: duration(seconds), within: whole > 1.1 * seconds && whole >= 0.001 ? ` within ${duration(whole)}` : "" };
  }

  view(host) { return new Explorer(this, host); }

  // Whether a row is below another one, or that one: a row that the list lacks has the ids of its parts.
  isInside(row, outer) {
    const id = this.tree[row]?.[Step.id] ?? "", around = this.tree[outer]?.[Step.id];
    return row === outer || (around != null && id.startsWith(around) && "/.[".includes(id[around.length]));
  }

  // The name of a row in all views; that of a model's session says what the model did.
  nameOf(i) { return this.rows[i][Now.name] ?? this.tree[i][Step.name]; }

  // Whether the list has a row: not the parts of a step that its author did not write.
  isListed(i) { return !this.tree[i][Step.isInner] || this.rows[i][Now.name] != null; }

  // The row of the list that stands for a row.
  listedFor(i) {
    while (i >= 0 && !this.isListed(i)) i = this.tree.findLastIndex((row, k) => k < i && this.isInside(i, k));
    return i;
  }

  // The end of what arrives in a row that runs, or below it.
  arriving(i) {
    for (let k = i; k === i || this.tree[k]?.[Step.depth] > this.tree[i][Step.depth]; k++) {
      if (this.rows[k][Now.end] === null && this.rows[k][Now.tail]) return this.rows[k][Now.tail];
    }
    return "";
  }

  // The next row after one, and then from the beginning, in one of these states, and no row below it says more closely what; else -1.
  failedAfter(i, names = [...FAILED, ...DROPPED]) {
    const troubled = [...this.rows.keys()].filter(k => names.includes(this.look(k).name) && this.isListed(k));
    const close = troubled.filter(k => !troubled.some(inner => inner !== k && this.isInside(inner, k)));
    return close.find(k => k > i) ?? close[0] ?? -1;
  }

  look(i) { return this.states[this.rows[i][Now.state]]; }

  receive(message) {
    if (message.type === "update") this.update(message);
    else if (message.type === "reply") this.reply(message);
    else if (message.type === "run") this.replace(message);
  }

  // Another run is shown here.
  replace(start) {
    this.load(start);
    if (this.kept) this.kept.isMoved = false;
    for (const view of this.views) view.reset();
    for (const view of this.views) view.extras.reset();
  }

  // A message may have been missed.
  refresh(start) {
    if (start.id !== this.runId) return this.replace(start);
    if (start.update.n < this.count || (start.update.n === this.count && start.hears === this.hears)) return;
    const before = this.last.status;
    this.load(start);
    for (const view of this.views) view.changed([...this.rows.keys()], before);
  }

  // A cell ran: what a click met before it, such as a cell that had not run, may hold no more.
  edited() {
    if (this.extras) this.extras.again = undefined;
    for (const view of this.views) if (!view.message.hidden) view.inform();
    [...this.views].find(view => view.host.isConnected)?.extras.edited();
  }

  update(message) {
    const missed = message.n > this.count + 1;
    if (message.n <= this.count) return; // repeated
    this.count = message.n;
    const before = this.last.status, changed = this.fold(message);
    for (const view of this.views) view.changed(changed, before);
    if (missed) this.complete();
  }

  // All of it again; and once more if an update that the answer does not know was faster.
  complete() {
    const { count } = this;
    this.request("start").then(start => {
      if (this.count > count && start.update.n < this.count) return this.complete();
      this.count = -1;
      this.refresh(start);
    }, () => {});
  }
}
