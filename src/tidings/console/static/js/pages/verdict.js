// The formal properties, judged over the last minutes.

import { get } from "../api.js";
import { chip, fill, h, nothing } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { clock, plural } from "../words.js";

const TITLES = {
  lp1: "Unsubscribe after subscribe", lp2: "Subscriptions end", lp3: "One subscription at a time", lp4: "Notified only while subscribed",
  fifo: "Order per publisher", gap_freedom: "No gaps", view_agreement: "Agreement on views", no_parasites: "No parasites",
};

function title(name) {
  return TITLES[name] || name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");
}

function one([name, verdict]) {
  const kind = verdict.holds === null ? "" : verdict.holds ? "holds" : "broken";
  const mark = verdict.holds === null ? chip("not judged") : verdict.holds ? chip("holds", "good") : chip(`broken ${plural(verdict.violations, "time")}`, "bad");
  return h("article", { class: `verdict ${kind}`, "data-property": name }, h("div", { class: "row between" }, h("h2", null, title(name)), mark),
    h("p", null, verdict.says), h("p", { class: "muted small" }, h("code", null, name), ` · ${verdict.seed}`), verdict.holds === null && h("p", { class: "muted" }, verdict.reason), verdict.holds === false && h("p", { class: "note bad" }, verdict.story));
}

export default function verdict() {
  const place = h("div", { class: "stack" }, h("p", { class: "muted" }, "Asking the brokers for their histories…"));
  const poll = polling(() => get("/api/verdict"), 6, show, (problem) => fill(place, trouble(problem)));

  function show(answer) {
    if (!answer.recorded.length) {
      return fill(place, h("div", { class: "card" }, nothing("verdict", "No broker records its history",
        h("p", null, "Recording costs a little of each publish, so it is off unless asked for. Start every broker of the network with"),
        h("pre", null, "[trace]\nhistory_seconds = 180"), h("p", null, "in its settings; `tidings cluster up 3 --console` does it by itself."))));
    }
    const judged = Object.entries(answer.properties).filter(([, each]) => each.holds !== null);
    const broken = judged.filter(([, each]) => !each.holds);
    const rest = Object.entries(answer.properties).filter(([, each]) => each.holds === null);
    const head = !answer.rows ? h("div", { class: "note warn", role: "status" }, h("strong", null, "Nothing to judge. "), "The brokers recorded no row in this window that may be judged.") : h("div", { class: `note ${broken.length ? "bad" : "good"}`, role: "status" },
      h("strong", null, broken.length ? `${plural(broken.length, "property").replace("propertys", "properties")} broken. ` : `All ${judged.length} promised properties hold. `),
      `${plural(answer.rows, "row")} of ${plural(answer.recorded.length, "broker")}, from ${clock(answer.from)} to ${clock(answer.until)} (${Math.round(answer.until - answer.from)} s), by the contract of ${answer.contract}.`);
    const notes = [
      answer.missing.length && `${answer.missing.join(", ")} record nothing, so what their clients did is not known here, and completeness may not be judged.`,
      answer.left_out && `${plural(answer.left_out, "notification")} of events from before the window were left out.`,
      answer.cut && "There was more than one look can judge: the window was shortened.",
    ].filter(Boolean);
    fill(place, head, notes.map((text) => h("p", { class: "note warn" }, text)), h("div", { class: "verdicts" }, judged.map(one)),
      rest.length && h("details", null, h("summary", { class: "muted small" }, `${rest.length} that this history does not show, or that are not promised`), h("div", { class: "verdicts" }, rest.map(one))));
  }

  return {
    lead: "The guarantees of this network, checked on what happened: each broker records subscriptions, publications and deliveries, and the checker of tidings check judges them.",
    element: place,
    destroy: poll.stop,
  };
}

