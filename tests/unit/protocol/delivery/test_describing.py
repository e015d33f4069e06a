"""What people ask about subscriptions has a bounded cost, and the right sums."""

from __future__ import annotations

from typing import Any

from tidings.language import parse_filter
from tidings.model.subscription import DeliveryOptions, Subscription, SubscriptionId
from tidings.protocol.delivery import describing
from tidings.protocol.delivery.cursor import LIVE, Cursor
from tidings.protocol.delivery.describing import AT_ONCE, Sweep, busiest
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.lazy_queues import own


def holds(count: int, waiting: int = 0) -> dict[Any, SubscriptionState]:
    filter = parse_filter("x > 0")
    made = {}
    for number in range(count):
        id = SubscriptionId("s", str(number))
        cursor = Cursor("b0", None, 1, start=1, state=LIVE)  # type: ignore[arg-type]  # no log is read
        subscription = Subscription(id, filter, DeliveryOptions())
        state = SubscriptionState(subscription, cursor, named=True, number=0, since=0.0)
        for _ in range(waiting):
            own(state, "queue").append(None)
        made[id] = state
    return made


def test_few_are_summed_up_at_once() -> None:
    assert Sweep().look(holds(100, waiting=2)) == (200, 0)


def test_many_are_summed_up_over_several_questions(monkeypatch: Any) -> None:
    monkeypatch.setattr(describing, "AT_ONCE", 10)
    states = holds(25, waiting=1)
    sweep = Sweep()
    assert [sweep.look(states)[0] for _ in range(3)] == [10, 20, 25]
    for state in states.values():
        own(state, "queue").append(None)
    assert [sweep.look(states)[0] for _ in range(3)] == [25, 25, 50], "until it is done, the last one counts"


def test_one_question_looks_at_no_more_than_its_share(monkeypatch: Any) -> None:
    states, looked = holds(3 * AT_ONCE), []
    backlog = SubscriptionState.backlog
    monkeypatch.setattr(SubscriptionState, "backlog", lambda stored: looked.append(1) or backlog(stored))
    Sweep().look(states)
    assert len(looked) == AT_ONCE
    looked.clear()
    busiest(states, 10)
    assert len(looked) == AT_ONCE


def test_what_waits_in_the_log_counts_too() -> None:
    """A queue ends at its bound; what is owed beyond it is in the log."""
    states = holds(2, waiting=1)
    slow = next(iter(states.values()))
    for offset in range(5, 30):
        slow.own.owe_later(offset)
    own(slow.own, "unread").append(4)
    assert slow.backlog() == 1 + 25 + 1
    assert Sweep().look(states)[0] == 28
    assert describing.described(slow)["waiting"] == 27


def test_those_for_which_most_waits_are_described() -> None:
    states = holds(50)
    slow = list(states.values())[7]
    own(slow, "queue").append(None)
    assert busiest(states, 3)[0] is slow
    assert len(busiest(states, 3)) == 3
