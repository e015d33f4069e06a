// Consumer groups and their lag, holds on the logs, webhooks and their failures, and who pins each log.

import { get } from "../api.js";
import { actButton, administer, noRight } from "../acting.js";
import { card, chip, fill, h, nothing } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { Table } from "../table.js";
import { ago, count } from "../words.js";

export default function groups({ session }) {
  const problems = h("div", { class: "stack" }, noRight(session));
  const end = (kind, name, label, detail) => (row) => actButton(session, label, {
    title: `${label} ${name(row)}`, question: `${label} ${kind} ${name(row)} at ${row.broker}?`, detail,
    act: () => administer(row.broker, { do: "end", kind, name: name(row) }), done: () => again(),
  });
  const parts = {
    group: part("group", "Consumer groups", "No consumer group", [
      { name: "Group", of: (r) => r.subscription, cell: (r) => h("div", null, h("div", { class: "name" }, r.subscription), r.durable && chip("durable", "accent")) },
      { name: "Filter", of: (r) => r.filter, cell: (r) => r.filter, class: "filter" },
      { name: "Broker", of: (r) => r.broker, cell: (r) => r.broker },
      { name: "Consumers", right: true, of: (r) => r.listeners, cell: (r) => count(r.listeners) },
      { name: "Lag", right: true, of: lag, cell: (r) => count(lag(r)) },
      { name: "Dead letters", right: true, of: (r) => r.dead_letters, cell: (r) => (r.dead_letters ? h("a", { href: `#/letters?${new URLSearchParams({ broker: r.broker, subscription: r.subscription })}` }, count(r.dead_letters)) : "0") },
      { name: "Act", of: () => "", cell: end("group", (r) => r.subscription, "End", "What the group is owed is given up; its consumers are told.") },
    ], (r) => r.subscription),
    hold: part("hold", "Holds on the logs", "No reader holds a log", [
      { name: "Hold", of: (r) => r.name, cell: (r) => r.name },
      { name: "Filter", of: (r) => r.filter, cell: (r) => r.filter, class: "filter" },
      { name: "Broker", of: (r) => r.broker, cell: (r) => r.broker },
      { name: "Events kept", right: true, of: (r) => r.entries, cell: (r) => count(r.entries) },
      { name: "Bytes", right: true, of: (r) => r.bytes, cell: (r) => count(r.bytes) },
      { name: "Ends in", of: (r) => r.ends_at, cell: (r) => ago(Date.now() / 1000, r.ends_at) },
      { name: "Act", of: () => "", cell: end("hold", (r) => r.name, "End", "Its reader may find a gap when it comes back.") },
    ], (r) => r.name),
    webhook: part("webhook", "Webhooks", "No webhook", [
      { name: "Webhook", of: (r) => r.id, cell: (r) => r.id },
      { name: "Owner", of: (r) => r.owner, cell: (r) => r.owner },
      { name: "Sink", of: (r) => r.sink, cell: (r) => r.sink, class: "filter" },
      { name: "Broker", of: (r) => r.broker, cell: (r) => r.broker },
      { name: "Sent", right: true, of: (r) => (r.status || {}).sent || 0, cell: (r) => count((r.status || {}).sent || 0) },
      { name: "Given back", right: true, of: (r) => (r.status || {})["given back"] || 0, cell: (r) => count((r.status || {})["given back"] || 0) },
      { name: "Failure", of: (r) => (r.status || {}).problem || "", cell: (r) => ((r.status || {}).problem ? chip(`${r.status.problem} (try ${r.status.tries})`, "bad") : "–") },
      { name: "Act", of: () => "", cell: end("webhook", (r) => r.id, "End", "Nothing more is sent; what waits for it is given up.") },
    ], (r) => r.id),
  };
  const pins = new Table({
    label: "Who pins the logs", key: (row) => `${row.broker} ${row.kind} ${row.name}`, order: { column: 3, down: false },
    columns: [
      { name: "Broker", of: (r) => r.broker, cell: (r) => r.broker },
      { name: "Kind", of: (r) => r.kind, cell: (r) => chip(r.kind) },
      { name: "Name", of: (r) => r.name, cell: (r) => r.name },
      { name: "From offset", right: true, of: (r) => r.offset, cell: (r) => String(r.offset) },
    ],
  });
  const pinned = h("div", null, h("div", { class: "body muted" }, "Asking the brokers…"));

  function lag(row) { return row.waiting + row.unacknowledged; }

  function part(kind, title, none, columns, name) {
    const table = new Table({ label: title, key: (row) => `${row.broker} ${name(row)}`, columns });
    const place = h("div", null, h("div", { class: "body muted" }, session.may.admin ? "Asking the brokers…" : ""));
    const poll = session.may.admin ? polling(() => get("/api/admin", { do: "list", kind }), 3, (answer) => {
      if (!answer.rows.length) return fill(place, h("div", { class: "body muted" }, none));
      if (place.firstChild !== table.element) fill(place, table.element);
      table.update(answer.rows);
    }, (problem) => fill(problems, trouble(problem))) : { stop() {}, again() {} };
    return { poll, element: card(title, h("div", { class: "flush" }, place)) };
  }

  const pinning = session.may.admin ? polling(() => get("/api/admin", { do: "pins" }), 3, (answer) => {
    const rows = Object.entries(answer.brokers).flatMap(([broker, one]) => (one.pins || []).map((pin) => ({ ...pin, broker })));
    if (!rows.length) return fill(pinned, nothing("store", "Nothing pins a log"));
    if (pinned.firstChild !== pins.element) fill(pinned, pins.element);
    pins.update(rows);
  }, (problem) => fill(problems, trouble(problem))) : { stop() {}, again() {} };
  function again() { pinning.again(); for (const each of Object.values(parts)) each.poll.again(); }

  return {
    lead: "Consumer groups and how far they are behind, readers that hold a log, webhooks, and who keeps the oldest events.",
    element: h("div", { class: "stack" }, problems, Object.values(parts).map((each) => each.element), card("Who pins the logs", h("div", { class: "flush" }, pinned))),
    destroy() { pinning.stop(); for (const each of Object.values(parts)) each.poll.stop(); },
  };
}
