// Who does not keep up, and what that means for them.

import { get } from "../api.js";
import { card, chip, fill, h, nothing } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { Table } from "../table.js";
import { tiles } from "../tiles.js";
import { count } from "../words.js";

const MUCH = 100; // notifications that wait, from which on somebody counts as slow

function state(row) {
  if (!row.listeners) return chip("nobody listens", row.durable ? "warn" : "");
  if (row.lost) return chip("loses by policy", "bad");
  if (row.waiting && !row.credit) return chip("takes nothing", "warn");
  if (row.phase !== "live" && row.phase !== "Phase.LIVE") return chip(`${row.phase}`.toLowerCase(), "accent");
  return row.waiting > MUCH ? chip("behind", "warn") : chip("keeps up", "good");
}

export default function consumers({ live }) {
  const top = tiles(["waiting", "delivered", "lost", "dead"]);
  let most = 1;
  const table = new Table({
    label: "Subscriptions by what waits for them", key: (row) => `${row.broker} ${row.subscription}`, order: { column: 2, down: true },
    columns: [
      { name: "Subscription", of: (r) => r.subscription, cell: (r) => h("div", null, h("div", { class: "name" }, r.subscription), h("div", { class: "muted small" }, r.broker)) },
      { name: "State", of: (r) => state(r).textContent, cell: state },
      { name: "Waiting", right: true, of: (r) => r.waiting, cell: (r) => h("div", null, count(r.waiting), bar(r.waiting)) },
      { name: "Handed over, not taken", right: true, of: (r) => r.unacknowledged, cell: (r) => count(r.unacknowledged) },
      { name: "Takes now", right: true, of: (r) => r.credit, cell: (r) => count(r.credit) },
      { name: "Behind in logs", right: true, of: (r) => r.lag, cell: (r) => count(r.lag) },
      { name: "Lost", right: true, of: (r) => r.lost, cell: (r) => count(r.lost) },
    ],
  });
  const place = h("div", null, h("div", { class: "body muted" }, "Asking the brokers…"));

  function bar(waiting) {
    const inside = h("i");
    inside.style.width = `${Math.round((100 * waiting) / most)}%`;
    return h("span", { class: `bar ${waiting > 10 * MUCH ? "hot" : waiting > MUCH ? "warm" : ""}`, "aria-hidden": "true" }, inside);
  }

  const poll = polling(() => get("/api/subscriptions"), 2, ({ subscriptions }) => {
    const slow = subscriptions.filter((row) => row.waiting || row.unacknowledged || row.lost || row.lag || !row.listeners);
    most = Math.max(1, ...slow.map((row) => row.waiting));
    if (!slow.length) return fill(place, nothing("consumers", "Everybody keeps up", h("p", null, `Nothing waits for any of ${subscriptions.length} subscriptions.`)));
    if (place.firstChild !== table.element) fill(place, table.element);
    table.update(slow);
  }, (problem) => fill(place, h("div", { class: "body" }, trouble(problem))));

  return {
    lead: "Nobody waits for a slow subscriber: what it does not take waits at its broker, up to its queue; then its policy decides what is lost. A durable one is kept for in the log.",
    element: h("div", null, top.element, card("For whom something waits", h("div", { class: "flush" }, place))),
    update: () => top.update(live.totals),
    destroy: poll.stop,
  };
}
