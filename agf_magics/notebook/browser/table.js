// The table of a run over a table: sorted, filtered, page by page. A row opens its calls, a label is written at once.

function rowTable({ named, element, button, hint, number, ends }) {
  return class RowTable {
    constructor(view, node) {
      Object.assign(this, { view, state: view.state, node, offset: 0, sort: "", down: false, only: "", below: null });
      const again = changes => { Object.assign(this, { ...changes, offset: 0 }); this.fetch(); };
      this.again = again;
      this.filter = element("select", { "aria-label": "Rows that are shown", on: { change: event => again({ only: event.target.value }) } });
      this.most = element("input", { type: "number", step: "any", "aria-label": "Only rows below", on: { keydown: ends, change: event => again({ below: event.target.value === "" ? null : Number(event.target.value) }) } });
      this.bound = element("label", { hidden: true }, "below ", this.most);
      this.where = element("span", { role: "status" });
      this.go = [["‹", "Previous page", -1], ["›", "Next page", 1]].map(([sign, title, by]) =>
        button(sign, () => { this.offset += by * this.page; this.fetch(); }, { title, "aria-label": title }));
      this.body = element("div");
      node.replaceChildren(element("h4", {}, "Rows"), element("div", { class: "actions" }, this.where, this.go, this.filter, this.bound), this.body);
    }

    async fetch() {
      if (this.body.querySelector("input:focus")) return; // a person writes a label
      const { offset, sort, down, only, below } = this;
      let page;
      try { page = await this.state.request("table", { offset, sort, down, only, below }); }
      catch (error) { return this.body.replaceChildren(hint(error.message)); }
      this.offset = page.offset;
      this.page = page.page;
      const last = page.offset + page.rows.length;
      this.where.textContent = `${number(last && page.offset + 1)}–${number(last)} of ${number(page.total)}`;
      this.go[0].disabled = !page.offset;
      this.go[1].disabled = last >= page.total;
      const choices = [["", "all rows"], ["failed", `the ${number(page.failed)} failed`], ...(page.before ? [["changed", `changed since ${page.before}`]] : [])];
      this.filter.replaceChildren(...choices.map(([value, text]) => element("option", { value, selected: value === only }, text)));
      this.bound.hidden = !sort;
      this.bound.firstChild.textContent = `${sort} below `;
      this.show(page);
    }

    show({ columns, rows, note, label: name }) {
      const { fixed } = this.state; // a report has one order, and nothing is written
      const listedColumns = named("ColumnRow", columns);
      const head = listedColumns.map(({ name, text, look }) => fixed ? element("th", { scope: "col", class: look }, text) : element("th", { scope: "col", class: look, "aria-sort": name === this.sort ? (this.down ? "descending" : "ascending") : null },
        button(`${text}${name === this.sort ? (this.down ? " ▾" : " ▴") : ""}`, () => this.by(name), { class: "link", title: `Sort by ${text}` })));
      const listed = named("TableRow", rows);
      // The label is beside the number: it is seen without scrolling.
      const hasLabels = !fixed || listed.some(({ label }) => label), labelled = ([first, ...others], label) => [first, hasLabels ? label : "", ...others];
      const body = listed.map(({ place, isFailed, cells, label }) => element("tr", {}, labelled(cells.map((text, k) => element("td", { title: text, class: [listedColumns[k].look, isFailed && "bad", isFailed && text.length > 30 && "long"].filter(Boolean).join(" ") },
        k || fixed ? text : button(text, () => this.open(place), { class: "link", title: "Show its calls" }))), element("td", {}, fixed ? label : this.labelField(place, label)))));
      this.body.replaceChildren(rows.length ? element("div", { class: "scroll" }, element("table", { class: "rows" }, element("thead", {}, element("tr", {}, labelled(head, element("th", { scope: "col", title: fixed ? null : `A word of yours about a row, such as good or wrong: saved with the run, column ${name} of its table` }, fixed ? name : "your label")))), element("tbody", {}, body)))
        : hint("There is no such row."), note ? hint(note) : "");
      const table = this.body.querySelector(".scroll");
      if (table) this.view.panel.fit(table);
    }

    // The first click sorts, the second turns the order, the third is that of the table.
    by(name) {
      const isSame = name === this.sort;
      this.again(isSame && this.down ? { sort: "", down: false, below: null } : { sort: name, down: isSame });
    }

    labelField(place, label) {
      const field = element("input", { value: label, maxlength: 200, "aria-label": "Label", placeholder: "e.g. good", title: "Saved with the run at once" });
      field.addEventListener("change", async () => {
        try { await this.state.request("label", { place, text: field.value }); field.classList.remove("bad"); field.title = "saved with the run"; }
        catch (error) { field.classList.add("bad"); field.title = error.message; this.view.inform(error.message); }
      });
      field.addEventListener("keydown", ends);
      return field;
    }

    open(place) {
      const step = this.state.byId.get("rows");
      if (step != null) this.view.panel.openElement(step, [place]);
    }
  };
}
