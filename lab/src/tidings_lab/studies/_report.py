"""One page for a reviewer: every claim, what the paper prints, ours with its interval, the rule, the verdict,
the plot.

It stands on its own: pictures and the lines of source that state each claim are inside the file, and the page
fetches no resource. It is made from studies that were run and kept (`FOLDER/studies/NAME.json`), from
benchmarks beside it (`FOLDER/benches/NAME.json`, as `tidings bench NAME --json` prints them), and from the
campaign's `soak.json`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from tidings_lab.studies._claims import ClaimKind, ClaimVerdict, PaperClaim, by_kind
from tidings_lab.studies._confirming import HEADING, confirming_tables, verdict_there
from tidings_lab.studies._contents import DOCUMENTS, ERRATA, EVIDENCE, READ, Document, Shown
from tidings_lab.studies._deviations import DEVIATIONS
from tidings_lab.studies.study import StudyTable


class StudyRecord(msgspec.Struct, kw_only=True):
    """A study that was run."""

    study: str
    title: str
    answers: str
    quick: bool
    seed: int
    seeds: int | None = None  # None: as many as the study asks for
    version: str
    commit: str = ""  # of the code that measured, where it is known
    date: str = ""  # of the run
    note: str = ""  # whatever a reader has to know of the record
    seconds: float
    claims: list[PaperClaim]
    tables: list[StudyTable] = []
    plots: list[str] = []  # file names below `plots/`

    @property
    def command(self) -> str:
        seeds = "" if self.seeds is None else f" --seeds {self.seeds}"
        return f"tidings study run {self.study} --seed {self.seed}{seeds}" + (
            " --quick" if self.quick else ""
        )


def read_records(folder: Path) -> list[StudyRecord]:
    """The studies that are kept in a folder, by name."""
    files = sorted(folder.glob("*.json"))
    return [msgspec.json.decode(file.read_bytes(), type=StudyRecord) for file in files]


HEADS = ("id", "claim", "where", "kind", "paper", "our reference", "ours", "rule, and why", "verdict")
OTHER_SEEDS = "on held-back seeds"
CONTENTS = (
    ("verdicts", "The verdicts, by kind"), ("confirmed", HEADING),
    ("documents", "The documents, place by place"),
    ("wrong", "What we believe is wrong in the papers"), ("deviations", "Where we deviate from the papers"),
    ("studies", "The studies"), ("benchmarks", "Benchmarks"), ("soak", "The long campaign"),
    ("sources", "Lines that state the claims"),
)  # fmt: skip


CHAPTER_4 = ("self-organisation", "proximity")
PLOTS = "images/studies"  # of records, below the docs of this package
SEEDS = re.compile(r" \(\d+ seeds?\)")


def write(
    folder: Path,
    found: Sequence[StudyRecord],
    *,
    soak: Path | None = None,
    fresh: Sequence[StudyRecord] = (),
) -> Path:
    """`index.html` in the folder; the claims, and what is wrong in the papers, as Markdown beside it."""
    benches = [msgspec.json.decode(file.read_bytes()) for file in sorted((folder / "benches").glob("*.json"))]
    soaked = msgspec.json.decode(soak.read_bytes())["parts"] if soak is not None and soak.exists() else []
    bodies = {
        "verdicts": [_summary(found)],
        "confirmed": [_table(table) for table in confirming_tables(found, fresh)]
        or ["<p>No study was run on held-back seeds: <code>--held-back FOLDER</code></p>"],
        "documents": [_document(document, found) for document in DOCUMENTS],
        "wrong": [_errata(found)],
        "deviations": [_deviations()],
        "studies": [_study(each, folder, fresh) for each in found],
        "benchmarks": [_bench(bench) for bench in benches] or ["<p>None lie in <code>benches/</code> yet: "
           "<code>tidings bench NAME --json &gt; report/benches/NAME.json</code></p>"],
        "soak": [_soak(soaked)],
        "sources": [_sources(found)],
    }  # fmt: skip
    inner = "".join(f"<li><a href=#{each.study}>{escape(each.title)}</a>" for each in found)
    contents = "".join(
        f"<li><a href=#{name}>{title}</a>" + (f"<ol>{inner}</ol>" if name == "studies" else "")
        for name, title in CONTENTS
    )
    body = [f"<nav><ol>{contents}</ol></nav>"]
    for name, title in CONTENTS:
        body += [f"<h2 id={name}>{title}</h2>", *bodies[name]]
    (folder / "claims.md").write_text(claims_page(found, fresh), encoding="utf-8")
    (folder / "wrong.md").write_text(wrong_page(found), encoding="utf-8")
    (folder / "deviations.md").write_text(deviations_page(), encoding="utf-8")
    page = folder / "index.html"
    page.write_text(_PAGE.replace("{body}", "\n".join(body)), encoding="utf-8")
    return page


def headline(claims: Sequence[PaperClaim]) -> list[tuple[str, ...]]:
    """A row for each kind of claim: how many there are, and how many have each verdict."""
    table = by_kind(claims)
    papers = [kind for kind in ClaimKind if kind is not ClaimKind.OWN]
    rows = [(str(kind), *_counts([table[kind]])) for kind in papers]
    rows.append(("all claims of the papers", *_counts([table[kind] for kind in papers])))
    theirs = [claim for claim in claims if claim.kind is not ClaimKind.OWN]
    for words, chosen in (
        ("of them by construction: the system was built by the words", [c for c in theirs if c.built]),
        ("of them arithmetic on the paper's own formulas: nothing was measured",
         [c for c in theirs if c.arithmetic]),
        ("of them neither: measured, and it could have come out otherwise",
         [c for c in theirs if not c.built and not c.arithmetic]),
    ):  # fmt: skip
        rows.append((words, *_counts(list(by_kind(chosen).values()))))
    rows.append(("the same by printed statement, each by its weakest claim", *_counts([_statements(claims)])))
    rows.append((str(ClaimKind.OWN), *_counts([table[ClaimKind.OWN]])))
    return rows


WEAKEST = (
    ClaimVerdict.REFUTED, ClaimVerdict.UNDECIDED, ClaimVerdict.NOT_COMPARABLE, ClaimVerdict.FITTED,
)  # fmt: skip


def _statements(claims: Sequence[PaperClaim]) -> dict[ClaimVerdict, int]:
    """Verdicts on what the papers print, once for each place and wording: one sentence may be judged by
    several claims, which are not independent."""
    printed: dict[tuple[str, str], list[ClaimVerdict]] = {}
    for claim in claims:
        if claim.kind is not ClaimKind.OWN:
            printed.setdefault((claim.where, str(claim.paper)), []).append(claim.verdict)
    found = dict.fromkeys(ClaimVerdict, 0)
    for verdicts in printed.values():
        found[next((each for each in WEAKEST if each in verdicts), verdicts[0])] += 1
    return found


def _counts(tables: Sequence[dict[ClaimVerdict, int]]) -> tuple[str, ...]:
    sums = [sum(table[verdict] for table in tables) for verdict in ClaimVerdict]
    return (str(sum(sums)), *map(str, sums))


def sentence(claims: Sequence[PaperClaim]) -> str:
    """The headline in one sentence: of the papers' claims alone."""
    theirs = [claim for claim in claims if claim.kind is not ClaimKind.OWN]
    parts = [f"{sum(claim.verdict is verdict for claim in theirs)} {verdict}" for verdict in ClaimVerdict]
    built = sum(claim.built and claim.reproduced for claim in theirs)
    computed = sum(claim.arithmetic and claim.reproduced for claim in theirs)
    apart = [
        f"{count} of them {words}"
        for count, words in ((built, "by construction"), (computed, "arithmetic on a paper's own formulas"))
        if count
    ]
    if apart:
        parts[0] += f" ({', '.join(apart)})"
    return (
        f"Of {len(theirs)} claims of the papers: {', '.join(parts)}. {_numbers(theirs)} "
        f"{len(claims) - len(theirs)} are our own."
    )


