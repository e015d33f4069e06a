// The formal properties, judged over the last minutes.

import { get } from "../api.js";
import { chip, fill, h, nothing } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { clock, plural } from "../words.js";

const SAYS = {
  legality: "Whoever was told of an event had asked for it, and was subscribed then.",
  validity: "Every event that was told had been published.",
  liveness: "Every event that is owed is told in time.",
  completeness: "Everybody who was owed an event heard it.",
  minimality: "Nobody was told of an event twice.",
  fifo: "Events of one publisher came in its order.",
  gap_freedom: "Nothing in between was left out.",
  lp1: "A broker tells its own subscribers of what it has.",
  lp2: "A broker passes on what others want.",
  lp3: "A broker passes on nothing that nobody wants.",
  lp4: "A broker delivers only what is available.",
  view_agreement: "Members of a group agree on who is in it.",
  no_parasites: "Nobody carries events that it did not ask for.",
};

function one([name, verdict]) {
  const kind = verdict.holds === null ? "" : verdict.holds ? "holds" : "broken";
  const mark = verdict.holds === null ? chip("not judged") : verdict.holds ? chip("holds", "good") : chip(`broken ${plural(verdict.violations, "time")}`, "bad");
  return h("article", { class: `verdict ${kind}`, "data-property": name }, h("div", { class: "row between" }, h("h2", null, name.replaceAll("_", " ")), mark),
    h("p", null, SAYS[name] || ""), verdict.holds === null && h("p", { class: "muted" }, verdict.reason), verdict.holds === false && h("p", { class: "note bad" }, verdict.story));
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
    const head = h("div", { class: `note ${broken.length ? "bad" : "good"}`, role: "status" },
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
    lead: "What a paper would demand of this network, checked on what it did: each broker remembers who subscribed, published and was told, and the checker behind tidings check judges it.",
    element: place,
    destroy: poll.stop,
  };
}

