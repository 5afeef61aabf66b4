// The views that the explorer loads when they are opened. `base` has its functions for elements and values.

const WAIT = 120; // milliseconds after which a moved slider asks the kernel

export default base => {
  const { Now, named, element, button, hint, table, details, valueElement, number, setText, duration } = base;

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
      this.isShown();
      this.fetch();
    }

    // The button that opened it looks pressed, and says how to close it.
    isShown() {
      const isOpen = !this.place.hidden;
      for (const name of ["aria-expanded", "aria-pressed"]) this.opener?.setAttribute(name, String(isOpen));
      if (this.opener) this.opener.title = isOpen ? "Close the state over time" : "The stores or the state of the run at each moment";
    }

    toggle() {
      this.place.hidden = !this.place.hidden;
      this.isShown();
      if (this.place.hidden) this.paint(); else this.fetch();
    }

    reset() {
      this.at = null;
      this.paint();
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

    // The picture is as it was at the moment; at the last one as the run is.
    paint(then) {
      this.state.then = then && !this.place.hidden ? { rows: Object.fromEntries(then.rows.map(row => [row[Now.number], row])), edges: then.edges } : null;
      for (const view of this.state.views) view.draw?.();
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
      try { found = await this.state.request("moment", { at, since, ...(this.state.fixed ? {} : { rows: true }) }); }
      catch (error) { return this.body.replaceChildren(hint(error.message)); }
      if (at !== this.at) return;
      this.paint(at < this.total - 1 && found.rows && found);
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

  const RowTable = rowTable(base), ValuePages = valuePages(base), Conversation = conversations(base), CallPages = callPages(base, Conversation), lanes = drawsLanes(base);
  return { ...lanes, ...drawsOverview(base), ...tellsOfBoxes(base), calls: (...given) => new CallPages(...given), table: (...given) => new RowTable(...given), evaluations: (...given) => new ValuePages(...given), session: (...given) => new Conversation(...given), time: (...given) => new Time(...given), runs: listsRuns(base), opened };
};
