"""The way in, and the driver under it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.availability.records import Loaded
from tidings.errors import StoreError, TidingsError
from tidings.history.check import check
from tidings.history.recorder import MemoryRecorder
from tidings.protocol.effects import Fetch, Persist
from tidings.protocol.inputs import Fetched, FetchFailed, Input, Persisted, PersistFailed
from tidings.runtime.clock import RealClock
from tidings.runtime.disk_executor import InlineExecutor, ThreadedExecutor
from tidings.runtime.failures import error_of
from tidings.security.credentials import PasswordCredentials
from tidings.store.memory import MemoryStore
from tidings.testing import collect


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("tidings://localhost:port", "is no broker's address"),
        ("mqtt://localhost", "no broker can be reached by mqtt://"),
        ("data", "connect\\(path='data'\\)"),
    ],
)
def test_other_addresses_are_refused_with_what_to_do(address: str, hint: str) -> None:
    with pytest.raises(tidings.SettingsError, match=hint):
        tidings.connect(address)


@pytest.mark.parametrize(
    "address",
    [
        "tidings://ann:s3cret@localhost:7117",
        "ann:s3cret@localhost",
        "tidings://ann:x,s3cret@h:1,tidings://h2:1",
    ],
)
def test_a_password_in_an_address_is_refused_at_once_and_never_shown(address: str) -> None:
    with pytest.raises(tidings.SettingsError, match="credentials=") as raised:
        tidings.connect(address)
    assert "s3cret" not in str(raised.value)


def test_old_names_of_calls_warn_and_work() -> None:
    async def use() -> int:
        got = asyncio.get_running_loop().create_future()
        with pytest.warns(DeprecationWarning, match="remote_subscription_seconds"):
            bus = tidings.connect(name="ann", guest_seconds=7.0)  # type: ignore[call-overload]
        async with bus:
            with pytest.warns(DeprecationWarning, match="subscribe_callback"):
                listener = await bus.hear(
                    tidings.parse_filter("price > 1"), lambda *given: got.set_result(len(given))
                )
            listener.allow(1)
            await bus.publish({"price": 2})
            count: int = await got
            await listener.close()
            return count

    assert asyncio.run(use())


def test_unknown_options_name_the_nearest() -> None:
    with pytest.raises(tidings.SettingsError, match=r"did you mean path=\?"):
        tidings.connect(pth="x")
    with pytest.raises(tidings.SettingsError, match="cannot be empty"):
        tidings.connect(name="")
    with pytest.raises(tidings.SettingsError, match="there are: "):
        tidings.connect(zzzzzz=1)


def test_lazy_names_are_all_there() -> None:
    for name in tidings.__all__:
        assert getattr(tidings, name) is not None
    assert dir(tidings) == sorted(tidings.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tidings.nothing  # type: ignore[attr-defined]


def test_explain_is_at_hand() -> None:
    event = tidings.make_event({"n": 1}, source="s", id="1")
    assert not tidings.explain(event, tidings.parse_filter("n > 1")).accepted


def test_a_recorded_run_keeps_the_contract(tmp_path: Path) -> None:
    async def play(record: Any) -> None:
        async with tidings.connect(record=record, seed=7) as bus:
            async with bus.subscribe("n > 1", name="mine") as news, bus.client("other") as other:
                for n in range(5):
                    await other.publish({"n": n}, lifetime=60)
                await collect(news, 3)
            async with bus.subscribe(name="mine") as news:
                await collect(news, 2)

    recorder = MemoryRecorder()
    asyncio.run(play(recorder))
    asyncio.run(play(tmp_path / "run.jsonl"))
    for history in (recorder.rows, tmp_path / "run.jsonl"):
        report = check(history, t_sub=1.0, t_diff=1.0)
        assert report.holds, report.story
        assert report["legality"].holds
        assert report["minimality"].holds


def test_a_loop_that_publishes_starves_nobody() -> None:
    async def play() -> list[Any]:
        received: list[Any] = []

        async def listen(news: tidings.Listener[tidings.Event]) -> None:
            async for event in news:
                received.append(event["n"])  # noqa: PERF401 - the loop is what is tested

        async with tidings.connect() as bus, bus.subscribe(queue=1, policy="drop oldest") as news:
            task = asyncio.create_task(listen(news))
            await asyncio.sleep(0)
            for n in range(50):
                await bus.publish({"n": n})
            task.cancel()
            await asyncio.wait([task])
        return received

    assert asyncio.run(play()) == list(range(50))


def test_the_clock_is_the_wall_clock_and_never_runs_backwards() -> None:
    before = time.time()
    clock = RealClock()
    first = clock.now()
    assert before - 1 < first < time.time() + 1
    assert clock.now() >= first


def test_codes_become_errors() -> None:
    assert type(error_of("slow", "x")) is tidings.SlowConsumerError
    assert type(error_of("impossible", "x")) is tidings.ImpossibleFilterError
    assert type(error_of("nobody knows", "x")) is tidings.RefusedError
    assert issubclass(type(error_of("corrupt", "x")), TidingsError)


# -- disks -------------------------------------------------------------------------------------


class Broken(MemoryStore):
    def commit(self, records: Any) -> None:
        raise StoreError("no")

    def fetch(self, *arguments: Any) -> Any:
        raise StoreError("no")


def test_an_inline_disk_reports_what_happened() -> None:
    reports: list[Input] = []
    executor = InlineExecutor(MemoryStore(), reports.append)
    executor.persist(Persist(1, ()))
    executor.fetch(Fetch(1, 1, 10, 100))
    broken = InlineExecutor(Broken(), reports.append)
    broken.persist(Persist(2, ()))
    broken.fetch(Fetch(2, 1, 10, 100))
    assert reports == [
        Persisted(1),
        Fetched(1, ()),
        PersistFailed(2, "store", "no"),
        FetchFailed(2, "store", "no"),
    ]


def test_a_disk_with_threads_reports_on_the_loop() -> None:
    async def play() -> list[Input]:
        reports: list[Input] = []
        executor = ThreadedExecutor(Broken(), reports.append, asyncio.get_running_loop())
        executor.persist(Persist(1, ()))
        executor.fetch(Fetch(1, 1, 10, 100))
        async with asyncio.timeout(120):
            while len(reports) < 2:
                await asyncio.sleep(0)
        await executor.close()
        executor.persist(Persist(2, ()))
        executor.fetch(Fetch(2, 1, 10, 100))
        return sorted(reports, key=lambda report: type(report).__name__)

    assert asyncio.run(play()) == [FetchFailed(1, "store", "no"), PersistFailed(1, "store", "no")]


def test_a_disk_that_fails_refuses_publishers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.runtime.broker.MemoryStore", Broken)

    async def play() -> None:
        async with tidings.connect() as bus:
            with pytest.raises(StoreError, match="not kept"):
                await bus.publish({"n": 1}, lifetime=60)
            with pytest.raises(StoreError, match="disk has failed"):
                await bus.publish({"n": 1}, lifetime=60)

    monkeypatch.setattr(Broken, "load", lambda self: Loaded.empty())
    asyncio.run(play())


def test_publishing_while_the_bus_closes_is_told(tmp_path: Path) -> None:
    async def play() -> None:
        bus = await tidings.connect(path=tmp_path)
        news = await bus.subscribe(queue=1)
        await bus.publish({"n": 1})
        blocked = asyncio.create_task(bus.publish({"n": 2}))
        await asyncio.sleep(0)
        other = await bus.client("other")
        await news.close()
        await bus.close()
        assert (await blocked).source == "local"
        await other.close()

    asyncio.run(play())


def test_a_bus_stays_on_its_loop_and_a_broker_that_stopped_stays_stopped() -> None:
    async def begin() -> tidings.Bus:
        return await tidings.connect()

    async def elsewhere(bus: tidings.Bus) -> None:
        with pytest.raises(tidings.SettingsError, match="another event loop"):
            await bus.publish({"n": 1})

    async def ended() -> None:
        async with tidings.connect() as bus:
            other = bus.client("other")
        with pytest.raises(tidings.ClosedError, match="has stopped"):
            await other.open()

    bus = asyncio.run(begin())
    asyncio.run(elsewhere(bus))
    asyncio.run(ended())


def test_the_name_of_the_credentials_is_the_clients() -> None:
    ann = PasswordCredentials("ann", "secret")
    assert tidings.connect("tidings://h:1", credentials=ann).name == "ann"
    assert tidings.connect("tidings://h:1", credentials=ann, name="bob").name == "bob"
    assert tidings.connect("tidings://h:1").name == "local"


@pytest.mark.parametrize("since", ["yesterday", 7, {"embedded": "4"}])
def test_a_since_that_is_no_position_is_refused(since: Any) -> None:
    with pytest.raises(tidings.SettingsError, match=r"since=.* is no position .*news.positions"):
        tidings.connect().subscribe(since=since)


def test_what_is_open_and_was_probably_not_meant_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with tidings.open() as bus:
        with bus.subscribe("n > 0", name="jobs"):
            bus.subscribe(dead_letters_of="jobs").close()
            bus.subscribe(since={"embedded": 0}).close()
        assert not caplog.records
        bus.subscribe(dead_letters_of="jbos").close()
        bus.subscribe(since={"nolog": 4}).close()
        with bus.subscribe("n > 0") as news, pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
            news.get(timeout=0.01)
    assert "no subscription 'jbos' of yours" in caplog.records[0].getMessage()
    assert "not known here" in caplog.records[1].getMessage()
