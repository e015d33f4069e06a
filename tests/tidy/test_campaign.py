"""The long campaign leaves no long test out, and goes on where it was stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from scripts.judged_code import closure, normalised
from scripts.soak import PARTS, RECORD, judged_seeds, keep_figures, others_below
from tests.resume import passed, wanted
from tests.simulation._campaign import campaign_seed
from tests.tidy._sources import ROOT

from tidings.pipeline.sweeps import Done


def test_every_long_test_belongs_to_a_part() -> None:
    marked = {
        file.relative_to(ROOT).as_posix()
        for folder in ("tests", "lab/tests", "quality/tests", "benchmarks/tests")
        for file in (ROOT / folder).rglob("test_*.py")
        if "pytest.mark.soak" in file.read_text(encoding="utf-8") and file != Path(__file__)
    }
    assert len(marked) > 40
    for file in sorted(marked):
        parts = [part.name for part in PARTS if runs(part, file)]
        assert len(parts) == 1, f"{file} is in {parts or 'no part'} of scripts/soak.py"


def runs(part: object, file: str) -> bool:
    assert isinstance(part, type(PARTS[0]))
    left_out = [option.removeprefix("--ignore=") for option in others_below(part)]
    return is_below(file, part.tests) and not is_below(file, left_out)


def is_below(file: str, paths: Iterable[str]) -> bool:
    return any(file == path or file.startswith(f"{path}/") for path in paths)


def test_every_part_names_what_is_there() -> None:
    assert [path for part in PARTS for path in part.tests if not (ROOT / path).exists()] == []


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "test_some.py").write_text(
        "from pathlib import Path\n"
        "def test_good(): pass\n"
        "def test_bad(): assert Path(__file__).with_name('mended').exists()\n"
    )
    return tmp_path


def test_what_passed_is_not_run_again_and_what_failed_is(scratch: Path) -> None:
    finished = scratch / "part.passed"
    first = run(scratch, finished)
    assert "1 failed, 1 passed" in first, first
    assert {name.split("::")[1] for name in passed(finished)} == {"test_good"}
    (scratch / "mended").touch()
    second = run(scratch, finished)
    assert "1 passed, 1 deselected" in second, second
    assert (len(passed(finished)), wanted(finished)) == (2, 2)


def run(folder: Path, finished: Path) -> str:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.resume",
        "-p",
        "no:cacheprovider",
        str(folder),
    ]
    environment = {**os.environ, "TIDINGS_PASSED": str(finished), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    ).stdout


def test_figures_of_a_test_that_did_not_pass_are_told_anew(tmp_path: Path) -> None:
    delivered = tmp_path / "part.figures"
    delivered.write_text('{"test": "a", "kills": 3}\n{"test": "b", "kills": 4}\n')
    keep_figures(delivered, {"b"})
    assert delivered.read_text() == '{"test": "b", "kills": 4}\n'


@pytest.mark.parametrize("number", [0, 9, 19, 29, 39])
def test_each_kind_of_seed_of_the_campaign_runs(number: int) -> None:
    seen = campaign_seed(number)
    assert seen["faults"] >= 10
    assert not seen["broken"]


def test_the_seeds_pass_with_a_calm_one_and_not_when_one_is_broken_or_most_are_calm() -> None:
    def seeds(*faults: int, broken: bool = False) -> list[Done]:
        stories = {"promise": "why"} if broken else {}
        common = {"kind": "wide", "system": "tidings", "broken": stories}
        each = [{**common, "faults": count} for count in faults]
        return [Done((number,), result, None, 0.0) for number, result in enumerate(each)]

    assert judged_seeds(seeds(*[10] * 19, 9))["passed"]
    assert not judged_seeds(seeds(*[10] * 20, broken=True))["passed"]
    assert not judged_seeds(seeds(*[10] * 10, *[9] * 10))["passed"]
    assert not judged_seeds([])["passed"]


def test_code_of_a_part_follows_imports_and_not_comments() -> None:
    rights = next(part for part in PARTS if part.name == "rights")
    files = {path.relative_to(ROOT).as_posix() for path in closure([ROOT / rights.tests[0]])}
    assert {"src/tidings/security/rules.py", "src/tidings/language/evaluate.py"} <= files
    assert not [name for name in files if name.startswith(("src/tidings/gateway", "src/tidings/pipeline"))]
    wide = closure([ROOT / "tests/simulation/_campaign.py"])
    assert ROOT / "src/tidings/protocol/delivery/flow.py" in wide
    plain, noted = "def f():\n    return 1\n", '# why\ndef f():\n    """What."""\n    return 1\n'
    assert normalised(plain) != normalised("def f():\n    return 2\n")
    assert normalised(noted) == normalised(plain)


def test_every_part_on_record_is_a_part() -> None:
    recorded = {each["part"] for each in json.loads(RECORD.read_text())["parts"]}
    assert recorded
    assert recorded <= {part.name for part in PARTS}
