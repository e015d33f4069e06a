// Figures of the past hours and days, as each broker kept them beside its store, one row a minute.

import { get } from "../api.js";
import { linked } from "../acting.js";
import { card, fill, h } from "../dom.js";
import { Plot } from "../plot.js";
import { polling, trouble } from "../poll.js";
import { count } from "../words.js";

const SPANS = [["1", "an hour"], ["6", "6 hours"], ["24", "a day"], ["72", "3 days"]];
const COUNTERS = ["published", "delivered", "lost"];
const LEVELS = ["waiting", "entries", "connections", "dead letters", "store bytes"];

// One series of all brokers together: counters as so many a second, levels added up, by minute.
export function joined(brokers) {
  const minutes = new Map();
  for (const rows of Object.values(brokers)) {
    rows.forEach((row, number) => {
      const minute = Math.round(row.time / 60);
      const sum = minutes.get(minute) || { time: minute * 60 };
      for (const name of LEVELS) if (row[name] !== undefined) sum[name] = (sum[name] || 0) + row[name];
      const last = rows[number - 1];
      if (last && row.time > last.time) {
        for (const name of COUNTERS) {
          const grown = row[name] >= last[name] ? row[name] - last[name] : row[name];
          sum[name] = (sum[name] || 0) + grown / (row.time - last.time);
        }
      }
      minutes.set(minute, sum);
    });
  }
  return [...minutes.values()].sort((a, b) => a.time - b.time);
}

export default function past({ asking }) {
  let hours = SPANS.some(([value]) => value === asking.get("hours")) ? asking.get("hours") : "24";
  const problems = h("div", { class: "stack" });
  const choose = h("select", { "aria-label": "How far back", onchange: () => { hours = choose.value; linked("history", { hours }); poll.again(); } },
    SPANS.map(([value, text]) => h("option", { value, selected: value === hours }, text)));
  const of = (name) => (row) => (row[name] === undefined ? null : row[name]);
  const made = (label, names, more) => new Plot({ label, gap: 3600, height: 180, ...more, series: names.map(([name, colour]) => ({ name, colour, of: of(name) })) });
  const plots = [
    ["Events a second", made("Events a second", [["delivered", "--accent"], ["published", "--accent-3"], ["lost", "--accent-2"]], { area: true })],
    ["Waiting for subscribers", made("Notifications that wait", [["waiting", "--accent"]], { area: true, whole: true })],
    ["Kept in the logs", made("Events in the logs", [["entries", "--accent-2"]], { area: true, whole: true })],
    ["Bytes of the stores", made("Bytes of the stores", [["store bytes", "--accent-2"]], { area: true, unit: count })],
    ["Clients and dead letters", made("Clients and dead letters", [["connections", "--accent"], ["dead letters", "--accent-3"]], { whole: true })],
  ];
  const note = h("span", { class: "muted small", role: "status" });
  const poll = polling(() => get("/api/past", { hours }), 30, (answer) => {
    const rows = joined(answer.brokers);
    fill(problems, Object.entries(answer.problems).map(([broker, why]) => h("p", { class: "note warn" }, `${broker}: ${why}`)));
    note.textContent = `${rows.length} rows of ${Object.keys(answer.brokers).length} brokers`;
    note.dataset.rows = rows.length;
    for (const [, plot] of plots) plot.update(rows);
  }, (problem) => fill(problems, trouble(problem)));

  return {
    lead: "Each broker keeps a row a minute for three days beside its store, also over restarts. For longer, and by broker: Prometheus.",
    element: h("div", { class: "stack" }, problems, h("div", { class: "row" }, h("label", { class: "inline" }, h("span", null, "How far back"), choose), note),
      plots.map(([title, plot]) => card(title, h("div", { class: "body" }, plot.element), plot.legend))),
    destroy() { poll.stop(); plots.forEach(([, plot]) => plot.destroy()); },
  };
}
