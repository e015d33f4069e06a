"""The transactional outbox on SQLite and PostgreSQL: each committed order is one event, whatever is
killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.chaos import _outbox_child as child
from tests.chaos._postgres import postgres, programs
from tests.chaos._process import BrokerProcess

import tidings
from tidings import outbox as ob

PATIENCE = 120.0
pytestmark = pytest.mark.xdist_group("outbox")  # one cluster serves all tests
needs_postgres = pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a running PostgreSQL; empty when that is not installed."""
    if programs() is None:
        yield ""
    else:
        with postgres() as address:
            yield address


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def database(request: pytest.FixtureRequest, cluster: str, tmp_path: Path) -> str:
    address = cluster if request.param == "postgresql" else f"sqlite:///{tmp_path / 'shop.db'}"
    engine = child.engine_of(address)
    child.METADATA.drop_all(engine)
    child.METADATA.create_all(engine)
    engine.dispose()
    return address


class Child:
    """One child process, with the lines that it prints."""

    def __init__(self, *words: str) -> None:
        path = ":".join(entry for entry in sys.path if entry)
        self.process = subprocess.Popen(
            [sys.executable, str(Path(child.__file__)), *words], stdout=subprocess.PIPE, text=True,
            env={"PYTHONPATH": path, "PATH": ""},
        )  # fmt: skip
        assert self.process.stdout is not None
        self._out = self.process.stdout

    def lines(self, count: int) -> list[str]:
        return [self._out.readline().strip() for _ in range(count)]

    def kill(self) -> list[str]:
        """Kill -9; the lines that were still printed."""
        self.process.kill()
        return self.end()

    def end(self) -> list[str]:
        rest = self._out.read().split()
        self.process.wait(PATIENCE)
        self._out.close()
        return rest


def orders(engine: sa.Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.execute(sa.select(child.ORDERS.c.number).order_by("number")).scalars())


def test_application_relay_and_broker_are_killed(database: str, tmp_path: Path) -> None:
    """Two lives of each. Each order in the table is one event, in order; a rolled back one is none."""
    engine = child.engine_of(database)
    broker = BrokerProcess(tmp_path)

    async def play() -> None:
        nonlocal broker
        async with (
            tidings.connect(broker.address, name="stock", network=child.QUICK) as bus,
            bus.subscribe(topic="orders", name="orders", durable=True) as news,
        ):
            got: list[int] = []
            relay = await asyncio.to_thread(Child, "relay", database, broker.address)
            for life in range(2):
                application = await asyncio.to_thread(Child, "app", database, str(1000 * life), "1000000")
                await asyncio.to_thread(application.lines, 40)
                while len(got) < 20 * (life + 1):  # it is relayed while orders are written
                    got += [event["order"] for event in await news.get_many(100, PATIENCE)]
                await asyncio.to_thread(application.kill)
                await asyncio.to_thread(relay.kill)
                relay = await asyncio.to_thread(Child, "relay", database, broker.address)
                broker.kill()
                broker = await asyncio.to_thread(BrokerProcess, tmp_path, port=broker.port)
            wanted = await asyncio.to_thread(orders, engine)
            while len(got) < len(wanted):
                got += [event["order"] for event in await news.get_many(100, PATIENCE)]
            assert got == wanted
            assert len(wanted) >= 80
            assert not any(number % 1000 % 7 == 3 for number in wanted if number < 1000)
            while await asyncio.to_thread(pending, engine):
                await asyncio.sleep(0)
            await asyncio.to_thread(relay.kill)
            with pytest.raises(TimeoutError):
                await news.get(0.2)

    try:
        asyncio.run(play())
    finally:
        engine.dispose()
        broker.kill()


def pending(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return child.OUTBOX.pending(connection)


def test_a_relay_that_repeats_itself_publishes_no_event_twice(database: str, tmp_path: Path) -> None:
    engine = child.engine_of(database)

    class Killed(Exception):
        pass

    with tidings.open(path=tmp_path / "store") as bus, bus.subscribe(name="all", durable=True) as news:
        with engine.begin() as connection:
            for number in range(5):
                connection.execute(child.OUTBOX.insert({"order": number}))
        publish = bus.publish_many

        def publish_and_die(*given: object, **options: object) -> None:
            publish(*given, **options)  # type: ignore[arg-type]
            raise Killed

        relay = ob.OutboxRelay(engine, child.OUTBOX, bus)
        bus.publish_many = publish_and_die  # type: ignore[method-assign, assignment]
        with pytest.raises(Killed):
            relay.relay()
        assert pending(engine) == 5
        bus.publish_many = publish  # type: ignore[method-assign]
        assert relay.relay() == 5
        assert pending(engine) == 0
        assert [event["order"] for event in news.get_many(100, PATIENCE)] == list(range(5))
        with pytest.raises(TimeoutError):
            news.get(0.05)
    engine.dispose()


def test_a_refused_event_is_kept_with_its_reason_and_holds_no_other_back(tmp_path: Path) -> None:
    engine = child.engine_of(f"sqlite:///{tmp_path / 'shop.db'}")
    child.METADATA.create_all(engine)
    with tidings.open() as bus, bus.subscribe("order >= 0") as news:
        with engine.begin() as connection:
            connection.execute(child.OUTBOX.insert({"order": 1, "total": Decimal("1.10"), "tags": ["a"]}))
            connection.execute(child.OUTBOX.insert({"order": 2}, payload=bytes(17 << 20)))
            connection.execute(child.OUTBOX.insert({"order": 3}))
        relay = ob.OutboxRelay(engine, child.OUTBOX, bus)
        assert relay.relay() == 3
        assert relay.relay() == 0
        assert relay.published == 2
        assert news.get(PATIENCE).attributes == {"order": 1, "total": Decimal("1.10"), "tags": ["a"]}
        assert news.get(PATIENCE)["order"] == 3
        with engine.connect() as connection:
            ((number, event, reason),) = child.OUTBOX.refused(connection)
        assert (number, event["order"]) == (2, 2)
        assert reason.startswith("TooLargeError")
    engine.dispose()


def test_a_relay_in_a_thread_stops_when_it_is_told(tmp_path: Path) -> None:
    import threading

    engine = child.engine_of(f"sqlite:///{tmp_path / 'shop.db'}")
    child.METADATA.create_all(engine)
    with tidings.open() as bus, bus.subscribe("order >= 0") as news:
        relay = ob.OutboxRelay(engine, child.OUTBOX, bus)
        thread = threading.Thread(target=relay.run)
        thread.start()
        with engine.begin() as connection:
            connection.execute(child.OUTBOX.insert({"order": 1}))
        relay.wake()
        assert news.get(PATIENCE)["order"] == 1
        relay.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
    engine.dispose()
