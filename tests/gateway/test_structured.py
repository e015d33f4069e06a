"""Each event is encoded once for its streams, within bounds, and never mistaken for another one."""

from __future__ import annotations

import asyncio

import pytest

import tidings
from tidings.gateway import structured
from tidings.gateway.streams import BYTES_TOGETHER, MOST_TOGETHER, _committed
from tidings.gateway.structured import MOST_BYTES, MOST_EVENTS, StructuredEvents
from tidings.gateway.tokens import StreamToken
from tidings.model.cloudevents import from_structured, to_structured
from tidings.model.event import Event, make_event
from tidings.runtime.listener import Listener


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Events that were encoded, in order."""
    events: list[Event] = []

    def write(event: Event) -> bytes:
        events.append(event)
        return to_structured(event)

    monkeypatch.setattr(structured, "to_structured", write)
    return events


def _event(number: int, size: int = 0) -> Event:
    return make_event({"n": number, "text": "x" * size}, source="s", id=str(number))


def test_an_event_is_encoded_once_for_all_its_streams(written: list[Event]) -> None:
    events, encoder = [_event(number) for number in range(20)], StructuredEvents()
    bodies = [[encoder.write(event) for event in events] for _ in range(100)]
    assert len(written) == 20
    assert all(each == bodies[0] for each in bodies)
    assert [from_structured(body) for body in bodies[0]] == events


def test_events_that_compare_equal_are_not_mistaken() -> None:
    """1 and 1.0 are equal and are not the same JSON."""
    encoder = StructuredEvents()
    whole, fraction = (make_event({"n": n}, source="s", id="1") for n in (1, 1.0))
    assert whole == fraction
    assert encoder.write(whole) == to_structured(whole)
    assert encoder.write(fraction) == to_structured(fraction) != to_structured(whole)


def test_the_bound_in_number_lets_the_oldest_go(written: list[Event]) -> None:
    encoder, events = StructuredEvents(), [_event(number) for number in range(MOST_EVENTS + 1)]
    for event in [*events, *reversed(events)]:
        assert from_structured(encoder.write(event)) == event
    assert [event.id for event in written[len(events) :]] == ["0"]


def test_the_bound_in_bytes_holds_and_a_larger_event_is_not_kept(written: list[Event]) -> None:
    encoder, events = StructuredEvents(), [_event(number, MOST_BYTES // 3) for number in range(3)]
    large = _event(9, MOST_BYTES)
    for event in (*events, large, large, events[2], events[1], events[0]):
        encoder.write(event)
    assert [event.id for event in written] == ["0", "1", "2", "9", "9", "0"]


class _Stream:
    """A stream of an embedded bus, and the pieces that it wrote."""

    def __init__(self, bus: tidings.Bus, listener: Listener[Event]) -> None:
        self.bus = bus
        self.pieces = _committed(listener, StreamToken({}, 8), StructuredEvents())

    async def next(self, count: int, size: int = 0) -> list[list[int]]:
        """Publish so many events, and read the pieces that bring them: their numbers."""
        await self.bus.publish_many([_event(number, size) for number in range(count)])
        found: list[list[int]] = []
        while sum(map(len, found)) < count:
            lines = (await anext(self.pieces)).splitlines()
            bodies = [line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: ")]
            found.append([from_structured(body)["n"] for body in bodies])
        return found


@pytest.mark.parametrize(
    ("count", "size", "pieces"),
    [(20, 0, [20]), (MOST_TOGETHER + 6, 0, [MOST_TOGETHER, 6]), (5, BYTES_TOGETHER // 2, [2, 2, 1])],
)
def test_events_that_wait_for_a_stream_go_out_together_within_bounds(
    count: int, size: int, pieces: list[int]
) -> None:
    async def test() -> None:
        async with tidings.connect() as bus, bus.subscribe("n >= 0") as listener:
            stream = _Stream(bus, listener)
            assert await anext(stream.pieces) == b": listening\n\n"
            found = await stream.next(count, size)
            assert [len(each) for each in found] == pieces
            assert [number for each in found for number in each] == list(range(count))
            await stream.pieces.aclose()

    asyncio.run(test())
