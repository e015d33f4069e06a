"""Traps of the first hour: addresses, deadlines, reasons, TLS, and a publish that waits for its
own reader."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

import tidings
from tidings.errors import DeadlockError, TidingsError, TimedOutError, TlsError, UnansweredError
from tidings.runtime import tls
from tidings.runtime.authority import issue, make_authority
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.dialling import Address, parse_addresses
from tidings.runtime.server import Server
from tidings.runtime.settings import TlsSettings
from tidings.store.memory import MemoryStore
from tidings.testing.network import played, serving, until

QUICK = NetworkSettings(retry_seconds=0.01, slow_retry_seconds=0.05)
QUEUE = 8


def at(server: Server) -> str:
    return f"tidings://127.0.0.1:{server.addresses[0].port}"


# -- addresses -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tidings://a:1,tidings://b:2", [Address("a", 1), Address("b", 2)]),
        ("tidings+tls://a:1, b:2", [Address("a", 1, tls=True), Address("b", 2, tls=True)]),
        ("tidings+tls://a:1,tidings://b:2/", [Address("a", 1, tls=True), Address("b", 2)]),
        ("a:1,tidings+tls://[::1]:2", [Address("a", 1), Address("::1", 2, tls=True)]),
    ],
)
def test_every_address_may_have_its_scheme(text: str, expected: list[Address]) -> None:
    assert parse_addresses(text) == expected


@played
async def test_two_whole_addresses_fail_over() -> None:
    async with serving("b2") as two:
        one = Server("b1")
        await one.start()
        async with tidings.connect(f"{at(one)},{at(two)}", network=QUICK, patience=0.05) as bus:
            assert bus.state.broker == "b1"
            await one.close()
            await until(lambda: bus.state.broker == "b2")
            await bus.publish({"n": 1})


# -- reasons, callbacks, timeouts --------------------------------------------------------------------


def test_the_reason_for_no_connection_is_in_the_state_the_log_and_the_callbacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[tuple[str, str]] = []

    def here(state: tidings.ConnectionState) -> None:
        seen.append(("here", state.broker))

    async def gone(state: tidings.ConnectionState) -> None:
        seen.append(("gone", state.reason))

    async def play() -> None:
        async with serving("b1") as server:
            where = at(server)
            async with tidings.connect(where, network=QUICK, on_connected=here, on_disconnected=gone) as bus:
                assert seen == [("here", "b1")]
                await server.close()
                await until(lambda: "listens there" in bus.state.reason)
                assert bus.state == "down"
                assert where in bus.state.reason
                async with serving("b3", listen=where.removeprefix("tidings://")):
                    await until(lambda: bus.state == "up" and len(seen) == 3)
                    assert bus.state.reason == ""

    with caplog.at_level(logging.INFO, "tidings.client"):
        asyncio.run(play())
    assert [kind for kind, _ in seen[:3]] == ["here", "gone", "here"]
    assert "connection to broker b1 was lost" in seen[1][1]
    stated = [record.getMessage() for record in caplog.records]
    assert any("listens there" in text for text in stated)
    assert any("connected again, to broker b3" in text for text in stated)
    assert len(stated) == len(set(stated)), "the same reason is logged once"


@played
async def test_the_reason_names_every_address() -> None:
    with pytest.raises(tidings.errors.UnreachableError) as delivered:
        await tidings.connect("127.0.0.1:1,127.0.0.1:2", timeout=0.3, network=QUICK)
    for port in (1, 2):
        assert f"tidings://127.0.0.1:{port} cannot be reached: no broker listens there" in str(
            delivered.value
        )


@played
async def test_a_watcher_that_fails_is_reported_and_hurts_no_connection() -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))

    def fail(state: tidings.ConnectionState) -> None:
        raise ValueError(state)

    async with serving() as server, tidings.connect(at(server), on_connected=fail) as bus:
        await bus.publish({"n": 1})
    assert [type(error) for error in reported] == [ValueError]


@played
async def test_a_publish_that_was_never_sent_times_out_and_is_never_published() -> None:
    async with serving("b1") as server:
        where = at(server)
        async with tidings.connect(where, network=QUICK, call_timeout=0.1) as bus:
            await server.close()
            await until(lambda: bus.state == "down")
            with pytest.raises(TimedOutError, match=r"it is not published: no answer within 0\.1 s; .*down"):
                await bus.publish({"n": 1})
            with pytest.raises(TimeoutError):
                await bus.subscribe("n > 0")
            async with serving("b1", listen=where.removeprefix("tidings://")) as again:
                await until(lambda: bus.state == "up")
                async with bus.subscribe("n > 0", timeout=10) as news:
                    await bus.publish({"n": 2}, timeout=None)
                    assert (await news.get(timeout=120))["n"] == 2
                assert again.figures()["published"] == 1


class Slow(MemoryStore):
    """A disk that writes an event when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()

    def commit(self, records: Any) -> None:
        if any(type(record).__name__ == "Append" for record in records):
            self.may.wait(30)
        super().commit(records)


