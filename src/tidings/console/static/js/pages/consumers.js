// Subscriptions whose consumers do not keep up, and what that means for them.
// Credit says what a consumer has room for now, never how fast it is: its pace is what was delivered to it.

import { get } from "../api.js";
import { card, chip, fill, h, nothing } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { Table } from "../table.js";
import { tiles } from "../tiles.js";
import { count } from "../words.js";

const MUCH = 100; // notifications that wait, from which on a consumer counts as slow

function state(row) {
  if (!row.listeners) return chip("no consumer", row.durable ? "warn" : "");
  if (row.lost) return chip("drops by policy", "bad");
  if (row.waiting && !row.credit) return chip(row.pace ? "slow consumer" : "no credit", "warn");
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
      { name: "Delivered / s", right: true, of: (r) => r.pace, cell: (r) => (r.pace && r.pace < 0.1 ? "< 0.1" : count(r.pace)) },
      { name: "Unacknowledged", right: true, of: (r) => r.unacknowledged, cell: (r) => count(r.unacknowledged) },
      { name: "Credit", right: true, of: (r) => r.credit, cell: (r) => count(r.credit) },
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
    lead: "A slow consumer holds up no other: its notifications wait at its broker, up to its queue; then the queue policy decides which are dropped. For a durable subscription they stay in the log. Delivered / s is the mean of the last three minutes; credit is what the consumer has room for now.",
    element: h("div", null, top.element, card("For whom something waits", h("div", { class: "flush" }, place))),
    update: () => top.update(live.totals),
    destroy: poll.stop,
  };
}
