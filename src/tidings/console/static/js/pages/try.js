// Hands on: write a filter, publish an event, watch it travel, ask why a subscriber did not receive it.

import { get, post } from "../api.js";
import { card, chip, fill, h, say } from "../dom.js";
import { Editor } from "../editor.js";
import { Graph, pictured } from "../graph.js";
import { trouble } from "../poll.js";

const WORDS = { published: "published by", received: "came from", sent: "sent to", delivered: "handed to", withheld: "withheld by the rules from" };
const LOOKS = 12; // at an event on its way
const EVERY = 350; // milliseconds between two

export default function tryIt({ live, session, asking }) {
  const may = session.may.publish;
  const words = { keywords: ["AND", "OR", "NOT", "LIKE", "IN", "BETWEEN", "EXISTS", "IS", "NULL", "TRUE", "FALSE", "XOR", "REGEXP", "MATCHES"], functions: [], attributes: [] };
  const editor = new Editor({ label: "Filter", value: "StockName = 'IBM' AND change < -3", words, ontyped: forget, onchecked: (checked) => { test.disabled = !checked.ok; } });
  get("/api/words").then((answer) => Object.assign(words, answer)).catch(() => null);

  // -- the event
  const attributes = h("textarea", { id: "attributes", rows: 4, spellcheck: "false", "aria-describedby": "attributes-say", oninput: forget });
  attributes.value = '{"StockName": "IBM", "change": -4.5, "volume": 1200}';
  const attributesSay = h("p", { id: "attributes-say", class: "small", role: "status" });
  const topic = h("input", { id: "topic", placeholder: "e.g. quotes/eu/IBM", oninput: forget });
  const type = h("input", { id: "type", placeholder: "e.g. Quote", oninput: forget });
  const lifetime = h("select", { id: "lifetime" }, [["0", "0: now or never"], ["60", "60 seconds"], ["600", "10 minutes"], ["forever", "forever"]].map(([value, text]) => h("option", { value }, text)));
  const publish = h("button", { class: "act", type: "button", disabled: !may, onclick: send }, "Publish and watch");
  const test = h("button", { class: "plain", type: "button", onclick: explain }, "Does the filter accept it?");
  const answer = h("div", { "aria-live": "polite" });
  const accepted = h("div", { "aria-live": "polite", "data-accepted": "" });
  let asked = 0;

  // An answer about another filter or event is no answer any more.
  function forget() {
    asked += 1;
    fill(accepted);
  }

  function read() {
    try {
      const value = JSON.parse(attributes.value);
      if (typeof value !== "object" || value === null || Array.isArray(value)) throw new SyntaxError("it is no object");
      say(attributesSay, "");
      attributes.setAttribute("aria-invalid", "false");
      return value;
    } catch (error) {
      attributesSay.className = "note bad small";
      say(attributesSay, `These attributes are no JSON object: ${error.message}`);
      attributes.setAttribute("aria-invalid", "true");
      return null;
    }
  }

  function draft() {
    const value = read();
    return value && { attributes: value, topic: topic.value, type: type.value };
  }

  async function explain() {
    forget();
    const number = asked;
    const event = draft();
    if (!event) return;
    try {
      const reply = await post("/api/explain", { ...event, filter: editor.value || "TRUE" });
      if (number !== asked) return;
      const ways = reply.conjunctions.map((way) => h("li", null, [...way.constraints, ...way.residuals].map((part) =>
        h("div", { class: "row" }, chip(part.held ? "holds" : "fails", part.held ? "good" : "bad"), h("code", null, part.wanted), part.reason && h("span", { class: "muted small" }, part.reason)))));
      fill(accepted, h("p", { class: `note ${reply.accepted ? "good" : "warn"}` }, reply.accepted ? "The filter accepts this event." : "The filter does not accept this event."), h("ul", { class: "ways" }, ways));
    } catch (problem) {
      if (number === asked) fill(accepted, trouble(problem));
    }
  }

  async function send() {
    const event = draft();
    if (!event) return;
    publish.disabled = true;
    try {
      const kept = lifetime.value === "forever" ? "forever" : Number(lifetime.value);
      const receipt = await post("/api/publish", { ...event, lifetime: kept });
      fill(answer, h("p", { class: "note good" }, "Published as ", h("code", null, receipt.id), receipt.position ? `, kept at offset ${receipt.position.offset}.` : "."));
      eventId.value = receipt.id;
      eventSource.value = receipt.source;
      await follow(receipt.id, receipt.source);
    } catch (problem) {
      fill(answer, trouble(problem));
    }
    publish.disabled = !may;
  }

  // -- its way
  const graph = new Graph({ label: "Brokers that the event passed", dots: true });
  const travel = h("div", { class: "travel" }, graph.element);
  graph.element.style.height = "100%";
  const hops = h("ol", { class: "hops", "aria-label": "Steps of the event, in order" });
  const way = h("div", { class: "stack" }, h("div", { class: "muted small" }, "Publish an event, or give the id of one that a broker still remembers."));
  let following = 0, seen = new Set(), flown = new Set();

  async function follow(id, source) {
    const number = ++following;
    flown = new Set();
    seen = new Set();
    fill(hops);
    fill(way, travel, hops);
    for (let look = 0; look < LOOKS && number === following; look++) {
      const reply = await get("/api/trace", { id, source });
      if (number !== following) return;
      showWay(reply);
      const asked = reply.brokers.filter((each) => each.steps.length);
      if (look > 2 && asked.length && JSON.stringify(reply.brokers.map((each) => each.steps.length)) === way.dataset.steps) break;
      way.dataset.steps = JSON.stringify(reply.brokers.map((each) => each.steps.length));
      await new Promise((done) => setTimeout(done, EVERY));
    }
  }

  function showWay(reply) {
    const steps = reply.brokers.flatMap((each) => each.steps.map((step) => ({ ...step, broker: each.broker }))).sort((a, b) => a.time - b.time);
    if (!steps.length) return fill(hops, h("li", { class: "muted" }, h("span"), h("span"), "No broker that was asked remembers this event."));
    const began = steps[0].time;
    seen = new Set(steps.map((step) => step.broker));
    draw();
    for (const step of steps) {
      const key = `${step.broker} ${step.what} ${step.peer} ${step.subscription} ${step.time}`;
      if (flown.has(key)) continue;
      flown.add(key);
      const number = flown.size;
      const line = h("li", { class: step.what }, h("span", { class: "t" }, `${(1000 * (step.time - began)).toFixed(1)} ms`), h("i"),
        h("span", null, h("strong", null, step.broker), ` ${WORDS[step.what] || step.what} `, h("span", null, step.peer), step.subscription && h("span", null, " as ", h("code", null, step.subscription)), step.how && ` (${step.how})`));
      line.style.animationDelay = `${number * 0.06}s`;
      hops.append(line);
      if (step.what === "sent") graph.fly(step.broker, step.peer, 0.15 + number * 0.12);
    }
  }

  function draw() {
    if (!live.last || !travel.isConnected) return;
    const { brokers, links } = pictured(live.last);
    graph.update(brokers.map((each) => ({ ...each, heat: seen.has(each.name) ? 0.25 : 0, size: seen.has(each.name) ? 0.5 : 0.1, own: each.own })), links.map((each) => ({ ...each, ab: 0, ba: 0 })));
  }

  // -- why not
  const eventId = h("input", { id: "event-id", class: "mono" });
  const eventSource = h("input", { id: "event-source", class: "mono", placeholder: "any" });
  const subscription = h("input", { id: "subscription", class: "mono", list: "subscriptions", placeholder: "e.g. ann/alerts" });
  const known = h("datalist", { id: "subscriptions" });
  const why = h("div", { "aria-live": "polite" });
  const learn = () => get("/api/subscriptions").then(({ subscriptions }) => fill(known, subscriptions.slice(0, 200).map((row) => h("option", { value: row.subscription })))).catch(() => null);
  learn();

  async function askWhy() {
    if (!eventId.value || !subscription.value) return fill(why, h("p", { class: "note warn" }, "Give the id of an event and the name of a subscription."));
    try {
      const reply = await get("/api/trace", { id: eventId.value, source: eventSource.value, subscription: subscription.value });
      const stories = reply.brokers.map((each) => each.subscription && each.subscription.explanation).filter(Boolean);
      fill(why, h("p", { class: "note", "data-verdict": "" }, reply.verdict), stories.map((story) => h("pre", null, story)));
    } catch (problem) {
      fill(why, trouble(problem));
    }
  }

  // -- the newest, to choose from
  const newest = h("ul", { class: "newest", "aria-label": "Newest events" }, h("li", { class: "muted small" }, "No event has come yet."));
  let shownAt = 0;
  function showNewest(tick) {
    if (!tick.recent.length || tick.time - shownAt < 2 || newest.contains(document.activeElement) || newest.matches(":hover")) return;
    shownAt = tick.time;
    fill(newest, tick.recent.slice(0, 6).map((event) => h("li", null,
      h("button", { class: "plain", type: "button", "aria-label": `Follow event ${event.id} of ${event.source}`, onclick: () => chosen(event) }, "Follow"),
      h("code", null, event.id), h("span", { class: "muted small" }, `${event.topic || event.source} at ${event.broker}`))));
  }

  function chosen(event) {
    eventId.value = event.id;
    eventSource.value = event.source;
    follow(event.id, event.source).catch((problem) => fill(way, trouble(problem)));
  }

  const field = (id, label, input) => h("div", null, h("label", { for: id }, label), input);
  const element = h("div", { class: "grid cols-2" },
    h("div", { class: "stack" },
      card("Write a filter", h("div", { class: "body" }, editor.element), h("span", { class: "muted small" }, "Ctrl+Space: words that could stand here")),
      card("Publish an event", h("div", { class: "body stack" }, field("attributes", "Attributes, as JSON", attributes), attributesSay,
        h("div", { class: "fields" }, field("topic", "Topic", topic), field("type", "Type", type), field("lifetime", "Lifetime", lifetime)),
        h("div", { class: "row" }, publish, test, !may && h("span", { class: "muted small" }, `${session.name} may not publish here.`)), accepted, answer)),
      card("Or follow one that just came", h("div", { class: "body" }, newest))),
    h("div", { class: "stack" },
      card("Watch it travel", h("div", { class: "body" }, way)),
      card("Why was it not delivered?", h("div", { class: "body stack" },
        h("div", { class: "fields" }, field("event-id", "Event", eventId), field("event-source", "Source", eventSource)),
        field("subscription", "Subscription", subscription), known, h("div", { class: "row" }, h("button", { class: "act", type: "button", onclick: askWhy }, "Why?")), why))));

  const traced = asking.get("trace");
  if (traced) {
    eventId.value = traced;
    eventSource.value = asking.get("source") || "";
    follow(traced, eventSource.value).catch((problem) => fill(way, trouble(problem)));
  }

  return {
    lead: "Everything here is done in your name and by your rights, at this broker.",
    element,
    update(tick) {
      draw();
      showNewest(tick);
    },
    destroy() { following++; graph.destroy(); editor.destroy(); },
  };
}