def _numbers(theirs: Sequence[PaperClaim]) -> str:
    """Printed numbers apart: how many are held that were measured and could have come out otherwise."""
    numbers = [claim for claim in theirs if claim.kind is ClaimKind.NUMBER]
    reproduced = [claim for claim in numbers if claim.reproduced]
    measured = sum(not claim.built and not claim.arithmetic for claim in reproduced)
    was, verb = ("were", "are") if measured > 1 else ("was", "is")
    shown = f"{measured or 'none'} that {was} measured {verb}"
    rest = len(reproduced) - measured
    return f"Of {len(numbers)} printed numbers {shown} held" + (
        f" ({rest} by construction)." if rest else "."
    )


def _summary(found: Sequence[StudyRecord]) -> str:
    claims = [claim for each in found for claim in each.claims]
    quick = [each.study for each in found if each.quick]
    note = f"<p class=note>Run in their quick form: {escape(', '.join(quick))}.</p>" if quick else ""
    by_study = [
        (each.title, each.answers, len(each.claims),
            *(sum(c.verdict is v for c in each.claims) for v in ClaimVerdict),
         f"{each.seconds:.0f} s")
        for each in found
    ]  # fmt: skip
    verdicts = [str(verdict) for verdict in ClaimVerdict]
    return (
        f"<p class=lead>{escape(sentence(claims))}</p>{note}"
        + _table(StudyTable("By kind of claim", ("kind", "claims", *verdicts), headline(claims)))
        + _table(StudyTable("By study", ("study", "answers", "claims", *verdicts, "time"), by_study))
    )


