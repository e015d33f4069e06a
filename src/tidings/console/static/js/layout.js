// Where brokers stand: a tree drawn as rings around its middle, each subtree with the angle that its leaves need.
// A graph that is no tree is laid out by its breadth-first tree. Positions are between -1 and 1.

import { natural } from "./words.js";

export function neighbours(names, links) {
  const found = new Map(names.map((name) => [name, []]));
  for (const [a, b] of links) {
    if (found.has(a) && found.has(b)) {
      found.get(a).push(b);
      found.get(b).push(a);
    }
  }
  return found;
}

function reached(from, around) {
  const far = new Map([[from, 0]]);
  const order = [from];
  for (const here of order) {
    for (const next of around.get(here)) {
      if (!far.has(next)) {
        far.set(next, far.get(here) + 1);
        order.push(next);
      }
    }
  }
  return { far, order };
}

// The middle of the longest way through the part that `from` is in.
function middle(from, around) {
  const one = reached(from, around).order.at(-1);
  const { far, order } = reached(one, around);
  const depth = far.get(order.at(-1));
  let here = order.at(-1);
  for (let step = 0; step < Math.floor(depth / 2); step++) {
    here = around.get(here).find((next) => far.get(next) === far.get(here) - 1);
  }
  return here;
}

function placed(root, around, centre, size, before, places) {
  const { far, order } = reached(root, around);
  const children = new Map(order.map((name) => [name, []]));
  const seen = new Set([root]);
  for (const here of order) {
    for (const next of around.get(here)) {
      if (!seen.has(next) && far.get(next) === far.get(here) + 1) {
        seen.add(next);
        children.get(here).push(next);
      }
    }
  }
  const angle = (name) => (before.has(name) ? Math.atan2(before.get(name).y, before.get(name).x) : null);
  for (const list of children.values()) {
    list.sort((a, b) => {
      const [one, other] = [angle(a), angle(b)];
      return one !== null && other !== null && one !== other ? one - other : natural(a, b);
    });
  }
  const leaves = new Map();
  for (const name of [...order].reverse()) {
    leaves.set(name, Math.max(1, children.get(name).reduce((sum, child) => sum + leaves.get(child), 0)));
  }
  const depth = Math.max(1, ...far.values());
  const put = (name, from, to) => {
    const ring = far.get(name) / depth;
    const at = (from + to) / 2;
    places.set(name, { x: centre.x + Math.cos(at) * ring * size, y: centre.y + Math.sin(at) * ring * size });
    let start = from;
    for (const child of children.get(name)) {
      const width = ((to - from) * leaves.get(child)) / leaves.get(name);
      put(child, start, start + width);
      start += width;
    }
  };
  put(root, -Math.PI / 2, 1.5 * Math.PI);
}

export function layout(names, links, before) {
  const around = neighbours(names, links);
  const places = new Map();
  const parts = [];
  const seen = new Set();
  for (const name of [...names].sort(natural)) {
    if (seen.has(name)) continue;
    const { order } = reached(name, around);
    order.forEach((each) => seen.add(each));
    parts.push(order);
  }
  parts.sort((a, b) => b.length - a.length);
  const [largest, ...others] = parts;
  if (!largest) return places;
  const apart = others.length ? 0.72 : 0.88;
  placed(middle(largest[0], around), around, { x: others.length ? -0.2 : 0, y: 0 }, apart, before, places);
  others.forEach((part, number) => {
    const y = others.length === 1 ? 0 : -0.8 + (1.6 * number) / (others.length - 1);
    placed(middle(part[0], around), around, { x: 0.8, y }, 0.14, before, places);
  });
  return fitted(places);
}

// Shifted and stretched, each way by itself, so that the picture is filled; a line stays a line.
function fitted(places) {
  for (const axis of ["x", "y"]) {
    const values = [...places.values()].map((place) => place[axis]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const scale = high - low > 0.2 ? Math.min(2.2, 1.84 / (high - low)) : 1;
    for (const place of places.values()) place[axis] = (place[axis] - (low + high) / 2) * scale;
  }
  return places;
}
