// The quality of organisations' data, dimension by dimension.

import { get } from "../api.js";
import { card, chip, fill, h, nothing } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { ago, clock, count } from "../words.js";

const DIMENSIONS = ["accuracy", "completeness", "currency", "consistency"];

function cell(value) {
  if (value === undefined || value === null) return h("div", { class: "cell muted" }, "–");
  const colour = value >= 0.8 ? "--good-soft" : value >= 0.5 ? "--warn-soft" : "--bad-soft";
  const element = h("div", { class: "cell" }, value.toFixed(3));
  element.style.background = `var(${colour})`;
  return element;
}

function matrix(rows, dimensions) {
  const grid = h("div", { class: "matrix", role: "table", "aria-label": "Quality by property and dimension" });
  grid.style.gridTemplateColumns = `minmax(150px, 1.4fr) repeat(${dimensions.length}, minmax(92px, 1fr))`;
  const line = (cells) => { const row = h("div", { role: "row" }, cells); row.style.display = "contents"; cells.forEach((each) => each.setAttribute("role", each.getAttribute("role") || "cell")); return row; };
  grid.append(line([h("div", { class: "cell head-cell row-cell", role: "columnheader" }, "Property"), ...dimensions.map((name) => h("div", { class: "cell head-cell", role: "columnheader" }, name))]));
  for (const row of rows) grid.append(line([h("div", { class: "cell row-cell" }, row.name), ...dimensions.map((name) => cell(row.values[name]))]));
  return h("div", { class: "tablebox" }, grid);
}

function one(organisation, now) {
  const used = new Set(organisation.rows.flatMap((row) => Object.keys(row.values)));
  const dimensions = [...DIMENSIONS.filter((name) => used.has(name)), ...[...used].filter((name) => !DIMENSIONS.includes(name))];
  const known = organisation.rows.flatMap((row) => Object.values(row.values)).filter((value) => typeof value === "number");
  const mean = known.reduce((sum, value) => sum + value, 0) / Math.max(1, known.length);
  const element = card(organisation.name, h("div", { class: "body" }, matrix(organisation.rows, dimensions), organisation.changes.length > 0 && h("div", null, h("h3", null, "Last changes"),
    h("ul", { class: "feed" }, organisation.changes.slice(-12).reverse().map((change) => h("li", null, h("time", null, change.time ? clock(change.time) : ""), h("i"), h("span", null, change.text)))))),
  organisation.objects ? h("span", { class: "muted small" }, `${count(organisation.objects)} objects`) : null,
  chip(`mean ${mean.toFixed(3)}`, mean >= 0.8 ? "good" : mean >= 0.5 ? "warn" : "bad"), organisation.time ? h("span", { class: "muted small" }, `${ago(organisation.time, now)} ago`) : null);
  element.dataset.organisation = organisation.name;
  return element;
}

export default function quality() {
  const place = h("div", { class: "stack" }, h("p", { class: "muted" }, "Reading the reports…"));
  const poll = polling(() => get("/api/quality"), 5, (answer) => {
    const problems = Object.entries(answer.problems).map(([where, why]) => h("p", { class: "note warn" }, `${where}: ${why}`));
    if (answer.organisations.length) return fill(place, problems, answer.organisations.map((each) => one(each, Date.now() / 1000)));
    fill(place, problems, h("div", { class: "card" }, nothing("quality", "No organisation has reported its quality",
      h("p", null, answer.places.length ? `Nothing was found in ${answer.places.join(", ")}. Measure one:` : "Measure one, and name the place of its report in the broker's settings:"),
      h("pre", null, `tidings quality evaluate inps.toml --json >> quality/inps.jsonl${answer.places.length ? "" : '\n\n[console]\nquality = ["quality"]'}`))));
  }, (problem) => fill(place, trouble(problem)));
  return {
    lead: "How good the data of each organisation is: accuracy, completeness, currency and consistency of each property, from 0 to 1.",
    element: place,
    destroy: poll.stop,
  };
}
