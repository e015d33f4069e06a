"""Events of one client: the envelope of the last options serves the next event, and is never a wrong one."""

from __future__ import annotations

from typing import Any

import pytest

from tidings.errors import EventError
from tidings.model.event import Event
from tidings.runtime.coercion import EventFactory, event_from

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"topic": "a/b"},
    {"topic": "a/b"},
    {"topic": "a/c", "type": "Quote"},
    {"topic": "a/c", "key": "Quote"},
    {"lifetime": 1.0},
    {"lifetime": 1},
    {"id": "x"},
    {"source": "other"},
    {"topic": None},
    {"topic": "a/b", "content_type": "text/plain", "payload": b"x"},
    {"topic": "a/b"},
    {},
)
BODIES: tuple[Any, ...] = ({"n": 1}, {}, {"n": [1, 2]}, {"text": "\xe9"}, None, {"n": 1})


def test_events_are_those_that_are_made_one_by_one() -> None:
    factory = EventFactory("press")
    for options in OPTIONS * 2:
        for body in BODIES:
            made, wanted = factory.make(body, {**options}), event_from(body, {**options}, "press")
            assert made == wanted
            assert made[0].body is not body


def test_an_event_keeps_its_attributes_when_the_mapping_changes() -> None:
    factory, body = EventFactory("press"), {"n": 1}
    events = [factory.make(body, {"topic": "a"})[0] for _ in range(2)]
    body["n"] = 2
    assert [event.attributes for event in events] == [{"n": 1}, {"n": 1}]


def test_an_envelope_that_is_refused_is_not_kept() -> None:
    factory = EventFactory("press")
    for _ in range(2):
        with pytest.raises(EventError):
            factory.make({"n": 1}, {"topic": "a//\x00"})
    with pytest.raises(EventError):
        factory.make({"n": 1}, {"lifetime": -1.0})
    event = Event("s", "1", {"n": 1})
    assert factory.make(event, {}) == (event, False)
