// A model's session: who said what.

function conversations({ named, element, hint, details, valueElement, errorElement, markdownElement, number, setText }) {
  return class Conversation {
    // `inside`: the numbers of an element, of whose sessions alone it is.
    constructor(view, node, step, inside = []) {
      this.view = view;
      this.state = view.state;
      this.step = step;
      this.node = node;
      this.inside = inside;
      this.arriving = new Map(); // the elements of the replies that arrive, by the number of their message
      this.said = new Map(); // the elements of the messages, by their JSON: those that stay are not written again
      // Of several sessions, the one that is shown; a later view of the run shows it, too.
      const { kept, runId } = this.state;
      const of = `${runId} ${step} ${inside}`;
      if (kept.session?.of !== of) kept.session = { of };
      this.shown = kept.session;
      node.append(this.body = element("div"));
      new ResizeObserver(() => view.panel.keepPlace(this.node)).observe(this.node); // its Markdown comes later
    }

    async fetch() {
      const { state, step } = this, { index, isChosen } = this.shown;
      // A session that a person has not chosen is shown until its end; then the next one that runs is.
      const given = index && `${index}` !== this.first ? { index, ...(isChosen || !state.last.live ? {} : { follows: true }) } : {};
      let found;
      try { found = await state.request("session", { step, ...given, ...(this.inside.length ? { element: this.inside } : {}) }); }
      catch (error) { return this.body.replaceChildren(hint(error.message)); }
      if (`${index}` !== `${this.shown.index}`) return; // another one was chosen meanwhile
      if (state.fixed) this.first ??= `${found.index}`; // the answer without an index
      if (`${found.index}` !== `${index}`) this.arriving.clear();
      this.shown.index = found.index;
      const before = this.said;
      if (found.messages.at(-1)?.arriving) this.view.panel.place.isFollowed ??= true;
      this.said = new Map(found.messages.map((message, k) => {
        const key = `${k} ${JSON.stringify(message)}`;
        return [key, before.get(key) ?? this.message(message, k)];
      }));
      const said = [...this.said.values()];
      this.sessions(found);
      this.body.replaceChildren(...said, found.more ? hint("… and more: run.calls has all") : "");
    }

    // A field to choose one of several sessions, with the state of each. It stays as it is where a person has opened it.
    sessions({ sessions, total, index }) {
      if (total < 2) return;
      const listed = named("SessionRow", sessions);
      this.select ??= element("select", { "aria-label": "Session", on: { change: event => this.choose(event.target.selectedIndex) } });
      this.places = listed.map(({ numbers }) => numbers);
      if (!this.count) this.node.prepend(element("div", {}, this.count = element("span"), this.select));
      setText(this.count, `one of ${number(total)} sessions: `);
      this.select.length = listed.length;
      listed.forEach(({ numbers, state, failed, input }, k) => {
        const { mark, word } = this.state.byName.get(state), calls = failed && state !== "failed" ? ` · ${number(failed)} failed call${failed === 1 ? "" : "s"}` : "";
        setText(this.select.options[k], `#${numbers.join("#")} · ${mark} ${word}${calls}${input && ` · ${input}`}`);
        if (`${numbers}` === `${index}`) this.select.selectedIndex = k;
      });
    }

    choose(k) {
      this.arriving.clear();
      Object.assign(this.shown, { index: this.places[k], isChosen: true });
      this.fetch();
    }

    message(message, k) {
      const who = ["user", "model"].includes(message.who) ? message.who : "";
      const facts = [message.who, message.name, message.arriving ? "arriving …" : message.took, message.used, message.end && `✗ ${message.end}`].filter(Boolean).join(" · ");
      return element("div", { class: `said ${who}` }, element("small", {}, facts),
        message.thinking ? details("thinking", [element("pre", {}, message.thinking)], Boolean(message.arriving)) : "",
        message.text ? this.text(message, k) : "", message.error && !message.told ? errorElement(message.error) : "",
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
