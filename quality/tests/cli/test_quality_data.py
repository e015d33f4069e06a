"""`tidings quality evaluate`, `query` and `rate`: what they say when something is wrong, without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidings.gateway.serving import Serving
from tidings_quality.generate import plan_text
from tidings_quality.rating import Observation, RatingReport, Ratings
from tidings_quality.rating_service import rating_app

Run = Callable[..., Any]


def test_evaluate_says_what_is_wrong_before_it_starts_spark(tidings: Run, tmp_path: Path) -> None:
    assert tidings("quality", "evaluate", str(tmp_path / "none.toml")).code == 2
    file = tmp_path / "factory.toml"
    file.write_text('organisation = "INPS"')
    ran = tidings("quality", "evaluate", str(file))
    assert ran.code == 2
    assert "quality/docs/quality.md" in ran.err
    file.write_text(plan_text("INPS").replace('table = "holders"\n', ""))
    ran = tidings("quality", "evaluate", str(file))
    assert ran.code == 2
    assert "no table" in ran.err
    assert tidings("quality", "evaluate", str(file), "--whole", "--continuous").code == 2


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("ON Enterprise/Holder WHERE name.accuracy <= medium", "is no requirement"),
        ("ON Enterprise/Holder WHERE nmae.accuracy >= high", "no property is called 'nmae'"),
        ("ON Weather", "none of the files is of Weather"),
        ("ON Enterprise/Holder FROM CoC", "none of the files is of"),
        ("Enterprise/Holder", ""),
    ],
    ids=["most", "property", "class", "source", "syntax"],
)
def test_query_says_what_is_wrong_before_it_starts_spark(
    wanted: str, said: str, tidings: Run, tmp_path: Path
) -> None:
    file = tmp_path / "factory.toml"
    file.write_text(plan_text("INPS"))
    ran = tidings("quality", "query", wanted, str(file))
    assert ran.code == 2
    assert said in ran.err


def test_rate_prints_who_is_believed(tidings: Run) -> None:
    ratings = Ratings()
    ratings.report(RatingReport("r", (Observation("INAIL", 1.0, 0.2), Observation("CoC", 0.9, 1.0))))

    async def served() -> tuple[Any, Any]:
        serving = Serving(rating_app(ratings), "127.0.0.1:0")
        await serving.start()
        try:
            shown = await asyncio.to_thread(tidings, "quality", "rate", serving.address)
            return shown, await asyncio.to_thread(tidings, "quality", "rate", serving.address, "--json")
        finally:
            await serving.close()

    shown, delivered = asyncio.run(served())
    assert shown.code == 0
    assert shown.out.index("CoC") < shown.out.index("INAIL")
    assert [each["source"] for each in delivered.rows[0]["standings"]] == ["CoC", "INAIL"]


def test_rate_needs_one_or_the_other(tidings: Run) -> None:
    assert tidings("quality", "rate").code == 2
    assert tidings("quality", "rate", "http://127.0.0.1:1", "--serve", "127.0.0.1:0").code == 2
    ran = tidings("quality", "rate", "http://127.0.0.1:9")
    assert ran.code == 3
    assert "tidings quality rate --serve" in ran.err


@pytest.mark.soak
@pytest.mark.spark
def test_the_whole_demonstration_proves_its_claims(tidings: Run, tmp_path: Path) -> None:
    ran = tidings("quality", "demo", "--people", "300", "--keep", str(tmp_path / "kept"), "--json")
    assert ran.code == 0, ran.out + ran.err
    (delivered,) = ran.rows
    assert len(delivered["claims"]) == 4
    assert all(claim["holds"] for claim in delivered["claims"])
    for organisation in ("INPS", "INAIL", "CoC"):
        assert (tmp_path / "kept" / organisation / "factory.toml").exists()
