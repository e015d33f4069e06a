// How much, and how fast.

import { card, h } from "../dom.js";
import { Plot } from "../plot.js";
import { tiles } from "../tiles.js";
import { count, millis } from "../words.js";

export default function rates({ live }) {
  const top = tiles(["published", "delivered", "acknowledge", "deliver", "waiting", "lost"]);
  const plots = {
    rate: new Plot({
      label: "Events a second", area: true,
      series: [
        { name: "delivered", colour: "--accent", of: (t) => t.rates.delivered },
        { name: "published", colour: "--accent-3", of: (t) => t.rates.published },
        { name: "over links", colour: "--accent-2", of: (t) => t.rates["events over links"] },
      ],
    }),
    acknowledge: new Plot({
      label: "From a publish to its acknowledgement", unit: millis, log: true, height: 190,
      series: [
        { name: "99 of 100 within", colour: "--accent-3", of: (t) => t.delays.acknowledge.p99 },
        { name: "half within", colour: "--accent", of: (t) => t.delays.acknowledge.p50 },
      ],
    }),
    deliver: new Plot({
      label: "From an event's arrival at a broker to its leaving to a subscriber", unit: millis, log: true, height: 190,
      series: [
        { name: "99 of 100 within", colour: "--accent-3", of: (t) => t.delays.deliver.p99 },
        { name: "half within", colour: "--accent", of: (t) => t.delays.deliver.p50 },
      ],
    }),
    waiting: new Plot({
      label: "Notifications that wait for their subscribers", area: true, whole: true, height: 170,
      series: [{ name: "waiting", colour: "--accent", of: (t) => t.levels.waiting }],
    }),
    log: new Plot({
      label: "Events in the logs", area: true, whole: true, height: 170, unit: count,
      series: [{ name: "in the logs", colour: "--accent-2", of: (t) => t.levels.entries }],
    }),
  };
  const shown = (title, plot) => card(title, h("div", { class: "body" }, plot.element), plot.legend);
  const element = h("div", { class: "stack" }, top.element, shown("Events a second, all brokers", plots.rate),
    h("div", { class: "grid cols-2" }, shown("Acknowledged", plots.acknowledge), shown("At a broker before it leaves", plots.deliver),
      shown("Waiting for subscribers", plots.waiting), shown("Kept in the logs", plots.log)));
  return {
    lead: "Of all brokers together. Delays come from histograms in fixed buckets, so a curve moves in steps; where nothing happened there is a gap.",
    element,
    update() {
      top.update(live.totals);
      for (const plot of Object.values(plots)) plot.update(live.totals);
    },
    destroy: () => Object.values(plots).forEach((plot) => plot.destroy()),
  };
}
