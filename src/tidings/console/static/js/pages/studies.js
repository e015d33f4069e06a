// What the studies found: each claim of the papers, their figure and ours.

import { get } from "../api.js";
import { card, chip, fill, h, nothing } from "../dom.js";
import { polling, trouble } from "../poll.js";
import { plural } from "../words.js";

function text(value) {
  return value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

function one(study) {
  const fine = study.claims.filter((claim) => claim.reproduced).length;
  const cell = (label, ...content) => h("td", { role: "cell", "data-label": label }, h("div", null, ...content));
  const rows = study.claims.map((claim) => h("tr", { role: "row" },
    cell("Claim", h("div", { class: "name" }, text(claim.id)), h("div", { class: "muted small" }, claim.paper === null || claim.paper === undefined ? "" : `paper: ${text(claim.paper)}`)),
    cell("Says", text(claim.claim), claim.erratum && h("div", { class: "small muted" }, `Erratum: ${text(claim.erratum)}`)),
    cell("Expected", text(claim.expected)), cell("Ours", text(claim.ours)),
    cell("Verdict", claim.reproduced ? chip("reproduced", "good") : chip("not reproduced", "bad"))));
  const table = h("div", { class: "tablebox", tabindex: "0", role: "region", "aria-label": `Claims of ${study.study}` }, h("table", { class: "claims", role: "table" },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ["Claim", "Says", "Expected", "Ours", "Verdict"].map((name) => h("th", { scope: "col", role: "columnheader" }, name)))), h("tbody", { role: "rowgroup" }, rows)));
  const pictures = study.pictures.length && h("div", { class: "body" }, h("div", { class: "pictures" }, study.pictures.map((name) =>
    h("a", { href: `/api/pictures/${encodeURIComponent(name)}`, target: "_blank", rel: "noopener" }, h("img", { src: `/api/pictures/${encodeURIComponent(name)}`, alt: `Plot ${name.replace(/\.\w+$/, "").replaceAll("-", " ")}`, loading: "lazy" })))));
  const element = card(study.study, h("div", { class: "flush" }, table, pictures), chip(`${fine} of ${plural(study.claims.length, "claim")} reproduced`, fine === study.claims.length ? "good" : "warn"));
  element.dataset.study = study.study;
  return element;
}

export default function studies() {
  const place = h("div", { class: "stack" }, h("p", { class: "muted" }, "Reading the reports…"));
  let before = "";
  const poll = polling(() => get("/api/studies"), 10, (answer) => {
    const now = JSON.stringify(answer);
    if (now === before) return;
    before = now;
    const problems = Object.entries(answer.problems).map(([where, why]) => h("p", { class: "note warn" }, `${where}: ${why}`));
    if (answer.studies.length) return fill(place, problems, answer.studies.map(one));
    fill(place, problems, h("div", { class: "card" }, nothing("studies", "No study has reported yet",
      h("p", null, answer.place ? `Nothing was found in ${answer.place}. Run one:` : "Run one, and tell the broker where its report is:"),
      h("pre", null, `tidings study run policies --json --plots report > report/policies.json${answer.place ? "" : '\n\n[console]\nstudies = "report"'}`))));
  }, (problem) => fill(place, trouble(problem)));
  return {
    lead: "A study repeats an experiment of a paper and says, claim by claim, whether it comes out here.",
    element: place,
    destroy: poll.stop,
  };
}
