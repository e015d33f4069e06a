// Lines over time on a canvas, with axes that read well, a legend, and what the pointer is at.

import { h } from "./dom.js";
import { clock, count } from "./words.js";

const GAP_SECONDS = 12;
const PAD = { left: 52, right: 12, top: 10, bottom: 22 };

const MARKS = 4; // at most, above zero

// The step between marks of an axis: 1, 2 or 5 times a power of ten, so that every mark is a round number.
export function stepFor(top, whole = false) {
  const size = 10 ** Math.floor(Math.log10(top / MARKS));
  const step = [1, 2, 5, 10].map((each) => each * size).find((each) => each * MARKS >= top);
  return whole ? Math.max(1, step) : step;
}

export function marksFor(top, whole = false) {
  const step = stepFor(top, whole);
  return Array.from({ length: Math.ceil(top / step) + 1 }, (_, number) => Number((number * step).toPrecision(12)));
}

export class Plot {
  // series: [{name, colour: "--accent", of: (total) => number | null}]
  constructor({ label, series, height = 210, unit = count, log = false, area = false, whole = false, gap = GAP_SECONDS, end = "now" }) {
    Object.assign(this, { label, series, height, unit, log, area, whole, gap, end, data: [], at: null });
    this.canvas = h("canvas", { role: "img", "aria-label": label });
    this.tip = h("div", { class: "tip", "aria-hidden": "true" });
    this.legend = h("div", { class: "legend" }, series.map((each) => {
      const mark = h("i");
      mark.style.background = `var(${each.colour})`;
      return h("span", null, mark, each.name);
    }));
    this.element = h("div", { class: "plot" }, this.canvas, this.tip);
    this.canvas.style.height = `${height}px`;
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("pointerleave", () => this.#point(null));
    this.resizing = new ResizeObserver(() => this.draw());
    this.resizing.observe(this.element);
    this.theming = new MutationObserver(() => this.draw());
    this.theming.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  }

  destroy() {
    this.resizing.disconnect();
    this.theming.disconnect();
  }

  update(data) {
    this.data = data;
    this.draw();
    const last = data.at(-1);
    if (last) {
      const now = this.series.map((each) => `${each.name} ${this.unit(each.of(last))}`).join(", ");
      this.canvas.setAttribute("aria-label", `${this.label}. Now: ${now}.`);
    }
  }

  #frame() {
    const width = this.element.clientWidth;
    const scale = Math.min(devicePixelRatio || 1, 2);
    const [w, hgt] = [Math.round(width * scale), Math.round(this.height * scale)];
    if (this.canvas.width !== w || this.canvas.height !== hgt) {
      this.canvas.width = w;
      this.canvas.height = hgt;
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, this.height);
    return { context, width };
  }

