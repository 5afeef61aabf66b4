// Views without a run of their own: the slider over the context of a plan, and the list of runs.

class FixedState extends Requests {
  constructor(model, mark, start) {
    super(model, mark);
    this.start = start;
    this.runId = start.id;
    this.last = {}; // it never changes
    this.views = new Set();
  }

  receive(message) { if (message.type === "reply") this.reply(message); }

  view(host) {
    const view = new FixedView(this, host);
    this.views.add(view);
    return view;
  }

  refresh() {}

  // A cell ran, or a run has ended.
  edited() { for (const view of this.views) view.shown?.refresh?.(); }
}

class FixedView {
  constructor(state, host) {
    this.state = state;
    this.host = host;
    host.dataset.lmSuppressShortcuts = "true"; // JupyterLab's keys do not act in here
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" }), place = element("div", {}, hint("…"));
    root.replaceChildren(element("style", {}, STYLE), state.start.list ? this.runs(place) : this.context(state.start.context, place));
  }

  runs(place) {
    place.className = "runs";
    this.fill(place, ({ runs }) => runs);
    return element("div", { class: "explorer", role: "region", "aria-label": "Runs" }, place);
  }

  // The slider over the ticks of a context, below its name.
  context(name, place) {
    place.className = "time";
    this.fill(place, ({ time }) => time);
    const header = element("header", { role: "group", "aria-label": "Context" }, element("span", {}, "context ", element("b", {}, name)));
    return element("div", { class: "explorer", role: "region", "aria-label": `Context ${name}` }, header, place);
  }

  // The view comes with the scripts that are loaded when one needs them.
  async fill(place, viewOf) {
    try { this.shown = viewOf(await loadLater(this.state))(this, place); } catch (error) { place.replaceChildren(hint(error.message)); }
  }

  close() {
    this.state.views.delete(this);
    clearInterval(this.shown?.clock);
  }
}
