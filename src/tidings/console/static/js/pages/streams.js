// Flows on Spark: what each batch brought and how long it took.

import { get } from "../api.js";
import { card, chip, fill, h, nothing } from "../dom.js";
import { Plot } from "../plot.js";
import { polling, trouble } from "../poll.js";
import { Table } from "../table.js";
import { ago, clock, count, plural } from "../words.js";

function seconds(value) {
  return value === null || value === undefined ? "–" : value === 0 ? "0" : value < 1 ? `${Math.round(1000 * value)} ms` : `${value.toFixed(1)} s`;
}

function made(flow) {
  const speed = new Plot({
    label: `${flow.flow}: events a second in each batch`, height: 160, area: true, gap: Infinity, end: "last batch",
    series: [{ name: "events a second", colour: "--accent", of: (b) => b.events_per_second ?? 0 }],
  });
  const time = new Plot({
    label: `${flow.flow}: seconds for each batch`, height: 160, unit: seconds, gap: Infinity, end: "last batch",
    series: [{ name: "time for a batch", colour: "--accent-3", of: (b) => b.seconds }],
  });
  const table = new Table({
    label: `Batches of ${flow.flow}`, key: (b) => `${b.time} ${b.batch}`, order: { column: 0, down: true }, most: 8,
    columns: [
      { name: "Batch", right: true, of: (b) => b.batch, cell: (b) => String(b.batch) },
      { name: "Ended", of: (b) => b.time || 0, cell: (b) => (b.time ? clock(b.time) : "–") },
      { name: "Events", right: true, of: (b) => b.events, cell: (b) => count(b.events) },
      { name: "Matches", right: true, of: (b) => b.matches, cell: (b) => count(b.matches) },
      { name: "Problems", right: true, of: (b) => b.problems, cell: (b) => (b.problems ? chip(count(b.problems), "bad") : "0") },
      { name: "Took", right: true, of: (b) => b.seconds, cell: (b) => seconds(b.seconds) },
    ],
  });
  table.note.remove();
  const sums = h("span", { class: "muted small" });
  const fresh = h("span");
  const element = card(`${flow.flow} · ${flow.match}`, h("div", null, h("div", { class: "body grid cols-2" },
    h("div", null, speed.legend, speed.element), h("div", null, time.legend, time.element)), table.element), sums, fresh);
  element.dataset.flow = flow.flow;
  return {
    element,
    update({ batches }) {
      const sum = (name) => batches.reduce((total, each) => total + (each[name] || 0), 0);
      sums.textContent = `${plural(batches.length, "batch").replace("batchs", "batches")}, ${plural(sum("events"), "event")}, ${count(sum("matches"))} matches`;
      const last = batches.at(-1);
      const now = Date.now() / 1000;
      fill(fresh, last && last.time ? chip(`last batch ${ago(last.time, now)} ago`, now - last.time < 60 ? "good" : "warn") : null);
      const drawn = batches.map((each, number) => ({ ...each, time: each.time || number }));
      speed.update(drawn);
      time.update(drawn);
      table.update(batches);
    },
    destroy() { speed.destroy(); time.destroy(); },
  };
}

export default function streams() {
  const place = h("div", { class: "stack" }, h("p", { class: "muted" }, "Reading the progress of flows…"));
  const problems = h("div", { class: "stack" });
  const shown = new Map();
  const poll = polling(() => get("/api/flows"), 2, (answer) => {
    fill(problems, Object.entries(answer.problems).map(([where, why]) => h("p", { class: "note warn" }, `${where}: ${why}`)));
    if (!answer.flows.length) {
      const says = answer.places.length ? "The places that the settings name hold no batch yet." : "Tell the broker where flows write their progress:";
      return fill(place, h("div", { class: "card" }, nothing("streams", "No flow has reported a batch", h("p", null, says),
        !answer.places.length && h("pre", null, '[console]\nflows = ["alerts.jsonl", "http://127.0.0.1:9300/metrics"]'),
        h("p", null, "and run one with"), h("pre", null, "tidings pipeline run alerts.toml --continuous --metrics alerts.jsonl"))));
    }
    for (const flow of answer.flows) {
      const key = `${flow.flow} ${flow.match}`;
      if (!shown.has(key)) shown.set(key, made(flow));
    }
    const elements = [...shown.values()].map((each) => each.element);
    if (elements.some((element) => element.parentElement !== place)) fill(place, elements);
    for (const flow of answer.flows) shown.get(`${flow.flow} ${flow.match}`).update(flow);
  }, (problem) => fill(problems, trouble(problem)));
  return {
    lead: "Structured Streaming as it goes: each batch of each flow, with the events that came, the pairs that matched, and what could not be read.",
    element: h("div", { class: "stack" }, problems, place),
    destroy() { poll.stop(); shown.forEach((each) => each.destroy()); },
  };
}
