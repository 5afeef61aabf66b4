// The views that the explorer loads when they are opened. `base` has its functions for elements and values.

const WAIT = 120; // milliseconds after which a moved slider asks the kernel
const SECOND = 1000;

export default base => {
  const { named, element, button, hint, table, details, valueElement, number, setText, duration } = base;

  // The state of a run over time: a slider, the values at a moment, and what changed since another one.
  class Time {
    constructor(view, place, opener) {
      Object.assign(this, { view, state: view.state, place, opener, at: null, since: "previous", total: 0, took: 0 });
      this.slider = element("input", { type: "range", min: 0, max: 0, "aria-label": "Moment", on: { input: () => this.move(Number(this.slider.value)) } });
      this.where = element("span", { class: "where", role: "status" });
      const choices = { previous: "the moment before", first: "the start", ...(this.state.fixed ? {} : { chosen: "a moment that you keep" }) };
      this.select = element("select", { "aria-label": "Compare with", on: { change: () => this.compare(this.select.value) } },
        Object.entries(choices).map(([value, name]) => element("option", { value }, name)));
      this.go = button("Go on from here", () => this.view.act("rerun", { step: this.next }), { hidden: true, title: "A new run, which has the state of this moment: its later steps run again" });
      this.body = element("div");
      this.note = element("p", { class: "hint" });
      this.place.replaceChildren(
        element("div", { class: "bar-of-time" }, button("‹", () => this.move(this.at - 1), { title: "One moment back", "aria-label": "One moment back" }), this.slider,
          button("›", () => this.move(this.at + 1), { title: "One moment on", "aria-label": "One moment on" }), this.where, this.go),
        element("div", {}, "changes since ", this.select), this.note, this.body);
      opener?.setAttribute("aria-expanded", "true");
      this.fetch();
    }

    toggle() {
      this.place.hidden = !this.place.hidden;
      this.opener.setAttribute("aria-expanded", String(!this.place.hidden));
      if (!this.place.hidden) this.fetch();
    }

    reset() {
      this.at = null;
      if (!this.place.hidden) this.fetch();
    }

    // The run has changed: there may be more moments.
    changed(before) {
      const isDue = before !== this.state.last.status || performance.now() - (this.asked ?? 0) > Math.max(2000, 10 * this.took);
      if (!this.place.hidden && isDue) this.fetch();
    }

    async fetch() {
      this.asked = performance.now();
      const { runId } = this.state;
      let found;
      try { found = await this.state.request("moments"); this.took = performance.now() - this.asked; }
      catch (error) {
        this.total = 0;
        setText(this.where, "");
        this.note.hidden = true;
        return this.body.replaceChildren(hint(error.message));
      }
      if (runId !== this.state.runId) return; // another run is shown by now
      const wasLast = this.at == null || this.at === this.total - 1;
      this.total = found.total;
      this.slider.max = Math.max(0, found.total - 1);
      setText(this.note, found.note);
      this.note.hidden = !found.note;
      if (!found.total) return this.body.replaceChildren(hint("No state is known yet."));
      this.move(wasLast ? found.total - 1 : this.at, true);
    }

    move(at, isNow = false) {
      this.at = Math.max(0, Math.min(this.total - 1, at ?? 0));
      this.slider.value = this.at;
      this.isMoved = !isNow;
      clearTimeout(this.due);
      this.due = setTimeout(() => this.show(), isNow ? 0 : WAIT);
    }

    compare(how) {
      this.since = how;
      if (how === "chosen") {
        this.kept = this.at;
        this.select.lastElementChild.textContent = `moment ${number(this.at + 1)}`;
      }
      this.show();
    }

    async show() {
      const { at } = this, since = { previous: Math.max(0, at - 1), first: 0, chosen: Math.min(this.kept ?? 0, this.total - 1) }[this.since];
      let found;
      try { found = await this.state.request("moment", { at, since }); }
      catch (error) { return this.body.replaceChildren(hint(error.message)); }
      if (at !== this.at) return;
      setText(this.where, `moment ${number(at + 1)} of ${number(this.total)} · ${at ? "after " : ""}${found.label}${found.took ? ` · ${found.took}` : ""}`);
      this.next = found.next;
      this.go.hidden = !found.next || !this.state.last.can?.includes("rerun");
      // The step of the moment lights up in the picture and the tree.
      const row = this.state.byId?.get(found.step);
      if (this.isMoved && row != null) this.view.choose(row);
      const rows = named("DifferenceRow", found.differs).map(({ path, first, other }) => ({ cells: [path, first, other] }));
      this.body.replaceChildren(
        rows.length ? table(["value", `at moment ${number(since + 1)}`, "now"], rows) : hint(at === since ? "" : "Nothing changed."),
        found.isMore ? hint("… and more differences") : "",
        ...named("StoreRow", found.values).map(({ name, about, value, isNew }) => details(`${name} · ${about}`, [valueElement(value)], isNew)),
        found.more ? hint(`… ${number(found.more)} more values`) : "");
    }
  }

  // A cell below this one makes the call: the extension of JupyterLab adds it, otherwise its text is shown.
  function opened(view, { code, note, name }) {
    const event = new CustomEvent("agf-open-cell", { bubbles: true, composed: true, cancelable: true, detail: { code } });
    view.host.dispatchEvent(event);
    const where = event.defaultPrevented ? "A new cell below makes the call." : "Run this in a cell to make the call:";
    const text = event.defaultPrevented ? "" : element("pre", {}, code);
    view.inform(`The variable ${name} has the arguments. ${where}${note ? ` Note: ${note}` : ""}`, text);
  }

  // How long ago a run began; a date that is older is as it is written.
  function ago(seconds) {
    const past = Date.now() / 1e3 - seconds, [unit, size] = [["s", 1], ["min", 60], ["h", 3600], ["d", 86400]].findLast(([, one]) => past >= one) ?? ["s", 1];
    return past > 7 * 86400 ? "" : `${number(Math.max(1, Math.floor(past / size)))} ${unit} ago`;
  }

  // The list of runs: an id opens the explorer of the run below the list, two checked runs are compared.
  class RunsPage {
    constructor(view, place) {
      Object.assign(this, { state: view.state, host: view.host, place, chosen: [], open: null });
      this.compare = button("Compare", () => this.showDifference(), { title: "Compare the two runs that are checked" });
      this.below = element("div", { class: "difference" });
      this.list = element("div");
      place.replaceChildren(this.list, this.below, element("slot", { name: "run" }));
      this.show(this.state.start.list);
      place.addEventListener("pointerenter", () => this.refresh());
      this.clock = setInterval(() => this.tick(), SECOND);
    }

    // The times of a list go on, and so do the runs.
    tick() {
      if (!this.isInSight()) return;
      for (const [node, began, text] of this.times) setText(node, ago(began) || text);
      this.isOld ||= this.shown.goes_on;
      this.catchUp();
    }

    isInSight() {
      const { top, bottom } = this.place.getBoundingClientRect();
      return this.place.isConnected && !document.hidden && bottom > 0 && top < innerHeight;
    }

    // Something has happened. Out of sight, the list waits until a person comes.
    refresh() {
      this.isOld = true;
      this.catchUp();
    }

    // The page that is shown, as it is now. A kernel that is busy answers later, or not: then the list stays.
    async catchUp() {
      if (!this.isOld || this.isAsking || !this.isInSight()) return;
      this.isAsking = true;
      this.isOld = false;
      const { first } = this.shown;
      try {
        const list = await this.state.request("list", { first });
        if (first === this.shown.first && JSON.stringify(list) !== JSON.stringify(this.shown)) this.show(list, this.chosen);
      } catch { /* it is asked again */ } finally { this.isAsking = false; }
    }

    // `chosen`: the runs that are checked, if they are here.
    show(list, chosen = []) {
      const { columns, rows, failed, started, first, most, total } = this.shown = list, last = first + rows.length, when = columns.indexOf("started") - 1;
      const flexible = new Set(["error", "input"]); // share the room that is left, and are cut
      this.chosen = chosen.filter(id => rows.some(([listed]) => listed === id));
      this.times = [];
      const time = (k, text) => {
        const node = element("span", {}, ago(started[k]) || text);
        this.times.push([node, started[k], text]);
        return node;
      };
      const go = (sign, title, to, off) => button(sign, () => this.ask("list", { first: to }, found => this.show(found)), { title, "aria-label": title, disabled: off });
      const pages = rows.length < total ? [go("‹", "Previous page", Math.max(0, first - most), !first), go("›", "Next page", last, last >= total)] : [];
      const head = element("tr", {}, element("td"), columns.map(name => element("th", { scope: "col" }, name)));
      const body = rows.map(([id, ...cells], k) => element("tr", {},
        element("td", {}, element("input", { type: "checkbox", checked: this.chosen.includes(id), "aria-label": `Compare ${id}`, on: { change: event => this.choose(id, event.target) } })),
        element("td", {}, button(id, () => this.toggle(id), { class: "link", title: "Open its explorer", "aria-expanded": "false" })),
        cells.map((text, n) => element("td", { class: [failed[k] && /^✗/.test(text) && "bad", flexible.has(columns[n + 1]) && "flexible"].filter(Boolean).join(" "), title: text },
          n === when ? time(k, text) : flexible.has(columns[n + 1]) ? element("div", { class: "two" }, text) : text))));
      this.list.replaceChildren(
        element("div", { class: "actions" }, element("span", {}, `${number(first + 1)}–${number(last)} of ${number(total)} run${total === 1 ? "" : "s"}`), pages, this.compare),
        element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, body))));
      this.choose();
      this.markOpen();
    }

    async ask(name, given, use) {
      try { use(await this.state.request(name, given)); }
      catch (error) { this.below.replaceChildren(element("p", { class: "bad" }, error.message)); }
    }

    choose(id, box) {
      if (box) this.chosen = box.checked ? [...this.chosen, id] : this.chosen.filter(other => other !== id);
      this.compare.disabled = this.chosen.length !== 2;
    }

    // One explorer at a time: the one before is closed.
    toggle(id) {
      const { open } = this;
      this.open = null;
      open?.host.remove();
      if (open?.mark) this.state.request("close", { mark: open.mark }).catch(() => {});
      if (open?.id === id) return this.markOpen();
      const host = element("div", { slot: "run" }), now = this.open = { id, host };
      this.host.append(host);
      this.markOpen();
      this.ask("open", { run: id }, ({ mark }) => {
        now.mark = mark;
        host.className = `agf-run ${mark}`;
        if (this.open !== now) this.state.request("close", { mark }).catch(() => {});
        else this.host.append(host); // the page looks again
      });
    }

    // The row of the run that is open below the list is a chosen row.
    markOpen() {
      for (const link of this.list.querySelectorAll(".link")) {
        const isOpen = link.textContent === this.open?.id;
        link.setAttribute("aria-expanded", String(isOpen));
        const row = link.closest("tr");
        if (isOpen) row.setAttribute("aria-current", "true");
        else row.removeAttribute("aria-current");
      }
    }

    showDifference() {
      this.below.replaceChildren(hint("…"));
      // The older run is the first one: the list has the latest at the top.
      const order = [...this.list.querySelectorAll(".link")].map(link => link.textContent);
      const runs = [...this.chosen].sort((a, b) => order.indexOf(b) - order.indexOf(a));
      this.ask("compare", { runs }, found => this.below.replaceChildren(...this.difference(found)));
    }

    difference({ runs, steps, uncalled, values, title, isCut, definitions }) {
      const [one, two] = named("ComparedRunRow", runs).map(({ id, took }) => ({ id, words: `${id} · ${took}` }));
      const both = named("ComparedStepRow", steps), most = Math.max(1e-9, ...both.flatMap(({ seconds, otherSeconds }) => [seconds, otherSeconds]));
      const bar = (seconds, cost, calls, reused, which) => element("div", { class: `bar ${which}` },
        calls ? element("u", { style: { width: `${seconds / most * 55}%` } }) : "", element("span", {}, calls ? [duration(seconds), cost, reused].filter(Boolean).join(" · ") : "not called"));
      const rows = both.map(({ name, step, differs, seconds, otherSeconds, cost, otherCost, calls, otherCalls, reused, otherReused }) => element("tr", {},
        element("th", { scope: "row", title: step }, name || step, both.filter(({ name: other }) => other === name).length > 1 ? element("small", {}, ` ${step}`) : ""),
        element("td", {}, differs === "yes" ? "≠ differs" : differs || "= same"),
        element("td", { class: "bars" }, bar(seconds, cost, calls, reused, "first"), bar(otherSeconds, otherCost, otherCalls, otherReused, "other"))));
      const parts = named("ComparedValueRow", values).map(({ name, first, other }) => element("tr", {}, element("th", { scope: "row" }, name), [first, other].map(text => element("td", {}, element("pre", {}, text || "—")))));
      const headed = (titles, body) => element("table", { class: "sides" }, element("thead", {}, element("tr", {}, titles.map(title => element("th", { scope: "col" }, title)))), element("tbody", {}, body));
      return [
        element("h3", {}, "Comparison"), element("p", {}, element("span", { class: "key first" }, one.words), " ", element("span", { class: "key other" }, two.words)),
        rows.length ? headed(["step", "result", "time and cost"], rows) : hint("Neither run made a call."), uncalled ? hint(`Without calls, so without figures: ${uncalled}. Their values are compared where the output or a store has them.`) : "",
        element("h4", {}, title), values.length ? headed(["value", one.id, two.id], parts) : "", isCut ? hint("… and more") : "",
        element("h4", {}, definitions ? "Definitions that differ" : "The definitions are the same"),
        definitions ? element("pre", { class: "definition", tabindex: 0 }, definitions.split("\n").map(line => element("div", { class: { "+": "added", "-": "removed" }[line[0]] }, line || " "))) : ""];
    }
  }

  const RowTable = rowTable(base), ValuePages = valuePages(base), Conversation = conversations(base), CallPages = callPages(base), lanes = drawsLanes(base);
  return { ...lanes, calls: (...given) => new CallPages(...given), table: (...given) => new RowTable(...given), evaluations: (...given) => new ValuePages(...given), session: (...given) => new Conversation(...given), time: (...given) => new Time(...given), runs: (...given) => new RunsPage(...given), opened };
};
