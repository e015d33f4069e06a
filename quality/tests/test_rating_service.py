"""The Rating Service over HTTP: reports once, trust for all, a token for those who report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidings.errors import RefusedError, UnreachableError
from tidings.gateway.serving import Serving
from tidings_quality import rating_service
from tidings_quality.rating import Observation, Ratings
from tidings_quality.rating_service import RatingClient, rating_app, serve_ratings


def served(ratings: Ratings, act: Callable[[str], Any], token: str = "") -> Any:
    """What a blocking function finds at the address of a service that runs meanwhile."""

    async def run() -> Any:
        serving = Serving(rating_app(ratings, token=token), "127.0.0.1:0")
        await serving.start()
        try:
            return await asyncio.to_thread(act, serving.address)
        finally:
            await serving.close()

    return asyncio.run(run())


def test_reports_are_counted_once_and_trust_is_told(tmp_path: Path) -> None:
    def act(url: str) -> Any:
        client = RatingClient(url)
        assert client.trust() == {}
        observations = [Observation("INAIL", 1.0, 0.5), Observation("CoC", 0.9, 1.0)]
        assert client.report(observations, "r1")
        assert not client.report(observations, "r1")
        assert client.report(observations)  # another one, under an id of its own
        return client.standings()

    file = tmp_path / "reports.jsonl"
    standings = served(Ratings(file), act)
    assert [(each["source"], each["rank"]) for each in standings] == [("CoC", 1), ("INAIL", 2)]
    assert served(Ratings(file), lambda url: RatingClient(url).standings()) == standings  # after a restart


def test_what_is_wrong_is_refused() -> None:
    def act(url: str) -> None:
        with pytest.raises(RefusedError, match="token"):
            RatingClient(url).report([Observation("INAIL", 1.0, 0.5)])
        with pytest.raises(RefusedError, match="outside"):
            RatingClient(url, token="secret").report([Observation("INAIL", 2.0, 0.5)])
        assert RatingClient(url).trust() == {}

    served(Ratings(), act, token="secret")


def test_a_report_is_bounded_however_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces nobody says how long it will be."""
    monkeypatch.setattr(rating_service, "MOST_BYTES", 1000)

    def act(url: str) -> list[int]:
        pieces = (b"x" * 400 for _ in range(5))
        return [httpx.post(f"{url}/reports", content=body, trust_env=False).status_code
                for body in (pieces, b"\xff")]  # fmt: skip

    assert served(Ratings(), act) == [413, 400]


def test_nobody_there_is_told_with_what_to_do() -> None:
    with pytest.raises(UnreachableError, match="tidings quality rate --serve"):
        RatingClient("http://127.0.0.1:9", timeout_seconds=1.0).trust()


def test_the_process_serves_until_it_is_stopped(tmp_path: Path) -> None:
    async def run() -> str:
        received: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(
            serve_ratings("127.0.0.1:0", tmp_path / "r.jsonl", ready=received.set_result)
        )
        address = await received
        assert await asyncio.to_thread(RatingClient(address).trust) == {}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return address

    assert asyncio.run(run()).startswith("http://127.0.0.1:")
