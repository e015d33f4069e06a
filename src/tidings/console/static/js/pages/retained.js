// Retained messages: the newest event of each key, which a newcomer receives first; one can be cleared.

import { get } from "../api.js";
import { actButton, administer, linked } from "../acting.js";
import { card, chip, fill, h, nothing, say } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { Table } from "../table.js";
import { ago, clock, count, plural } from "../words.js";

function content({ event, bytes }) {
  const named = Object.entries(event.attributes).map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`);
  return [...named, ...(bytes ? [`${count(bytes)} bytes`] : [])].join("  ") || "–";
}

function quoted(text) {
  return `'${text.replaceAll("'", "''")}'`;
}

export default function retained({ session, asking }) {
  const search = h("input", { class: "search", type: "search", value: asking.get("search") || "", placeholder: "Search keys and topics", "aria-label": "Search retained messages", oninput: () => show() });
  const found = h("span", { class: "muted small", role: "status" });
  const table = new Table({
    label: "Retained messages", key: (row) => row.key, order: { column: 0, down: false },
    columns: [
      { name: "Key", of: (r) => r.key, cell: (r) => h("div", { class: "name" }, r.key) },
      { name: "Topic", of: (r) => r.event.topic || "", cell: (r) => r.event.topic || "–" },
      { name: "Since", of: (r) => r.accepted, cell: (r) => h("span", { title: clock(r.accepted) }, `${ago(r.accepted, Date.now() / 1000)} ago`) },
      { name: "Publisher", of: (r) => r.event.source, cell: (r) => r.event.source },
      { name: "Content", of: content, cell: content, class: "filter" },
      { name: "Lifetime", of: (r) => String(r.event.lifetime), cell: (r) => chip(r.event.lifetime === "forever" ? "forever" : `${r.event.lifetime} s`) },
      { name: "Act", of: () => "", cell: (r) => actButton(session, "Clear", {
        title: `Clear ${r.key}`,
        question: `Clear the retained message ${r.key} of ${session.broker}?`,
        detail: "It ends for every reader, also for durable subscriptions that are owed it. Newcomers receive no message of this key until the next one is published.",
        act: () => administer(session.broker, { do: "purge", filter: `id = ${quoted(r.event.id)} AND source = ${quoted(r.event.source)}` }), done: () => poll.again(),
      }) },
    ],
  });
  const place = h("div", null, h("div", { class: "body muted" }, "Reading the log…"));
  let rows = [], upto = 0, end = 0;

  function show() {
    const wanted = search.value.trim().toLowerCase();
    linked("retained", { search: search.value });
    const chosen = rows.filter((row) => !wanted || `${row.key} ${row.event.topic || ""}`.toLowerCase().includes(wanted));
    const beyond = upto < end ? `, in the log up to offset ${upto} of ${end}` : "";
    say(found, `${wanted ? `${chosen.length} of ` : ""}${plural(rows.length, "retained message")} of ${session.broker}${beyond}`);
    if (!chosen.length) return fill(place, nothing("retained", "No retained message is here", h("p", null, wanted ? "None has this key or topic." : "Publish with a key and a lifetime, or by MQTT with the flag RETAIN:"), !wanted && h("pre", null, "tidings pub level=3 --topic tank/7 --key tank/7 --lifetime forever")));
    if (place.firstChild !== table.element) fill(place, table.element);
    table.update(chosen);
  }

  const poll = polling(() => get("/api/retained"), 5, (answer) => {
    ({ rows, upto, end } = answer);
    show();
  }, (problem) => fill(place, h("div", { class: "body" }, trouble(problem))));

  return {
    lead: "The newest event of each key rests in the log of its publisher's broker. A new subscription that replays receives it first; a newer event of the key supersedes it.",
    element: h("div", { class: "stack" }, card("Retained at this broker", h("div", { class: "flush" }, place), found, search)),
    destroy: () => poll.stop(),
  };
}
