// Acts of an operator: asked for first, done by the broker in the visitor's name, and written to its audit.

import { post } from "./api.js";
import { fill, h } from "./dom.js";

export const NEEDS = "This needs the right admin: a rule for that action has to allow it.";

// A button that asks before it acts; without the right it is there, and says why it does nothing.
export function actButton(session, label, { title, question, detail, act, done }) {
  const may = session.may.admin;
  return h("button", {
    class: "plain", type: "button", disabled: !may, title: may ? title || label : NEEDS, "aria-label": title || label,
    onclick: () => confirmed({ label, question, detail, act, done }),
  }, label);
}

// A dialog with what will happen; `detail` may be asked for first (how many a purge meets).
export function confirmed({ label, question, detail, act, done }) {
  const problem = h("p", { class: "note bad", role: "alert", hidden: true });
  const more = h("p", { class: "muted small" });
  const go = h("button", { class: "act", type: "submit" }, label);
  const dialog = h("dialog", { "aria-labelledby": "act-title" }, h("h1", { id: "act-title" }, question), more,
    h("form", { method: "dialog", onsubmit: run }, problem, h("div", { class: "row" }, go, h("button", { class: "plain", type: "button", onclick: close }, "Cancel"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  Promise.resolve(typeof detail === "function" ? detail() : detail).then((text) => fill(more, text || ""), show);

  function close() { dialog.close(); }
  function show(refused) {
    problem.hidden = false;
    fill(problem, refused.hint ? `${refused.message} (${refused.hint})` : refused.message);
  }
  async function run(event) {
    event.preventDefault();
    go.disabled = true;
    try {
      const answer = await act();
      close();
      if (done) done(answer);
    } catch (refused) {
      go.disabled = false;
      show(refused);
    }
  }
}

export function administer(broker, act) {
  return post("/api/admin", { broker, ...act });
}

// Puts what a page shows into its address, so that the link shows the same to others.
export function linked(page, values) {
  const given = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const asked = given.length ? `?${new URLSearchParams(given)}` : "";
  history.replaceState(null, "", `#/${page}${asked}`);
}

export function noRight(session) {
  return session.may.admin ? null : h("p", { class: "note warn", role: "alert" }, NEEDS);
}
