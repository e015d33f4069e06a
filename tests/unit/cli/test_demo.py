"""`tidings demo`: it runs through, counts what it claims, and admits what does not hold."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.tidy._sources import ROOT

from tidings.cli import _acts, _spark_act
from tidings.cli.demo import _play
from tidings.cli.stage import Stage, side_by_side

Run = Callable[..., Any]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")  # the session that the demonstration finds outlives it
def test_every_claim_is_proved_and_counted(
    tidings: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_spark_act, "SUBSCRIPTIONS", 10_000)  # half of them: the claims are the same
    ran = tidings("demo", "--details", "--keep", str(tmp_path / "kept"))
    assert ran.code == 0, ran.out + ran.err
    acts = [line for line in ran.out.splitlines() if line[:3] in {f"{n}. " for n in range(1, 10)} | {"10."}]
    assert len(acts) == 10
    last = ran.out.splitlines()[-1]
    assert last.startswith("19 of 19 claims proved")
    assert "10 notifications, each asked for, none missing, none twice" in last
    assert "survived kill -9" in last
    assert "notifications on Spark for 10,000 alerts, as SQL has it" in last
    assert "100 events crossed a broker that was killed in between" in last
    assert "200 events went round through Spark once" in last
    assert "a late subscriber caught up with 201 events" in last
    assert "a dirty row at CoC was reported at INAIL once" in last
    assert "a source that overstates is trusted least of 3" in last
    gains, counts = quoted_in_the_readme()
    assert len(gains) == 3
    assert [count for count in counts if count not in last] == []
    sources = "".join(path.read_text() for path in Path(_acts.__file__).parent.glob("_*act*.py"))
    assert [gain for gain in gains if gain not in sources] == []
    assert (tmp_path / "kept" / "history.jsonl").exists()
    assert tidings("demo", "--keep", str(tmp_path / "kept")).code == 2  # nothing is mixed with what is there


def quoted_in_the_readme() -> tuple[list[str], list[str]]:
    """The gains and the counts of the demonstration that the README quotes."""
    text = (ROOT / "README.md").read_text()
    assert "19 claims in all" in text
    (block,) = re.findall(r"^```text\n(ok  .*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = block.splitlines()
    gains = [line.removeprefix("ok  ") for line in lines if line.startswith("ok  ")]
    return gains, [count for line in lines if line.startswith("    ") for count in line.strip().split("; ")]


def test_json_lists_the_claims(tidings: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_acts, "ACTS", (_acts.why_not,))
    (summary,) = tidings("demo", "--json").rows
    assert summary["claims"] == [
        {"claim": "an explanation names the one constraint that failed", "holds": True}
    ]


def test_a_claim_that_does_not_hold_ends_with_1(tidings: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def boast(stage: Stage, folder: Path) -> None:
        stage.act("A boast")
        stage.claim("pigs fly", holds=False, short="pigs were seen")

    monkeypatch.setattr(_acts, "ACTS", (boast,))
    ran = tidings("demo")
    assert ran.code == 1
    assert "NOT SO  pigs fly" in ran.out
    assert "0 of 1 claims proved" in ran.out
    assert "pigs were seen" not in ran.out
    assert "this did not hold: pigs fly" in ran.err


def test_the_quotes_tell_the_filters_apart() -> None:
    """The oracle of the first act would notice a filter that accepts everything or nothing."""
    for person in _acts.PEOPLE[:2]:
        verdicts = {person.wants(quote) for quote in _acts.QUOTES}
        assert verdicts == {True, False}


def test_one_screen_names_the_gains_and_where_the_proofs_are(
    tidings: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def absent(stage: Stage, folder: Path) -> None:
        stage.act("On a moon", gain="Fly to the moon")
        stage.skip("there is no rocket here")

    monkeypatch.setattr(_acts, "ACTS", (_acts.why_not, absent))
    lines = tidings("demo").out.splitlines()
    assert lines[0] == "ok  Ask why an event did not match: the answer names the constraint"
    assert lines[1] == "    bob: change >= 1 failed"
    assert lines[2:4] == ["-  Fly to the moon", "    there is no rocket here"]
    assert lines[-2].startswith("1 of 1 claims proved in ")
    assert lines[-1] == "Each step and its proof: tidings demo --details"
    assert len(lines) + 2 * 8 <= 24, "ten acts fit on a screen of 24 lines"
    assert "change >= 1" in tidings("demo", "--details").out


@pytest.mark.parametrize("holds", [True, False])
def test_warnings_of_the_acts_are_set_aside_unless_one_fails(
    holds: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def noisy(stage: Stage, folder: Path) -> None:
        os.write(2, b"the connection was lost\n")
        stage.claim("it was noticed", holds=holds)

    monkeypatch.setattr(_acts, "ACTS", (noisy,))
    for details in (False, True):
        stage = Stage(Console(), details=details)
        asyncio.run(_play(stage, Path()))
        assert ("the connection was lost" in capfd.readouterr().err) == (details or not holds)


def test_acts_side_by_side_are_shown_in_their_order() -> None:
    shown = io.StringIO()
    stage = Stage(Console(file=shown), details=True)

    async def play() -> None:
        second_is_over = asyncio.Event()

        async def first(stage: Stage) -> None:
            await second_is_over.wait()
            stage.claim("one", holds=True)

        async def second(stage: Stage) -> None:
            stage.claim("two", holds=True)
            second_is_over.set()

        await side_by_side(stage, [first, second])

    asyncio.run(play())
    assert [claim.text for claim in stage.claims] == ["one", "two"]
    assert shown.getvalue().index("one") < shown.getvalue().index("two")
