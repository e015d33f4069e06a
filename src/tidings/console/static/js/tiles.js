// The row of figures at the top of pages.

import { h, say } from "./dom.js";
import { spark } from "./plot.js";
import { count, millis } from "./words.js";

const KINDS = {
  published: ["Published", "/ s", (t) => t.rates.published, count],
  delivered: ["Delivered", "/ s", (t) => t.rates.delivered, count],
  acknowledge: ["Acknowledged, p99", "", (t) => t.delays.acknowledge.p99, millis],
  deliver: ["At a broker, p99", "", (t) => t.delays.deliver.p99, millis],
  hops: ["Hops an event", "", (t) => (t.rates.published > 0 ? t.rates["events over links"] / t.rates.published : null), count],
  waiting: ["Waiting", "", (t) => t.levels.waiting, count],
  subscriptions: ["Subscriptions", "", (t) => t.levels.subscriptions, count],
  brokers: ["Brokers", "", (t) => t.brokers, count],
  lost: ["Lost by policy", "", (t) => t.levels.lost, count],
  entries: ["In the logs", "", (t) => t.levels.entries, count],
  dead: ["Dead letters", "", (t) => t.levels["dead letters"], count],
  forgotten: ["Forgotten", "", (t) => t.levels.forgotten, count],
};

export function tiles(names) {
  const parts = names.map((name) => {
    const [label, unit, of, words] = KINDS[name];
    const value = h("span");
    const canvas = h("canvas", { "aria-hidden": "true" });
    const element = h("div", { class: "tile", "data-tile": name }, h("div", { class: "label" }, label), h("div", { class: "value" }, value, unit && h("small", null, unit)), canvas);
    return { element, value, canvas, of, words };
  });
  const element = h("div", { class: "tiles" }, parts.map((each) => each.element));
  return {
    element,
    update(totals) {
      const last = totals.at(-1);
      if (!last) return;
      for (const each of parts) {
        say(each.value, each.words(each.of(last)));
        spark(each.canvas, totals.map((total) => each.of(total) || 0));
      }
    },
  };
}
