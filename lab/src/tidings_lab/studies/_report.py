"""One page for a reviewer: every table and figure of the documents, the paper's value, ours, the verdict, the
plot.

It stands on its own: pictures are inside the file, and the page fetches no resource. It is made from what was
run and kept (`FOLDER/studies/NAME.json`), from benchmarks that lie beside it (`FOLDER/benches/NAME.json`, as
`tidings bench NAME --json` prints them), and from the campaign's `soak.json`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from tidings_lab.studies._contents import DOCUMENTS, ERRATA, Document, Shown
from tidings_lab.studies.study import PaperClaim, StudyTable


class StudyRecord(msgspec.Struct, kw_only=True):
    """A study that was run."""

    study: str
    title: str
    answers: str
    quick: bool
    seed: int
    version: str
    seconds: float
    claims: list[PaperClaim]
    tables: list[StudyTable] = []
    plots: list[str] = []  # file names below `plots/`

    @property
    def command(self) -> str:
        return f"tidings study run {self.study} --seed {self.seed}" + (" --quick" if self.quick else "")


def write(folder: Path, found: Sequence[StudyRecord], *, soak: Path | None = None) -> Path:
    """`index.html` in the folder; the claims alone, as Markdown, beside it."""
    benches = [msgspec.json.decode(file.read_bytes()) for file in sorted((folder / "benches").glob("*.json"))]
    held = msgspec.json.decode(soak.read_bytes())["parts"] if soak is not None and soak.exists() else []
    body = [
        _summary(found),
        *(_document(document, found) for document in DOCUMENTS),
        "<h2 id=wrong>What we found wrong in the texts</h2>",
        _errata(found),
        "<h2 id=studies>The studies</h2>",
        *(_study(each, folder) for each in found),
        "<h2 id=beyond>Beyond the papers</h2>",
        _beyond(found),
        "<h2 id=benchmarks>Benchmarks</h2>",
        *([_bench(bench) for bench in benches] or ["<p>None lie in <code>benches/</code> yet: "
           "<code>tidings bench NAME --json &gt; report/benches/NAME.json</code></p>"]),
        "<h2 id=soak>The long campaign</h2>",
        _soak(held),
    ]  # fmt: skip
    (folder / "claims.md").write_text(claims_page(found), encoding="utf-8")
    page = folder / "index.html"
    page.write_text(_PAGE.replace("{body}", "\n".join(body)), encoding="utf-8")
    return page


def _summary(found: Sequence[StudyRecord]) -> str:
    claims = [claim for each in found for claim in each.claims]
    good = sum(claim.reproduced for claim in claims)
    quick = [each.study for each in found if each.quick]
    note = f"<p class=note>Run in their quick form: {escape(', '.join(quick))}.</p>" if quick else ""
    rows = "".join(
        f"<tr><td><a href=#{escape(each.study)}>{escape(each.title)}</a><td>{escape(each.answers)}"
        f"<td class=number>{sum(c.reproduced for c in each.claims)} of {len(each.claims)}<td "
        f"class=number>{each.seconds:.0f} s"
        for each in found
    )
    return (
        f"<p class=lead><b>{good} of {len(claims)}</b> claims hold in {len(found)} studies.</p>{note}"
        f"<div class=wide><table><tr><th>study<th>answers<th>claims<th>time{rows}</table></div>"
    )


def _document(document: Document, found: Sequence[StudyRecord]) -> str:
    rows = "".join(_shown(shown, found) for shown in document.shows)
    return (
        f"<h2>{escape(document.authors)}</h2><p>{escape(document.title)}</p><div class=wide><table>"
        f"<tr><th>place<th>what it shows<th>answered by<th>verdict{rows}</table></div>"
    )


def _shown(shown: Shown, found: Sequence[StudyRecord]) -> str:
    by_name = {each.study: each for each in found}
    claims = [
        claim
        for name in shown.studies
        if name in by_name
        for claim in by_name[name].claims
        if claim.id.startswith(shown.ids)
    ]
    answers = [f"<a href=#{name}>{name}</a>" for name in shown.studies]
    answers += [f"<code>tests/{escape(test)}</code>" for test in shown.tests]
    if claims:
        good = sum(claim.reproduced for claim in claims)
        verdict = (
            f"<b class={'good' if good == len(claims) else 'bad'}>{good} of {len(claims)} claims hold</b>"
        )
    elif any(name not in by_name for name in shown.studies):
        verdict = "the study was not run"
    else:
        verdict = "exact, in every run of the tests" if shown.tests else "see the study"
    return f"<tr><td>{escape(shown.place)}<td>{escape(shown.what)}<td>{'<br>'.join(answers)}<td>{verdict}"


def _errata(found: Sequence[StudyRecord]) -> str:
    used = {claim.erratum for each in found for claim in each.claims if claim.erratum}
    known = "".join(f"<li><code>{code}</code> {escape(words)}" for code, words in ERRATA.items())
    others = sorted(words for words in used if not re.match(r"E-[A-Z]\d+[a-z]?\b", words))
    return f"<ul>{known}{''.join(f'<li>{escape(words)}' for words in others)}</ul>"


def _beyond(found: Sequence[StudyRecord]) -> str:
    """Claims of ours that no paper makes."""
    rows = "".join(
        f"<tr><td><a href=#{escape(each.study)}>{escape(each.study)}</a>{_claim(claim).removeprefix('<tr>')}"
        for each in found
        for claim in each.claims
        if claim.paper is None
    )
    if not rows:
        return "<p>No study that was run has any.</p>"
    head = "<tr><th>study<th>id<th>claim<th>paper<th>expected<th>ours<th>within<th>verdict"
    return f"<div class=wide><table>{head}{rows}</table></div>"


def claims_page(found: Sequence[StudyRecord]) -> str:
    """Every claim and its verdict as Markdown, for readers of the docs without HTML."""
    claims = [claim for each in found for claim in each.claims]
    parts = [
        "# Every claim, and what we measured\n",
        f"{sum(claim.reproduced for claim in claims)} of {len(claims)} claims hold in {len(found)} studies. "
        "Plots, tables and the mistakes of the texts are in [the report](report.md).\n",
    ]
    for each in found:
        quick = ", in its quick form" if each.quick else ""
        parts += [f"## {each.title}\n", f"{each.answers}. `{each.command}` ({each.seconds:.0f} s{quick}).\n"]
        parts += [_line("id", "claim", "paper", "ours", "verdict"), _line(*["---"] * 5)]
        for claim in each.claims:
            verdict = "reproduced" if claim.reproduced else "**not reproduced**"
            expected = (
                f"; corrected: {cell(claim.expected)}"
                if claim.erratum and claim.expected != claim.paper
                else ""
            )
            parts.append(
                _line(claim.id, claim.claim, cell(claim.paper) + expected, cell(claim.ours), verdict)
            )
        parts.append("")
    return "\n".join(parts)


def _line(*cells: str) -> str:
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in cells) + " |"


def _study(kept: StudyRecord, folder: Path) -> str:
    claims = "".join(_claim(claim) for claim in kept.claims)
    tables = "".join(_table(table) for table in kept.tables)
    plots = "".join(_plot(folder / "plots" / name) for name in kept.plots if name.endswith(".png"))
    return (
        f"<section id={escape(kept.study)}><h3>{escape(kept.title)}</h3><p>{escape(kept.answers)}. Again: "
        f"<code>{escape(kept.command)}</code> (version {escape(kept.version)}, {kept.seconds:.0f} s)</p>"
        "<div "
        f"class=wide><table><tr><th>id<th>claim<th>paper<th>expected<th>ours<th>within<th>verdict{claims}</table></div>"
        f"<div class=plots>{plots}</div><details><summary>What was "
        f"measured</summary>{tables}</details></section>"
    )


def _claim(claim: PaperClaim) -> str:
    verdict = "<b class=good>reproduced</b>" if claim.reproduced else "<b class=bad>not reproduced</b>"
    corrected = "" if claim.erratum is None else f" <small>({escape(claim.erratum)})</small>"
    cells = (claim.id, claim.claim, claim.paper, claim.expected, claim.ours, claim.tolerance)
    told = [escape(cell(value)) for value in cells]
    told[3] += corrected
    return "<tr>" + "".join(f"<td>{each}" for each in told) + f"<td>{verdict}"


def _table(table: StudyTable) -> str:
    head = "".join(f"<th>{escape(str(name))}" for name in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell(v))}" for v in row) for row in table.rows)
    return f"<h4>{escape(table.title)}</h4><div class=wide><table><tr>{head}{rows}</table></div>"


def _plot(file: Path) -> str:
    if not file.exists():
        return ""
    data = base64.b64encode(file.read_bytes()).decode()
    return f'<img loading=lazy alt="{escape(file.stem)}" src="data:image/png;base64,{data}">'


def _bench(bench: dict[str, Any]) -> str:
    columns = ("work", "size", "engine", "figure", "unit", "ratio_to_best_peer")
    table = StudyTable(
        str(bench["bench"]), columns, [[row.get(name) for name in columns] for row in bench["rows"]]
    )
    return _table(table)


def _soak(parts: Iterable[dict[str, Any]]) -> str:
    rows = [
        [each["part"], each["what"], "passed" if each["passed"] else "FAILED", f"{each['share']:.0%}",
         ", ".join(f"{name} {value:,}" for name, value in each["held"].items())]
        for each in parts
    ]  # fmt: skip
    if not rows:
        return "<p>It was not run here: <code>make soak</code></p>"
    return _table(StudyTable("What was held", ("part", "what", "verdict", "of the full size", "held"), rows))


def cell(value: Any) -> str:
    """A value for people."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


_PAGE = """<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>Tidings: the claims of the papers, and what we measured</title>
<style>
:root { color-scheme: light dark; --line: #8884;
 --good: light-dark(#0a7d33, #5fd38d); --bad: light-dark(#b00020, #ff8a80) }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1.5rem }
h1 { line-height: 1.2 } h2 { margin-top: 3rem; border-bottom: 2px solid var(--line) }
table { border-collapse: collapse; font-size: .9rem }
td, th { padding: .35rem .8rem; text-align: left;
 vertical-align: top; border-bottom: 1px solid var(--line) }
.wide { overflow-x: auto } .number { text-align: right; white-space: nowrap } .lead { font-size: 1.3rem }
.good { color: var(--good) } .bad { color: var(--bad) } .note { opacity: .8 }
.plots { display: grid;
 grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem; margin: 1rem 0 }
.plots img { width: 100%; background: #fff; border-radius: 6px }
nav a { margin-right: 1rem }
</style>
<h1>The claims of the papers, and what we measured</h1>
<nav><a href=#studies>studies</a><a href=#beyond>beyond the papers</a>
<a href=#wrong>mistakes in the texts</a><a href=#benchmarks>benchmarks</a><a href=#soak>campaign</a></nav>
{body}
</html>
"""
