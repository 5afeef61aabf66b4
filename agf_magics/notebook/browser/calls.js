// The calls of a step that runs several times: a list, the elements of a fan-out, and one call in full.

const CALL_COLUMNS = ["element", "state", "took", "output or error", "input"];
const ORDERS = { element: ["element", "ascending", "by element"], state: ["failed", "other", "failed first"], took: ["slowest", "descending", "slowest first"] };
const SEARCHED_CALLS = 8; // calls from which there is a field to find one

function callPages({ named, element, button, hint, table, number, ends, valueElement, errorElement }, Conversation) {
  function elements(pages, page) {
    const rows = named("ElementRow", page.rows).map(({ numbers, calls, failed, isFailed, took, output, input }) => ({ numbers, bad: isFailed, cells: [
      isFailed ? "✗ failed" : "✓ ok", `#${numbers.join("#")}`, number(calls), failed ? number(failed) : "", took, output, input] }));
    const open = row => pages.openElement(row.numbers);
    const listed = table(["state", "element", "calls", "failed", "took", "output or error", "input"], rows, open);
    listed.classList.add("of-calls");
    return [element("div", { class: "actions" }, pages.pages(page), pages.failedOnly(page), pages.go("By call", "List the calls one by one", { byElement: false, index: [], offset: 0 })), listed];
  }

  function call({ name, at, error, given, result }) {
    const shown = at ? [element("h3", {}, at.startsWith("#") ? `${name} ${at}` : at)] : [];
    if (error) shown.push(errorElement(error));
    if (result) shown.push(element("h4", {}, "Output"), valueElement(result));
    if (given) shown.push(element("h4", {}, "Input"), valueElement(given));
    return shown;
  }

  // One element of a fan-out: what failed in it, and the conversations of its agents. Its calls are listed below.
  class ElementPart {
    constructor(pages, index) {
      Object.assign(this, { pages, index, talks: new Map(), lead: element("div") });
      this.back = pages.go("‹ Elements", "List the elements", { byElement: true, index: [] });
      this.back.classList.add("back");
      this.title = element("b");
      this.node = element("div", {}, element("div", { class: "actions" }, this.back, this.title), this.lead);
      pages.inner.replaceChildren(this.node);
      this.back.focus({ preventScroll: true });
    }

    async fetch() {
      const { pages: { view, step }, index, talks } = this;
      const { failed, lead, sessions } = await view.state.request("element", { step, index });
      this.title.textContent = `#${index.join("#")}${failed ? " · ✗ failed" : ""}`;
      this.title.className = failed ? "bad" : "";
      const now = JSON.stringify(lead);
      if (now !== this.now) this.lead.replaceChildren(...lead ? call(lead) : []);
      this.now = now;
      for (const [id, name] of sessions) {
        if (!talks.has(id)) {
          const node = element("div");
          this.node.append(element("h4", {}, sessions.length > 1 ? `Conversation: ${name}` : "Conversation"), node);
          talks.set(id, new Conversation(view, node, id, index));
        }
        talks.get(id).fetch();
      }
    }
  }

  // The calls of a step that runs several times, page by page, failed ones first; or one of them.
  return class CallPages {
    constructor(view, node, step, hasElements, hasValues) {
      this.panel = view.panel;
      this.view = view;
      this.state = view.state;
      this.node = node;
      this.step = step;
      this.hasElements = hasElements;
      this.hasValues = hasValues; // without a call there is nothing to say
      this.byElement = false;
      this.index = []; // of the element whose calls are shown
      this.offset = 0;
      this.failed = false;
      this.isOpen = false; // whether one call is shown
      this.order = "failed";
      this.text = "";
      this.search = element("input", { type: "search", placeholder: "Find a call", "aria-label": "Find a call", hidden: true,
        on: { keydown: ends, change: event => this.again({ text: event.target.value.trim() }) } });
      this.inner = element("div");
      node.className = "calls";
      node.append(this.title = element("h4", {}, "Calls"), this.search, this.inner);
    }

    again(changes) {
      Object.assign(this, { ...changes, offset: 0 });
      this.fetch();
    }

    // The columns; a click on some of them orders the calls. `first`: the word above the first one.
    heads(first) {
      return CALL_COLUMNS.map(name => {
        const [order, way, title] = ORDERS[name] ?? [], isMine = order === this.order, word = name === "element" ? first : name;
        return !order || this.state.fixed ? word : element("th", { scope: "col", "aria-sort": isMine ? way : null },
          button(isMine ? `${word} ${way === "ascending" ? "▴" : "▾"}` : word, () => this.again({ order }), { class: "link", title: `Order: ${title}` }));
      });
    }

    // The calls that a person wishes to see; none if they are not listed.
    get wish() {
      const { offset, failed, index, order, text } = this;
      return this.isOpen || this.byElement ? null : { offset, failed, index, order, text };
    }

    // `news`: the page, if it is here and still what is wished.
    async fetch(news) {
      if (this.isOpen) return;
      const { step, offset, failed, index, byElement, order, text } = this;
      const part = this.hasElements && index.length ? this.partOf(index) : null;
      let page = news?.of === JSON.stringify(this.wish) ? news : null;
      try {
        await part?.fetch();
        page ??= await this.state.request(byElement ? "elements" : "calls", { step, offset, failed, index, order, text });
      } catch (error) { return this.inner.replaceChildren(hint(error.message)); }
      if (this.isOpen || byElement !== this.byElement || `${index}` !== `${this.index}`) return;
      this.node.hidden = this.hasValues && !page.total && !failed && !index.length && !text;
      this.search.hidden = this.state.fixed || !text && page.total < SEARCHED_CALLS;
      this.search.placeholder = byElement ? "Find an element" : "Find a call";
      this.title.textContent = byElement ? "Elements" : "Calls";
      if (!byElement) return this.showCalls(page);
      this.inner.replaceChildren(...elements(this, page));
      this.panel.fit(this.inner.lastChild);
    }

    async openElement(index) {
      Object.assign(this, { isOpen: false, byElement: false, index, offset: 0, failed: false });
      await this.fetch();
      // Its beginning, below what the step has; the page around the panel stays where it is.
      const top = of => of.getBoundingClientRect().top, { node } = this.panel;
      node.scrollTop += top(this.node) - top(node);
    }

    partOf(index) {
      if (`${this.element?.index}` !== `${index}` || !this.element.node.isConnected) this.element = new ElementPart(this, index);
      return this.element;
    }

    go(name, title, changes, off = false) {
      return button(name, () => { Object.assign(this, changes); this.fetch(); }, { title, "aria-label": title, disabled: off });
    }

    // The place in all pages, with the buttons to the pages beside it.
    pages(page) {
      const first = page.total ? page.offset + 1 : 0, last = Math.min(page.offset + page.rows.length, page.total);
      return [element("span", {}, `${number(first)}–${number(last)} of ${number(page.total)}`),
        this.go("‹", "Previous page", { offset: Math.max(0, page.offset - page.page) }, page.offset === 0),
        this.go("›", "Next page", { offset: page.offset + page.page }, last >= page.total)];
    }

    // The failed ones alone, or all again.
    failedOnly(page) {
      const name = this.failed ? "All" : `Only the ${number(page.failed)} failed`;
      return this.failed || page.failed && page.failed < page.total ? this.go(name, name, { offset: 0, failed: !this.failed }) : "";
    }

    showCalls(page) {
      const retry = button("Retry what failed", () => this.panel.view.act("rerun", {}), { title: "Run again: the calls that failed are made again, and all other results are reused" });
      const rows = page.rows.map(call => ({ number: call.number, bad: call.failed, cells: [
        call.at + (call.attempt > 1 ? ` (attempt ${call.attempt})` : ""),
        call.failed ? "✗ failed" : call.what === "finished" ? "✓ ok" : call.what, call.took, call.output, call.input] }));
      const elements = this.hasElements && !this.index.length && this.go("By element", "Group the calls by element", { byElement: true, index: [], offset: 0 });
      const only = !this.index.length ? "" : this.hasElements ? this.element.node : element("p", {}, `element #${this.index.join("#")}`);
      const shown = JSON.stringify([this.order, rows]); // of a running step often only the number of all calls changes
      if (shown !== this.shown || !this.listed.isConnected) {
        this.listed = table(this.heads(page.rows.some(call => call.at.includes("#")) ? "element" : "call"), rows, row => this.open(row.number));
        this.listed.classList.add("of-calls"); // beside the steps it is without the inputs, and messages have several lines
      }
      this.shown = shown;
      const tools = element("div", { class: "actions" }, this.pages(page),
        this.failedOnly(page), elements || "",
        page.failed && this.state.last.can?.includes("retry") ? retry : "");
      if (this.listed.parentNode === this.inner && this.only === only) this.tools.replaceWith(tools);
      else if (only && only === this.inner.firstChild) {
        while (only.nextSibling) only.nextSibling.remove();
        this.inner.append(tools, this.listed);
      } else this.inner.replaceChildren(...only ? [only] : [], tools, this.listed);
      Object.assign(this, { only, tools });
      this.panel.fit(this.listed);
    }

    async open(number_) {
      this.isOpen = this.search.hidden = true;
      // The focus goes back to the row of the call.
      const rows = () => [...this.listed?.querySelectorAll("tr[tabindex]") ?? []], at = rows().findIndex(row => row.contains(this.panel.view.root.activeElement));
      const back = button("‹ Calls", async () => {
        this.isOpen = false;
        await this.fetch();
        rows()[at]?.focus({ preventScroll: true });
      }, { class: "back" });
      try {
        this.inner.replaceChildren(back, ...call(await this.state.request("call", { step: this.step, number: number_ })));
      } catch (error) { return this.inner.replaceChildren(back, errorElement(error.message)); }
      back.focus({ preventScroll: true });
    }
  };
}
