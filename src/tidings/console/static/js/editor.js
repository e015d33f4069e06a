// A filter as it is written: colours, a squiggle under what is wrong, and words that could come next.
// The textarea is the real thing; what is seen stands behind it, letter by letter in the same place.

import { post } from "./api.js";
import { fill, h, say } from "./dom.js";

const TOKEN = /'(?:[^'\\]|\\.|'')*'?|"(?:[^"\\]|\\.|"")*"?|`(?:[^`])*`?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z_][\w.]*|\s+|[^\s\w]/gu;
const WAIT = 180; // milliseconds without a key, after which the filter is looked at
const MOST = 40;

export class Editor {
  constructor({ label, value, words, onchecked, ontyped }) {
    Object.assign(this, { words, onchecked, ontyped, problem: null, offered: [], at: 0, timer: 0, number: 0 });
    this.under = h("div", { class: "under", "aria-hidden": "true" });
    this.list = h("ul", { id: "words", role: "listbox", "aria-label": "Words that could stand here", hidden: true });
    this.says = h("p", { id: "filter-says", class: "small", role: "status" });
    this.area = h("textarea", {
      rows: 3, spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": label, "aria-describedby": "filter-says",
      role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": "words", "aria-haspopup": "listbox",
      oninput: () => this.#typed(), onkeydown: (event) => this.#key(event), onblur: () => this.#close(), onscroll: () => { this.under.scrollTop = this.area.scrollTop; },
    });
    this.area.value = value;
    this.element = h("div", null, h("div", { class: "editor" }, this.under, this.area, this.list), this.says);
    this.says.style.marginTop = "6px";
    this.#draw();
    this.#check();
  }

  get value() {
    return this.area.value;
  }

  destroy() {
    clearTimeout(this.timer);
    this.number += 1;
  }

  #typed() {
    this.problem = null;
    if (this.ontyped) this.ontyped();
    this.#draw();
    this.#offer();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#check(), WAIT);
  }

  async #check() {
    const number = ++this.number;
    const text = this.area.value;
    const answer = text.trim() ? await post("/api/filter", { filter: text }).catch(() => null) : { ok: true, is_always_true: true, normal: "" };
    if (number !== this.number || !answer) return;
    this.problem = answer.ok ? null : answer.problem;
    this.area.setAttribute("aria-invalid", String(!answer.ok));
    this.#draw();
    const problem = this.problem;
    this.says.className = answer.ok && !answer.is_never_true ? "small muted" : "note small " + (answer.ok ? "warn" : "bad");
    say(this.says, problem ? `${problem.line ? `Line ${problem.line}, column ${problem.column}: ` : ""}${problem.detail}${problem.hint ? `. ${problem.hint[0].toUpperCase()}${problem.hint.slice(1)}` : ""}`
      : !text.trim() ? "Without a filter everything is accepted."
      : answer.is_never_true ? "No event can ever be accepted by this."
      : `Normal form: ${answer.normal}`);
    if (this.onchecked) this.onchecked(answer);
  }

  #draw() {
    const text = this.area.value;
    const keywords = new Set(this.words.keywords.flatMap((word) => word.split(" ")));
    const functions = new Set(this.words.functions.map((each) => each.name));
    const parts = [];
    for (const match of text.matchAll(TOKEN)) {
      const word = match[0];
      const start = match.index;
      const upper = word.toUpperCase();
      const kind = /^['"]/.test(word) ? "str" : /^\d/.test(word) ? "numb" : keywords.has(upper) ? "kw" : functions.has(upper) && /^\s*\(/.test(text.slice(start + word.length)) ? "fn" : "";
      const wrong = this.problem && start < this.problem.end && start + word.length > this.problem.offset;
      parts.push(kind || wrong ? h("span", { class: `${kind} ${wrong ? "wrong" : ""}`.trim() }, word) : word);
    }
    fill(this.under, parts, "\n");
  }

  // -- completion

  #word() {
    const before = this.area.value.slice(0, this.area.selectionStart);
    const quotes = (before.match(/'/g) || []).length;
    if (quotes % 2) return null;
    return before.match(/[A-Za-z_][\w.]*$/)?.[0] || "";
  }

  #offer(always = false) {
    const word = this.#word();
    if (word === null || (!word && !always)) return this.#close();
    const begin = word.toLowerCase();
    const found = [
      ...this.words.attributes.map((name) => ({ name, kind: "attribute" })),
      ...this.words.keywords.map((name) => ({ name, kind: "word" })),
      ...this.words.functions.map((each) => ({ name: each.name, kind: `(${each.takes.join(", ")})`, put: `${each.name}(` })),
    ].filter((each) => each.name.toLowerCase().startsWith(begin) && each.name !== word);
    this.offered = found.slice(0, MOST);
    this.at = 0;
    if (!this.offered.length) return this.#close();
    fill(this.list, this.offered.map((each, number) => h("li", {
      id: `word-${number}`, role: "option", "aria-selected": String(number === 0), onmousedown: (event) => { event.preventDefault(); this.#take(number); },
    }, h("span", null, each.name), h("small", null, each.kind))));
    this.#place();
    this.list.hidden = false;
    this.area.setAttribute("aria-expanded", "true");
    this.area.setAttribute("aria-activedescendant", "word-0");
  }

  #place() {
    const copy = this.under.cloneNode();
    copy.style.visibility = "hidden";
    copy.append(this.area.value.slice(0, this.area.selectionStart - (this.#word() || "").length), h("span", null, "."));
    this.under.parentElement.append(copy);
    const [mark, box] = [copy.lastChild.getBoundingClientRect(), copy.getBoundingClientRect()];
    copy.remove();
    this.list.style.left = `${Math.max(0, Math.min(mark.left - box.left - 10, box.width - 200))}px`;
    this.list.style.top = `${mark.bottom - box.top + 4}px`;
  }

  #close() {
    this.list.hidden = true;
    this.offered = [];
    this.area.setAttribute("aria-expanded", "false");
    this.area.removeAttribute("aria-activedescendant");
  }

  #move(by) {
    this.at = (this.at + by + this.offered.length) % this.offered.length;
    [...this.list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === this.at)));
    this.list.children[this.at].scrollIntoView({ block: "nearest" });
    this.area.setAttribute("aria-activedescendant", `word-${this.at}`);
  }

  #take(number) {
    const word = this.#word() || "";
    const end = this.area.selectionStart;
    const chosen = this.offered[number];
    this.area.setRangeText(chosen.put || `${chosen.name} `, end - word.length, end, "end");
    this.#close();
    this.#typed();
    this.#close();
    this.area.focus();
  }

  #key(event) {
    if (event.ctrlKey && event.key === " ") {
      event.preventDefault();
      return this.#offer(true);
    }
    if (this.list.hidden) return;
    const does = { ArrowDown: () => this.#move(1), ArrowUp: () => this.#move(-1), Enter: () => this.#take(this.at), Tab: () => this.#take(this.at), Escape: () => this.#close() }[event.key];
    if (!does) return;
    event.preventDefault();
    does();
  }
}
