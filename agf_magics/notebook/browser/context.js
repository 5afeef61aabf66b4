// The context of a plan: the slider over its moments.

class ContextState extends Requests {
  constructor(model, mark, { context, id }) {
    super(model, mark);
    this.name = context;
    this.runId = id;
    this.last = {}; // it never changes
  }

  receive(message) { if (message.type === "reply") this.reply(message); }

  view(host) { return new ContextView(this, host); }

  refresh() {}

  edited() {}
}

class ContextView {
  constructor(state, host) {
    this.state = state;
    host.dataset.lmSuppressShortcuts = "true"; // JupyterLab's keys do not act in here
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" }), place = element("div", { class: "time" }, hint("…"));
    root.replaceChildren(element("style", {}, STYLE), element("div", { class: "explorer", role: "region", "aria-label": `Context ${state.name}` },
      element("header", {}, element("span", {}, "context ", element("b", {}, state.name))), place));
    loadLater(state).then(({ time }) => time(this, place), error => place.replaceChildren(hint(error.message)));
  }

  close() {}
}
