// The selected step, or the run itself: its error first, then what went in and out, its attempts or calls, its conversation, its definition.

const AGAIN = 1000; // milliseconds between two requests for a step that changes, half of them for one with a list of calls
const CALL_COLUMNS = ["element", "state", "took", "output or error", "input"];
const ORDERS = { element: ["element", "ascending", "by element"], state: ["failed", "other", "failed first"], took: ["slowest", "descending", "slowest first"] };
const BEGINNING = 110; // pixels of a result that are in sight after what a person follows
const SEARCHED_CALLS = 8; // calls from which there is a field to find one

class Panel {
  constructor(view) {
    this.view = view;
    this.state = view.state;
    this.node = element("div", { class: "panel", role: "group", "aria-label": "Details", tabindex: 0 });
    this.id = null;
    this.parts = new Map(); // what a person may have opened stays while the step changes
    this.place = { top: 0 }; // `isFollowed`: the end of a reply stays in sight, until a person scrolls
    this.node.addEventListener("scroll", () => { this.place.top = this.node.scrollTop; }, { passive: true });
    for (const event of ["wheel", "pointerdown", "keydown"]) this.node.addEventListener(event, () => { this.place.isFollowed = false; }, { passive: true });
  }

  // Ask again for what is selected if it changed; soon, if it was asked for just now.
  changed(rows, before) {
    const i = this.view.chosen, isMine = row => row === i || (this.parts.has("session") && this.state.isInside(row, i));
    const { live, status, dropped } = this.state.last, pause = AGAIN * (this.parts.has("calls") ? 2 : i < 0 ? 0.4 : 1);
    if (rows.includes(i)) this.node.querySelector(":scope > .facts")?.replaceWith(this.head());
    const isDue = !live || performance.now() - (this.asked ?? 0) > pause;
    this.isOld ||= i < 0 ? before !== status || dropped !== this.dropped : rows.some(isMine);
    if (isDue && this.isOld && !this.state.isDeaf) this.fetch();
  }

  async fetch() {
    const row = this.state.tree[this.view.chosen], id = row ? row[Step.id] : "";
    const title = element("h3", {}, row ? this.state.nameOf(this.view.chosen) : this.state.name);
    const isBusy = this.state.isDeaf;
    this.asked = isBusy ? undefined : performance.now();
    this.isOld = isBusy;
    this.dropped = this.state.last.dropped; // what the list of a run is about
    if (this.id !== id || isBusy || this.wasBusy) {
      this.wasBusy = isBusy;
      this.id = id;
      this.facts = null;
      this.parts.clear();
      // At its end a cell is shown by a new view, which is where the last one was.
      const of = `${this.state.runId} ${id}`, { kept } = this.state;
      this.place = kept.place = kept.place?.of === of ? { ...kept.place } : { of, top: 0 };
      this.node.replaceChildren(title, element("p", { class: isBusy ? "hint deaf" : "hint" }, isBusy ? "Details come when the cell has ended." : "…"));
    }
    if (isBusy) return;
    // The calls come with the step: each request shows a busy kernel in all of JupyterLab, which costs more than the answer.
    const calls = this.parts.get("calls")?.wish;
    let found;
    try { found = await (row ? this.state.request("step", calls ? { step: id, calls } : { step: id }) : this.state.request("run")); }
    catch (error) {
      this.isOld = true; // of a run that goes on it is asked again
      if (id === this.id) this.node.replaceChildren(title, errorElement(error.message));
      return;
    }
    if (found.calls) found.calls.of = JSON.stringify(calls);
    const facts = JSON.stringify(found);
    if (id !== this.id) return;
    if (facts === this.facts) return this.parts.get("session")?.fetch(); // what arrives is in the session alone
    this.facts = facts;
    const top = this.node.scrollTop;
    if (row) this.show(found); else this.showRun(found);
    this.node.scrollTop = top;
    if (this.parts.has("session")) this.keepPlace(this.parts.get("session").node);
    this.widen(Boolean(found.session) || this.hasWideTable === id);
    for (const line of this.node.querySelectorAll(".excerpt")) this.fit(line); // its carets are below what they mean
  }

  // Whether it needs the room below the steps, also where there is room beside them.
  widen(isWide) {
    if (this.isWide === isWide) return;
    this.isWide = isWide;
    this.view.arrange();
    this.view.draw();
  }

  // A table or a line of this step that does not fit beside the steps goes below them, and stays there. So does a table that
  // is there without its last column.
  fit(node) {
    const isWhole = node.scrollWidth <= node.clientWidth && node.querySelector("th:last-child")?.offsetWidth !== 0;
    if (isWhole || this.view.isBelow) return;
    this.hasWideTable = this.id;
    this.widen(true);
  }

