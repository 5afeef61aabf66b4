// A model's session: who said what.

function conversations({ named, element, hint, details, valueElement, errorElement, markdownElement, number }) {
  return class Conversation {
    constructor(view, node, step) {
      this.view = view;
      this.state = view.state;
      this.step = step;
      this.node = node;
      this.arriving = new Map(); // the elements of the replies that arrive, by the number of their message
      this.said = new Map(); // the elements of the messages, by their JSON: those that stay are not written again
      new ResizeObserver(() => view.panel.keepPlace(this.node)).observe(this.node); // its Markdown comes later
    }

    async fetch() {
      let found;
      try { found = await this.state.request("session", { step: this.step, ...(this.index ? { index: this.index } : {}) }); }
      catch (error) { return this.node.replaceChildren(hint(error.message)); }
      const before = this.said;
      if (found.messages.at(-1)?.arriving) this.view.panel.place.isFollowed ??= true;
      this.said = new Map(found.messages.map((message, k) => {
        const key = `${k} ${JSON.stringify(message)}`;
        return [key, before.get(key) ?? this.message(message, k)];
      }));
      const said = [...this.said.values()];
      this.node.replaceChildren(this.sessions(found), ...said, found.more ? hint("… and more: run.calls has all") : "");
    }

    // A field to choose one of several sessions.
    sessions({ sessions, total, index }) {
      if (total < 2) return "";
      const listed = named("SessionRow", sessions);
      const options = listed.map(({ numbers, failed }, k) => element("option", { value: k, selected: `${numbers}` === `${index}` },
        `#${numbers.join("#")}${failed ? ` · ${number(failed)} failed` : ""}`));
      const choose = event => { this.arriving.clear(); this.index = listed[event.target.value].numbers; this.fetch(); };
      return element("div", {}, `one of ${number(total)} sessions: `,
        element("select", { "aria-label": "Session", on: { change: choose } }, options));
    }

    message(message, k) {
      const who = ["user", "model"].includes(message.who) ? message.who : "";
      const facts = [message.who, message.name, message.arriving ? "arriving …" : message.took, message.used].filter(Boolean).join(" · ");
      return element("div", { class: `said ${who}` }, element("small", {}, facts),
        message.thinking ? details("thinking", [element("pre", {}, message.thinking)], Boolean(message.arriving)) : "",
        message.text ? this.text(message, k) : "", message.error ? errorElement(message.error) : "",
        (message.calls ?? []).map(call => this.call(call)), message.more ? hint(message.more) : "");
    }

    // A call of a reply, and below it its result.
    call(call) {
      const isKnown = call.result || call.error || call.text;
      return element("div", {}, element("b", {}, `⚙ ${call.tool} `), call.given ?? "", call.arguments ? valueElement(call.arguments) : "",
        isKnown ? element("div", { class: "said tool" }, element("small", {}, ["result", call.took].filter(Boolean).join(" · ")),
          call.error ? errorElement(call.error) : "", call.text ? element("pre", {}, call.text) : "", call.result ? valueElement(call.result) : "") : "");
    }

    // A reply that arrives keeps its element, which shows what is written until more is, and so does the reply that has arrived.
    text({ text, who, arriving, title }, k) {
      const written = () => element("div", { class: "markdown" }, element("pre", {}, text));
      if (who !== "model") return title ? details(title, [written()], false) : written();
      const node = markdownElement(text, this.arriving.get(k), Boolean(arriving));
      if (arriving) this.arriving.set(k, node); else this.arriving.delete(k);
      return node;
    }
  };
}
