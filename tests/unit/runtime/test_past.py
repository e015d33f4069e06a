"""Past figures: a row a minute, bounded, found again after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tidings.errors import InputError
from tidings.runtime.past import EVERY_SECONDS, FILE, KEEP_SECONDS, PastFigures


class Days:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1e9
        self.published = 0

    def figures(self) -> dict[str, Any]:
        self.published += 7
        return {"published": self.published, "broker": "b1", "waiting": 3, "log pins": []}

    def made(self, folder: Path | None) -> PastFigures:
        return PastFigures(self.figures, folder, lambda: self.now)

    def pass_minutes(self, past: PastFigures, count: int) -> None:
        for _ in range(count):
            self.now += EVERY_SECONDS
            past.note()


def started(past: PastFigures) -> PastFigures:
    async def run() -> None:
        past.start()
        past.close()

    asyncio.run(run())
    return past


def test_a_day_is_kept_and_thinned() -> None:
    days = Days()
    past = started(days.made(None))
    days.pass_minutes(past, 2 * 24 * 60)
    rows = past.rows({"seconds": 86_400, "count": 300})
    assert 200 < len(rows) <= 300
    assert days.now - rows[0]["time"] > 86_000
    assert rows[-1] == {"time": days.now, "published": days.published, "waiting": 3}
    assert len(past.rows({"seconds": 600, "count": 300})) == 10


def test_it_outlives_a_restart_and_stays_bounded(tmp_path: Path) -> None:
    days = Days()
    past = started(days.made(tmp_path))
    days.pass_minutes(past, 100)
    with (tmp_path / FILE).open("a") as file:
        file.write('{"time": "no"}\nno row\n')
    again = started(days.made(tmp_path))
    assert len(again.rows({"seconds": 86_400, "count": 1000})) == 102
    most = int(KEEP_SECONDS / EVERY_SECONDS)
    days.pass_minutes(again, 2 * most)
    assert len((tmp_path / FILE).read_text().splitlines()) <= 2 * most + 1


def test_wrong_questions_are_refused() -> None:
    past = Days().made(None)
    for about in ({"seconds": 0}, {"count": "x"}):
        with pytest.raises(InputError):
            past.rows(about)
