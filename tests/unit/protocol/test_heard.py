"""Events that no log holds, told again by a broker that forgot: a client knows them."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Position, SubscriptionId
from tidings.protocol.heard import Heard
from tidings.protocol.listening import Listening
from tidings.protocol.messages import Deliver


def listening(ref: int = 1, **options: Any) -> Listening:
    return Listening(
        ref, 1, SubscriptionId("s", "n"), parse_filter("TRUE"), DeliveryOptions(**options),
        named=True, window=1, auto=True, after={},
    )  # fmt: skip


def deliver(id: int, ref: int = 1, **more: Any) -> Deliver:
    return Deliver(ref, id, make_event({}, source="p", id=str(id)), **more)


def test_what_was_told_is_known_for_that_subscription_alone() -> None:
    heard = Heard(10)
    heard.note(listening(), deliver(1))
    assert not heard.has(listening(), deliver(1)), "over the same link it is a mistake of the broker's"
    heard.link_up()
    assert heard.has(listening(), deliver(1))
    assert not heard.has(listening(), deliver(2))
    assert not heard.has(listening(2), deliver(1, ref=2))


def test_only_so_many_are_remembered() -> None:
    heard = Heard(3)
    for number in range(5):
        heard.note(listening(), deliver(number))
    heard.link_up()
    assert [heard.has(listening(), deliver(number)) for number in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    nothing = Heard(0)
    nothing.note(listening(), deliver(1))
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
    heard = Heard(10)
    heard.note(listening(**options), deliver(1, **more))
    heard.link_up()
    assert not heard.has(listening(**options), deliver(1, **more))
