// The overlay as a live picture. Links and events on their way are drawn on a canvas; brokers are elements, so
// that they can be reached by keyboard and read aloud. One tab stop; arrow keys go to the broker in that direction.

import { h, s } from "./dom.js";
import { layout } from "./layout.js";
import { count, natural, plural } from "./words.js";

const NEW_SECONDS = 8; // for which a new link glows, and a lost one fades
const TRAVEL_SECONDS = 0.9; // of a dot over a link
const MOST_DOTS = 360;
const DOTS_PER_LINK = 8; // a second, however many events pass
const LABELS = 36; // brokers up to which all have their names written

const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Graph {
  constructor({ label, onchoose = () => {}, dots = true }) {
    this.onchoose = onchoose;
    this.dots = dots ? [] : null;
    this.nodes = new Map();
    this.links = new Map();
    this.lost = [];
    this.chosen = null;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.svg = s("svg", { role: "group", "aria-label": label, onkeydown: (event) => this.#key(event) });
    this.element = h("div", { class: "overlay" }, this.canvas, this.svg);
    this.context = this.canvas.getContext("2d");
    this.resizing = new ResizeObserver(() => this.#size());
    this.resizing.observe(this.element);
    this.theming = new MutationObserver(() => this.#colours());
    this.theming.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.#colours();
    this.frame = 0;
    this.last = 0;
  }

  destroy() {
    this.resizing.disconnect();
    this.theming.disconnect();
    cancelAnimationFrame(this.frame);
    this.frame = -1;
  }

  #colours() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.colour = { line: colour("--line-strong"), dot: colour("--accent"), made: colour("--accent"), cut: colour("--bad") };
    this.#wake();
  }

  #size() {
    const box = this.element.getBoundingClientRect();
    const scale = Math.min(devicePixelRatio || 1, 2);
    this.width = box.width;
    this.height = box.height;
    this.canvas.width = Math.round(box.width * scale);
    this.canvas.height = Math.round(box.height * scale);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    for (const node of this.nodes.values()) this.#settle(node, true);
    this.#wake();
  }

  // brokers: [{name, heat (0–1, by `heat`), size (0–1), own, gone, says}]; links: [{a, b, ab, ba}] with events a second.
  update(brokers, links, now) {
    const names = brokers.map((each) => each.name);
    const shape = links.map((each) => `${each.a} ${each.b}`).sort().join("|") + "/" + [...names].sort().join("|");
    if (shape !== this.shape) {
      this.#reshape(names, links, this.shape !== undefined, now);
      this.shape = shape;
    }
    for (const each of links) Object.assign(this.links.get(`${each.a} ${each.b}`), { ab: each.ab || 0, ba: each.ba || 0 });
    for (const each of brokers) this.#dress(this.nodes.get(each.name), each, brokers.length);
    this.#wake();
  }

  #reshape(names, links, isChange, now) {
    const before = new Map([...this.nodes].map(([name, node]) => [name, node.place]));
    const places = layout(names, links.map((each) => [each.a, each.b]), before);
    for (const [name, node] of this.nodes) {
      if (!places.has(name)) {
        node.element.remove();
        this.nodes.delete(name);
      }
    }
    for (const name of [...names].sort(natural)) {
      const node = this.nodes.get(name) || this.#make(name);
      node.place = places.get(name);
      this.#settle(node, !isChange || node.x === undefined);
    }
    const keep = new Set(links.map((each) => `${each.a} ${each.b}`));
    for (const [key, link] of this.links) {
      if (!keep.has(key)) {
        this.links.delete(key);
        if (isChange) this.lost.push({ a: link.a, b: link.b, since: performance.now() });
      }
    }
    for (const each of links) {
      const key = `${each.a} ${each.b}`;
      if (!this.links.has(key)) this.links.set(key, { a: each.a, b: each.b, ab: 0, ba: 0, owed: 0, since: isChange ? performance.now() : -1e9 });
    }
    if (this.dots) this.dots = this.dots.filter((dot) => this.links.has(dot.key));
    this.#rove();
  }

  #make(name) {
    const disc = s("circle", { class: "disc heat-0", r: 9 });
    const ring = s("circle", { class: "ring", r: 13 });
    const pulse = s("circle", { class: "pulse", r: 14 });
    const text = s("text", { y: 27 }, name);
    const element = s("g", {
      class: "node", role: "button", tabindex: "-1", "data-broker": name, "aria-label": name,
      onclick: () => this.choose(name), onfocus: () => this.#rove(name),
    }, pulse, ring, disc, text);
    this.svg.append(element);
    const node = { name, element, disc, ring, pulse, text };
    this.nodes.set(name, node);
    return node;
  }

  #dress(node, each, many) {
    const r = 8 + 9 * Math.sqrt(each.size || 0) - (many > 60 ? 3 : 0);
    node.disc.setAttribute("r", r.toFixed(1));
    node.ring.setAttribute("r", (r + 4).toFixed(1));
    node.text.setAttribute("y", (r + 17).toFixed(1));
    const step = Math.round((each.heat || 0) * HEAT_STEPS.length);
    node.disc.setAttribute("class", `disc heat-${step}`);
    const quiet = many > LABELS && !each.own && step < 3 && !each.gone;
    const classes = ["node", each.own && "own", each.gone && "gone", quiet && "quiet", node.name === this.chosen && "chosen"];
    node.element.setAttribute("class", classes.filter(Boolean).join(" "));
    node.element.setAttribute("aria-label", each.says);
    node.element.setAttribute("aria-pressed", String(node.name === this.chosen));
  }

  pulse(name) {
    const node = this.nodes.get(name);
    if (!node) return;
    node.pulse.classList.remove("on");
    void node.pulse.getBoundingClientRect();
    node.pulse.classList.add("on");
  }

  // One event from a broker to its neighbour, after so many seconds.
  fly(from, to, seconds) {
    const [a, b] = from < to ? [from, to] : [to, from];
    const key = `${a} ${b}`;
    if (this.dots && this.links.has(key)) this.dots.push({ key, link: this.links.get(key), back: from !== a, at: -seconds / TRAVEL_SECONDS, large: true });
    this.#wake();
  }

  choose(name) {
    this.chosen = name;
    for (const node of this.nodes.values()) {
      node.element.classList.toggle("chosen", node.name === name);
      node.element.setAttribute("aria-pressed", String(node.name === name));
    }
    this.onchoose(name);
  }

  // -- keyboard

  #rove(name) {
    const stop = name || this.stop;
    this.stop = this.nodes.has(stop) ? stop : this.nodes.keys().next().value;
    for (const node of this.nodes.values()) node.element.setAttribute("tabindex", node.name === this.stop ? "0" : "-1");
  }

  #key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const here = this.nodes.get(event.target.dataset ? event.target.dataset.broker : "");
    if (!here) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.choose(here.name);
    } else if (ways[event.key]) {
      event.preventDefault();
      const [x, y] = ways[event.key];
      let best = null;
      for (const node of this.nodes.values()) {
        const [dx, dy] = [node.x - here.x, node.y - here.y];
        const along = dx * x + dy * y;
        if (along <= 1) continue;
        const cost = along + 2.2 * Math.abs(dx * y - dy * x);
        if (!best || cost < best.cost) best = { node, cost };
      }
      if (best) best.node.element.focus();
    }
  }

  // -- drawing

  #aim(node) {
    const [mx, my] = [46, 42];
    const { x, y } = this.height > 1.2 * this.width ? { x: node.place.y, y: node.place.x } : node.place;
    return {
      x: this.width / 2 + (x * (this.width - 2 * mx)) / 2,
      y: this.height / 2 - 6 + (y * (this.height - 2 * my)) / 2,
    };
  }

  #settle(node, atOnce) {
    if (!this.width || !node.place) return;
    const aim = this.#aim(node);
    if (atOnce || still.matches || node.x === undefined) {
      node.x = aim.x;
      node.y = aim.y;
      node.element.setAttribute("transform", `translate(${aim.x.toFixed(1)} ${aim.y.toFixed(1)})`);
    }
  }

  #wake() {
    if (this.frame === 0 && this.width) this.frame = requestAnimationFrame((time) => this.#draw(time));
  }

  #draw(time) {
    if (this.frame === -1) return;
    this.frame = 0;
    const step = Math.min(0.1, (time - this.last) / 1000 || 0);
    this.last = time;
    const moving = this.#move(step);
    const context = this.context;
    context.clearRect(0, 0, this.width, this.height);
    const glowing = this.#drawLinks(context, performance.now());
    const flying = this.dots && !still.matches ? this.#drawDots(context, step) : false;
    if (moving || glowing || flying) this.#wake();
  }

  #move(step) {
    let moving = false;
    const part = 1 - Math.exp(-step * 5);
    for (const node of this.nodes.values()) {
      const aim = this.#aim(node);
      const [dx, dy] = [aim.x - node.x, aim.y - node.y];
      if (Math.abs(dx) + Math.abs(dy) < 0.3) continue;
      moving = true;
      node.x += dx * part;
      node.y += dy * part;
      node.element.setAttribute("transform", `translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})`);
    }
    return moving;
  }

  #drawLinks(context, now) {
    let glowing = false;
    context.lineCap = "round";
    for (const link of this.links.values()) {
      const [a, b] = [this.nodes.get(link.a), this.nodes.get(link.b)];
      if (!a || !b) continue;
      const young = 1 - (now - link.since) / 1000 / NEW_SECONDS;
      context.globalAlpha = 1;
      context.strokeStyle = this.colour.line;
      context.lineWidth = 1.4 + Math.min(5, Math.log2(1 + link.ab + link.ba) * 0.55);
      line(context, a, b);
      if (young > 0) {
        glowing = true;
        context.globalAlpha = Math.min(1, young * 1.6);
        context.strokeStyle = this.colour.made;
        context.lineWidth += 1.5;
        line(context, a, b);
      }
    }
    context.setLineDash([5, 6]);
    context.strokeStyle = this.colour.cut;
    context.lineWidth = 2;
    this.lost = this.lost.filter((each) => now - each.since < NEW_SECONDS * 1000);
    for (const each of this.lost) {
      const [a, b] = [this.nodes.get(each.a), this.nodes.get(each.b)];
      if (!a || !b) continue;
      glowing = true;
      context.globalAlpha = 1 - (now - each.since) / 1000 / NEW_SECONDS;
      line(context, a, b);
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
    return glowing;
  }

  #drawDots(context, step) {
    let busy = false;
    for (const [key, link] of this.links) {
      const rate = Math.min(link.ab + link.ba, DOTS_PER_LINK);
      if (rate <= 0) continue;
      busy = true;
      link.owed += rate * step;
      while (link.owed >= 1) {
        link.owed -= 1;
        const back = Math.random() * (link.ab + link.ba) >= link.ab;
        if (this.dots.length < MOST_DOTS) this.dots.push({ key, link, back, at: 0 });
      }
    }
    context.fillStyle = this.colour.dot;
    context.beginPath();
    for (const dot of this.dots) {
      dot.at += step / TRAVEL_SECONDS;
      const [a, b] = [this.nodes.get(dot.link.a), this.nodes.get(dot.link.b)];
      if (!a || !b) continue;
      if (dot.at < 0) continue;
      const part = dot.back ? 1 - dot.at : dot.at;
      const [x, y] = [a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part];
      const r = dot.large ? 6 : 3;
      context.moveTo(x + r, y);
      context.arc(x, y, r, 0, 7);
    }
    context.fill();
    this.dots = this.dots.filter((dot) => dot.at < 1);
    return busy || this.dots.length > 0;
  }
}

