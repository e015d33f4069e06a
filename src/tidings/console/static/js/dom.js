// Making elements. Text is always text: nothing here reads markup out of data.

const SVG = "http://www.w3.org/2000/svg";

function put(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else element.setAttribute(name === "class" ? "class" : name, value === true ? "" : String(value));
  }
  element.append(...children.flat(4).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(tag, props, ...children) {
  return put(document.createElement(tag), props, children);
}

export function s(tag, props, ...children) {
  return put(document.createElementNS(SVG, tag), props, children);
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(4).filter((child) => child !== null && child !== undefined && child !== false));
}

// Sets text only where it differs, so that what did not change is not drawn again.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const ICONS = {
  overlay: "M6 7.5 12 12l6-4.5M12 12v6M6 7.5a2 2 0 1 0-.1 0M18 7.5a2 2 0 1 0-.1 0M12 20.5a2 2 0 1 0-.1 0M12 14a2 2 0 1 0-.1 0",
  subscriptions: "M4 5h16l-6 8v5l-4 2v-7z",
  rates: "M3 17l5-6 4 4 8-9M3 21h18",
  consumers: "M4 6h10M4 12h16M4 18h6M17 5v2M20 17v2",
  store: "M4 6c0-1.7 3.6-3 8-3s8 1.300 8 3-3.600 3-8 3-8-1.300-8-3zM4 6v12c0 1.700 3.600 3 8 3s8-1.300 8-3V6M4 12c0 1.700 3.600 3 8 3s8-1.300 8-3",
  recovery: "M4 12a8 8 0 0 1 14-5l2 2M20 4v5h-5M20 12a8 8 0 0 1-14 5l-2-2M4 20v-5h5",
  verdict: "M12 3l7 3v6c0 4.500-3 7.500-7 9-4-1.500-7-4.500-7-9V6zM9 12l2 2 4-4",
  quality: "M4 20V10M10 20V4M16 20v-7M21 20H2",
  streams: "M3 8c3 0 3-3 6-3s3 3 6 3 3-3 6-3M3 14c3 0 3-3 6-3s3 3 6 3 3-3 6-3M3 20c3 0 3-3 6-3s3 3 6 3 3-3 6-3",
  studies: "M9 3v6l-5 9a2 2 0 0 0 2 3h12a2 2 0 0 0 2-3l-5-9V3M8 3h8M7 15h10",
  history: "M12 7v5l4 2M4 12a8 8 0 1 0 2.500-5.800L4 8M4 3v5h5",
  clients: "M9 11a4 4 0 1 0-.1 0M2 21c0-4 3-6 7-6s7 2 7 6M17 4a4 4 0 0 1 0 7M22 21c0-3-1.500-5-4-5.700",
  groups: "M4 5h6v6H4zM14 5h6v6h-6zM4 15h6v6H4zM14 15h6v6h-6z",
  retained: "M6 3h12v18l-6-5-6 5z",
  letters: "M3 6h18v13H3zM3 7l9 7 9-7",
  try: "M5 4l14 8-14 8z",
  menu: "M4 6h16M4 12h16M4 18h16",
  moon: "M20 14.500A8 8 0 0 1 9.500 4a8 8 0 1 0 10.500 10.500z",
  sun: "M12 7a5 5 0 1 0 .1 0M12 2v2M12 20v2M4 12H2M22 12h-2M5 5l1.500 1.500M17.500 17.500 19 19M19 5l-1.500 1.500M6.500 17.500 5 19",
  out: "M10 4H5v16h5M15 8l4 4-4 4M19 12H9",
};

export function icon(name) {
  return s("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, s("path", { d: ICONS[name] }));
}

export function nothing(iconName, title, ...body) {
  return h("div", { class: "nothing" }, icon(iconName), h("h2", null, title), ...body);
}

export function card(title, body, ...beside) {
  return h("section", { class: "card" }, h("div", { class: "title" }, h("h2", null, title), ...beside), body);
}

export function chip(text, kind) {
  return h("span", { class: `chip ${kind || ""}` }, text);
}
