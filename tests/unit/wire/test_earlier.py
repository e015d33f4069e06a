"""Messages for peers of the version before: bodies that they can read, and filters without lists."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest
from msgspec.msgpack import Ext

from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.language.lists import is_beyond_earlier, without_lists
from tidings.model.event import Event, make_event
from tidings.model.subscription import Position
from tidings.protocol.inputs import ALL_FEATURES, Feature
from tidings.protocol.messages import Deliver, DeliverAll, Envelope
from tidings.protocol.recovery.messages import ReplayRequest, ReplayRequests
from tidings.protocol.routing.diffusion import Interest
from tidings.protocol.routing.duplicates import Forward, ForwardAll
from tidings.wire.codec import Codec
from tidings.wire.earlier import EarlierForm, legible

RICH = make_event(
    {"d": Decimal("1.50"), "l": [UUID(int=1), {"x": date(2026, 1, 2)}], "b": b"a", "id": 2**70, "n": None},
    source="s",
    id="1",
)
FLAT = make_event({"a": 1}, source="s", id="2")
LISTED = parse_filter("'red' IN tags AND a = 1")
PLAIN = parse_filter("a = 1")


def test_an_event_has_values_that_the_version_before_knows() -> None:
    event = legible(RICH)
    assert not event.rich
    assert event.body == {
        "d": "1.50", "l": [str(UUID(int=1)), {"x": "2026-01-02"}], "b": b"a", "id": str(2**70), "n": None,
    }  # fmt: skip
    assert legible(FLAT) is FLAT
    unknown = Event("s", "3", {"x": Ext(99, b"z")}, rich=True)
    assert legible(unknown).body["x"].code == 99


def test_deliveries_are_written_for_the_peer_that_reads_them() -> None:
    codec = Codec()
    assert codec.read_by(ALL_FEATURES) is codec
    earlier = codec.read_by(0)
    for message in (Deliver(1, 1, RICH), DeliverAll(1, 1, (FLAT, RICH))):
        found = codec.decode(earlier.encode(message))
        events = found.events if isinstance(found, DeliverAll) else (found.event,)  # type: ignore[attr-defined]
        assert events[-1] == legible(RICH)
    assert earlier.encode(Deliver(1, 1, FLAT)) == codec.encode(Deliver(1, 1, FLAT))


@pytest.mark.parametrize("features", [0, ALL_FEATURES - Feature.EVENT_RUNS])
def test_events_with_positions_are_single_messages_for_a_peer_that_does_not_announce_runs(
    features: int,
) -> None:
    codec = Codec((Forward, ForwardAll))
    earlier, envelopes = codec.read_by(features), (Envelope(FLAT, "b0", 1), Envelope(FLAT, "b0", 2))
    singles = [Deliver(1, 7, FLAT, Position("b0", 4)), Deliver(1, 8, FLAT, Position("b0", 9))]
    run = DeliverAll(1, 7, (FLAT, FLAT), "b0", (4, 9))
    assert earlier.encode(run) == b"".join(map(codec.encode, singles))
    assert codec.decode(codec.encode(run)) == run
    assert run.one_by_one() == singles
    forwards = b"".join([codec.encode(Forward(envelope)) for envelope in envelopes])
    assert earlier.encode(ForwardAll(envelopes)) == forwards
    assert codec.decode(codec.encode(ForwardAll(envelopes))) == ForwardAll(envelopes)


@pytest.mark.parametrize("text", ["'red' IN tags AND a = 1", "ALL(l.x > 1) OR b = 2", "a < DECIMAL('0.1')"])
def test_a_filter_without_lists_accepts_more(text: str) -> None:
    filter = parse_filter(text)
    weaker = without_lists(filter)
    assert is_beyond_earlier(filter)
    assert not is_beyond_earlier(weaker)
    assert b"any" not in msgspec.msgpack.encode(weaker.conjunctions)
    for body in ({"tags": ["red"], "a": 1}, {"b": 2}, {"a": 0}, {"l": [{"x": 2}]}):
        event = make_event(body, source="s", id="1")
        assert accepts(weaker, event) or not accepts(filter, event)
    assert without_lists(PLAIN) is PLAIN


def test_interest_is_sent_weaker_and_never_withdrawn_too_early() -> None:
    form = EarlierForm()
    weaker = without_lists(LISTED)
    sent = form.of(Interest("subscriptions", (LISTED, PLAIN), ()))
    assert isinstance(sent, Interest)
    assert [filter.digest for filter in sent.add] == [weaker.digest, PLAIN.digest]
    kept = form.of(Interest("subscriptions", (), (LISTED.digest, weaker.digest, "other")))
    assert isinstance(kept, Interest)
    assert kept.remove == ("other",)
    anew = form.of(Interest("subscriptions", (PLAIN,), (), reset=True))
    assert anew == Interest("subscriptions", (PLAIN,), (), reset=True)
    assert form.of(Interest("subscriptions", (), (LISTED.digest,))) == Interest(
        "subscriptions", (), (LISTED.digest,)
    )


def test_requests_of_replays_carry_the_weaker_filter() -> None:
    ask = ReplayRequest("log", 1, LISTED, 0, None, 0.0, 10, ())
    form = EarlierForm()
    for message in (form.of(ask), form.of(ReplayRequests((ask,))).asks[0]):  # type: ignore[attr-defined]
        assert isinstance(message, ReplayRequest)
        assert message.filter.digest == without_lists(LISTED).digest