  // A part grows: its end comes in sight if it is followed, and with it the beginning of the result; else the place of the last view.
  keepPlace(node) {
    if (!node.clientHeight) return; // not here yet, or not any more
    const end = of => of.getBoundingClientRect().bottom, last = this.result?.isConnected ? Math.min(end(this.result), end(node) + BEGINNING) : end(node);
    if (this.place.isFollowed) this.node.scrollTop += last - end(this.node) + 8;
    else this.node.scrollTop ||= this.place.top;
  }

  showRun(run) {
    const children = [element("h3", {}, run.name), element("code", {}, run.id)];
    const part = (title, ...inner) => children.push(element("h4", {}, title), ...inner);
    if (run.note) children.push(hint(run.note));
    if (run.error) part("Error", errorElement(run.error));
    if (run.python) children.push(element("p", {}, "in Python: ", element("code", {}, run.python)));
    if (run.how) children.push(element("p", {}, "to continue: ", element("code", {}, run.how)));
    if (run.table) children.push(this.part("table", () => new LaterPart(this.view, "table")));
    if (run.output) part("Output", this.copy({}), valueElement(run.output, this.whole({})));
    if (run.stores.length) part("Stores", ...named("NamedStoreRow", run.stores).map(({ name, about }, number) => this.store(`${name} · ${about}`, number)));
    if (run.input) part("Input", details("input", [valueElement(run.input)], !run.output));
    if (run.dropped.length) part("Failed and dropped", ...named("DroppedRow", run.dropped).map(({ why, times, places }) => failureElement(why, times, places)));
    if (run.warnings.length) part("Warnings", ...run.warnings.map(errorElement));
    if (children.length === 2) children.push(hint("Select a step to see what went in and out."));
    this.put(children);
  }

  // Copies a value as JSON.
  copy(what) {
    const copied = async event => {
      const pressed = event.currentTarget;
      try {
        const { text } = await this.state.request("text", what);
        await navigator.clipboard.writeText(text);
        setText(pressed, "Copied");
      } catch (error) { this.view.inform(navigator.clipboard ? error.message : "this page may not copy: it is neither local nor https"); }
    };
    return button("Copy", copied, { class: "copy", title: "Copy the value as JSON" });
  }

  // Gets all of a text, which a report does not have.
  whole(what) { return this.state.fixed ? null : async () => JSON.parse((await this.state.request("text", what)).text); }

  // A store is fetched when it is opened.
  store(name, number) {
    const node = details(name, [], false);
    node.addEventListener("toggle", async () => {
      if (!node.open || node.children.length > 1) return;
      try { node.append(this.copy({ number }), valueElement(await this.state.request("store", { number }), this.whole({ number }))); }
      catch (error) { node.append(hint(error.message)); }
    });
    return node;
  }

  // The first line. State and counters are those of the row, which an update brings before the kernel is asked.
  head() {
    const { step } = this, { chosen } = this.view, row = this.state.rows[chosen], look = this.state.look(chosen);
    const took = step.attempts ? `${step.worked} in ${number(step.attempts.length)} attempts, ${step.took} from first to last` : step.took;
    const facts = [took, row[Now.counted], step.why].filter(Boolean).join(" · ");
    const color = `color-mix(in srgb, ${look.color} 45%, var(--jp-ui-font-color1, CanvasText))`;
    return element("div", { class: "facts", title: step.id }, element("span", { style: { color, fontWeight: 600 } }, row[Now.words] || `${look.mark} ${look.word}`),
      [facts, step.does, this.within(chosen)].filter(Boolean).map(text => ` · ${text}`).join(""));
  }

  // The steps around this one, by their names.
  within(i) {
    const names = [];
    for (let outer = this.state.parent[i]; outer >= 0; outer = this.state.parent[outer]) if (this.state.isListed(outer)) names.unshift(this.state.nameOf(outer));
    return names.length ? `in ${names.join(" ▸ ")}` : "";
  }

  show(step) {
    this.step = step;
    const children = [element("h3", {}, step.name), this.head(), ...this.view.extras.panelParts(step, this.view.chosen)];
    const part = (title, ...inner) => children.push(element("h4", {}, title), ...inner);
    if (step.error) part("Error", errorElement(step.error));
    if (step.session) part("Conversation", this.part("session", () => new Conversation(this.view, step.session)));
    if (step.input) part("Input", valueElement(step.input));
    for (const [name, text] of step.arriving ?? []) part(`Arriving: ${name}`, element("pre", {}, text));
    if (step.printed) part("Printed", element("pre", {}, step.printed));
    if (step.output) part("Output", this.copy({ step: step.id }), valueElement(step.output, this.whole({ step: step.id })));
    if (step.attempts) part("Attempts", this.attempts(step));
    if (step.evaluates) children.push(this.part("values", () => new LaterPart(this.view, "evaluations", step.id)));
    if (step.many && !step.note) children.push(this.part("calls", () => new CallPages(this, step.id, step.elements, step.evaluates), step.calls));
    if (step.note) children.push(hint(step.note));
    if (step.definition) part([placeElement(`Definition: ${step.definition.name}, line ${step.definition.first}`), " · in Python: ", element("code", {}, step.id)], definitionElement(step.definition));
    this.put(children);
    this.result = step.output && [...this.node.children].findLast(child => child.previousElementSibling?.className === "copy");
    if (this.wanted) this.parts.get("calls")?.openElement(this.wanted);
    this.wanted = null;
  }

