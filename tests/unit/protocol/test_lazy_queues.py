"""Empty lines and tables are shared, and nobody can fill what is everybody's."""

from __future__ import annotations

from collections import deque
from random import Random
from types import SimpleNamespace

import pytest

from tidings.language import parse_filter
from tidings.model.subscription import DeliveryOptions
from tidings.protocol.compositions import intermediary
from tidings.protocol.delivery.unacked import NONE_UNACKED
from tidings.protocol.inputs import LinkUp, Received, Started
from tidings.protocol.lazy_queues import EMPTY, NOTHING, UniformQueue, own, own_table
from tidings.protocol.messages import Hello, Subscribe
from tidings.store.memory import MemoryStore


class _Holder:
    def __init__(self) -> None:
        self.line = EMPTY
        self.table = NOTHING


def test_what_is_everybodys_takes_nothing() -> None:
    for fill in (EMPTY.append, EMPTY.appendleft, EMPTY.extend, EMPTY.extendleft):
        with pytest.raises(AssertionError):
            fill([1])
    with pytest.raises(AssertionError):
        EMPTY.insert(0, 1)
    with pytest.raises(AssertionError):
        NOTHING["a"] = 1
    for change in (NOTHING.update, NOTHING.setdefault):
        with pytest.raises(AssertionError):
            change({"a": 1})
    assert not EMPTY
    assert not NOTHING


def test_an_own_one_is_made_once() -> None:
    holder, other = _Holder(), _Holder()
    own(holder, "line").append(1)
    own(holder, "line").append(2)
    own_table(holder, "table")["a"] = 1
    own_table(holder, "table")["b"] = 2
    assert list(holder.line) == [1, 2]
    assert holder.table == {"a": 1, "b": 2}
    assert other.line is EMPTY
    assert other.table is NOTHING


def test_an_idle_subscription_has_no_line_of_its_own() -> None:
    node = intermediary("b0", rng=Random(1))
    for input in (
        Started(MemoryStore().load()),
        LinkUp("c"),
        Received("c", Hello("c", "one")),
        Received("c", Subscribe(1, 1, "n", parse_filter("a > 1"), DeliveryOptions(), credit=5)),
    ):
        node.handle(input, 0.0)
    stored = next(iter(node.slots["delivery"]._registry.states.values()))  # type: ignore[attr-defined]
    cursor = stored.own
    assert (
        stored.queue
        is stored.blocked
        is stored.barred
        is cursor.pending
        is cursor.later
        is cursor.unread
        is EMPTY
    )
    assert stored.unacked is NONE_UNACKED
    assert stored.others is stored.movers is stored.lost is cursor.seen is NOTHING
    assert not vars(stored), "what few subscriptions have is set on few"
    assert not vars(cursor)
    assert stored.filter == parse_filter("a > 1")


def test_a_uniform_queue_becomes_a_common_one_for_any_other_writer() -> None:
    holder = SimpleNamespace(queue=UniformQueue((1, 2)))
    own(holder, "queue").appendleft(0)
    assert type(holder.queue) is deque
    assert list(holder.queue) == [0, 1, 2]
