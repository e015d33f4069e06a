"""The report: everything it points at exists, it stands on its own, and nothing in it is executed
or fetched."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tidings.errors import MissingDependencyError
from tidings_lab.studies._contents import DOCUMENTS, ERRATA, EVIDENCE, READ
from tidings_lab.studies._deviations import DEVIATIONS
from tidings_lab.studies._printing import BROWSERS, print_to_pdf
from tidings_lab.studies._report import (
    StudyRecord,
    claims_page,
    deviations_page,
    read_records,
    write,
    wrong_page,
)
from tidings_lab.studies.study import ClaimKind, ClaimVerdict, PaperClaim, StudyTable, study_names

ROOT = Path(__file__).parents[2]
TESTS = [ROOT / place for place in ("tests", "tests/together", "lab/tests", "quality/tests")]
STUDIES = [*(ROOT / "lab/src").rglob("studies/*.py"), *(ROOT / "quality/src").rglob("studies/*.py")]
SHOWN = [shown for document in DOCUMENTS for shown in document.shows]


def claim(id: str = "VIR3-7", *, held: bool = True, **more: Any) -> PaperClaim:
    kind = ClaimKind.NUMBER if more.get("paper", 1.0) is not None else ClaimKind.OWN
    fields = {"claim": "t", "paper": 1.0, "where": "Table 3.1", "kind": kind, "reason": "so", **more}
    verdict = ClaimVerdict.HELD if held else ClaimVerdict.REFUTED
    source = "tidings_lab/studies/study.py:3"
    return PaperClaim(
        id=id, ours=1.01, tolerance=0.1, reproduced=held, verdict=verdict, source=source, **fields
    )


def kept(name: str, *claims: PaperClaim, **more: Any) -> StudyRecord:
    given = {"title": name, "answers": "-", "quick": True, "seed": 3, "version": "0", "seconds": 1.0, **more}
    return StudyRecord(study=name, claims=list(claims), **given)


@pytest.mark.parametrize("shown", SHOWN, ids=[f"{shown.place} {shown.what}" for shown in SHOWN])
def test_what_answers_a_table_or_figure_exists(shown: Any) -> None:
    assert bool(shown.studies or shown.tests) is not bool(shown.reason)
    assert set(shown.studies) <= set(study_names())
    for test in shown.tests:
        file, _, name = test.partition("::")
        [found] = [position / file for position in TESTS if (position / file).exists()]
        assert not name or f"def {name}(" in found.read_text()


def test_every_study_answers_something() -> None:
    answered = {name for shown in SHOWN for name in shown.studies}
    assert set(study_names()) - answered <= BEYOND


BEYOND: set[str] = set()  # studies of our own claims


def test_every_erratum_that_a_study_names_is_told() -> None:
    named = {
        code for file in STUDIES for code in re.findall(r'erratum="(E-[A-Z]\d+[a-z]?)', file.read_text())
    }
    assert named
    assert named <= set(ERRATA)
    assert set(ERRATA) == named | set(
        EVIDENCE
    )  # each has evidence: measured, or a test, or reading is enough
    tests = {test for shown in EVIDENCE.values() for test in shown} - {READ}
    assert [test for test in tests if not any((position / test).exists() for position in TESTS)] == []


def numbers(kind: str, text: str) -> set[str]:
    """Numbers of figures or tables: `Figures 4.3 to 4.8 and 4.10` are seven."""
    found: set[str] = set()
    for words in re.findall(rf"{kind}s? ([0-9][0-9., to and]*)", text):
        for first, last in re.findall(r"(\d+(?:\.\d+)?)(?: to (\d+(?:\.\d+)?))?", words):
            chapter, _, low = first.rpartition(".")
            high = (last or first).rpartition(".")[2]
            found |= {f"{chapter}.{n}" if chapter else str(n) for n in range(int(low), int(high) + 1)}
    return found


@pytest.mark.parametrize(
    ("author", "figures", "tables"),
    [
        ("Virgillito", {2: 4, 3: 12, 4: 20, 5: 10}, {"2.1", "3.1", "5.1"}),
        ("Baldoni", {0: 8}, set()),
        ("Costa", {0: 3}, set()),
        ("Baehni", {0: 5}, {"1", "2"}),
        ("Mathur", {0: 6}, set()),
    ],
)
def test_every_figure_and_table_has_a_row(author: str, figures: dict[int, int], tables: set[str]) -> None:
    document = next(each for each in DOCUMENTS if each.authors.startswith(author))
    positions = ". ".join(shown.place for shown in document.shows)
    wanted = {f"{c}.{n}" if c else str(n) for c, count in figures.items() for n in range(1, count + 1)}
    assert wanted - numbers("Figure", positions) == set()
    assert tables - numbers("Table", positions) == set()


def test_the_page_counts_and_links_and_escapes(tmp_path: Path) -> None:
    bad = claim("VIR3-8", held=False, erratum="E-V5")
    nasty = StudyTable("<script>alert(1)</script>", ["<b>"], [["<img src=x onerror=y>"]])
    page = write(tmp_path, [kept("diffusion", claim(), tables=[nasty]), kept("notification-loss", bad)])
    text = page.read_text()
    assert "Of 2 claims of the papers: 1 held, 1 refuted, 0 undecided, 0 fitted, 0 not comparable." in text
    assert "tidings study run diffusion --seed 3 --quick" in text
    assert "<b class=good>1 held</b>" in text
    assert text.count("<script") == 0
    assert "<img src=x" not in text
    assert not re.search(r'(src|href)="?https?:', text)
    anchors = set(re.findall(r"id=([^ >]+)", text))
    links = set(re.findall(r"href=#([^ >]+)", text))
    assert {name for name in links if not name.startswith(tuple(study_names()))} <= anchors
    assert "line-tidings-lab-studies-study-py-3" in anchors & links
    assert "StudyOutcome" in text.partition("<h2 id=sources>")[2]  # the lines themselves


def test_what_holds_by_construction_is_counted_apart_too(tmp_path: Path) -> None:
    write(tmp_path, [kept("policies", claim(), claim(built=True), claim(paper=None, built=True))])
    text = (tmp_path / "claims.md").read_text()
    assert "Of 2 claims of the papers: 2 held (1 of them by construction), 0 refuted" in text
    assert "| of them by construction: the system was built by the words | 1 | 1 | 0 | 0 | 0 | 0 |" in text


def test_arithmetic_is_counted_apart_too(tmp_path: Path) -> None:
    write(tmp_path, [kept("policies", claim(), claim(arithmetic=True), claim(paper=None, arithmetic=True))])
    text = (tmp_path / "claims.md").read_text()
    assert "2 held (1 of them arithmetic on a paper's own formulas), 0 refuted" in text
    assert "formulas: nothing was measured | 1 | 1 | 0 | 0 | 0 | 0 |" in text
    assert "| of them neither: measured, and it could have come out otherwise | 1 | 1 |" in text


def test_our_own_claims_are_counted_apart_and_the_claims_are_also_text(tmp_path: Path) -> None:
    ours = claim("VIR5-10", claim="more | than the paper", paper=None)
    bad = claim("VIR3-8", held=False, erratum="E-V5", expected=2.0)
    write(tmp_path, [kept("diffusion", claim(), ours), kept("notification-loss", bad)])
    text = (tmp_path / "claims.md").read_text()
    assert "Of 2 claims of the papers: 1 held, 1 refuted" in text
    assert "1 are our own" in text
    assert "| the same by printed statement, each by its weakest claim | 1 | 0 | 1 | 0 | 0 | 0 |" in text
    assert (
        r"| VIR5-10 | more \| than the paper | Table 3.1 | our own | - | - | 1.01 | 0.1. so | held |" in text
    )
    wrong = (tmp_path / "wrong.md").read_text()
    assert "| VIR3-8 | t | Table 3.1 | printed number | 1 | 2 | 1.01 | 0.1. so | **refuted** |" in wrong
    assert wrong.count("| VIR3-8") == 1


def test_an_erratum_shows_what_speaks_against_it() -> None:
    theirs = claim("VIR3-8", held=False, erratum="E-V5", claim="printed")
    ours = claim("VIR3-8", held=False, erratum="E-V5", claim="fails", paper=None)
    page = wrong_page([kept("diffusion", theirs, ours)])
    evidence, _, counter = page.partition("## E-V5\n")[2].partition("## E-V6")[0].partition("Against it")
    assert ("| printed |" in evidence, "| fails |" in evidence) == (True, False)
    assert ("| printed |" in counter, "| fails |" in counter) == (False, True)


def test_every_deviation_is_on_its_page() -> None:
    lines = deviations_page().splitlines()
    assert sum(line.startswith("| ") for line in lines) == 2 + len(DEVIATIONS)


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no Chromium is installed")
def test_the_report_is_printed_as_pdf(tmp_path: Path) -> None:
    page = write(tmp_path, [kept("diffusion", claim())])
    printed = print_to_pdf(page)
    assert printed.read_bytes().startswith(b"%PDF")


def test_without_a_browser_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(MissingDependencyError, match="no Chromium"):
        print_to_pdf(tmp_path / "index.html")


def test_the_page_of_claims_names_the_commits_that_measured() -> None:
    page = claims_page([
        kept("diffusion", claim(), commit="1234abcd", date="2026-01-02"),
        kept("policies", claim(), commit="1234abcd"), kept("locality", claim(), note="Figures of old."),
    ])  # fmt: skip
    assert "Measured at commit `1234abcd` diffusion, policies.\n" in page
    assert page.count("**Figures of old.**") == 1
    assert "(1 s, in its quick form, 2026-01-02)" in page


RECORDS = read_records(ROOT / "lab/docs/results")


def test_a_record_of_every_study_is_kept_with_the_docs() -> None:
    assert [each.study for each in RECORDS] == study_names()
    assert [each.study for each in RECORDS if each.quick or not each.commit] == []


@pytest.mark.parametrize("record", RECORDS, ids=[each.study for each in RECORDS])
def test_no_kept_verdict_is_better_than_its_interval(record: StudyRecord) -> None:
    """A claim with an interval has the verdict that the interval has, or one that says less."""
    for each in record.claims:
        if each.verdict is ClaimVerdict.HELD and each.seeds > 1 and isinstance(each.ours, str):
            assert "(undecided)" not in each.ours
            assert "(refuted)" not in each.ours


def test_plots_of_records_are_vector_graphics_that_are_kept_with_them() -> None:
    folder = ROOT / "lab/docs/images/studies"
    named = {name for each in RECORDS for name in each.plots}
    assert {path.name for path in folder.glob("*")} == named
    assert all(name.endswith(".svg") for name in named)


def test_the_lead_says_how_many_printed_numbers_that_were_measured_are_held() -> None:
    built, wordy = claim(built=True), claim(paper="some words", kind=ClaimKind.WORDS)
    page = claims_page([kept("policies", built, claim(held=False), wordy)])
    assert "Of 2 printed numbers none that was measured is held (1 by construction)." in page
    assert "Of 1 printed numbers 1 that was measured is held." in claims_page([kept("policies", claim())])


def numbered(shown: Any) -> set[str]:
    """Numbers of claims that a row answers: its own, and those that its subject names (`VIR4-5 to 4-8`)."""
    found = {*shown.ids, *re.findall(r"[A-Z]+\d?-\d+", shown.what)}
    for name, first, last in re.findall(r"([A-Z]+\d?)-(\d+) to \d-(\d+)", shown.what):
        found |= {f"{name}-{n}" for n in range(int(first), int(last) + 1)}
    return found


def test_every_numbered_claim_has_a_row() -> None:
    most = {"VIR2": 7, "VIR3": 8, "VIR4": 11, "VIR5": 10, "BAL": 6, "COS": 12, "DAM": 12, "UAR": 10}
    wanted = {f"{name}-{n}" for name, count in most.items() for n in range(1, count + 1)}
    assert wanted - {id for shown in SHOWN for id in numbered(shown)} == set()
