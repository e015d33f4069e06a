"""Far ends of links: events that they do not take are dead letters of the link."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tidings.model.event import make_event
from tidings.protocol.inputs import ALL_FEATURES, Feature, LinkUp
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.protocol.messages import Envelope
from tidings.protocol.recovery.far_ends import FarEnds


def test_a_body_that_a_broker_of_the_version_before_cannot_read_is_a_dead_letter_of_its_link() -> None:
    buried: list[tuple[Any, ...]] = []
    ports: Any = SimpleNamespace(
        limits=DEFAULT_LIMITS, dispatcher=SimpleNamespace(undeliverable=lambda *args: buried.append(args))
    )
    ends = FarEnds(ports)
    ends.link_up(LinkUp("old", features=int(Feature.REPLAY_PARTS | Feature.ACK_CREDIT)))
    ends.link_up(LinkUp("new", features=ALL_FEATURES))
    rich = Envelope(make_event({"tags": ["red"]}, source="s", id="1"), "log", 1)
    flat = Envelope(make_event({"tag": "red"}, source="s", id="2"), "log", 2)
    assert [ends.is_too_much("old", each, 1.0) for each in (rich, flat, rich)] == [True, False, True]
    assert buried == [("old", rich, 1.0)]  # once, however often it is asked for
    assert not ends.is_too_much("new", rich, 1.0)
