"""Flooding, effect by effect, and the two memories of what was here."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidings.protocol.inputs import Started
from tidings.protocol.routing.duplicates import NUMBER, Forward, LastNumberFilter, Numbering, NumberWindow
from tidings.testing.ports import AloneStrategy, envelope
from tidings_lab.routing.flooding import Flooding


def numbered(origin: str, number: int) -> Forward:
    made = envelope(x=number)
    made.headers[NUMBER] = (origin, number)
    return Forward(made)


def test_our_own_event_goes_to_every_link_under_one_number() -> None:
    alone = AloneStrategy(Flooding())
    alone.publish(x=1)
    sent = alone.take()
    assert [link for link, _ in sent] == ["a", "b", "c"]
    assert len({message.envelope.headers[NUMBER] for _, message in sent}) == 1  # type: ignore[attr-defined]


def test_what_arrives_goes_everywhere_but_back_and_only_once() -> None:
    alone = AloneStrategy(Flooding())
    alone.receive("b", numbered("far", 1))
    assert alone.to() == ["a", "c"]
    alone.receive("c", numbered("far", 1))
    assert alone.to() == []
    assert len(alone.passed) == 1


def test_our_own_event_that_comes_round_is_dropped() -> None:
    alone = AloneStrategy(Flooding())
    alone.publish(x=1)
    (_, message), *_ = alone.take()
    alone.receive("b", message)
    assert alone.to() == []
    assert alone.passed == []


def test_a_restarted_broker_does_not_reuse_its_numbers() -> None:
    from tidings.availability.records import Loaded

    alone = AloneStrategy(Flooding())
    alone.publish(x=1)
    alone.routing.on_input(Started(Loaded(1, 1, [], {})), 1.0)
    alone.publish(x=2)
    assert len({m.envelope.headers[NUMBER][0] for _, m in alone.take()}) == 2  # type: ignore[attr-defined]


def test_the_last_number_takes_what_was_overtaken_for_old_and_the_window_does_not() -> None:
    for fifo, passed in ((True, [2]), (False, [2, 1])):
        alone = AloneStrategy(Flooding(fifo=fifo))
        alone.receive("a", numbered("far", 2))
        alone.receive("a", numbered("far", 1))
        assert [made.event.attributes["x"] for made, _ in alone.passed] == passed


def test_flooding_wants_every_event_elsewhere_if_there_is_an_elsewhere() -> None:
    assert AloneStrategy(Flooding()).routing.wanted_elsewhere(envelope(x=1).event)
    assert not AloneStrategy(Flooding(), "").routing.wanted_elsewhere(envelope(x=1).event)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 30))))
def test_a_window_says_new_once_for_each_number(heard: list[tuple[str, int]]) -> None:
    window, known = NumberWindow(64), set()
    for origin, number in heard:
        assert window.is_new(origin, number) is ((origin, number) not in known)
        known.add((origin, number))


@given(st.lists(st.integers(1, 200)), st.integers(1, 8))
def test_a_small_window_never_says_new_twice(heard: list[int], size: int) -> None:
    window = NumberWindow(size)
    delivered = [number for number in heard if window.is_new("a", number)]
    assert len(delivered) == len(set(delivered))


@given(st.lists(st.integers(1, 30)))
def test_the_last_number_says_new_for_each_record_high(heard: list[int]) -> None:
    memory, highest = LastNumberFilter(), 0
    for number in heard:
        assert memory.is_new("a", number) is (number > highest)
        highest = max(highest, number)


def test_numbers_ascend_from_one() -> None:
    numbering = Numbering("me.1")
    assert [numbering.numbered(envelope()).headers[NUMBER] for _ in range(2)] == [("me.1", 1), ("me.1", 2)]