def _document(document: Document, found: Sequence[StudyRecord]) -> str:
    rows = "".join(_shown(shown, found) for shown in document.shows)
    return (
        f"<h3>{escape(document.authors)}</h3><p>{escape(document.title)}</p><div class=wide><table>"
        f"<tr><th>place<th>subject<th>answered by<th>verdict{rows}</table></div>"
    )


def _shown(shown: Shown, found: Sequence[StudyRecord]) -> str:
    by_name = {each.study: each for each in found}
    claims = [
        claim
        for name in shown.studies
        if name in by_name
        for claim in by_name[name].claims
        if claim.id.startswith(shown.ids) and shown.mark in claim.where and claim.kind is not ClaimKind.OWN
    ]
    answers = [f"<a href=#{name}>{name}</a>" if name in by_name else name for name in shown.studies]
    answers += [f"<code>tests/{escape(test)}</code>" for test in shown.tests]
    if shown.reason:
        verdict = escape(shown.reason)
    elif claims:
        verdict = ", ".join(
            f"<b class={_CLASSES[v]}>{count} {v}</b>"
            for v in ClaimVerdict
            if (count := sum(c.verdict is v for c in claims))
        )
    elif any(name not in by_name for name in shown.studies):
        verdict = "the study was not run"
    else:
        verdict = "exact, in every run of the tests" if shown.tests else "see the study"
    return f"<tr><td>{escape(shown.place)}<td>{escape(shown.what)}<td>{'<br>'.join(answers)}<td>{verdict}"


def _errata(found: Sequence[StudyRecord]) -> str:
    parts = []
    for code, words in ERRATA.items():
        by_side = _sides(_evidence(code, found))
        table = "".join(
            f"<p>{words}</p><div class=wide><table><tr>{''.join(f'<th>{h}' for h in HEADS)}"
            f"{''.join(_claim(each, claim, at) for each, at, claim in rows)}</table></div>"
            for words, rows in by_side.items()
        )
        shown = "".join(f" <code>{escape(each)}</code>" for each in _tests(code)) or f" {READ}"
        parts.append(
            f"<h3 id={code}>{code}</h3><p>{escape(words)}</p>"
            f"<p class=note>Evidence:{' the claims below;' if by_side else ''}{shown}</p>{table}"
        )
    return "".join(parts)


def _tests(code: str) -> list[str]:
    """The tests that show an erratum; none where reading is enough or measurements alone speak."""
    return [f"tests/{each}" for each in EVIDENCE.get(code, ()) if each != READ]


def _evidence(code: str, found: Sequence[StudyRecord]) -> list[tuple[StudyRecord, int, PaperClaim]]:
    named = re.compile(rf"{re.escape(code)}(?![0-9a-z])")
    return [
        (each, at, claim)
        for each in found
        for at, claim in enumerate(each.claims)
        if claim.erratum is not None and named.match(claim.erratum)
    ]


