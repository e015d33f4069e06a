"""What a broker saw in the last minutes, as a history and as counts."""

from __future__ import annotations

import pytest

from tidings.errors import InputError
from tidings.history.jsonlines import from_lines
from tidings.language import parse_filter
from tidings.model.event import Event, make_event
from tidings.model.subscription import DeliveryOptions, Position
from tidings.protocol import messages as msg
from tidings.runtime.activity import activity
from tidings.runtime.observing import WHOLE, ObservedScope
from tidings.runtime.recent import RecentHistory, together
from tidings.runtime.trace import TraceRing

ANN, PRESS = "ann#1", "press#2"


def event(n: int) -> Event:
    return make_event({"n": n}, source="press", id=str(n))


def history() -> RecentHistory:
    return RecentHistory("b1", 60.0, lambda: 100.0)


def told(seen: RecentHistory) -> list[tuple[str, str, str | None]]:
    rows = from_lines(seen.answer({})["rows"])
    return [(row.op, row.process, row.outcome or row.reason) for row in rows]


def subscribe(seen: RecentHistory) -> None:
    options = DeliveryOptions()
    seen.came(ANN, msg.Subscribe(1, 7, "all", parse_filter("n > 0"), options), 50.0)
    seen.went(ANN, msg.Subscribed(1, 7, "ann", "all"), 51.0)


def test_a_publish_counts_from_its_arrival_when_it_is_answered() -> None:
    seen = history()
    seen.came_all(PRESS, [msg.Publish(1, event(1), 1), msg.Publish(2, event(2), 2)], 60.0)
    assert told(seen) == []
    seen.went(PRESS, msg.PublishedAll(1, 1), 61.0)
    seen.went(PRESS, msg.Refused(2, "refused", "no"), 61.0)
    rows = from_lines(seen.answer({})["rows"])
    assert [(row.time, row.outcome, row.sequence) for row in rows] == [(60.0, "ok", 1), (60.0, "refused", 2)]


def test_a_notification_names_its_subscription() -> None:
    seen = history()
    subscribe(seen)
    seen.went(ANN, msg.Deliver(7, 1, event(1)), 52.0)
    seen.went(ANN, msg.DeliverAll(7, 2, (event(2), event(3))), 53.0)
    seen.went(ANN, msg.Deliver(7, 4, event(1), None, 2), 54.0)
    rows = from_lines(seen.answer({})["rows"])
    assert [(row.op, row.event, row.subscription, row.reason) for row in rows[1:]] == [
        ("ntfy", "1", "ann/all", None),
        ("ntfy", "2", "ann/all", None),
        ("ntfy", "3", "ann/all", None),
        ("nack", "1", "ann/all", None),
        ("ntfy", "1", "ann/all", "redelivery"),
    ]


def test_what_an_earlier_life_of_the_broker_may_have_sent_was_not_given_back_in_this_one() -> None:
    seen = history()
    subscribe(seen)
    for offset in (4, 5, 5):
        seen.went(ANN, msg.Deliver(7, offset, event(offset), Position("b1", offset), again=True), 52.0)
    rows = from_lines(seen.answer({})["rows"])
    assert [(row.op, row.event) for row in rows[1:]] == [
        ("ntfy", "4"), ("ntfy", "5"), ("nack", "5"), ("ntfy", "5")
    ]  # fmt: skip


def test_whoever_goes_without_a_word_is_detached_and_its_publishes_are_unknown() -> None:
    seen = history()
    subscribe(seen)
    seen.came(ANN, msg.Publish(9, event(9), 1), 55.0)
    seen.gone(ANN)
    assert told(seen) == [("sub", "ann", "ok"), ("pub", "ann", "unknown"), ("usub", "ann", "ok")]
    assert from_lines(seen.answer({})["rows"])[-1].reason == "detach"


def test_an_unsubscription_ends_or_detaches() -> None:
    for end, reason in ((True, None), (False, "detach")):
        seen = history()
        subscribe(seen)
        seen.came(ANN, msg.Unsubscribe(2, 7, end), 56.0)
        seen.went(ANN, msg.Unsubscribed(2, 7), 57.0)
        assert from_lines(seen.answer({})["rows"])[-1].reason == reason


@pytest.mark.parametrize("after", [-1, "3", 1.5, True])
def test_a_number_that_is_none_is_refused(after: object) -> None:
    with pytest.raises(InputError):
        history().answer({"after": after})


def test_activity_counts_what_came_since() -> None:
    ring = TraceRing(100)
    seen = together(ring, history(), None)
    assert seen is not None
    seen.went(ANN, msg.Subscribed(1, 7, "ann", "all"), 1.0)
    for n in range(1, 4):
        one = event(n)
        seen.came(PRESS, msg.Publish(n, one, n), float(n))
        seen.went(ANN, msg.Deliver(7, n, one), float(n))
    assert activity(ring, {"after": 1.5}, 9.0, WHOLE)["delivered"] == {"ann/all": 2}
    some = ObservedScope(False, lambda event: event.id != "3", lambda id: True)
    found = activity(ring, {"after": 1.5, "events": 10}, 9.0, some)
    assert found["delivered"] == {"ann/all": 1}
    assert found["ways"] == {"published": 1}
    assert [one["id"] for one in found["recent"]] == ["2"]  # the third may not be seen
    assert found["now"] == 9.0
    assert activity(None, {}, 9.0, WHOLE)["is_traced"] is False


@pytest.mark.parametrize(
    "about", [{"after": "x"}, {"after": float("nan")}, {"after": True}, {"events": 10**6}, {"events": -1}]
)
def test_activity_refuses_what_is_no_time(about: dict[str, object]) -> None:
    with pytest.raises(InputError):
        activity(TraceRing(10), about, 1.0, WHOLE)


def test_large_events_are_looked_back_on_less_far() -> None:
    ring = TraceRing(100, most_bytes=10_000)
    for number in range(50):
        ring.came(
            "ann#1",
            msg.Publish(number, make_event({"text": "x" * 900}, source="s", id=str(number)), number),
            0.0,
        )
    assert 5 < len(ring) < 12
    assert ring.steps("49")
    assert not ring.steps("1")