  #scales(width) {
    const values = this.data.flatMap((each) => this.series.map((line) => line.of(each))).filter((each) => each !== null && each !== undefined);
    const most = Math.max(...values, 1);
    const marks = this.log ? [1, 10, 100, 1000, 10000].filter((each) => each <= 10 || each < 10 * most) : marksFor(most * 1.02, this.whole);
    const top = marks.at(-1);
    const bottom = this.log ? 0.25 : 0;
    const end = this.data.length ? this.data.at(-1).time : 0;
    const span = Math.max(60, this.data.length ? end - this.data[0].time : 60);
    const x = (time) => PAD.left + ((time - end + span) / span) * (width - PAD.left - PAD.right);
    const room = this.height - PAD.top - PAD.bottom;
    const part = this.log ? (value) => Math.log(Math.max(value, bottom) / bottom) / Math.log(top / bottom) : (value) => value / top;
    return { x, y: (value) => PAD.top + room * (1 - part(value)), top, bottom, end, span, marks };
  }

  #axes(context, width, scales, colour) {
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const mark of scales.marks) {
      const y = Math.round(scales.y(mark)) + 0.5;
      context.strokeStyle = colour("--line");
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(PAD.left, y);
      context.lineTo(width - PAD.right, y);
      context.stroke();
      context.fillStyle = colour("--ink-3");
      context.fillText(this.unit(mark), PAD.left - 8, y);
    }
    context.textAlign = "center";
    const steps = width > 520 ? 4 : 2;
    for (let step = 0; step <= steps; step++) {
      const time = scales.end - (scales.span * step) / steps;
      const gone = Math.round(scales.end - time);
      const text = step === 0 ? this.end : gone < 100 ? `−${gone} s` : `−${(gone / 60).toFixed(gone % 60 ? 1 : 0)} min`;
      context.textAlign = step === 0 ? "right" : step === steps ? "left" : "center";
      context.fillText(text, scales.x(time), this.height - 9);
    }
  }

  draw() {
    const { context, width } = this.#frame();
    if (!width) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const scales = this.scales = this.#scales(width);
    this.#axes(context, width, scales, colour);
    for (const line of this.series) this.#line(context, line, scales, colour(line.colour));
    if (this.at !== null && this.data[this.at]) {
      context.strokeStyle = colour("--ink-3");
      context.lineWidth = 1;
      const x = scales.x(this.data[this.at].time);
      context.beginPath();
      context.moveTo(x, PAD.top);
      context.lineTo(x, this.height - PAD.bottom);
      context.stroke();
    }
  }

  // Pieces of a line, with a gap where no value was recorded.
  #pieces(line, scales) {
    const pieces = [];
    let last = null;
    for (const each of this.data) {
      const value = line.of(each);
      if (value === null || value === undefined) {
        if (!this.log) last = null;
        continue;
      }
      const point = { x: scales.x(each.time), y: scales.y(value), time: each.time };
      if (last && each.time - last.time < this.gap) pieces.at(-1).push(point);
      else pieces.push([point]);
      last = point;
    }
    return pieces;
  }

  #line(context, line, scales, colour) {
    const pieces = this.#pieces(line, scales);
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 2;
    context.lineJoin = "round";
    for (const points of pieces) {
      context.beginPath();
      points.forEach((point, number) => (number ? context.lineTo(point.x, point.y) : context.moveTo(point.x, point.y)));
      context.stroke();
      if (!this.area) continue;
      context.lineTo(points.at(-1).x, scales.y(0));
      context.lineTo(points[0].x, scales.y(0));
      context.globalAlpha = 0.1;
      context.fill();
      context.globalAlpha = 1;
    }
    const end = pieces.at(-1)?.at(-1);
    if (!end) return;
    context.beginPath();
    context.arc(end.x, end.y, 3, 0, 7);
    context.fill();
  }

  #point(event) {
    if (!event || !this.data.length || !this.scales) {
      this.at = null;
      this.tip.classList.remove("on");
      return this.draw();
    }
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    let best = 0;
    this.data.forEach((each, number) => {
      if (Math.abs(this.scales.x(each.time) - x) < Math.abs(this.scales.x(this.data[best].time) - x)) best = number;
    });
    this.at = best;
    const here = this.data[best];
    this.tip.replaceChildren(h("div", null, clock(here.time)), ...this.series.map((each) => h("div", null, `${each.name}: ${this.unit(each.of(here))}`)));
    const left = this.scales.x(here.time);
    this.tip.style.top = "6px";
    this.tip.style.left = left > box.width / 2 ? "" : `${left + 12}px`;
    this.tip.style.right = left > box.width / 2 ? `${box.width - left + 12}px` : "";
    this.tip.classList.add("on");
    this.draw();
  }
}

// A small line without axes, for tiles.
export function spark(canvas, values) {
  const width = canvas.clientWidth;
  if (!width) return;
  const scale = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(22 * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  const known = values.slice(-90);
  const top = Math.max(...known, 1e-9);
  context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  context.beginPath();
  known.forEach((value, number) => {
    const x = 1 + ((width - 2) * (number + 90 - known.length)) / 89;
    const y = 20 - 18 * (value / top);
    if (number) context.lineTo(x, y);
    else context.moveTo(x, y);
  });
  context.stroke();
}