  // What is as before stays in the page: to lay out a long table each second is half of the work of a running step, and a
  // button that is taken out of the page between two halves of a click does not hear it.
  put(children) {
    const wished = new Set(children);
    let old = this.node.firstElementChild;
    const drop = () => {
      const next = old.nextElementSibling;
      old.remove();
      old = next;
    };
    for (const child of children) {
      const isThis = () => old === child || old.isEqualNode(child);
      while (old && !isThis() && !wished.has(old)) drop();
      if (old && isThis()) old = old.nextElementSibling; else this.node.insertBefore(child, old);
    }
    while (old) drop();
  }

  // One call of the selected step, by its number.
  openCall(number_) {
    this.parts.get("calls")?.open(number_);
    this.parts.get("calls")?.node.scrollIntoView({ block: "nearest" });
  }

  // Select a step, and show the calls of one of its elements.
  openElement(step, index) {
    this.wanted = index; // until its panel is there
    this.view.choose(step);
  }

  part(name, make, news) {
    const part = this.parts.get(name) ?? make();
    this.parts.set(name, part);
    part.fetch(news);
    return part.node;
  }

  attempts(step) {
    const rows = step.attempts.map(call => ({ bad: call.failed, cells: [call.failed ? "✗ failed" : "✓ ok", String(call.attempt), call.took, call.output] }));
    const shown = table(["", "attempt", "took", "output or error"], rows);
    shown.classList.add("attempts");
    return shown;
  }
}

// Failures with one message: how many, and where.
function failureElement(why, count, places) {
  const more = count > places.length ? ` … and ${number(count - places.length)} more` : "";
  return details(element("span", { class: "bad" }, `${number(count)} × ${why}`), [element("code", {}, places.join(", ") + more)], false);
}

// Messages break between words; the lines of an excerpt keep their columns.
function errorElement(text) {
  const isExcerpt = line => /^\s*\d* \| /.test(line);
  return element("pre", { class: "error" }, text.split("\n").map(line => element("div", isExcerpt(line) ? { class: "excerpt", title: line } : {}, placeElement(line) || "\u00a0")));
}

// A text that names a line of a cell: a link to it. A cell that runs has no number yet.
function placeElement(text) {
  const place = /\bIn\[(\d+)\][^,]*, line (\d+)/.exec(text);
  if (!place || !document.querySelector(".jp-Notebook")) return text;
  const go = event => {
    const prompt = [...document.querySelectorAll(".jp-InputPrompt")].find(node => node.textContent.trim() === `[${place[1]}]:`);
    if (!prompt) return setText(event.target, `${place[0]} (no longer in this notebook)`);
    const cell = prompt.closest(".jp-Cell"), line = cell.querySelectorAll(".cm-line")[place[2] - 1] ?? cell;
    line.scrollIntoView({ block: "center", behavior: "smooth" });
    line.animate([{ background: "#e0a50099" }, { background: "transparent" }], 2500);
  };
  return element("span", {}, text.slice(0, place.index), button(place[0], go, { class: "link", title: "Show this line in its cell" }), text.slice(place.index + place[0].length));
}

function definitionElement({ start, first, last, lines }) {
  return element("pre", { class: "definition", tabindex: 0 }, lines.map((line, k) => {
    const n = start + k, text = `${String(n).padStart(4)}  ${line}`;
    return n >= first && n <= last ? element("mark", {}, text) : element("div", {}, text);
  }));
}

// A part whose script comes when it is shown: the table of a run over a table, the values of a step that only evaluates.
class LaterPart {
  constructor(view, name, ...given) {
    Object.assign(this, { view, name, given, node: element("div") });
  }

  async fetch() {
    try {
      const views = await loadLater(this.view.state);
      this.shown ??= views[this.name](this.view, this.node, ...this.given);
    } catch (error) { return this.node.replaceChildren(hint(error.message)); }
    this.shown.fetch();
  }
}

