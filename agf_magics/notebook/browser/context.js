// What never changes in the kernel: the slider over the context of a plan, and the list of runs.

class FixedState extends Requests {
  constructor(model, mark, start) {
    super(model, mark);
    this.start = start;
    this.runId = start.id;
    this.last = {}; // it never changes
  }

  receive(message) { if (message.type === "reply") this.reply(message); }

  view(host) { return new FixedView(this, host); }

  refresh() {}

  edited() {}
}

class FixedView {
  constructor(state, host) {
    this.state = state;
    this.host = host;
    host.dataset.lmSuppressShortcuts = "true"; // JupyterLab's keys do not act in here
    const { context, list } = state.start, root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const place = element("div", { class: list ? "runs" : "time" }, hint("…"));
    root.replaceChildren(element("style", {}, STYLE), element("div", { class: "explorer", role: "region", "aria-label": list ? "Runs" : `Context ${context}` },
      list ? "" : element("header", { role: "group", "aria-label": "Context" }, element("span", {}, "context ", element("b", {}, context))), place));
    loadLater(state).then(({ time, runs }) => (list ? runs : time)(this, place), error => place.replaceChildren(hint(error.message)));
  }

  close() {}
}
