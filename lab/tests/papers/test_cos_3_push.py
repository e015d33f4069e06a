"""COS-3, COS-8, COS-9: push with positive digests, caches and intervals (Costa et al. 2003, 4.1 and 5)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import SettingsError
from tidings.model.event import make_event
from tidings.protocol.messages import Envelope
from tidings.simulation.topology import OverlayGraph, line
from tidings.systems import Site, find_system
from tidings_lab.recovery.epidemic.cache import EventCache
from tidings_lab.recovery.epidemic.messages import LazyAnnounce, Mark, PushOffer, PushWant, Recovered
from tidings_lab.recovery.epidemic.pace import Pace
from tidings_lab.recovery.epidemic.settings import EpidemicSettings

from ..papers._epidemic import Epidemics


def missed(**knobs: object) -> Epidemics:
    """b2 misses e2, and nothing follows."""
    stage = Epidemics(line(4), "push", **knobs)
    stage.wants(("b2", "x > 0"), ("b3", "y > 0"))
    stage.publish("b0", "e1", x=1)
    stage.lose(("b1", "b2"), "b0", "e2", x=1)
    return stage


def test_cos_3_what_was_missed_is_noticed_in_an_offer_and_asked_of_the_initiator() -> None:
    stage = missed()
    stage.run(5.0)
    assert stage.received("b2") == ["e1", "e2"]  # also the last event before silence
    [want] = stage.heard_messages(PushWant)
    assert [len(numbers) for numbers in want.ids.values()] == [1]
    assert len(stage.heard_messages(Recovered)) == 1


def test_cos_3_who_does_not_want_the_pattern_asks_for_nothing() -> None:
    overlay = OverlayGraph(("S", "M", "A", "B"), (("S", "M"), ("M", "A"), ("A", "B")))
    stage = Epidemics(overlay, "push", forward=1.0)
    stage.wants(("B", "x > 0"))
    stage.publish("S", "e1", x=1)
    stage.lose(("S", "M"), "S", "e2", x=1)
    stage.run(5.0)
    assert stage.received("B") == ["e1", "e2"]
    assert {sender for _, sender, m in stage.handled if isinstance(m, PushWant)} == {"B"}
    assert {name for name, _, m in stage.handled if isinstance(m, PushOffer)} == {"M", "A", "B"}


def test_cos_3_offers_go_on_by_chance() -> None:
    far = {}
    for forward in (0.0, 1.0):
        stage = Epidemics(line(5), "push", forward=forward)
        stage.wants(("b4", "x > 0"))
        stage.publish("b0", "e1", x=1)
        stage.run(10.0)
        offers = [m for m in stage.heard_messages(PushOffer, at="b4") if m.initiator == "b0"]
        far[forward] = len(offers)
    assert far[0.0] == 0
    assert far[1.0] >= 45


def test_cos_3_a_new_subscriber_does_not_pull_in_what_was_published_before_it() -> None:
    stage = Epidemics(line(3), "push")
    stage.wants(("b1", "x > 0"))
    stage.publish("b0", "old", x=1)
    stage.run(1.0)
    stage.wants(("b2", "x > 0"))
    stage.run(5.0)
    stage.publish("b0", "new", x=1)
    stage.run(5.0)
    assert stage.received("b2") == ["new"]
    assert stage.heard_messages(PushOffer, at="b2")
    assert not stage.heard_messages(PushWant)


def test_lazy_push_repairs_the_link_and_the_event_goes_on() -> None:
    stage = Epidemics(line(4), "lazy push")
    stage.wants(("b3", "x > 0"))
    stage.lose(("b0", "b1"), "b0", "e1", x=1)
    stage.run(3.0)
    assert stage.received("b3") == ["e1"]
    assert [stage.recovery(name).count["recovered"] for name in ("b1", "b2", "b3")] == [1, 0, 0]
    assert all(stage.recovery(name).next_deadline() is None for name in stage.nodes)
    announced = list(stage.heard_messages(LazyAnnounce))
    assert len(announced) == 3 * 3  # three links, three times each, then silence


# -- the cache (COS-8) ---------------------------------------------------------------------


def entry(number: int) -> tuple[Envelope, Mark]:
    event = make_event({"x": number}, source="s", id=str(number))
    return Envelope(event, "b0"), Mark("S", number, ((number % 3, number),))


def filled(evicts: str, size: int, numbers: range, foreign: set[int] = frozenset()) -> EventCache:  # type: ignore[assignment]
    cache = EventCache(size, evicts, Random(1))
    for number in numbers:
        envelope, mark = entry(number)
        cache.add(envelope, mark, [number % 3], float(number), is_foreign=number in foreign)
        cache.check()
    return cache


def numbers(cache: EventCache) -> list[int]:
    return [stored.mark.number for stored in cache.all()]


def test_cos_8_the_oldest_goes_first() -> None:
    assert numbers(filled("oldest", 4, range(10))) == [6, 7, 8, 9]


def test_cos_8_what_is_foreign_goes_first() -> None:
    assert numbers(filled("foreign", 4, range(7), foreign={1, 3, 6})) == [2, 4, 5, 6]


def test_cos_8_any_may_go_so_that_copies_do_not_vanish_everywhere_at_once() -> None:
    kept = numbers(filled("any", 10, range(40)))
    assert len(kept) == 10
    assert min(kept) < 25  # some old ones live on


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["oldest", "foreign", "any"]),
    st.lists(st.integers(0, 30), max_size=60),
    st.integers(1, 9),
)
def test_cos_8_the_indexes_of_the_cache_agree(evicts: str, added: list[int], size: int) -> None:
    cache = EventCache(size, evicts, Random(7))
    for number in added:
        envelope, mark = entry(number)
        cache.add(envelope, mark, [number % 3], 0.0, is_foreign=number % 2 == 0)
        cache.check()
    here = set(numbers(cache))
    for number in range(31):
        found = cache.find(("S", number % 3, number))
        assert (found is not None) == (number in here)
    by_pattern = [stored.mark.number for pattern in cache.patterns() for stored in cache.matching(pattern)]
    assert sorted(by_pattern) == sorted(here)


# -- the interval (COS-9) ------------------------------------------------------------------


def test_cos_9_rounds_that_teach_nothing_come_less_often_until_somebody_misses_something() -> None:
    pace = Pace(1.0, 8.0, Random(1))
    pace.begin(0.0)
    assert pace.due is not None
    assert 0.0 <= pace.due <= 1.0
    pauses = []
    now = pace.due
    for _ in range(8):
        pace.next(now)
        pauses.append(pace.due - now)
        now = pace.due
    assert pauses == pytest.approx([1.5, 2.25, 3.375, 5.0625, 7.59375, 8.0, 8.0, 8.0])
    pace.learned(now - 7.5)
    assert pace.due <= now - 6.5
    pace.next(pace.due)
    fixed = Pace(1.0, 0.0, Random(1))
    for _ in range(3):
        fixed.next(5.0)
        assert fixed.due == 6.0


def test_cos_9_push_that_adapts_sends_less_than_half_when_losses_have_ceased() -> None:
    sent, received = {}, {}
    for longest in (0.0, 5.0):
        stage = Epidemics(line(6), "push", longest_seconds=longest, forward=1.0)
        stage.wants(("b0", "x > 0"), ("b5", "x > 0"))
        for number in range(10):
            stage.lose(("b2", "b3"), "b1", f"a{number}", x=1)
            stage.run(0.5)
        stage.run(60.0)
        sent[longest] = stage.simulation.sent["PushOffer"]
        received[longest] = len(stage.received("b5"))
    assert received == {0.0: 10, 5.0: 10}
    assert sent[5.0] <= 0.5 * sent[0.0]


# -- settings ------------------------------------------------------------------------------


def test_knobs_that_make_no_sense_are_refused() -> None:
    for knobs, words in (
        ({"style": "shout"}, "style is 'shout'"),
        ({"evicts": "mine"}, "evicts is 'mine'"),
        ({"forward": 1.5}, "forward is 1.5"),
        ({"cache": 0}, "must be above 0"),
    ):
        with pytest.raises(SettingsError, match=words):
            EpidemicSettings(**knobs)  # type: ignore[arg-type]
    site = Site(name="b0", brokers=("b0",), options={"gossip": {"fanout": 3}})
    with pytest.raises(SettingsError, match="no knob 'fanout'"):
        find_system("epidemic").build(site, Random(1))
    site = Site(name="b0", brokers=("b0",), options={"gossip": {"fan_out": "many"}})
    with pytest.raises(SettingsError, match="gossip"):
        find_system("epidemic").build(site, Random(1))
