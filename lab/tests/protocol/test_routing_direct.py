"""Direct routing: who holds what, and one copy for each broker with a taker."""

from __future__ import annotations

from tidings.protocol.effects import Channel
from tidings.testing.ports import AloneStrategy, envelope, filter_of
from tidings_lab.routing.direct import Hold, MatchAtTarget, MatchFirst, ToAccess, ToTarget

WIDE, NARROW = "x > 0", "x > 5"


def hold(text: str, access: str, count: int = 1, *, spread: bool = False) -> Hold:
    return Hold(filter_of(text), access, count, spread)


def test_match_first_tells_everybody_and_passes_on() -> None:
    alone = AloneStrategy(MatchFirst())
    alone.subscribe(WIDE)
    assert alone.take() == [(link, hold(WIDE, "me", spread=True)) for link in "abc"]
    alone.receive("a", hold(NARROW, "far", spread=True))
    assert alone.to() == ["b", "c"]
    assert alone.routing.table_size() == 2


def test_match_first_sends_one_copy_to_each_broker_with_a_taker() -> None:
    alone = AloneStrategy(MatchFirst())
    alone.subscribe(WIDE)
    for text in (WIDE, NARROW):
        alone.receive("a", hold(text, "far", spread=True))
    alone.receive("a", hold(NARROW, "further", spread=True))
    alone.take()
    alone.channels.clear()
    alone.publish(x=9)
    assert [(to, type(message)) for to, message in alone.take()] == [("far", ToAccess), ("further", ToAccess)]
    assert set(alone.channels) == {Channel.DATAGRAM}
    alone.publish(x=1)
    assert alone.to() == ["far"]
    assert alone.routing.wanted_elsewhere(envelope(x=1).event)
    assert not alone.routing.wanted_elsewhere(envelope(x=0).event)
    alone.receive("far", ToAccess(envelope(x=1)))
    assert len(alone.passed) == 1
    assert alone.to() == [], "a copy is not sent on"


def test_holds_are_counted() -> None:
    alone = AloneStrategy(MatchFirst())
    for count, size in ((1, 1), (1, 1), (-1, 1), (-1, 0), (-1, 0), (1, 1)):
        alone.receive("a", hold(WIDE, "far", count, spread=True))
        assert alone.routing.table_size() == size


def test_match_at_target_sends_filter_and_event_to_the_brokers_of_their_cells() -> None:
    alone = AloneStrategy(MatchAtTarget())
    alone.subscribe(WIDE, at=("t1", "t2"))
    assert alone.take() == [(target, hold(WIDE, "me")) for target in ("t1", "t2")]
    alone.publish(at=("t1",), x=1)
    assert [(to, type(message)) for to, message in alone.take()] == [("t1", ToTarget)]
    alone.unsubscribe(WIDE, at=("t1", "t2"))
    assert alone.take() == [(target, hold(WIDE, "me", -1)) for target in ("t1", "t2")]


def test_a_target_hands_out_to_takers_and_to_itself() -> None:
    alone = AloneStrategy(MatchAtTarget(), name="t1")
    alone.subscribe(WIDE, at=("t1",))
    alone.receive("far", hold(WIDE, "far"))
    alone.receive("origin", hold(WIDE, "origin"))
    event = envelope(x=1)
    from_origin = ToTarget(type(event)(event.event, "origin"))
    alone.receive("origin", from_origin)
    assert alone.to() == ["far"], "its origin has it already"
    assert len(alone.passed) == 1
    alone.publish(at=("t1",), x=1)
    assert alone.to() == ["far", "origin"]
    alone.receive("origin", ToTarget(envelope(x=0)))
    assert len(alone.passed) == 1, "nobody here wants it"
