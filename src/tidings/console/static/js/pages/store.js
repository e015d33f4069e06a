// What can still be delivered to newcomers: the logs of all brokers, and the newest events of this one's.

import { get } from "../api.js";
import { actButton, administer, linked } from "../acting.js";
import { card, chip, fill, h, nothing, say } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { Table } from "../table.js";
import { tiles } from "../tiles.js";
import { clock, count } from "../words.js";

function lifetime({ lifetime: value }) {
  return value === "forever" ? "forever" : value ? `${value} s` : "owed";
}

function attributes(event) {
  return Object.entries(event.attributes).map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`).join("  ");
}

export default function store({ live, session, asking }) {
  const top = tiles(["entries", "published", "forgotten", "dead"]);
  const brokers = new Table({
    label: "Logs of the brokers", key: (row) => row.name,
    columns: [
      { name: "Broker", of: (r) => r.name, cell: (r) => r.name },
      { name: "In its log", right: true, of: (r) => r.levels.entries || 0, cell: (r) => h("div", null, count(r.levels.entries), bar(r.levels.entries || 0)) },
      { name: "Kept so far", right: true, of: (r) => r.levels.kept || 0, cell: (r) => count(r.levels.kept) },
      { name: "Forgotten", right: true, of: (r) => r.levels.forgotten || 0, cell: (r) => count(r.levels.forgotten) },
      { name: "Reading behind", right: true, of: (r) => r.levels.reading || 0, cell: (r) => count(r.levels.reading) },
      { name: "Dead letters", right: true, of: (r) => r.levels["dead letters"] || 0, cell: (r) => count(r.levels["dead letters"]) },
    ],
  });
  const entries = new Table({
    label: "Available events", key: (row) => String(row.offset), order: { column: 0, down: true },
    columns: [
      { name: "Offset", right: true, of: (r) => r.offset, cell: (r) => String(r.offset) },
      { name: "Accepted", of: (r) => r.accepted, cell: (r) => clock(r.accepted) },
      { name: "Event", of: (r) => r.event.id, cell: (r) => h("a", { href: `#/try?trace=${encodeURIComponent(r.event.id)}&source=${encodeURIComponent(r.event.source)}` }, r.event.id) },
      { name: "Topic", of: (r) => r.event.topic || "", cell: (r) => r.event.topic || "–" },
      { name: "Attributes", of: (r) => attributes(r.event), cell: (r) => attributes(r.event), class: "filter" },
      { name: "Lifetime", of: (r) => lifetime(r.event), cell: (r) => chip(lifetime(r.event)) },
    ],
  });
  const place = h("div", null, h("div", { class: "body muted" }, "Reading the log…"));
  const range = h("span", { class: "muted small", role: "status" });
  const filter = h("input", { class: "search mono", value: asking.get("filter") || "", placeholder: "e.g. change < -3", "aria-label": "Only events that this filter accepts", oninput: () => { linked("store", { filter: filter.value }); clearTimeout(wait); wait = setTimeout(() => poll.again(), 350); } });
  let most = 1, wait = 0;
  const wanted = () => filter.value.trim() || "TRUE";
  const purge = session.may.admin && actButton(session, "Purge…", {
    title: "Purge the events of this broker's log that the filter accepts",
    question: "Purge events of this broker's log?",
    detail: async () => {
      const answer = await administer(session.broker, { do: "purge", filter: wanted(), dry: true });
      return `${answer.matches} events of ${session.broker} match ${wanted()}. They end for every reader, also for durable subscriptions that are owed them.`;
    },
    act: () => administer(session.broker, { do: "purge", filter: wanted() }), done: () => poll.again(),
  });

  function bar(value) {
    const inside = h("i");
    inside.style.width = `${Math.round((100 * value) / most)}%`;
    return h("span", { class: "bar", "aria-hidden": "true" }, inside);
  }

  const poll = polling(() => get("/api/log", { filter: filter.value }), 3, (answer) => {
    say(range, answer.end ? `log ${answer.log}, offsets ${answer.begin} to ${answer.end}` : "");
    if (!answer.entries.length) {
      const why = filter.value ? "None of the newest events is accepted by this filter." : "Publish with a lifetime, and the event stays for those who come later:";
      return fill(place, nothing("store", "No event is available here", h("p", null, why), !filter.value && h("pre", null, "tidings pub change=-4.5 --lifetime 600")));
    }
    if (place.firstChild !== entries.element) fill(place, entries.element);
    entries.update(answer.entries);
  }, (problem) => fill(place, h("div", { class: "body" }, trouble(problem))));

  return {
    lead: "The log of a broker keeps an event that was published there until its lifetime is over and every durable subscription has acknowledged it.",
    element: h("div", { class: "stack" }, top.element, card("Logs", h("div", { class: "flush" }, brokers.element)),
      card("The newest at this broker", h("div", { class: "flush" }, place), range, h("label", { class: "inline" }, h("span", null, "Filter"), filter), purge)),
    update(tick) {
      top.update(live.totals);
      const answered = tick.brokers.filter((each) => !each.problem);
      most = Math.max(1, ...answered.map((each) => each.levels.entries || 0));
      brokers.update(answered);
    },
    destroy() { poll.stop(); clearTimeout(wait); },
  };
}