// The calls of a step that runs several times, page by page, failed ones first; or one of them.
class CallPages {
  constructor(panel, step, hasElements, hasValues) {
    this.panel = panel;
    this.state = panel.state;
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
    this.node = element("div", { class: "calls" }, element("h4", {}, "Calls"), this.search, this.inner);
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
    let page = news?.of === JSON.stringify(this.wish) ? news : null, views;
    try {
      page ??= await this.state.request(byElement ? "elements" : "calls", { step, offset, failed, index, order, text });
      views = byElement && await loadLater(this.state);
    } catch (error) { return this.inner.replaceChildren(hint(error.message)); }
    if (this.isOpen || byElement !== this.byElement) return;
    this.node.hidden = this.hasValues && !page.total && !failed && !index.length && !text;
    this.search.hidden = byElement || this.state.fixed || !text && page.total < SEARCHED_CALLS;
    if (byElement) this.inner.replaceChildren(...views.elements(this, page)); else this.showCalls(page);
  }

  openElement(index) {
    Object.assign(this, { isOpen: false, byElement: false, index, offset: 0, failed: false });
    this.fetch();
    this.node.scrollIntoView({ block: "nearest" });
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

  showCalls(page) {
    const filter = this.failed ? "All" : `Only the ${number(page.failed)} failed`;
    const rows = page.rows.map(call => ({ number: call.number, bad: call.failed, cells: [
      call.at + (call.attempt > 1 ? ` (attempt ${call.attempt})` : ""),
      call.failed ? "✗ failed" : call.what === "finished" ? "✓ ok" : call.what, call.took, call.output, call.input] }));
    const elements = this.hasElements && this.go("By element", "Group the calls by element", { byElement: true, index: [], offset: 0 });
    const only = this.index.length ? element("p", {}, `element #${this.index.join("#")}`) : "";
    const shown = JSON.stringify([this.order, rows]); // of a running step often only the number of all calls changes
    if (shown !== this.shown || !this.listed.isConnected) {
      this.listed = table(this.heads(page.rows.some(call => call.at.includes("#")) ? "element" : "call"), rows, row => this.open(row.number));
      this.listed.classList.add("of-calls"); // beside the steps it is without the inputs, and messages have several lines
    }
    this.shown = shown;
    const tools = element("div", { class: "actions" }, this.pages(page),
      this.failed || page.failed && page.failed < page.total ? this.go(filter, filter, { offset: 0, failed: !this.failed }) : "", elements || "");
    if (this.listed.parentNode === this.inner && !only) this.inner.firstChild.replaceWith(tools);
    else this.inner.replaceChildren(tools, only, this.listed);
    this.panel.fit(this.listed);
  }

  async open(number_) {
    this.isOpen = this.search.hidden = true;
    const back = button("‹ Calls", () => { this.isOpen = false; this.fetch(); });
    try {
      const call = await this.state.request("call", { step: this.step, number: number_ }), views = await loadLater(this.state);
      this.inner.replaceChildren(back, ...views.call(call));
    } catch (error) { return this.inner.replaceChildren(back, errorElement(error.message)); }
    back.focus({ preventScroll: true });
  }
}

// A model's session: who said what.
class Conversation {
  constructor(view, step) {
    this.view = view;
    this.state = view.state;
    this.step = step;
    this.node = element("div");
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
    const who = ["user", "model", "tool"].includes(message.who) ? message.who : "";
    const facts = [message.who, message.name, message.arriving ? "arriving …" : message.took, message.used].filter(Boolean).join(" · ");
    const calls = (message.calls ?? []).map(call => element("div", {}, element("b", {}, `⚙ ${call.tool} `), call.arguments ? valueElement(call.arguments) : ""));
    return element("div", { class: `said ${who}` }, element("small", {}, facts),
      message.thinking ? details("thinking", [element("pre", {}, message.thinking)], Boolean(message.arriving)) : "",
      message.text ? this.reply(message, k) : "", message.error ? errorElement(message.error) : "",
      calls, message.result ? valueElement(message.result) : "");
  }

  // JupyterLab writes the Markdown of a model; elsewhere it is plain text. A reply that arrives keeps its element, which shows what is
  // written until more is, and so does the reply that has arrived.
  reply({ text, who, arriving }, k) {
    const node = this.arriving.get(k) ?? element("div", { class: "markdown" });
    if (arriving) this.arriving.set(k, node); else this.arriving.delete(k);
    const event = new CustomEvent("agf-markdown", { bubbles: true, composed: true, cancelable: true, detail: { text, node, arriving: Boolean(arriving) } });
    const isWritten = who === "model" && !this.view.host.dispatchEvent(event);
    if (!isWritten || !node.firstChild) node.replaceChildren(element("pre", { class: isWritten ? "late" : "" }, text));
    return node;
  }
}
