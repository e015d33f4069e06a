"""Keys of subscriptions and of events: they meet whenever an event is accepted."""

from __future__ import annotations

from random import Random

import pytest

from tidings.algebra.cells import GridCells, HashCells
from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Subscription, SubscriptionId
from tidings.protocol.slots import Assignment
from tidings_lab.assignment.rendezvous import ANY, ByCell, ByTopic, ByType

from ..simulation._rendezvous import drawn_event, drawn_filter

POLICIES: dict[str, Assignment] = {
    "topic": ByTopic(),
    "type": ByType(),
    "grid": ByCell(GridCells.regular({"x": (0.0, 1.0, 4), "y": (0.0, 1.0, 4)})),
    "hash": ByCell(HashCells("topic", 8)),
}


def keys(policy: str, text: str) -> tuple[str, ...]:
    subscription = Subscription(SubscriptionId("s", "n"), parse_filter(text), DeliveryOptions())
    return POLICIES[policy].assign(subscription)


@pytest.mark.parametrize("policy", POLICIES)
def test_vir2_5_assign_and_resolve_meet_whenever_the_event_matches(policy: str) -> None:
    rng = Random(policy)
    met = 0
    for _ in range(3000):
        text, event = drawn_filter(rng), make_event(source="p", id="1", **drawn_event(rng))
        if accepts(parse_filter(text), event):
            met += 1
            resolved = POLICIES[policy].resolve(event)
            assert resolved is not None
            assert set(keys(policy, text)) & set(resolved), (text, event)
    assert met > 300


def test_a_filter_has_the_keys_of_the_topics_that_it_names() -> None:
    assert keys("topic", "topic = 'a/b' AND x > 1") == ("topic:a/b",)
    assert keys("topic", "topic IN ('a', 'b') OR topic = 'c' AND x > 1") == ("topic:a", "topic:b", "topic:c")
    assert keys("topic", "topic MATCHES 'a/+'") == (ANY,)
    assert keys("topic", "topic = 'a' OR x > 1") == (ANY,)
    assert keys("topic", "x > 1") == (ANY,)
    many = ", ".join(f"'t{number}'" for number in range(100))
    assert keys("topic", f"topic IN ({many})") == (ANY,)


def test_a_filter_has_the_key_of_a_type_that_it_names() -> None:
    assert keys("type", "type IS A 'Quote' AND x > 1") == ("type:Quote",)
    assert keys("type", "type = 'Tick'") == ("type:Tick",)
    assert keys("type", "type IN ('Tick', 'Quote')") == ("type:Quote", "type:Tick")
    assert keys("type", "type IS NOT A 'Quote'") == (ANY,)
    assert keys("type", "topic = 'a'") == (ANY,)


def test_an_event_has_the_keys_of_its_supertypes() -> None:
    event = make_event({}, source="p", id="1", type=("Tick", "Quote", "Event"), topic="a/b")
    assert POLICIES["type"].resolve(event) == ("type:Tick", "type:Quote", "type:Event", ANY)
    assert POLICIES["topic"].resolve(event) == ("topic:a/b", ANY)
