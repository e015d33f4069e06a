// Who wants what, and how much of it came.

import { get } from "../api.js";
import { actButton, administer, linked } from "../acting.js";
import { card, chip, fill, h, nothing, say } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { Table } from "../table.js";
import { count, plural } from "../words.js";

export default function subscriptions({ session, asking }) {
  const search = h("input", { class: "search", type: "search", value: asking.get("search") || "", placeholder: "Search names, filters and brokers", "aria-label": "Search subscriptions", maxlength: 200, oninput: () => { show(); if (many) { clearTimeout(wait); wait = setTimeout(() => poll.again(), 350); } } });
  const found = h("span", { class: "muted small", role: "status" });
  const table = new Table({
    label: "Subscriptions", key: (row) => `${row.broker} ${row.subscription}`, order: { column: 4, down: true },
    columns: [
      { name: "Subscription", of: (r) => r.subscription, cell: (r) => h("div", null, h("div", { class: "name" }, r.subscription), r.durable && chip("durable", "accent")) },
      { name: "Filter", of: (r) => r.filter, cell: (r) => r.filter, class: "filter" },
      { name: "Broker", of: (r) => r.broker, cell: (r) => r.broker },
      { name: "Matches", right: true, of: (r) => r.delivered, cell: (r) => count(r.delivered) },
      { name: "A second", right: true, of: (r) => r.rate, cell: (r) => h("div", null, count(r.rate), bar(r.rate)) },
      { name: "Waiting", right: true, of: (r) => r.waiting + r.unacknowledged, cell: (r) => count(r.waiting + r.unacknowledged) },
      { name: "Listeners", right: true, of: (r) => r.listeners, cell: (r) => count(r.listeners) },
      ...(session.may.admin ? [{ name: "Act", of: () => "", cell: (r) => actButton(session, "End", {
        title: `End ${r.subscription}`, question: `End the subscription ${r.subscription} at ${r.broker}?`,
        detail: "Its pending events are dropped. Its client gets an error, and may subscribe again.",
        act: () => administer(r.broker, { do: "end", kind: "subscription", name: r.subscription }), done: () => poll.again(),
      }) }] : []),
    ],
  });
  const place = h("div", null, h("div", { class: "body muted" }, "Asking the brokers…"));
  const problems = h("div", { class: "stack" });
  let rows = [], most = 1, wait = 0;
  let many = false; // a broker has more than one answer names: then the brokers search

  function bar(rate) {
    const inside = h("i");
    inside.style.width = `${Math.round((100 * rate) / most)}%`;
    return h("span", { class: "bar", "aria-hidden": "true" }, inside);
  }

  function show() {
    const wanted = search.value.trim().toLowerCase();
    linked("subscriptions", { search: search.value });
    const chosen = rows.filter((row) => !wanted || `${row.subscription} ${row.filter} ${row.broker}`.toLowerCase().includes(wanted));
    most = Math.max(1, ...chosen.map((row) => row.rate));
    say(found, many && wanted ? `${plural(chosen.length, "subscription")} found` : wanted ? `${chosen.length} of ${plural(rows.length, "subscription")}` : plural(rows.length, "subscription"));
    if (!rows.length && !wanted) return fill(place, nothing("subscriptions", "Nobody has subscribed yet", h("p", null, "Subscribe from a shell:"), h("pre", null, "tidings sub --where 'change < -3'")));
    if (place.firstChild !== table.element) fill(place, table.element);
    table.update(chosen);
  }

  const poll = polling(() => get("/api/subscriptions", { search: many ? search.value.trim() : "" }), 2, (answer) => {
    rows = answer.subscriptions;
    const counts = new Map();
    for (const row of rows) counts.set(row.broker, (counts.get(row.broker) || 0) + 1);
    if (!many && Math.max(0, ...counts.values()) >= answer.most) {
      many = true;
      if (search.value.trim()) setTimeout(() => poll.again());
    }
    fill(problems, Object.entries(answer.problems).map(([broker, why]) => h("p", { class: "note warn" }, `${broker}: ${why}`)));
    show();
  }, (problem) => fill(problems, trouble(problem)));

  return {
    lead: "Every subscription that a broker holds, with its filter, and how many events it was handed since it began here. Of a broker with more than a thousand, those for which most waits; the search looks through all of them.",
    element: h("div", { class: "stack" }, problems, card("Subscriptions", h("div", { class: "flush" }, place), found, search)),
    destroy() { poll.stop(); clearTimeout(wait); },
  };
}