@played
async def test_a_publish_that_was_sent_and_not_acknowledged_is_of_unknown_outcome() -> None:
    disk = Slow()
    async with serving("b1", store=disk) as server, tidings.connect(at(server)) as bus:
        try:
            with pytest.raises(
                UnansweredError, match=r"may be delivered or not.* from broker b1"
            ) as delivered:
                await bus.publish({"n": 1}, mode="kept", timeout=0.1)
            assert isinstance(delivered.value, tidings.errors.UnknownOutcomeError)
            assert isinstance(delivered.value, TimeoutError)
        finally:
            disk.may.set()
        receipt = await bus.publish({"n": 2}, mode="kept")
        assert receipt.position is not None


@played
async def test_closing_a_bus_whose_broker_does_not_answer_ends_in_time() -> None:
    async with serving("b1") as server:
        bus = await tidings.connect(at(server), call_timeout=0.1)
        await bus.subscribe("n > 0")
        for client in server._clients.values():
            client.connection.hold("a test")  # the broker reads no more
        await bus.close()
        assert bus.state == "closed"


@pytest.mark.parametrize(
    "call",
    [
        lambda bus: bus.publish({"n": 1}, timeout=0.05),
        lambda bus: bus.subscribe("n > 0", timeout=0.05),
        lambda bus: bus.advertise("mine", "n > 0", timeout=0.05),
        lambda bus: bus.read_log(timeout=0.05),
        lambda bus: bus.stage("q", 0, 0, [], timeout=0.05),
        lambda bus: bus.commit_staged("q", 0, 0, timeout=0.05),
        lambda bus: bus.commit_parts("q", 0, [], timeout=0.05),
        lambda bus: bus.committed("q", timeout=0.05),
        lambda bus: bus.hold_log("mine", timeout=0.05),
        lambda bus: bus.end_hold("mine", timeout=0.05),
        lambda bus: bus.inquire("figures", timeout=0.05),
    ],
    ids=["publish", "subscribe", "advertise", "read_log", "stage", "commit_staged", "commit_parts",
        "committed",
         "hold_log", "end_hold", "inquire"],
)  # fmt: skip
def test_every_blocking_call_has_a_timeout(call: Any) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = Server("b1")
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result()
        down = threading.Event()
        with tidings.open(at(server), network=QUICK, on_disconnected=lambda _: down.set()) as bus:
            asyncio.run_coroutine_threadsafe(server.close(), loop).result()
            assert down.wait(20)
            with pytest.raises(TidingsError) as delivered:
                call(bus)
            assert isinstance(delivered.value, tidings.errors.UnreachableError)
            assert bus.state.reason
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# -- TLS ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TlsSettings:
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder)
    issue(folder, "b1", hosts=("localhost",), broker=True)
    return TlsSettings(
        certificate=str(folder / "b1.pem"),
        key=str(folder / "b1.key"),
        authority=str(folder / "authority.pem"),
    )


def test_a_plain_client_at_a_tls_port_and_an_untrusted_certificate_are_said_at_once(
    certificates: TlsSettings,
) -> None:
    async def play() -> None:
        async with serving("b1", tls=tls.listening(certificates)) as server:
            port = server.addresses[0].port
            with pytest.raises(TlsError, match=rf"speaks TLS .*write tidings\+tls://127.0.0.1:{port}"):
                await tidings.connect(f"tidings://127.0.0.1:{port}", timeout=600)
            with pytest.raises(TlsError, match=r"certificate of .* is not accepted.*TIDINGS_AUTHORITY"):
                await tidings.connect(f"tidings+tls://localhost:{port}", timeout=600)
            trusting = tls.dialling(authority=certificates.authority)
            with pytest.raises(TlsError, match=r"not valid for '127.0.0.1'"):
                await tidings.connect(f"tidings+tls://127.0.0.1:{port}", tls=trusting, timeout=600)
            async with tidings.connect(f"tidings+tls://localhost:{port}", tls=trusting) as bus:
                await bus.publish({"n": 1})

    asyncio.run(play())


