// Who is connected, since when and how busy; a session can be ended.

import { get } from "../api.js";
import { actButton, administer, linked, noRight } from "../acting.js";
import { card, chip, fill, h, nothing, say } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { Table } from "../table.js";
import { ago, clock, count, plural } from "../words.js";

export default function clients({ session, asking }) {
  const search = h("input", { class: "search", type: "search", value: asking.get("search") || "", placeholder: "Search principals, clients and brokers", "aria-label": "Search sessions", oninput: () => show() });
  const found = h("span", { class: "muted small", role: "status" });
  const key = (row) => `${row.broker} ${row.session}`;
  const table = new Table({
    label: "Sessions", key, order: { column: 3, down: true },
    columns: [
      { name: "Principal", of: (r) => r.principal, cell: (r) => h("div", null, h("div", { class: "name" }, r.principal || "anonymous"), r.tenant && chip(r.tenant)) },
      { name: "Client", of: (r) => r.client, cell: (r) => r.client || "–" },
      { name: "By", of: (r) => r.by, cell: (r) => h("span", null, `${r.by}, ${r.method}${r.peer ? ` from ${r.peer}` : ""} `, r.connected === false && chip("absent")) },
      { name: "Since", of: (r) => r.since, cell: (r) => h("span", { title: clock(r.since) }, ago(r.since, Date.now() / 1000)) },
      { name: "Broker", of: (r) => r.broker, cell: (r) => r.broker },
      { name: "Published / s", right: true, of: (r) => r.publishing || 0, cell: (r) => count(r.publishing) },
      { name: "Delivered / s", right: true, of: (r) => r.delivering || 0, cell: (r) => count(r.delivering) },
      { name: "Subscriptions", right: true, of: (r) => r.subscriptions || 0, cell: (r) => count(r.subscriptions) },
      { name: "Act", of: () => "", cell: (r) => actButton(session, "Disconnect", {
        title: `Disconnect ${r.principal} (session ${r.session})`,
        question: `Disconnect ${r.client || r.principal} at ${r.broker}?`,
        detail: "Its client may connect again. To keep it out, set disabled = true in the users file.",
        act: () => administer(r.broker, { do: "end", kind: "session", name: String(r.session) }), done: () => poll.again(),
      }) },
    ],
  });
  const place = h("div", null, h("div", { class: "body muted" }, "Asking the brokers…"));
  const problems = h("div", { class: "stack" }, noRight(session));
  let rows = [], before = new Map(), beforeAt = 0;

  function show() {
    const wanted = search.value.trim().toLowerCase();
    linked("clients", { search: search.value });
    const chosen = rows.filter((row) => !wanted || `${row.principal} ${row.client} ${row.broker} ${row.peer}`.toLowerCase().includes(wanted));
    say(found, wanted ? `${chosen.length} of ${plural(rows.length, "session")}` : plural(rows.length, "session"));
    if (!rows.length) return fill(place, nothing("clients", "Nobody is connected"));
    if (place.firstChild !== table.element) fill(place, table.element);
    table.update(chosen);
  }

  const poll = session.may.admin ? polling(() => get("/api/admin", { do: "list", kind: "session" }), 3, (answer) => {
    const now = Date.now() / 1000;
    rows = answer.rows.map((row) => {
      const last = before.get(key(row));
      const rate = (name) => (last && row[name] !== undefined ? Math.max(0, row[name] - last[name]) / (now - beforeAt) : undefined);
      return { ...row, publishing: rate("published"), delivering: rate("delivered") };
    });
    before = new Map(answer.rows.map((row) => [key(row), row]));
    beforeAt = now;
    fill(problems, Object.entries(answer.problems).map(([broker, why]) => h("p", { class: "note warn" }, `${broker}: ${why}`)));
    show();
  }, (problem) => fill(problems, trouble(problem))) : { stop() {}, again() {} };
  if (!session.may.admin) fill(place);

  return {
    lead: "Sessions of principals on every listener: clients over TCP, streams, sockets, MQTT and webhooks.",
    element: h("div", { class: "stack" }, problems, card("Sessions", h("div", { class: "flush" }, place), found, search)),
    destroy: () => poll.stop(),
  };
}
