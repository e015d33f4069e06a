// Dead letters: whose they are, what they hold; they are delivered again or discarded.

import { get } from "../api.js";
import { actButton, administer, linked, noRight } from "../acting.js";
import { card, fill, h, nothing, say } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { Table } from "../table.js";
import { ago, clock, count, plural } from "../words.js";

function attributes(event) {
  return Object.entries(event.attributes).map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`).join("  ");
}

export default function letters({ session, asking }) {
  let chosen = asking.get("subscription") ? { broker: asking.get("broker"), id: asking.get("subscription") } : null;
  const problems = h("div", { class: "stack" }, noRight(session));
  const place = h("div", null, h("div", { class: "body muted" }, "Asking the brokers…"));
  const inside = h("div");
  const title = h("h2");
  const beside = h("span", { class: "row" });
  const box = h("section", { class: "card", hidden: true }, h("div", { class: "title" }, title, beside), h("div", { class: "flush" }, inside));
  const boxes = new Table({
    label: "Subscriptions with dead letters", key: (row) => `${row.broker} ${row.id}`, order: { column: 2, down: true },
    columns: [
      { name: "Subscription", of: (r) => r.id, cell: (r) => h("a", { href: `#/letters?${new URLSearchParams({ broker: r.broker, subscription: r.id })}`, onclick: (event) => { event.preventDefault(); choose(r); } }, r.id) },
      { name: "Broker", of: (r) => r.broker, cell: (r) => r.broker },
      { name: "Dead letters", right: true, of: (r) => r.letters, cell: (r) => count(r.letters) },
      { name: "Bytes", right: true, of: (r) => r.bytes, cell: (r) => count(r.bytes) },
    ],
  });
  const table = new Table({
    label: "Dead letters", key: (row) => String(row.number),
    columns: [
      { name: "Number", right: true, of: (r) => r.number, cell: (r) => String(r.number) },
      { name: "Given up", of: (r) => r.died, cell: (r) => h("span", { title: clock(r.died) }, `${ago(r.died, Date.now() / 1000)} ago`) },
      { name: "Attempts", right: true, of: (r) => r.attempts, cell: (r) => count(r.attempts) },
      { name: "Event", of: (r) => r.event.id, cell: (r) => h("a", { href: `#/try?trace=${encodeURIComponent(r.event.id)}&source=${encodeURIComponent(r.event.source)}` }, r.event.id) },
      { name: "Topic", of: (r) => r.event.topic || "", cell: (r) => r.event.topic || "–" },
      { name: "Attributes", of: (r) => attributes(r.event), cell: (r) => attributes(r.event), class: "filter" },
      { name: "Act", of: () => "", cell: (r) => h("span", { class: "row" }, act("redeliver", [r.number]), act("discard", [r.number])) },
    ],
  });

  function act(what, numbers) {
    const label = what === "redeliver" ? "Redeliver" : "Discard";
    const which = numbers.length ? `dead letter ${numbers[0]}` : "all dead letters";
    return actButton(session, numbers.length ? label : `${label} all`, {
      title: `${label} ${which} of ${chosen.id}`,
      question: `${label} ${which} of ${chosen.id}?`,
      detail: what === "redeliver" ? "Each is delivered to the subscription again and goes when it is acknowledged." : "They are gone for good.",
      act: () => administer(chosen.broker, { do: what, name: chosen.id, numbers }), done: () => { poll.again(); open(); },
    });
  }

  function choose(row) {
    chosen = row;
    linked("letters", { broker: row.broker, subscription: row.id });
    open();
  }

  async function open() {
    if (!chosen) return;
    box.hidden = false;
    say(title, `${chosen.id} at ${chosen.broker}`);
    if (beside.dataset.of !== title.textContent) fill(beside, act("redeliver", []), act("discard", []));
    beside.dataset.of = title.textContent;
    try {
      const answer = await get("/api/admin", { do: "letters", name: chosen.id, broker: chosen.broker });
      if (!answer.rows.length) fill(inside, nothing("letters", "No dead letter is left"));
      else if (inside.firstChild !== table.element) fill(inside, table.element);
      table.update(answer.rows);
    } catch (problem) {
      fill(inside, h("div", { class: "body" }, trouble(problem)));
    }
  }

  const poll = session.may.admin ? polling(() => get("/api/admin", { do: "letters" }), 3, (answer) => {
    fill(problems, Object.entries(answer.problems).map(([broker, why]) => h("p", { class: "note warn" }, `${broker}: ${why}`)));
    if (!answer.rows.length) return fill(place, nothing("letters", "No subscription has dead letters", h("p", null, "An event that its consumers returned too often rests here.")));
    if (place.firstChild !== boxes.element) fill(place, boxes.element);
    boxes.update(answer.rows);
  }, (problem) => fill(problems, trouble(problem))) : { stop() {}, again() {} };
  if (session.may.admin) open(); else fill(place);

  return {
    lead: "Events that consumers returned too often, or that could not be sent. Mend the consumer, then deliver them again.",
    element: h("div", { class: "stack" }, problems, card("By subscription", h("div", { class: "flush" }, place)), box),
    destroy: () => poll.stop(),
  };
}
