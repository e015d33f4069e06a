// The brokers and their links as they are now; hot ones glow, swaps happen before your eyes.

import { card, fill, h, say } from "../dom.js";
import { Graph, HEAT_STEPS, pictured } from "../graph.js";
import { tiles } from "../tiles.js";
import { clock, count, millis, plural } from "../words.js";

export default function overlay({ live }) {
  const top = tiles(["published", "delivered", "hops", "acknowledge", "waiting", "subscriptions"]);
  const graph = new Graph({ label: "Brokers and their links", onchoose: () => live.last && showBroker(live.last) });
  window.tidingsGraph = graph; // for debugging, and for the tests
  const about = h("div", { class: "body", "aria-live": "polite" });
  const title = h("h2", null, "Broker");
  const feed = h("ol", { class: "feed", "aria-label": "Changes of the overlay, the newest first" });
  const shape = h("span", { class: "muted small" });
  let shown = 0, pulsed = live.last ? live.last.time : 0;

  const scale = h("ol", { class: "scale", "aria-label": "Colours by events a second" }, [0, ...HEAT_STEPS].map((from, step) => h("li", null, h("i", { class: `heat-${step}` }), step ? `${from < 1000 ? from : `${from / 1000}k`}+` : `< ${HEAT_STEPS[0]}`)), h("li", null, "/ s"));
  const element = h("div", null, top.element,
    h("div", { class: "grid wide-narrow" },
      h("section", { class: "card" }, h("div", { class: "title" }, h("h2", null, "Overlay"), shape, scale), graph.element),
      h("div", { class: "stack" },
        h("section", { class: "card" }, h("div", { class: "title" }, title), about),
        card("As it happens", h("div", { class: "flush" }, feed)))));

  function showBroker(tick) {
    const name = graph.chosen || tick.own;
    const one = tick.brokers.find((each) => each.name === name);
    say(title, name === tick.own ? `${name} (this one)` : name);
    if (!one) return fill(about, h("p", { class: "muted" }, "It is no longer here."));
    if (one.problem) return fill(about, h("p", { class: "note bad" }, one.problem));
    const facts = [
      ["Address", one.address.replace("tidings://", "")], ["Links", one.links.join(", ") || "none"],
      ["Published", `${count(one.rates.published)} / s`], ["Over links", `${count(one.rates["events over links"])} / s`],
      ["Delivered", `${count(one.rates.delivered)} / s`], ["Subscriptions", count(one.levels.subscriptions)],
      ["Waiting", count(one.levels.waiting)], ["In its log", count(one.levels.entries)], ["Clients", count(one.levels.connections)],
      ["Acknowledged, p99", millis(one.delays.acknowledge.p99)],
      ...Object.entries(one.swaps).map(([word, value]) => [word[0].toUpperCase() + word.slice(1), count(value)]),
    ];
    fill(about, h("dl", { class: "facts" }, facts.flatMap(([word, value]) => [h("dt", null, word), h("dd", null, value)])),
      one.problems.map((problem) => h("p", { class: "note warn" }, problem)));
  }

  function showFeed() {
    if (shown === live.changes.length && feed.childElementCount) return;
    shown = live.changes.length;
    const newest = live.changes.slice(-40).reverse();
    fill(feed, newest.length ? newest.map((each) => h("li", { class: each.kind }, h("time", null, clock(each.time)), h("i"), h("span", null, each.text)))
      : h("li", { class: "empty muted" }, "No link has changed since this page was opened."));
  }

  return {
    lead: "Every broker that can be reached from this one. Wider links carry more events; a larger disc holds more subscriptions.",
    element,
    update(tick) {
      top.update(live.totals);
      const { brokers, links } = pictured(tick);
      graph.update(brokers, links);
      for (const change of live.changes) if (change.kind === "swap" && change.time > pulsed) change.brokers.forEach((name) => graph.pulse(name));
      pulsed = tick.time;
      const swaps = tick.brokers.reduce((sum, each) => sum + ((each.swaps || {})["swaps done"] || 0), 0);
      say(shape, `${brokers.length} brokers, ${links.length} links${swaps ? `, ${plural(swaps, "swap")}` : ""}`);
      showBroker(tick);
      showFeed();
    },
    destroy: () => graph.destroy(),
  };
}
