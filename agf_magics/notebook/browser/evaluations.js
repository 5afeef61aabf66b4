// What a step that only evaluates read and gave: an element, an accumulator, the case of a match. A row opens all of it, as that of a call.

function valuePages({ named, element, button, hint, table, valueElement, errorElement, number }) {
  return class ValuePages {
    constructor(view, node, step, title) {
      Object.assign(this, { view, state: view.state, node, step, title, offset: 0, asked: null });
      this.node.hidden = true;
    }

    // The definition is evaluated for it, so a running step is asked only once.
    async fetch() {
      const { live } = this.state.last, key = `${this.offset} ${live}`;
      if (this.asked === key || this.isOpen) return;
      this.asked = key;
      let page;
      try { page = await this.state.request("evaluations", { step: this.step, offset: this.offset }); }
      catch (error) { return this.node.replaceChildren(hint(error.message)); }
      const found = named("EvaluationRow", page.rows).map(({ numbers, given, case: picked, output, error }) => (
        { given, own: { element: numbers.map(n => `#${n}`).join(""), case: picked, output, error } }));
      const names = [...new Set(found.flatMap(row => row.given.map(([name]) => name)))];
      const heads = ["element", ...names, "case", "output", "error"].filter(name => names.includes(name) || name === "output" || found.some(row => row.own[name]));
      const rows = found.map(({ given, own }, k) => {
        const cells = { ...Object.fromEntries(given), ...own };
        return { number: page.offset + k, own, bad: Boolean(own.error), cells: heads.map(head => cells[head] ?? "") };
      });
      const go = (name, title, offset, off) => button(name, () => { this.offset = offset; this.fetch(); }, { title, "aria-label": title, disabled: off });
      const last = page.offset + rows.length, isPaged = page.total > page.page;
      this.node.hidden = !rows.length || page.total === 1 && !names.length; // the output or the error of the step says all
      const shown = page.whole.length ? this.whole(page.whole, found[0].own.case) : table(heads, rows, this.state.fixed ? null : row => this.open(row));
      this.node.replaceChildren(element("h4", {}, this.title), isPaged ? element("div", { class: "actions" },
        element("span", {}, `${number(page.offset + 1)}–${number(last)} of ${number(page.total)}`),
        go("‹", "Previous page", page.offset - page.page, page.offset === 0), go("›", "Next page", page.offset + page.page, last >= page.total)) : "",
        shown, page.note && !found.some(row => row.own.error === page.note) ? hint(page.note) : ""); // the replay ends with the error of the step
      this.view.panel.fit(shown);
    }

    async open({ number: place, own }) {
      this.isOpen = true;
      const back = button("‹ Values", () => { this.isOpen = false; this.asked = null; this.fetch(); });
      try {
        const { given, case: picked, output, error } = await this.state.request("evaluations", { step: this.step, number: place });
        this.node.replaceChildren(back, element("h3", {}, own.element || "Values"), error ? errorElement(error) : "", ...(output ? [element("h4", {}, "Output"), valueElement(output)] : []), element("h4", {}, this.title), this.whole(given, picked));
      } catch (error) { return this.node.replaceChildren(back, hint(error.message)); }
      back.focus({ preventScroll: true });
    }

    // What one evaluation read, and the case that it picked.
    whole(values, picked) {
      const parts = values.map(([name, value]) => element("div", {}, element("code", {}, name), valueElement(value)));
      return element("div", {}, parts, picked ? element("p", {}, `case: ${picked}`) : "");
    }
  };
}
