"""Does the suite notice a mistake? Seeded defects, one at a time, in a copy; at least 95 of 100 must be
caught.

`TIDINGS_DEFECTS=3,7` tries some by their numbers. `python scripts/soak.py defects` tries all of them, says
how far it is, goes on where it was stopped, and leaves a line of JSON for each in
`artefacts/soak/defects.figures`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Figures
from tests.mutation._defects import DEFECTS, PACKAGES, Defect

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
AT_LEAST = 0.95


@pytest.mark.parametrize("defect", DEFECTS, ids=[f"{n}-{d.name}" for n, d in enumerate(DEFECTS)])
def test_a_defect_still_fits(defect: Defect) -> None:
    """The code that it spoils is there, once; so the list does not rot."""
    text = (SOURCE / "tidings" / defect.file).read_text()
    assert text.count(defect.old) == 1
    compile(text.replace(defect.old, defect.new), defect.file, "exec")


def test_there_are_enough_of_them_in_every_package_that_promises_something() -> None:
    assert len(DEFECTS) >= 150
    assert {defect.file.split("/")[0] for defect in DEFECTS} >= {"language", "store", "security", "protocol"}


def is_caught(defect: Defect, path: Path, tests_of_package: tuple[str, ...] = ()) -> bool:
    """Do the tests of its package fail with it?"""
    spoilt = path / "src"
    shutil.copytree(SOURCE, spoilt, ignore=shutil.ignore_patterns("__pycache__"))
    file = spoilt / "tidings" / defect.file
    file.write_text(file.read_text().replace(defect.old, defect.new))
    named = tests_of_package or defect.by or PACKAGES[defect.file.split("/")[0]]
    tests = [str(file) for each in named for file in sorted(ROOT.glob(each))]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not soak and not spark",
        "-o",
        f"pythonpath={spoilt} {ROOT}",  # else pytest puts the sound one first
    ]
    done = subprocess.run(
        [*command, "--timeout", "300", *tests],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(spoilt), str(ROOT)]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(spoilt)
    assert done.returncode in (0, 1, 2), done.stdout[-2000:] + done.stderr[-2000:]
    return done.returncode != 0


def test_it_is_the_copy_that_is_judged(tmp_path: Path) -> None:
    """What nobody could miss is not missed, and what is no defect is none."""
    sound = Defect("wire/codec.py", "VERSION", "VERSION")
    few = ("tests/unit/wire/test_codec.py",)
    assert is_caught(Defect("wire/codec.py", "class Codec", "class Kodec"), tmp_path, few)
    assert not is_caught(sound, tmp_path, few)


TRIED = "test_a_defect_is_tried"
CHOSEN = [int(word) for word in os.environ.get("TIDINGS_DEFECTS", "").split(",") if word] or [
    *range(len(DEFECTS))
]
results: dict[str, int] = {}  # by test id: caught, of this process


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("number", CHOSEN, ids=lambda number: f"{number}-{DEFECTS[number].name}")
def test_a_defect_is_tried(
    number: int, tmp_path: Path, figures: Figures, request: pytest.FixtureRequest
) -> None:
    """One test for each, so that a stopped run goes on with the next one; the share is judged at the end."""
    caught = results[request.node.nodeid] = int(is_caught(DEFECTS[number], tmp_path))
    print(f"{'caught' if caught else 'MISSED'}  {number:>3} {DEFECTS[number].name}", flush=True)
    figures(defects=1, caught=caught)


@pytest.mark.soak
def test_the_suite_catches_nearly_every_defect() -> None:
    file = os.environ.get("TIDINGS_FIGURES")
    rows = [json.loads(line) for line in Path(file).read_text().splitlines()] if file else []
    earlier = {row["test"]: row["caught"] for row in rows if TRIED in row["test"]}
    tried = {**earlier, **results}
    missed = [name for name, caught in tried.items() if not caught]
    assert len(tried) == len(CHOSEN)
    assert len(missed) <= (1 - AT_LEAST) * len(tried), missed