# -- a publish that waits for its own reader -----------------------------------------------------------


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidings.runtime.blocked_publishes.CHECK_SECONDS", 0.02)


@pytest.mark.usefixtures("_soon")
def test_a_publish_that_only_its_own_task_could_free_fails() -> None:
    async def play(other: bool) -> None:
        async with tidings.connect() as bus:
            reader = bus.client("ann") if other else bus
            await (reader.open() if other else asyncio.sleep(0))
            async with reader.subscribe(queue=QUEUE) as news:
                for n in range(QUEUE):
                    await bus.publish({"n": n})
                with pytest.raises(DeadlockError, match=r"full queue of subscription .*another task"):
                    await bus.publish({"n": QUEUE})
                received = [(await news.get(timeout=120))["n"] for _ in range(QUEUE + 1)]
                assert received == list(range(QUEUE + 1)), "nothing is lost by it"

    asyncio.run(play(other=False))
    asyncio.run(play(other=True))


def test_without_await_it_fails_too(tmp_path: Path) -> None:
    """In a process of its own, because a test runner has threads beside this one."""
    import subprocess
    import sys

    script = tmp_path / "script.py"
    script.write_text(
        "import tidings\n"
        "with tidings.open() as bus, bus.subscribe() as news:\n"
        "    for n in range(2000):\n"
        "        bus.publish({'n': n})\n"
        "    print([event['n'] for event in news])\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "DeadlockError: publish waits for room" in done.stderr
    assert "larger queue=" in done.stderr


@pytest.mark.usefixtures("_soon")
def test_no_alarm_while_another_task_reads_slowly(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        looked = asyncio.Event()
        async with tidings.connect() as bus, bus.subscribe(queue=QUEUE) as news:
            judged = bus._blocked.judge

            def judge(*args: Any) -> None:
                judged(*args)
                looked.set()

            bus._blocked.judge = judge  # type: ignore[method-assign]

            async def read() -> None:
                await news.get()
                await looked.wait()  # it works on an event while the publisher waits
                async for event in news:
                    if event["n"] == 3 * QUEUE - 1:
                        return

            reading = asyncio.create_task(read())
            for n in range(3 * QUEUE):
                await bus.publish({"n": n})
            await reading
            assert looked.is_set()

    asyncio.run(play())
    assert not caplog.records


@pytest.mark.usefixtures("_soon")
def test_a_task_that_may_come_to_read_makes_it_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with tidings.connect() as bus, bus.subscribe(queue=QUEUE) as news:

            async def read_later() -> None:
                await until(lambda: caplog.records)
                for _ in range(2 * QUEUE):
                    await news.get()

            reading = asyncio.create_task(read_later())
            for n in range(2 * QUEUE):
                await bus.publish({"n": n})
            await reading

    asyncio.run(play())
    assert ["waits for room" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.usefixtures("_soon")
def test_publishes_that_are_gathered_before_reading_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async def play() -> None:
        async with tidings.connect() as bus, bus.subscribe(queue=QUEUE) as news:
            gathered = asyncio.gather(*(bus.publish({"n": n}) for n in range(2 * QUEUE)))
            await until(lambda: caplog.records)
            for _ in range(2 * QUEUE):
                await news.get()
            await gathered

    asyncio.run(play())
    assert ["waits for room" in record.getMessage() for record in caplog.records] == [True]


def test_a_callback_that_calls_its_own_blocking_bus_is_told_so() -> None:
    with tidings.open() as bus:
        bus._loop._loop.call_soon_threadsafe(
            bus._loop._loop.set_exception_handler, lambda loop, context: None
        )
        done = threading.Event()

        def answer(event: tidings.Event) -> None:
            try:
                bus.publish({"m": event["n"]})
            finally:
                done.set()

        with bus.on("n > 0", answer, max_deliveries=1) as calling:
            bus.publish({"n": 1})
            assert done.wait(20)
        assert isinstance(calling.error, DeadlockError)