function line(context, a, b) {
  context.beginPath();
  context.moveTo(a.x, a.y);
  context.lineTo(b.x, b.y);
  context.stroke();
}

// Upper ends of the steps of heat, in events a second: an absolute scale, so that a quiet network is never red.
export const HEAT_STEPS = [10, 100, 1000, 10000];

export function heat(load) {
  const step = HEAT_STEPS.findIndex((end) => load < end);
  return (step < 0 ? HEAT_STEPS.length : step) / HEAT_STEPS.length;
}

// A tick's brokers and links as the graph takes them.
export function pictured(tick) {
  const load = (each) => (each.rates ? each.rates.published + each.rates["events over links"] + each.rates.delivered : 0);
  const held = (each) => (each.levels ? each.levels.subscriptions || 0 : 0);
  const mostHeld = Math.max(1, ...tick.brokers.map(held));
  const brokers = tick.brokers.map((each) => ({
    name: each.name, own: each.name === tick.own, gone: Boolean(each.problem), heat: heat(load(each)),
    size: held(each) / mostHeld,
    says: each.problem ? `${each.name}: ${each.problem}`
      : `${each.name}: ${plural(Math.round(load(each)), "event")} a second, ${plural(each.links.length, "link")}, ${plural(held(each), "subscription")}, ${count(each.levels.waiting || 0)} waiting`,
  }));
  const rates = new Map(tick.links.map((each) => [`${each.a} ${each.b}`, each]));
  const pairs = new Map();
  const known = new Set(brokers.map((each) => each.name));
  for (const each of tick.brokers) {
    for (const other of each.links) {
      if (!known.has(other)) continue;
      const [a, b] = each.name < other ? [each.name, other] : [other, each.name];
      pairs.set(`${a} ${b}`, rates.get(`${a} ${b}`) || { a, b, ab: 0, ba: 0 });
    }
  }
  return { brokers, links: [...pairs.values()] };
}
