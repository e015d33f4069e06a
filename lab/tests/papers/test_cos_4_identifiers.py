"""COS-4: identifiers that reveal a loss (Costa et al. 2003, 4.2), with E-C5 and E-C6."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.simulation.topology import line
from tidings_lab.recovery.epidemic.marks import Counters, LostBuffer, ReceivedNumbers
from tidings_lab.recovery.epidemic.messages import HEADERS, Mark, read_mark, tags_of

from ..papers._epidemic import Epidemics

A, B = 11, 22  # two patterns


def wanting(*patterns: int) -> Callable[[int], float | None]:
    return lambda pattern: 0.0 if pattern in patterns else None


def losses_of(*patterns: int, most: int = 1000, give_up: int = 5) -> LostBuffer:
    return LostBuffer(wanting(*patterns), most=most, give_up=give_up)


def test_cos_4_the_papers_example_is_s_a5_b4() -> None:
    counters = Counters(lambda: "S")
    for _ in range(4):
        counters.mark([A])
    for _ in range(3):
        counters.mark([B])
    assert counters.mark([A, B]) == ("S", 8, 2, A, 5, B, 4)


def test_cos_4_every_number_in_a_gap_is_lost_and_what_comes_back_is_lost_no_more() -> None:
    losses = losses_of(A)
    losses.see("S", [(A, 3)])  # the first that is seen is the beginning (E-C5)
    assert losses.see("S", [(A, 6), (B, 1)]) == 2
    assert losses.all() == {("S", A, 4), ("S", A, 5)}
    losses.see("S", [(A, 4)])
    assert losses.all() == {("S", A, 5)}
    losses.check()


@settings(deadline=None, max_examples=200)
@given(
    stream=st.lists(
        st.tuples(st.sampled_from("ST"), st.sets(st.sampled_from([A, B, 33]), min_size=1), st.booleans()),
        max_size=40,
    ),
    wanted=st.sets(st.sampled_from([A, B]), min_size=1),
)
def test_cos_4_what_is_lost_is_exactly_what_is_missing_below_the_highest_counter(
    stream: list[tuple[str, set[int], bool]], wanted: set[int]
) -> None:
    sources = {name: Counters(lambda name=name: name) for name in "ST"}
    losses = losses_of(*wanted)
    came: set[tuple[str, int, int]] = set()
    for source, patterns, arrives in stream:
        tags = tags_of(sources[source].mark(sorted(patterns)))
        if arrives:
            losses.see(source, tags)
            came.update((source, pattern, counter) for pattern, counter in tags if pattern in wanted)
    missing = set()
    for source, pattern in {(s, p) for s, p, _ in came}:
        numbers = [c for s, p, c in came if (s, p) == (source, pattern)]
        missing |= {(source, pattern, c) for c in range(min(numbers), max(numbers)) if c not in numbers}
    assert losses.all() == missing
    assert losses.count == len(missing)
    losses.check()


def test_cos_4_who_stops_to_want_a_pattern_and_wants_it_again_has_lost_nothing_meanwhile() -> None:
    since: dict[int, float] = {A: 1.0}
    losses = LostBuffer(since.get, most=100, give_up=5)
    losses.see("S", [(A, 1)])
    losses.see("S", [(A, 3)])
    assert losses.count == 1
    since[A] = 2.0
    losses.review(A)
    assert losses.count == 0
    losses.see("S", [(A, 9)])
    assert losses.count == 0
    losses.see("S", [(A, 11)])
    assert losses.all() == {("S", A, 10)}


def test_cos_4_an_event_is_asked_for_so_often_and_then_given_up() -> None:
    losses = losses_of(A, give_up=2)
    losses.see("S", [(A, 1)])
    losses.see("S", [(A, 3)])
    for now in (1.0, 2.0):
        assert losses.ask(now, 0.5, 10, pattern=A) == {("S", A): (2,)}
        assert losses.ask(now + 0.1, 0.5, 10, pattern=A) == {}  # it was asked for a moment ago
    assert losses.ask(3.0, 0.5, 10, source="S") == {}
    assert (losses.given_up, losses.count) == (1, 0)


def test_cos_4_losses_are_bounded() -> None:
    losses = losses_of(A, most=10)
    losses.see("S", [(A, 1)])
    losses.see("S", [(A, 1_000_000)])
    assert (losses.count, losses.unnoticed) == (0, 999_998)
    losses.see("S", [(A, 1_000_002)])
    assert losses.count == 1


def test_cos_4_the_last_event_before_silence_is_not_noticed_until_a_later_one_comes() -> None:
    stage = Epidemics(line(3), "subscriber pull")
    stage.wants(("b2", "x > 0"))
    stage.publish("b0", "e1", x=1)
    stage.lose(("b1", "b2"), "b0", "e2", x=1)
    stage.run(5.0)
    assert stage.recovery("b2").losses.count == 0
    stage.publish("b0", "e3", x=1)
    assert stage.recovery("b2").losses.count == 1


def test_cos_4_headers_of_strangers_are_no_marks() -> None:
    good = Mark("S", 7, ((A, 5),), ("b0",)).headers()
    assert set(good) == HEADERS
    assert read_mark(good) == Mark("S", 7, ((A, 5),), ("b0",))
    for junk in (
        7,
        "S",
        ("S", 7),
        ("S", "7", 0),
        ("S", 7, "0"),
        ("S", 7, 1, A),
        ("S", 7, 1, A, "5"),
        (["S"], 7, 0),
        ("S", 7, 0, 7),
    ):
        assert read_mark({"recovery.mark": junk}) is None
    assert read_mark({}) is None


def test_received_remembers_a_window_and_takes_everything_below_it_for_received() -> None:
    received = ReceivedNumbers(window=3)
    assert [received.add(("S", n)) for n in (1, 2, 2, 9)] == [True, True, False, True]
    assert ("S", 5) not in received
    for number in range(10, 20):
        received.add(("S", number))
    assert ("S", 5) in received
    assert ("T", 5) not in received
    assert not received.add(("S", 5))
