// The list of runs: its fields filter all pages, an id opens the explorer of its run, two checked runs are compared. And a
// comparison alone, as `%runs RUN --compare OTHER` shows it.

const SECOND = 1000;
const NEVER_CUT = 26; // characters of a text that is never cut

function listsRuns({ named, element, button, hint, number, setText, duration, ends }) {
  // How long ago a run began; a date that is older is as it is written.
  function ago(seconds) {
    const past = Date.now() / 1e3 - seconds, [unit, size] = [["s", 1], ["min", 60], ["h", 3600], ["d", 86400]].findLast(([, one]) => past >= one) ?? ["s", 1];
    return past > 7 * 86400 ? "" : `${number(Math.max(1, Math.floor(past / size)))} ${unit} ago`;
  }

  // How two runs differ.
  class Comparing {
    // What differs between two tables: the rows that differ, whole. A cell that differs has both texts, below each other as in a text.
    changes({ about, columns, rows, more }) {
      const look = sign => ({ "+": "added", "-": "removed" })[sign];
      const both = ([mine, theirs]) => theirs == null ? mine : [element("del", { class: "removed" }, mine), " → ", element("ins", { class: "added" }, theirs)];
      return [element("div", {}, about), !rows.length ? "" : element("div", { class: "scroll" }, element("table", {},
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "row"), columns.map(([name, sign]) => element("th", { scope: "col", class: look(sign) }, sign ? `${sign} ${name}` : name)))),
        element("tbody", {}, rows.map(({ sign, number: place, cells }) => element("tr", { class: look(sign) }, element("td", { class: "index" }, `${sign && `${sign} `}${place}`),
          cells.map((texts, k) => element("td", { class: look(columns[k][1]), title: texts.join(" → ") }, both(texts)))))))), more ? hint(`… and ${more}`) : ""];
    }

    difference({ runs, steps, edited, uncalled, values, title, isCut, definitions }) {
      const [one, two] = named("ComparedRunRow", runs).map(({ id, took }) => ({ id, words: `${id} · ${took}` }));
      const both = named("ComparedStepRow", steps), most = Math.max(1e-9, ...both.flatMap(({ seconds, otherSeconds }) => [seconds, otherSeconds]));
      const bar = (seconds, cost, calls, reused, which) => element("div", { class: `bar ${which}` },
        calls ? element("u", { style: { width: `${seconds / most * 55}%` } }) : "", element("span", {}, calls ? [duration(seconds), cost, reused].filter(Boolean).join(" · ") : "not called"));
      const same = both.filter(({ differs }) => !differs).length, rows = both.map(({ name, step, differs, seconds, otherSeconds, cost, otherCost, calls, otherCalls, reused, otherReused }) => element("tr", { class: differs ? "" : "same" },
        element("th", { scope: "row", title: step }, name || step, both.filter(({ name: other }) => other === name).length > 1 ? element("small", {}, ` ${step}`) : ""),
        element("td", {}, differs === "yes" ? "≠ differs" : differs || "= same"),
        element("td", { class: "bars" }, bar(seconds, cost, calls, reused, "first"), bar(otherSeconds, otherCost, otherCalls, otherReused, "other"))));
      const parts = named("ComparedValueRow", values).map(({ name, first, other, table: its }) => element("tr", {}, element("th", { scope: "row" }, name),
        its ? element("td", { colspan: 2, class: "changes" }, this.changes(its)) : [first, other].map(text => element("td", {}, element("pre", {}, text || "—")))));
      const headed = (titles, body) => element("table", { class: "sides" }, element("thead", {}, element("tr", {}, titles.map(title => element("th", { scope: "col" }, title)))), element("tbody", {}, body));
      const sides = headed(["step", "result", "time and cost"], rows), choose = () => sides.classList.toggle("all", all.checked);
      const all = element("input", { type: "checkbox", checked: same === both.length, on: { change: choose } });
      choose();
      // What differs comes first; the steps that are the same are shown on request.
      return [
        button("Close", () => this.below.replaceChildren(), { class: "close", title: "Close the comparison" }), element("h3", {}, "Comparison"), element("p", {}, element("span", { class: "key first" }, one.words), " ", element("span", { class: "key other" }, two.words)),
        edited ? element("p", { class: "badge" }, `Between the runs: ${edited}`) : "", element("h4", {}, title), values.length ? headed(["value", one.id, two.id], parts) : "", isCut ? hint("… and more") : "",
        element("h4", {}, definitions ? "Definitions that differ" : "The definitions are the same"),
        definitions ? element("pre", { class: "definition", tabindex: 0 }, definitions.split("\n").map(line => element("div", { class: { "+": "added", "-": "removed" }[line[0]] }, line || " "))) : "",
        element("h4", {}, "Steps"), same ? element("label", {}, all, ` also ${number(same)} step${same === 1 ? "" : "s"} whose result is the same`) : "",
        rows.length ? sides : hint("Neither run made a call."), uncalled ? hint(`Without calls, so without figures: ${uncalled}. Their values are compared where the output or a store has them.`) : ""];
    }
  }

  // The list of runs, with the fields that filter all its pages: an id opens the explorer of the run below its row, two checked runs are
  // compared above the list.
  class RunsPage extends Comparing {
    constructor(view, place) {
      super();
      Object.assign(this, { state: view.state, host: view.host, place, chosen: [], open: null, first: 0, asked: 0 });
      const changed = () => { clearTimeout(this.due); this.due = setTimeout(() => this.go(0), WAIT); };
      this.text = element("input", { type: "search", "aria-label": "Filter runs", placeholder: "Filter: flow, id, input, error", title: "Only runs with all these words in the id, the name, the state, the note, the error or the input; like --text", on: { input: changed, keydown: ends } });
      this.status = element("select", { "aria-label": "Status", title: "Only runs with this status; like --status", on: { change: () => this.go(0) } },
        element("option", { value: "" }, "any status"), this.state.start.list.statuses.map(word => element("option", {}, word)));
      this.count = element("span", { role: "status" });
      const turn = (sign, title, to) => button(sign, () => this.go(to()), { title, "aria-label": title });
      this.back = turn("‹", "Previous page", () => Math.max(0, this.shown.first - this.shown.most));
      this.on = turn("›", "Next page", () => this.shown.first + this.shown.most);
      this.compare = button("Compare", () => this.showDifference(), { title: "Compare the two runs that are checked" });
      this.below = element("div", { class: "difference" });
      this.head = element("thead");
      this.body = element("tbody");
      this.inside = element("tr", { class: "inside" }, element("td", { colspan: 20 }, element("div", {}, button("Close", () => this.toggle(this.open.id), { title: "Close the explorer of this run" }), element("slot", { name: "run" }))));
      place.replaceChildren(element("style", {}, RUNS_STYLE),
        element("div", { class: "actions" }, this.text, this.status, this.count, this.back, this.on, this.compare), this.below,
        element("div", { class: "scroll of-runs" }, element("table", {}, this.head, this.body)));
      this.show(this.state.start.list);
      place.addEventListener("pointerenter", () => this.refresh());
      place.addEventListener("keydown", event => this.key(event));
      this.clock = setInterval(() => this.tick(), SECOND);
    }

    // Escape closes what is open around the focus, which goes back.
    key(event) {
      const from = event.composedPath();
      if (event.key !== "Escape") return;
      if (this.below.hasChildNodes() && (from.includes(this.below) || from.includes(this.compare))) {
        this.below.replaceChildren();
        this.compare.focus();
      } else if (this.open && from.includes(this.inside)) this.toggle(this.open.id);
      else return;
      event.stopPropagation();
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

    // The part of the list that the fields and the page ask for.
    get wanted() { return { first: this.first, status: this.status.value, text: this.text.value }; }

    go(first) {
      this.first = first;
      const number = ++this.asked;
      this.ask("list", this.wanted, list => number === this.asked && this.show(list, this.chosen));
    }

    // The page that is shown, as it is now. A kernel that is busy answers later, or not: then the list stays.
    async catchUp() {
      if (!this.isOld || this.isAsking || !this.isInSight()) return;
      this.isAsking = true;
      this.isOld = false;
      const number = this.asked;
      try {
        const list = await this.state.request("list", this.wanted);
        if (number === this.asked && JSON.stringify(list) !== JSON.stringify(this.shown)) this.show(list, this.chosen);
      } catch { /* it is asked again */ } finally { this.isAsking = false; }
    }

    // `chosen`: the runs that are checked, if they are here.
    show(list, chosen = []) {
      const { columns, rows, failed, started, first, most, total, of } = this.shown = list, last = first + rows.length, when = columns.indexOf("started") - 1;
      // Long texts share the room that is left, and are cut.
      const flexible = new Set(columns.filter((name, n) => ["error", "input", "note"].includes(name) && rows.some(row => row[n].length > NEVER_CUT)));
      this.first = first;
      this.chosen = chosen.filter(id => rows.some(([listed]) => listed === id));
      this.times = [];
      const time = (k, text) => {
        const node = element("span", {}, ago(started[k]) || text);
        this.times.push([node, started[k], text]);
        return node;
      };
      const part = total ? `${number(first + 1)}–${number(last)} of ${number(total)} run${total === 1 ? "" : "s"}` : "no run fits";
      setText(this.count, total < of ? `${part} (${number(of)} in all)` : part);
      this.back.hidden = this.on.hidden = rows.length >= total;
      this.back.disabled = !first;
      this.on.disabled = last >= total;
      this.head.replaceChildren(rows.length ? element("tr", {}, element("td"), columns.map(name => element("th", { scope: "col" }, name))) : "");
      this.put(rows, ([id, ...cells], k) => element("tr", {},
        element("td", {}, element("input", { type: "checkbox", name: `check ${id}`, checked: this.chosen.includes(id), "aria-label": `Compare ${id}`, on: { change: event => this.choose(id, event.target) } })),
        element("td", {}, button(id, () => this.toggle(id), { class: "link", name: `open ${id}`, title: "Open its explorer", "aria-expanded": "false" })),
        cells.map((text, n) => element("td", { class: [failed[k] && /^✗/.test(text) && "bad", flexible.has(columns[n + 1]) && "flexible"].filter(Boolean).join(" "), title: text },
          n === when ? time(k, text) : flexible.has(columns[n + 1]) ? element("div", { class: "two" }, text) : text))));
      this.choose();
      this.markOpen();
    }

    // New rows. What has the focus keeps it. The row with the open explorer is not moved: that would lose what is scrolled in it.
    put(rows, row) {
      const { activeElement } = this.place.getRootNode(), focused = this.body.contains(activeElement) ? activeElement.name : "";
      const made = rows.map(row), { inside, open } = this, at = rows.findIndex(([id]) => id === open?.id) + 1 || rows.length;
      for (const old of [...this.body.children]) if (old !== inside || !open) old.remove();
      if (open && !inside.isConnected) this.body.append(inside);
      if (open) { inside.before(...made.slice(0, at)); inside.after(...made.slice(at)); } else this.body.append(...made);
      if (focused) this.body.querySelector(`[name="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }

    async ask(name, given, use) {
      try { use(await this.state.request(name, given)); }
      catch (error) { this.below.replaceChildren(element("p", { class: "bad" }, error.message)); }
    }

    choose(id, box) {
      if (box) this.chosen = box.checked ? [...this.chosen, id] : this.chosen.filter(other => other !== id);
      this.compare.disabled = this.chosen.length !== 2;
    }

    linkOf(id) { return this.body.querySelector(`[name="${CSS.escape(`open ${id}`)}"]`); }

    // One explorer at a time: the one before is closed.
    toggle(id) {
      const { open } = this;
      this.open = null;
      this.inside.remove();
      open?.host.remove();
      if (open?.mark) this.state.request("close", { mark: open.mark }).catch(() => {});
      if (open?.id === id) {
        this.markOpen();
        this.linkOf(id)?.focus({ preventScroll: true });
        return (this.linkOf(id) ?? this.text).scrollIntoView({ block: "nearest" });
      }
      const host = element("div", { slot: "run" }), now = this.open = { id, host }, row = this.linkOf(id).closest("tr");
      row.after(this.inside);
      this.host.append(host);
      this.markOpen();
      // Where the explorer does not fit below the row, the row moves to the top.
      const grown = new ResizeObserver(() => {
        if (!host.offsetHeight) return;
        grown.disconnect();
        if (this.inside.getBoundingClientRect().bottom > innerHeight) this.linkOf(id)?.closest("tr").scrollIntoView();
      });
      grown.observe(host);
      this.ask("open", { run: id }, ({ mark }) => {
        now.mark = mark;
        host.className = `agf-run ${mark}`;
        if (this.open !== now) this.state.request("close", { mark }).catch(() => {});
        else this.host.append(host); // the page looks again
      });
    }

    // The row above the open explorer is a chosen row.
    markOpen() {
      for (const link of this.body.querySelectorAll(".link")) {
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
      const order = [...this.body.querySelectorAll(".link")].map(link => link.textContent);
      const runs = [...this.chosen].sort((a, b) => order.indexOf(b) - order.indexOf(a));
      this.ask("compare", { runs }, found => this.below.replaceChildren(...this.difference(found)));
    }
  }

  // A comparison that has an output of its own.
  class ComparisonPage extends Comparing {
    constructor(view, place) {
      super();
      place.parentNode.ariaLabel = "Comparison";
      const [, ...parts] = this.difference(view.state.start.list.compared); // without the button that closes it
      place.replaceChildren(element("style", {}, RUNS_STYLE), element("div", { class: "difference whole" }, parts));
    }
  }

  return (view, ...given) => new (view.state.start.list.compared ? ComparisonPage : RunsPage)(view, ...given);
}
