"""Events that go over links together: one message, one number, one step, and the same at the far end."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.unit.protocol.test_batches import LIMITS

from tidings.matching.small import SmallMatcher
from tidings.model.event import make_event
from tidings.protocol.batches import Divider
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.messages import DeliverAll, Envelope
from tidings.protocol.node import Node
from tidings.protocol.recovery.logs import EventChain
from tidings.protocol.recovery.messages import PREVIOUS
from tidings.protocol.routing.duplicates import ForwardAll
from tidings.protocol.slots import Recovery


def envelope(offset: int, log: str = "b0", size: int = 1) -> Envelope:
    return Envelope(make_event({"n": "x" * size}, source="s", id=f"{log}-{offset}"), log, offset)


def before(envelopes: Sequence[Envelope]) -> list[tuple[int | None, int]]:
    return [(each.offset, each.headers[PREVIOUS]) for each in envelopes]


def test_each_event_says_which_one_was_before_it_on_its_link() -> None:
    chain, events = EventChain(), (envelope(4), envelope(7), envelope(9))
    first = chain.after(2, events)
    assert before(first) == [(4, 2), (7, 4), (9, 7)]
    assert chain.after(2, events) is first, "links that were sent the same share it"
    assert before(chain.after(3, events)) == [(4, 3), (7, 4), (9, 7)]
    assert all(here is there for here, there in zip(chain.after(2, first), first, strict=True))
    assert before(chain.after(3, first)) == [(4, 3), (7, 4), (9, 7)]


class Passing(Recovery):
    def __init__(self) -> None:
        self.seen: list[list[tuple[str, int | None]]] = []

    def observe(self, envelopes: Sequence[Envelope], came_from: str | None, now: float) -> Sequence[Envelope]:
        self.seen.append([(each.origin, each.offset) for each in envelopes])
        return envelopes


def test_only_events_of_one_log_pass_together() -> None:
    """A log is known up to the last event of a stretch, and an event of another log may wait for that."""
    recovery = Passing()
    node = Node("b", delivery=ExactlyOnce(SmallMatcher()), recovery=recovery, rng=Random(1))
    node.received([envelope(1), envelope(2), envelope(8, "b9"), envelope(3)], "b1", 1.0)
    assert recovery.seen == [[("b0", 1), ("b0", 2)], [("b9", 8)], [("b0", 3)]]


def test_a_batch_is_divided_with_the_positions_that_its_events_have() -> None:
    events = tuple(envelope(offset, size=300) for offset in (2, 3, 5, 8, 9, 11, 20))
    offsets = tuple(each.offset or 0 for each in events)
    run = DeliverAll(1, 10, tuple(each.event for each in events), "b0", offsets)
    parts = list(Divider(LIMITS).divide(run))
    singles = [deliver for part in parts for deliver in part.one_by_one()]
    assert len(parts) > 1
    assert singles == run.one_by_one()
    forwards = list(Divider(LIMITS).divide(ForwardAll(events)))
    assert len(forwards) > 1
    assert [each for part in forwards for each in part.one_by_one()] == ForwardAll(events).one_by_one()
