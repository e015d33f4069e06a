// A table whose rows can be ordered by any column. Rows are kept by key, so that a new figure changes one cell.
// A cell that looks as before stays, with the keyboard focus in it. What its controls do reads the row of its key, which has
// the newest values. A control that is replaced or moved hands its focus to the one that takes its place.
// On a phone each row is a card: the style sheet shows `data-label` before each value, and the heads as buttons to sort by.
// Roles are stated because a table that is not displayed as one would lose them.

import { fill, h } from "./dom.js";
import { natural } from "./words.js";

const CONTROLS = "a[href], button, input, select, summary";

// Puts the values of a row into the object that the controls of its line have.
function renew(held, row) {
  for (const name of Object.keys(held)) if (!(name in row)) delete held[name];
  Object.assign(held, row);
}

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

  // Moves what is not in its place, and nothing else: an element that is moved loses the focus.
  #order(elements) {
    const wanted = new Set(elements);
    for (const element of [...this.body.children]) if (!wanted.has(element)) element.remove();
    elements.forEach((element, number) => {
      if (this.body.children[number] !== element) this.body.insertBefore(element, this.body.children[number] || null);
    });
  }

  // Where the focus is: the key of the row, the column, and the number of the control in its cell.
  #focused() {
    const control = document.activeElement;
    const place = control && this.body.contains(control) && control.closest("td");
    if (!place) return null;
    const [key] = [...this.shown].find(([, line]) => line.element === place.parentElement) || [];
    return { control, key, column: [...place.parentElement.children].indexOf(place), number: [...place.querySelectorAll(CONTROLS)].indexOf(control) };
  }

  // A row that is gone leaves the focus to the table, where the next Tab goes on.
  #focus({ control, key, column, number }) {
    if (document.activeElement === control) return;
    const line = this.shown.get(key);
    const same = line && line.element.children[column].querySelectorAll(CONTROLS)[number];
    (same || this.element.firstElementChild).focus({ preventScroll: true });
  }

  update(rows) {
    this.rows = rows;
    const focused = this.#focused();
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
      const line = this.shown.get(key) || { row: {}, element: h("tr", { role: "row" }, this.columns.map((column) => h("td", { role: "cell", "data-label": column.name, class: column.class || (column.right ? "r" : "") }))) };
      renew(line.row, row);
      this.columns.forEach((column, number) => {
        const cell = column.cell(line.row);
        const place = line.element.children[number];
        if (typeof cell === "string") { if (place.firstElementChild || place.textContent !== cell) place.textContent = cell; }
        else if (place.childNodes.length !== 1 || !place.firstChild.isEqualNode(cell)) fill(place, cell);
      });
      seen.set(key, line);
      return line.element;
    });
    this.shown = seen;
    this.#order(elements);
    if (focused) this.#focus(focused);
    this.note.hidden = ordered.length <= this.most;
    this.note.textContent = `The first ${this.most} of ${ordered.length} are shown; narrow the search to see others.`;
  }
}
