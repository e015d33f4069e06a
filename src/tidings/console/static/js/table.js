// A table whose rows can be ordered by any column. Rows are kept by key, so that a new figure changes one cell.
// On a phone each row is a card: the style sheet shows `data-label` before each value, and the heads as buttons to sort by.
// Roles are stated because a table that is not displayed as one would lose them.

import { fill, h } from "./dom.js";
import { natural } from "./words.js";

export class Table {
  // columns: [{name, of: row => value, cell: row => node or text, right, class}]
  constructor({ label, columns, key, order, most = 200 }) {
    Object.assign(this, { columns, key, most, rows: [], order: order || { column: 0, down: false } });
    this.heads = columns.map((column, number) => h("th", { scope: "col", role: "columnheader", class: column.right ? "r" : "" },
      h("button", { type: "button", onclick: () => this.#sort(number) }, column.name)));
    this.body = h("tbody", { role: "rowgroup" });
    this.more = h("caption", { class: "sr" }, label);
    this.note = h("p", { class: "muted small" });
    this.note.style.padding = "8px 16px";
    this.element = h("div", null, h("div", { class: "tablebox", tabindex: "0", role: "region", "aria-label": label },
      h("table", { role: "table" }, this.more, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, this.heads)), this.body)), this.note);
    this.shown = new Map();
  }

  #sort(number) {
    const down = this.order.column === number ? !this.order.down : Boolean(this.columns[number].right);
    this.order = { column: number, down };
    this.update(this.rows);
  }

  update(rows) {
    this.rows = rows;
    const of = this.columns[this.order.column].of;
    const sign = this.order.down ? -1 : 1;
    const ordered = [...rows].sort((a, b) => {
      const [one, other] = [of(a), of(b)];
      return sign * (typeof one === "number" && typeof other === "number" ? one - other : natural(String(one), String(other)));
    });
    this.heads.forEach((head, number) => {
      if (number === this.order.column) head.setAttribute("aria-sort", this.order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const seen = new Map();
    const elements = ordered.slice(0, this.most).map((row) => {
      const key = this.key(row);
      const line = this.shown.get(key) || h("tr", { role: "row" }, this.columns.map((column) => h("td", { role: "cell", "data-label": column.name, class: column.class || (column.right ? "r" : "") })));
      this.columns.forEach((column, number) => {
        const cell = column.cell(row);
        const place = line.children[number];
        if (typeof cell === "string") { if (place.textContent !== cell) place.textContent = cell; }
        else fill(place, cell);
      });
      seen.set(key, line);
      return line;
    });
    this.shown = seen;
    if (elements.some((element, number) => this.body.children[number] !== element) || this.body.childElementCount !== elements.length) fill(this.body, elements);
    this.note.hidden = ordered.length <= this.most;
    this.note.textContent = `The first ${this.most} of ${ordered.length} are shown; narrow the search to see others.`;
  }
}