FOR, AGAINST = "For it, or compatible with it:", "Against it, or open: our own claims that did not hold."


def _sides(
    evidence: Sequence[tuple[StudyRecord, int, PaperClaim]],
) -> dict[str, list[tuple[StudyRecord, int, PaperClaim]]]:
    """Claims of ours on an erratum that are refuted or undecided stand apart, as evidence against it."""
    open_ = (ClaimVerdict.REFUTED, ClaimVerdict.UNDECIDED)
    sides: dict[str, list[tuple[StudyRecord, int, PaperClaim]]] = {FOR: [], AGAINST: []}
    for each in evidence:
        is_against = each[2].kind is ClaimKind.OWN and each[2].verdict in open_
        sides[AGAINST if is_against else FOR].append(each)
    return {words: rows for words, rows in sides.items() if rows}


def _deviations() -> str:
    return _table(StudyTable("Algorithms and settings", ("place", "printed", "here", "reason"), DEVIATIONS))


def claims_page(found: Sequence[StudyRecord], fresh: Sequence[StudyRecord] = ()) -> str:
    """Every claim and its verdict as Markdown, for readers of the docs without HTML."""
    claims = [claim for each in found for claim in each.claims]
    verdicts = [str(verdict) for verdict in ClaimVerdict]
    short = [each.study for each in found if each.quick]
    parts = [
        "# Every claim, and what we measured\n",
        f"{sentence(claims)} How a verdict comes about, plots and tables: [the report](report.md). "
        "[What we believe is wrong in the papers](wrong.md) has the evidence for each erratum.\n",
        *([f"**Run in their quick form, at smaller sizes: {', '.join(short)}.**\n"] if short else []),
        *_measured(found),
        _line("kind", "claims", *verdicts), _line(*["---"] * 7), *(_line(*row) for row in headline(claims)),
        "", *_confirmed(found, fresh),
    ]  # fmt: skip
    for each in found:
        quick = ", in its quick form" if each.quick else ""
        at = f", {each.date}" if each.date else ""
        parts += [f"## {each.title}\n",
                  f"{each.answers}. `{each.command}` ({each.seconds:.0f} s{quick}{at}).\n"]  # fmt: skip
        parts += [f"**{each.note}**\n"] if each.note else []
        heads = (*HEADS, OTHER_SEEDS) if fresh else HEADS
        parts += [_line(*heads), _line(*["---"] * len(heads))]
        for claim in each.claims:
            there = (verdict_there(each, claim, fresh),) if fresh else ()
            parts.append(_line(*_cells(claim), *there))
        plots = [name for name in each.plots if name.endswith(".svg")]
        parts += ["", "Plots: " + ", ".join(f"[{Path(n).stem}]({PLOTS}/{n})" for n in plots) + "."] * bool(
            plots
        )
        parts.append("")
    return "\n".join([*parts, *_chapter_4(found)])


def _confirmed(found: Sequence[StudyRecord], fresh: Sequence[StudyRecord]) -> list[str]:
    """The tables on held-back seeds, as Markdown."""
    parts = []
    for at, table in enumerate(confirming_tables(found, fresh)):
        parts += [
            f"##{'#' * at} {table.title}\n",
            _line(*table.columns),
            _line(*["---"] * len(table.columns)),
        ]
        parts += [_line(*map(cell, row)) for row in table.rows]
        parts.append("")
    return parts


def _measured(found: Sequence[StudyRecord]) -> list[str]:
    """A paragraph on which studies were measured at which commit; none where no record names one."""
    commits: dict[str, list[str]] = {}
    for each in found:
        if each.commit:
            commits.setdefault(each.commit, []).append(each.study)
    if not commits:
        return []
    words = "; ".join(f"at commit `{commit}` {', '.join(names)}" for commit, names in commits.items())
    return [f"Measured {words}.\n"]


def _chapter_4(found: Sequence[StudyRecord]) -> list[str]:
    """The tables of both studies of chapter 4, under each trigger."""
    tables = [table for each in found if each.study in CHAPTER_4 for table in each.tables]
    if not tables:
        return []
    parts = ["## Chapter 4 under the three triggers\n", "Mean ± half of the 95% interval over seeds.\n"]
    for table in tables:
        parts += [f"### {table.title}\n", _line(*table.columns), _line(*["---"] * len(table.columns))]
        parts += [_line(*(SEEDS.sub("", cell(value)) for value in row)) for row in table.rows]
        parts.append("")
    return parts


