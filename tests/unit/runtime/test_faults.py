"""Messages that the node fails at: answered, logged once, and no client tries them in a loop."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import tidings
from tidings.errors import UnknownOutcomeError
from tidings.protocol.inputs import PublishesReceived, Received, ReceivedAll
from tidings.protocol.messages import Publish
from tidings.protocol.node import Node
from tidings.runtime.dialling import RetryDelays
from tidings.runtime.faults import MessageFaults
from tidings.testing.network import serving


def raised() -> Exception:
    try:
        raise KeyError("oops")
    except KeyError as error:
        return error


def test_a_kind_of_failure_is_logged_once_and_then_when_it_doubled(caplog: pytest.LogCaptureFixture) -> None:
    faults = MessageFaults()
    for _ in range(100):
        faults.note("c#1", raised())
    assert faults.count == 100
    assert sum(record.exc_info is not None for record in caplog.records) == 1
    assert [record.args[0] for record in caplog.records[1:] if record.args] == [2, 4, 8, 16, 32, 64]


def publishes(input: Any) -> list[Publish]:
    messages: list[Any] = []
    if isinstance(input, Received):
        messages = [input.message]
    elif isinstance(input, ReceivedAll):
        messages = input.messages
    elif isinstance(input, PublishesReceived):
        messages = [each for _, some in input.batches for each in some]
    return [each for each in messages if isinstance(each, Publish)]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that fails at one event."""
    handle = Node.handle

    def fails(self: Node, input: Any, now: float) -> Any:
        if any(each.event["n"] == 13 for each in publishes(input)):
            raise KeyError("oops")
        return handle(self, input, now)

    monkeypatch.setattr(Node, "handle", fails)


@pytest.mark.usefixtures("failing")
def test_a_publish_that_the_broker_fails_at_is_answered_and_the_next_one_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with asyncio.timeout(120), serving() as server, tidings.connect(server.address) as bus:
            await bus.publish({"n": 1})
            with pytest.raises(UnknownOutcomeError, match="failed at this event"):
                await bus.publish({"n": 13})
            await bus.publish({"n": 2}, timeout=60)
            assert server.figures()["faults"] == 1

    with caplog.at_level(logging.ERROR, "tidings.broker"):
        asyncio.run(story())
    assert len([record for record in caplog.records if record.exc_info]) == 1


@pytest.mark.usefixtures("failing")
def test_a_client_pauses_when_connections_are_made_and_lost_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier broker does not answer such a publish: the client sends it again with each connection."""
    pauses: list[float] = []
    original = RetryDelays.next

    def soon(self: RetryDelays) -> float:
        pauses.append(original(self))
        return 0.0

    monkeypatch.setattr(RetryDelays, "next", soon)
    monkeypatch.setattr(MessageFaults, "answer", lambda *_: None)

    async def story() -> None:
        async with asyncio.timeout(120), serving() as server, tidings.connect(server.address) as bus:
            publish = asyncio.create_task(bus.publish({"n": 13}, timeout=None))
            while server.figures()["faults"] < 8:
                await asyncio.sleep(0)
            assert len(pauses) >= 7, "one before each new connection"
            assert pauses[6] > pauses[0], "longer each time"
            publish.cancel()
            await asyncio.gather(publish, return_exceptions=True)

    asyncio.run(story())
