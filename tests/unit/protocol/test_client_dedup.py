"""Events that no log holds, told again by a broker that forgot: a client knows them."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Position, SubscriptionId
from tidings.protocol.client_dedup import ClientDedupWindow
from tidings.protocol.client_subscription import ClientSubscription
from tidings.protocol.messages import Deliver


def listening(ref: int = 1, **options: Any) -> ClientSubscription:
    return ClientSubscription(
        ref, 1, SubscriptionId("s", "n"), parse_filter("TRUE"), DeliveryOptions(**options),
        named=True, window=1, auto=True, after={},
    )  # fmt: skip


def deliver(id: int, ref: int = 1, **more: Any) -> Deliver:
    return Deliver(ref, id, make_event({}, source="p", id=str(id)), **more)


def test_what_was_told_is_known_for_that_subscription_alone() -> None:
    received = ClientDedupWindow(10)
    received.note(listening(), [deliver(1)])
    assert not received.has(listening(), deliver(1)), "over the same link it is a mistake of the broker's"
    received.link_up()
    assert received.has(listening(), deliver(1))
    assert not received.has(listening(), deliver(2))
    assert not received.has(listening(2), deliver(1, ref=2))


def test_only_so_many_are_remembered() -> None:
    received = ClientDedupWindow(3)
    for number in range(5):
        received.note(listening(), [deliver(number)])
    received.link_up()
    assert [received.has(listening(), deliver(number)) for number in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    nothing = ClientDedupWindow(0)
    nothing.note(listening(), [deliver(1)])
    nothing.link_up()
    assert not nothing.has(listening(), deliver(1))


@pytest.mark.parametrize(
    ("options", "more"),
    [
        ({}, {"position": Position("log", 1)}),
        ({}, {"attempt": 2}),
        ({}, {"again": True}),
        ({"group": "g"}, {}),
    ],
    ids=["a log has it", "given back", "not handled", "a group"],
)
def test_what_may_come_again_comes(options: dict[str, Any], more: dict[str, Any]) -> None:
    received = ClientDedupWindow(10)
    received.note(listening(**options), [deliver(1, **more)])
    received.link_up()
    assert not received.has(listening(**options), deliver(1, **more))


def test_a_copy_from_another_log_is_known_and_one_that_comes_again_from_its_own_is_not() -> None:
    received = ClientDedupWindow(10, copies=3)
    first = deliver(1, position=Position("b0#1", 7))
    received.note(listening(), [first])
    assert not received.has(listening(), first), "the broker sends it again, and knows why"
    assert received.has(listening(), deliver(1, position=Position("b1#1", 2)))
    assert not received.has(listening(), deliver(2, position=Position("b1#1", 3)))
    assert not received.has(listening(2), deliver(1, ref=2, position=Position("b1#1", 2)))
    for number in range(2, 5):
        received.note(listening(), [deliver(number, position=Position("b0#1", 7 + number))])
    assert not received.has(listening(), deliver(1, position=Position("b1#1", 2))), (
        "only so many are remembered"
    )


def test_ids_that_our_clients_made_are_not_remembered_as_copies() -> None:
    received = ClientDedupWindow(10, copies=3)
    own = make_event({}, source="p", id="0123456789ab-7")
    received.note(listening(), [Deliver(1, 1, own, Position("b0#1", 7))])
    assert not received.has(listening(), Deliver(1, 2, own, Position("b1#1", 7)))