def wrong_page(found: Sequence[StudyRecord]) -> str:
    """Every erratum with the claims that are its evidence, as Markdown."""
    parts = [
        "# What we believe is wrong in the papers\n",
        "Each erratum with its evidence: the claims of studies that measured it, and the tests that show it "
        "(below `tests/`, `lab/tests/` or `quality/tests/`); slips that need no more than reading say so. A "
        "reader who disagrees can repeat every line: [the claims](claims.md) name the command.\n",
    ]
    for code, words in ERRATA.items():
        parts += [f"## {code}\n", f"{words}\n"]
        by_side = _sides(_evidence(code, found))
        shown = ", ".join(f"`{each}`" for each in _tests(code))
        measured = "the claims below" if by_side else ""
        parts.append(f"Evidence: {'; '.join(filter(None, (measured, shown))) or READ}.\n")
        for side, rows in by_side.items():
            parts += [f"{side}\n", _line(*HEADS), _line(*["---"] * len(HEADS))]
            parts += [*(_line(*_cells(claim)) for _, _, claim in rows), ""]
    return "\n".join(parts)


def deviations_page() -> str:
    """Where we deviate from the papers, as Markdown."""
    heads = ("place", "printed", "here", "reason")
    parts = [
        "# Where we deviate from the papers\n",
        "Algorithms that differ from the print, and settings of studies that differ from the paper's or from "
        "shipped defaults, each with its reason. Codes such as E-C3 are of "
        "[what we believe is wrong in the papers](wrong.md); verdicts are in [the claims](claims.md).\n",
        _line(*heads), _line(*["---"] * len(heads)), *(_line(*row) for row in DEVIATIONS), "",
    ]  # fmt: skip
    return "\n".join(parts)


def _cells(claim: PaperClaim) -> tuple[str, ...]:
    rule = f"{cell(claim.tolerance)}. {claim.reason}"
    verdict = str(claim.verdict) if claim.verdict is ClaimVerdict.HELD else f"**{claim.verdict}**"
    verdict += f" at {claim.at}" if claim.at else ""
    return (claim.id, claim.claim, claim.where, str(claim.kind), cell(claim.paper), cell(claim.expected),
            cell(claim.ours), rule, verdict)  # fmt: skip


def _line(*cells: str) -> str:
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in cells) + " |"


def _study(kept: StudyRecord, folder: Path, fresh: Sequence[StudyRecord] = ()) -> str:
    claims = "".join(
        _claim(kept, claim, at, anchor=True, there=verdict_there(kept, claim, fresh))
        for at, claim in enumerate(kept.claims)
    )
    tables = "".join(_table(table) for table in kept.tables)
    plots = "".join(_plot(folder / "plots" / name) for name in kept.plots if name.endswith(".svg"))
    quick = (
        "<p class=quick>Quick form: fewer runs and seeds than the verdicts need.</p>" if kept.quick else ""
    )
    note = f"<p class=quick>{escape(kept.note)}</p>" if kept.note else ""
    return (
        f"<section id={escape(kept.study)}><h3>{escape(kept.title)}</h3>{quick}{note}"
        f"<p>{escape(kept.answers)}. Again: "
        f"<code id={escape(kept.study)}-command>{escape(kept.command)}</code> (version "
        f"{escape(kept.version)}, "
        f"{kept.seconds:.0f} s)</p>"
        f"<div class=wide><table><tr>{''.join(f'<th>{h}' for h in HEADS)}{claims}</table></div>"
        f"<div class=plots>{plots}</div><details "
        f"open><summary>Measurements</summary>{tables}</details></section>"
    )


_CLASSES = {
    ClaimVerdict.HELD: "good",
    ClaimVerdict.REFUTED: "bad",
    ClaimVerdict.UNDECIDED: "open",
    ClaimVerdict.FITTED: "open",
    ClaimVerdict.NOT_COMPARABLE: "open",
}


