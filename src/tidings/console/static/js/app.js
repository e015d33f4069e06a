// The frame: who is here, which page is shown, light or dark, and how the stream stands.

import { get, post, remove } from "./api.js";
import { fill, h, icon, say } from "./dom.js";
import { live } from "./live.js";

const PAGES = [
  ["", [["overlay", "Overlay"], ["rates", "Rates and delays"], ["history", "History"], ["subscriptions", "Subscriptions"], ["consumers", "Slow consumers"]]],
  ["Operate", [["clients", "Clients"], ["groups", "Groups and holds"], ["letters", "Dead letters"], ["retained", "Retained messages"]]],
  ["Keeping the promise", [["store", "Store"], ["recovery", "Recovery"], ["verdict", "Verdict"]]],
  ["Data", [["quality", "Quality"], ["streams", "Spark streams"], ["studies", "Studies"]]],
  ["Hands on", [["try", "Try it"]]],
];
const KNOWN = PAGES.flatMap(([, pages]) => pages);
const SAYS = { live: "live", waiting: "waiting for the broker", lost: "not connected" };

const main = h("main", { id: "main", tabindex: "-1" });
const status = h("span", { class: "status", role: "status" }, h("i"), h("span", null, SAYS.waiting));
const who = h("span", { class: "who" });
const themer = h("button", { class: "icon", type: "button", onclick: turn });
const leave = h("button", { class: "icon", type: "button", "aria-label": "Sign out", title: "Sign out", onclick: signOut, hidden: true }, icon("out"));
const here = h("span");
const menu = h("button", { class: "menu", type: "button", "aria-expanded": "false", "aria-controls": "pages", onclick: () => showPages(menu.getAttribute("aria-expanded") !== "true") }, icon("menu"), here);
let session = null;
let page = null;
let turnNumber = 0;

function frame() {
  const nav = h("ul", { class: "nav", id: "pages" }, PAGES.flatMap(([group, pages]) => [
    group && h("li", { class: "group", "aria-hidden": "true" }, group),
    ...pages.map(([name, title]) => h("li", null, h("a", { href: `#/${name}`, "data-page": name }, icon(name), h("span", null, title)))),
  ]));
  document.body.append(
    h("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); main.focus(); } }, "Skip to the page"),
    h("nav", { class: "side", "aria-label": "Pages" },
      h("div", { class: "brand" }, h("img", { src: "/icon.svg", alt: "" }), h("span", null, "Tidings")),
      menu,
      nav,
      h("div", { class: "foot" }, who, h("span", { class: "row" }, themer, leave))),
    main,
  );
}

// On a narrow window the pages are behind one button, which names the page that is shown.
function showPages(open) {
  menu.setAttribute("aria-expanded", String(open));
}

function showTheme() {
  const dark = document.documentElement.dataset.theme === "dark";
  fill(themer, icon(dark ? "sun" : "moon"));
  themer.setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
  themer.title = themer.getAttribute("aria-label");
}

function turn() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("tidings-theme", theme); } catch { /* it holds until the page is closed */ }
  showTheme();
}

// -- pages

async function route() {
  const asked = location.hash.replace(/^#\//, "").split("?")[0] || "overlay";
  const [name, title] = KNOWN.find(([each]) => each === asked) || KNOWN[0];
  const number = ++turnNumber;
  say(here, title);
  showPages(false);
  for (const link of document.querySelectorAll(".nav a")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!session || !session.is_known) return;
  const made = await import(`./pages/${name}.js`);
  if (number !== turnNumber) return;
  if (page && page.destroy) page.destroy();
  document.title = `${title} · ${session.broker} · Tidings`;
  const asking = new URLSearchParams(location.hash.split("?")[1] || "");
  page = made.default({ live, session, asking });
  const lead = h("div", null, h("h1", null, title), page.lead && h("p", { class: "lead" }, page.lead));
  fill(main, h("header", { class: "head" }, lead, status), page.element);
  main.dataset.page = name;
  if (live.last && page.update) page.update(live.last);
  if (document.activeElement && document.activeElement.closest(".nav")) main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

function draw() {
  if (page && page.update && live.last && !document.hidden) page.update(live.last);
}

// -- who

async function begin() {
  try {
    session = await get("/api/session");
  } catch (problem) {
    fill(main, h("div", { class: "note bad", role: "alert" }, `${problem.message}. ${problem.hint}`));
    setTimeout(begin, 3000);
    return;
  }
  if (!session.is_known) return ask();
  say(who, `${session.name} at ${session.broker}`);
  leave.hidden = session.is_anonymous;
  if (!session.may.observe) {
    fill(main, h("div", { class: "note warn", role: "alert" }, `${session.name} may not observe ${session.broker}: a rule for the action observe has to allow it.`));
    return;
  }
  live.open();
  route();
}

function ask() {
  const problem = h("p", { class: "note bad", role: "alert", hidden: true });
  const name = h("input", { id: "name", autocomplete: "username" });
  const password = h("input", { id: "password", type: "password", autocomplete: "current-password" });
  const token = h("input", { id: "token", type: "password", autocomplete: "off" });
  const form = h("form", { method: "dialog", onsubmit: enter },
    h("div", null, h("label", { for: "name" }, "Name"), name),
    h("div", null, h("label", { for: "password" }, "Password"), password),
    h("div", null, h("label", { for: "token" }, "Or a signed token"), token),
    problem, h("div", null, h("button", { class: "act", type: "submit" }, "Sign in")));
  const dialog = h("dialog", { "aria-labelledby": "ask-title" }, h("h1", { id: "ask-title" }, `Sign in at ${session.broker}`),
    h("p", { class: "muted small" }, "You see what this broker lets you see. Your secret stays in its memory, and in no store of this browser."), form);
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  document.body.append(dialog);
  dialog.showModal();

  async function enter(event) {
    event.preventDefault();
    const said = token.value ? { token: token.value } : { name: name.value, password: password.value };
    try {
      await post("/api/session", said);
    } catch (refused) {
      problem.hidden = false;
      say(problem, refused.hint ? `${refused.message} (${refused.hint})` : refused.message);
      password.value = "";
      return;
    }
    dialog.close();
    dialog.remove();
    begin();
  }
}

// A stream ends with its session, and when the rights of its user change; what changed before the next one began is seen then.
async function look() {
  const now = await get("/api/session").catch(() => null);
  if (!now || !session || !session.is_known) return;
  if (!now.is_known || now.name !== session.name || !now.may.observe) return location.reload();
  if (JSON.stringify(now.may) === JSON.stringify(session.may)) return;
  session = now;
  route();
}

async function signOut() {
  live.close();
  if (page && page.destroy) page.destroy();
  page = null;
  await remove("/api/session").catch(() => null);
  location.reload();
}

frame();
showTheme();
addEventListener("hashchange", route);
addEventListener("keydown", (event) => { if (event.key === "Escape") showPages(false); });
live.addEventListener("tick", draw);
live.addEventListener("past", () => { draw(); look(); });
live.addEventListener("state", async () => {
  status.dataset.state = live.state;
  say(status.lastChild, SAYS[live.state]);
  if (live.state !== "live") look();
});
document.addEventListener("visibilitychange", draw);
begin();
