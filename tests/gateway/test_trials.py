"""Trials of filters (`POST /explain`, and the console's) need a right, are bounded, and count for their
principal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.gateway.conftest import broker

from tidings.errors import RefusedError
from tidings.gateway.trials import FilterTrials
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.runtime.fairness import Fairness

LIMIT = DEFAULT_LIMITS.trial_bytes
ASKED = {"filter": "a > 1", "event": {"a": 5}}


@pytest.mark.parametrize(("user", "status"), [("ann", 200), ("market", 200), ("slow", 200), ("idle", 403)])
def test_a_principal_that_may_neither_subscribe_nor_observe_tries_no_filter(
    user: str, status: int, tmp_path: Path
) -> None:
    async def test() -> None:
        async with (
            asyncio.timeout(120),
            broker(tmp_path, users=True, http="127.0.0.1:0") as service,
        ):
            assert service.gateways is not None
            base = service.gateways.addresses["http"]
            async with httpx.AsyncClient(base_url=base, auth=(user, user[0])) as http:
                answer = await http.post("/explain", json=ASKED)
                assert answer.status_code == status
                assert ("accepted" in answer.json()) is (status == 200)

    asyncio.run(test())


def test_a_trial_is_bounded_and_its_values_are_cut(tmp_path: Path) -> None:
    async def test() -> None:
        async with asyncio.timeout(120), broker(tmp_path, http="127.0.0.1:0") as service:
            assert service.gateways is not None
            async with httpx.AsyncClient(base_url=service.gateways.addresses["http"]) as http:
                text = " OR ".join(f"x LIKE '%a%a%a{number}%'" for number in range(250))
                asked = {"filter": text, "event": {"x": "a" * (LIMIT - 20_000)}}
                answer = await http.post("/explain", json=asked)
                assert answer.status_code == 200
                assert len(answer.content) < 1 << 18
                asked["event"] = {"x": "a" * LIMIT}
                assert (await http.post("/explain", json=asked)).status_code == 413

    asyncio.run(test())


class Turns:
    """Time that passes by itself when a trial is answered, and calls that wait for their moment."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[tuple[float, Any]] = []

    def later(self, seconds: float, call: Any) -> None:
        self.calls.append((self.now + seconds, call))

    def run(self) -> None:
        while self.calls:
            self.calls.sort(key=lambda each: each[0])
            at, call = self.calls.pop(0)
            self.now = max(self.now, at)
            call()


def test_trials_are_charged_to_who_asks_and_others_come_between() -> None:
    turns = Turns()
    fairness = Fairness(clock=lambda: turns.now, later=turns.later)
    trials, done = FilterTrials(None, fairness), []

    def work(name: str) -> str:
        turns.now += 0.02
        done.append(name)
        return name

    async def test() -> None:
        other = fairness.join("10.0.0.2")
        fairness.charge(other, 0.001)
        asked = [
            asyncio.ensure_future(trials.answer(None, "10.0.0.1", lambda: work("one"))) for _ in range(3)
        ]
        asked.append(asyncio.ensure_future(trials.answer(None, "10.0.0.2", lambda: work("two"))))
        for _ in range(4):
            await asyncio.sleep(0)
        asked[2].cancel()  # this client left
        await asyncio.sleep(0)
        turns.run()
        assert [await each for each in (asked[0], asked[1], asked[3])] == [b'"one"', b'"one"', b'"two"']

    asyncio.run(test())
    assert done == ["one", "two", "one"]
    assert fairness.figures["turns cut short"] >= 2


def test_a_trial_that_fails_is_answered_with_its_error() -> None:
    def work() -> None:
        raise RefusedError("no")

    async def test() -> None:
        trials = FilterTrials(None, Fairness())
        with pytest.raises(RefusedError, match="no"):
            await trials.answer(None, "10.0.0.1", work)

    asyncio.run(test())