def _claim(kept: StudyRecord, claim: PaperClaim, at: int, *, anchor: bool = False, there: str = "-") -> str:
    cells = [escape(text) for text in _cells(claim)]
    name = f"{kept.study}-{at}"
    cells[0] = f"<a id={name} href=#{name}>{cells[0]}</a>" if anchor else f"<a href=#{name}>{cells[0]}</a>"
    if claim.erratum is not None:
        code = claim.erratum.partition(":")[0]
        cells[5] += f" <a href=#{escape(code)}>{escape(code)}</a>"
    how = f"<a href=#{escape(kept.study)}-command>seed {kept.seed}</a>"
    if claim.source:
        how += f", <a href=#{_anchor(claim.source)}>{escape(claim.source.rpartition('/')[2])}</a>"
    if there != "-":
        how += f"<br>held-back seeds: {there}"
    there_alone = f" at {escape(claim.at)}" if claim.at else ""
    cells[8] = f"<b class={_CLASSES[claim.verdict]}>{claim.verdict}</b>{there_alone}<br><small>{how}</small>"
    return "<tr>" + "".join(f"<td>{each}" for each in cells)


def _anchor(source: str) -> str:
    return "line-" + re.sub(r"[^a-z0-9]+", "-", source.lower())


def _sources(found: Sequence[StudyRecord]) -> str:
    """The lines that state the claims, each with those around it."""
    named = sorted({claim.source for each in found for claim in each.claims if claim.source})
    parts = []
    for source in named:
        path, _, line = source.rpartition(":")
        lines = _lines_of(path)
        first, last = max(0, int(line) - 2), min(len(lines), int(line) + 6)
        shown = "\n".join(f"{number + 1:4} {lines[number]}" for number in range(first, last))
        parts.append(f"<h4 id={_anchor(source)}>{escape(source)}</h4><pre>{escape(shown)}</pre>")
    return "".join(parts)


def _lines_of(path: str) -> list[str]:
    """The text of a module that is named by its path from its package on."""
    package, _, rest = path.partition("/")
    try:
        root = Path(next(iter(import_module(package).__path__)))
        return (root / rest).read_text(encoding="utf-8").splitlines()
    except (ImportError, OSError):
        return []


def _table(table: StudyTable) -> str:
    head = "".join(f"<th>{escape(str(name))}" for name in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell(v))}" for v in row) for row in table.rows)
    return f"<h4>{escape(table.title)}</h4><div class=wide><table><tr>{head}{rows}</table></div>"


def _plot(file: Path) -> str:
    if not file.exists():
        return ""
    data = base64.b64encode(file.read_bytes()).decode()
    return f'<img alt="{escape(file.stem)}" src="data:image/svg+xml;base64,{data}">'


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
:root { color-scheme: light dark; --line: #8884; --good: light-dark(#0a7d33, #5fd38d);
  --bad: light-dark(#b00020, #ff8a80); --open: light-dark(#8a5a00, #ffc861) }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 90rem; margin: 2rem auto; padding: 0 1.5rem }
h1 { line-height: 1.2 } h2 { margin-top: 3rem; border-bottom: 2px solid var(--line) }
table { border-collapse: collapse; font-size: .85rem }
td, th { padding: .3rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
.wide { overflow-x: auto } .lead { font-size: 1.3rem } pre { font-size: .75rem; overflow-x: auto }
.quick { font-weight: bold; color: var(--open); border: 2px solid; padding: .4rem .8rem }
.good { color: var(--good) } .bad { color: var(--bad) } .open { color: var(--open) } .note { opacity: .8 }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(24rem, 1fr)); gap: 1rem; margin: 1rem 0
} .plots img { width: 100%; background: #fff; border-radius: 6px }
@page { size: A4 landscape; margin: 12mm }
@media print { :root { color-scheme: light } body { font-size: 9pt; max-width: none; margin: 0; padding: 0 }
  table { font-size: 7pt } .wide { overflow: visible } .plots { grid-template-columns: 1fr 1fr }
  .plots img, tr { break-inside: avoid } h2 { break-before: page } h3, h4 { break-after: avoid } }
</style>
<h1>The claims of the papers, and what we measured</h1>
{body}
</html>
"""
