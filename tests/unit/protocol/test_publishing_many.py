"""Many publishes of one call: in order, answered together, and each as if it were published alone."""

from __future__ import annotations

import msgspec
from tests.unit.protocol._stage import Stage

from tidings.errors import TooLargeError
from tidings.model.event import UNNUMBERED, Event, make_event
from tidings.protocol.effects import CallFailed, Receipt
from tidings.protocol.inputs import ClientCancel, ClientPublishAll
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.protocol.publishing import in_parts

COUNT = 40


def publish_all(stage: Stage, who: str, events: list[Event], *, number: bool = True) -> int:
    first = stage.call()
    for _ in events[1:]:
        stage.call()
    stage.hand(who, ClientPublishAll(first, tuple(events), (number,) * len(events)))
    return first


def events_of(who: str, count: int = COUNT, **options: float) -> list[Event]:
    return [make_event({"n": number}, source=who, id="-", **options) for number in range(count)]  # type: ignore[arg-type]


def test_a_batch_is_answered_when_all_of_it_is_and_heard_in_order() -> None:
    stage = Stage()
    p, s = stage.client("p"), stage.client("s")
    ref = stage.subscribed(s)
    call = publish_all(stage, p, events_of("p"))
    assert call not in stage.answers
    stage.settle()
    results = stage.answers[call]
    assert all(type(each) is Receipt for each in results)
    assert len({each.id for each in results}) == COUNT
    assert stage.drain(s, ref) == list(range(COUNT))


def test_an_event_of_the_application_is_numbered_in_a_copy_and_one_made_for_the_call_in_place() -> None:
    stage = Stage()
    p = stage.client("p")
    own, made = (make_event({"n": 1}, source="p", id=id) for id in ("-", UNNUMBERED))
    assert made.view["id"] is UNNUMBERED  # a schema's check looks at it before
    call = publish_all(stage, p, [own, made])
    stage.settle()
    assert own.id == "-"
    assert [each.id for each in stage.answers[call]][1] == made.id == made.view["id"] == made.identity[1]
    assert made.size == len(msgspec.msgpack.encode(made))


def test_a_batch_in_several_inputs_is_answered_once_though_another_publish_comes_between() -> None:
    stage = Stage()
    p, s = stage.client("p"), stage.client("s")
    ref = stage.subscribed(s)
    first = stage.call()
    for _ in range(COUNT - 1):
        stage.call()
    whole = ClientPublishAll(first, tuple(events_of("p")), (True,) * COUNT)
    begun, *others = in_parts(whole, 16)
    stage.hand(p, begun)
    stage.settle()
    assert first not in stage.answers
    between = publish_all(stage, p, events_of("p", 2))
    for part in others:
        stage.hand(p, part)
    stage.settle()
    assert [len(part.events) for part in (begun, *others)] == [16, 16, 8]
    assert [type(each) for each in stage.answers[between]] == [Receipt] * 2
    numbers = [int(each.id.rpartition("-")[2]) for each in stage.answers[first]]
    assert numbers == [*range(1, 17), *range(19, COUNT + 3)]
    assert stage.drain(s, ref) == [*range(16), 0, 1, *range(16, COUNT)]


def test_kept_events_of_a_batch_have_ascending_positions() -> None:
    stage = Stage(stable=True)
    p = stage.client("p")
    call = publish_all(stage, p, events_of("p", lifetime=60))
    stage.settle()
    offsets = [each.position.offset for each in stage.answers[call]]
    assert offsets == sorted(set(offsets))
    assert len(offsets) == COUNT


def test_an_event_that_is_refused_leaves_the_others_as_they_are() -> None:
    stage = Stage()
    p, s = stage.client("p"), stage.client("s")
    ref = stage.subscribed(s)
    events = events_of("p", 3)
    events[1] = make_event({"n": 1}, source="p", id="-", payload=b"x" * (DEFAULT_LIMITS.event_bytes + 1))
    call = publish_all(stage, p, events)
    stage.settle()
    assert [type(each) for each in stage.answers[call]] == [Receipt, CallFailed, Receipt]
    assert stage.answers[call][1].code == TooLargeError.code
    assert stage.drain(s, ref) == [0, 2]


def test_a_batch_that_was_not_answered_is_sent_again_and_heard_once() -> None:
    stage = Stage(stable=True)
    p, s = stage.client("p"), stage.client("s")
    ref = stage.subscribed(s)
    stage.is_full = True  # the disk does not answer
    call = publish_all(stage, p, events_of("p", lifetime=60))
    stage.settle()
    stage.cut(p)
    stage.link(p)
    stage.settle()
    assert call not in stage.answers
    stage.is_full = False
    stage.settle()
    assert all(type(each) is Receipt for each in stage.answers[call])
    assert stage.drain(s, ref) == list(range(COUNT))


def test_a_batch_that_was_given_up_before_it_was_sent_is_not_published() -> None:
    stage = Stage()
    p, s = stage.client("p"), stage.client("s")
    ref = stage.subscribed(s)
    stage.cut(p)
    call = publish_all(stage, p, events_of("p"))
    stage.hand(p, ClientCancel(call))
    assert stage.failures[call][0] == "timeout"
    stage.link(p)
    stage.settle()
    assert stage.drain(s, ref) == []
