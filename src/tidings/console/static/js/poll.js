// Asking again and again while a page is shown, and not while it is hidden or an answer is under way.

import { h } from "./dom.js";

export function polling(ask, seconds, show, fail) {
  let over = false, busy = false;
  async function turn() {
    if (over || busy || document.hidden) return;
    busy = true;
    try {
      const answer = await ask();
      if (!over) show(answer);
    } catch (problem) {
      if (!over) fail(problem);
    }
    busy = false;
  }
  turn();
  const timer = setInterval(turn, seconds * 1000);
  return { again: turn, stop() { over = true; clearInterval(timer); } };
}

export function trouble(problem) {
  return h("div", { class: "note bad", role: "alert" }, problem.hint ? `${problem.message} (${problem.hint})` : problem.message);
}
