"""The report: everything it points at exists, it stands on its own, and nothing in it is executed
or fetched."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tidings_lab.studies._contents import DOCUMENTS, ERRATA
from tidings_lab.studies._report import StudyRecord, write
from tidings_lab.studies.study import PaperClaim, StudyTable, study_names

ROOT = Path(__file__).parents[2]
TESTS = [ROOT / place for place in ("tests", "tests/together", "lab/tests", "quality/tests")]
STUDIES = [*(ROOT / "lab/src").rglob("studies/*.py"), *(ROOT / "quality/src").rglob("studies/*.py")]
SHOWN = [shown for document in DOCUMENTS for shown in document.shows]


def claim(id: str = "VIR3-7", *, held: bool = True, **more: Any) -> PaperClaim:
    said = {"claim": "t", "paper": 1.0, "expected": 1.0, **more}
    return PaperClaim(id=id, ours=1.01, tolerance=0.1, reproduced=held, **said)


def kept(name: str, *claims: PaperClaim, **more: Any) -> StudyRecord:
    given = {"title": name, "answers": "-", "quick": True, "seed": 3, "version": "0", "seconds": 1.0, **more}
    return StudyRecord(study=name, claims=list(claims), **given)


@pytest.mark.parametrize("shown", SHOWN, ids=[f"{shown.place} {shown.what}" for shown in SHOWN])
def test_what_answers_a_table_or_figure_exists(shown: Any) -> None:
    assert shown.studies or shown.tests
    assert set(shown.studies) <= set(study_names())
    assert [test for test in shown.tests if not any((place / test).exists() for place in TESTS)] == []


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


def test_the_page_counts_and_links_and_escapes(tmp_path: Path) -> None:
    bad = claim("VIR3-8", held=False, erratum="E-V5")
    nasty = StudyTable("<script>alert(1)</script>", ["<b>"], [["<img src=x onerror=y>"]])
    page = write(tmp_path, [kept("diffusion", claim(), tables=[nasty]), kept("notification-loss", bad)])
    text = page.read_text()
    assert "<b>1 of 2</b> claims hold in 2 studies" in text
    assert "tidings study run diffusion --seed 3 --quick" in text
    assert "0 of 1 claims hold" in text
    assert "1 of 1 claims hold" in text
    assert "<script" not in text
    assert "<img src=x" not in text
    assert not re.search(r'(src|href)="?https?:', text)


def test_our_own_claims_stand_apart_and_the_claims_are_also_text(tmp_path: Path) -> None:
    ours = claim("VIR5-10", claim="more | than the paper", paper=None)
    bad = claim("VIR3-8", held=False, erratum="E-V5", expected=2.0)
    page = write(tmp_path, [kept("diffusion", claim(), ours), kept("notification-loss", bad)])
    beyond = page.read_text().partition("<h2 id=beyond>")[2].partition("<h2 id=benchmarks>")[0]
    assert "more | than the paper" in beyond
    assert beyond.count("reproduced</b>") == 1
    lines = (tmp_path / "claims.md").read_text().splitlines()
    assert "2 of 3 claims hold in 2 studies." in lines[2]
    assert r"| VIR5-10 | more \| than the paper | - | 1.01 | reproduced |" in lines
    assert "| VIR3-8 | t | 1; corrected: 2 | 1.01 | **not reproduced** |" in lines
