// What was not carried live: replays, recovered events, gossip, healed links.

import { card, h, nothing } from "../dom.js";
import { Plot } from "../plot.js";
import { Table } from "../table.js";
import { count } from "../words.js";

const SHOWN = [
  ["events lost", "Losses noticed"], ["events recovered", "Recovered"], ["losses open", "Open"], ["losses given up", "Given up"],
  ["recovered twice", "Twice"], ["gossip sent", "Gossip sent"], ["events given", "Given to others"], ["events held for others", "Held for others"],
  ["events handed over", "Handed over"], ["events dropped while away", "Dropped while away"], ["links healed", "Links healed"], ["neighbours away", "Neighbours away"],
];

export default function recovery({ live }) {
  const way = (name) => (t) => (t.ways ? t.ways[name] || 0 : 0);
  const plot = new Plot({
    label: "Events a second that came over links, by how", area: true,
    series: [
      { name: "live", colour: "--accent", of: way("live") },
      { name: "replayed", colour: "--accent-2", of: way("replay") },
      { name: "recovered", colour: "--accent-3", of: way("recovery") },
    ],
  });
  let known = "";
  let table = null;
  const place = h("div", { class: "flush" });
  const ways = new Table({
    label: "How events came to each broker", key: (row) => row.name,
    columns: [
      { name: "Broker", of: (r) => r.name, cell: (r) => r.name },
      ...["published", "live", "replay", "recovery"].map((name) => ({ name: { published: "Published here", live: "Over links, live", replay: "Replayed", recovery: "Recovered" }[name], right: true, of: (r) => r.ways[name] || 0, cell: (r) => count(r.ways[name] || 0) })),
      { name: "Share not live", right: true, of: share, cell: (r) => `${share(r).toFixed(1)} %` },
    ],
  });

  function share(row) {
    const late = (row.ways.replay || 0) + (row.ways.recovery || 0);
    return (100 * late) / Math.max(1, late + (row.ways.live || 0));
  }

  function showCounters(brokers) {
    const names = SHOWN.filter(([name]) => brokers.some((each) => name in each.recovery));
    if (names.map(([name]) => name).join() !== known || !place.childElementCount) {
      known = names.map(([name]) => name).join();
      table = names.length && new Table({
        label: "Recovery of each broker", key: (row) => row.name,
        columns: [{ name: "Broker", of: (r) => r.name, cell: (r) => r.name },
          ...names.map(([name, title]) => ({ name: title, right: true, of: (r) => r.recovery[name] || 0, cell: (r) => count(r.recovery[name] ?? 0) }))],
      });
      place.replaceChildren(table ? table.element : nothing("recovery", "This system keeps no counters of recovery", h("p", null, "Those that recover by gossip or by replication do.")));
    }
    if (table) table.update(brokers);
  }

  return {
    lead: "When a link breaks or a broker restarts, what was missed is replayed from the log of its publisher's broker; systems that lose events on the way bring them back by gossip. A network at rest recovers nothing.",
    element: h("div", { class: "stack" }, card("Events a second over links, by how they came", h("div", { class: "body" }, plot.element), plot.legend),
      card("Paths by which events reached each broker, since this page was opened", h("div", { class: "flush" }, ways.element)), card("What each broker did about losses", place)),
    update(tick) {
      const answered = tick.brokers.filter((each) => !each.problem);
      plot.update(live.totals);
      ways.update(answered);
      showCounters(answered);
    },
    destroy: () => plot.destroy(),
  };
}
