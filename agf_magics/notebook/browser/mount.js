// The explorers of a kernel. Each draws over every element of its class, wherever and whenever the document shows one. The
// static page in the element is hidden by the shadow root, and shown again when the kernel closes the explorer.

const FORGET = 60000; // milliseconds after which the view of an element that left the document is closed
// The first message may go to the shell that waits for a cell, so the question is repeated, ever less often.
const ASK_AFTER = [0, 300, 1200, 3500]; // milliseconds since the one before
const ASK_LATER = 2; // each later pause, to the one before

// By the class. `render` gets another model object than `initialize`, and its subscriptions end with the view: so the
// state is that of the first one.
const states = new Map();

class Runs {
  constructor(model) {
    this.model = model;
    this.marks = new Set();
    this.views = new Map(); // by the element
    this.timer = 0;
    this.load(model.get("runs"));
    model.on("msg:custom", message => this.receive(message));
    this.observer = new MutationObserver(() => { this.due ||= requestAnimationFrame(() => { this.due = 0; this.look(); }); });
    this.observer.observe(document.body, { childList: true, subtree: true });
    this.ask(); // the messages that came before this was loaded are lost
  }

  // Until the kernel has answered.
  ask() {
    if (this.timer) return;
    const pauses = [...ASK_AFTER];
    const wait = pause => {
      this.timer = setTimeout(() => {
        try { this.model.send({ do: "runs" }); } catch { return; } // the kernel was shut down
        wait(pauses.shift() ?? pause * ASK_LATER);
      }, pause);
    };
    wait(pauses.shift());
  }

  answered() {
    clearTimeout(this.timer);
    this.timer = 0;
  }

  load(runs) {
    for (const [mark, start] of Object.entries(runs)) {
      this.marks.add(mark);
      if (states.has(mark)) states.get(mark).refresh(start);
      else states.set(mark, new (start.tree ? RunState : FixedState)(this.model, mark, start));
    }
    this.look();
  }

  receive(message) {
    for (const mark of message.gone ?? []) this.drop(mark);
    const { type, mark } = message, state = this.marks.has(mark) ? states.get(mark) : null;
    if (type === "runs") {
      this.answered();
      this.load(message.runs);
    } else if (type === "edited") for (const one of this.marks) states.get(one).edited();
    else if (state) {
      state.receive(message);
      if (message.status) for (const one of this.marks) if (states.get(one) instanceof FixedState) states.get(one).edited();
    }
    else if (type === "run") {
      this.load({ [mark]: message });
      if (!message.hears) this.ask(); // the kernel hears, if this arrives while the cell runs
    }
    else if (type === "update") this.ask();
  }

  look() {
    for (const mark of this.marks) {
      const state = states.get(mark);
      for (const host of document.getElementsByClassName(mark)) {
        if (this.views.has(host)) continue;
        // The view of an element that the kernel has replaced moves here.
        const [old, left] = [...this.views].find(([other, view]) => view.state === state && view.settle && !other.isConnected) ?? [];
        this.views.delete(old);
        left?.settle(host);
        this.views.set(host, left ?? state.view(host));
      }
    }
    for (const [host, view] of this.views) {
      view.state.notice?.lookForOther();
      if (host.isConnected) {
        view.lost = undefined;
        view.catchUp?.();
      } else if (performance.now() - (view.lost ??= performance.now()) > FORGET) {
        view.close();
        this.views.delete(host);
      }
    }
  }

  // The static page again.
  drop(mark) {
    const state = states.get(mark);
    if (!this.marks.delete(mark)) return;
    states.delete(mark);
    for (const [host, view] of [...this.views].filter(([, view]) => view.state === state)) {
      view.close();
      host.shadowRoot.replaceChildren(element("slot"));
      host.explorer = null;
      delete host.dataset.lmSuppressShortcuts;
      this.views.delete(host);
    }
  }

  close() {
    this.observer.disconnect();
    this.answered();
    for (const mark of [...this.marks]) this.drop(mark);
  }
}

const ours = {
  initialize({ model }) {
    const runs = new Runs(model), close = () => runs.close();
    model.on("comm:close", close);
    model.on("comm_live_update", close);
    return close;
  },
  // A front end that shows each output in a frame: its model has one run.
  render({ model, el: host }) {
    const view = new Explorer(states.get(Object.keys(model.get("runs"))[0]), host);
    return () => view.close();
  },
};
