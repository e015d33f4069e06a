"""COS-2, COS-5: pull toward subscribers, and nothing sent while nothing is lost (Costa et al. 2003, 4.2)."""

from __future__ import annotations

import pytest

from tidings.protocol.inputs import Received
from tidings.protocol.routing.duplicates import Forward
from tidings.simulation.topology import OverlayGraph, line, star
from tidings_lab.recovery.epidemic.messages import PatternPull, Recovered, SourcePull

from ..papers._epidemic import Epidemics

PULLS = ("subscriber pull", "publisher pull", "combined pull", "random pull")


@pytest.mark.parametrize("style", PULLS)
def test_cos_2_a_pull_sends_nothing_while_nothing_is_lost(style: str) -> None:
    stage = Epidemics(line(4), style)
    stage.wants(("b1", "x > 0"), ("b3", "x > 0"))
    for number in range(20):
        stage.publish("b0", f"e{number}", x=1)
    stage.run(5.0)
    assert stage.simulation.sent["PatternPull"] + stage.simulation.sent["SourcePull"] == 0
    assert all(stage.recovery(name).next_deadline() is None for name in stage.nodes)
    assert len(stage.received("b3")) == 20


def test_cos_2_push_offers_once_in_every_interval_at_every_broker_that_has_something_to_offer() -> None:
    stage = Epidemics(star(4), "push", forward=0.0, interval_seconds=0.5)
    stage.wants(("b1", "x > 0"), ("b2", "x > 0"))
    stage.publish("b0", "e1", x=1)
    stage.run(0.5)
    before = stage.simulation.sent["PushOffer"]
    stage.run(20.0)
    # b0 reaches both subscribers, and each of them the other; b3 has no part in it
    assert stage.simulation.sent["PushOffer"] - before == 3 * 40
    assert stage.recovery("b3").count["gossip"] == 0


def missed(style: str = "subscriber pull", **knobs: object) -> Epidemics:
    """b3 misses the second of three events on its last link; b1 wants the pattern too."""
    stage = Epidemics(line(4), style, **knobs)
    stage.wants(("b1", "x > 0"), ("b3", "x > 0"))
    stage.publish("b0", "e1", x=1)
    stage.lose(("b2", "b3"), "b0", "e2", x=1)
    stage.publish("b0", "e3", x=1)
    return stage


def test_cos_5_a_subscriber_of_the_pattern_gives_what_another_missed() -> None:
    stage = missed(caches="interest")
    assert stage.received("b3") == ["e1", "e3"]
    stage.run(2.0)
    assert stage.received("b3") == ["e1", "e3", "e2"]
    assert stage.received("b1") == ["e1", "e2", "e3"]
    assert stage.recovery("b1").count["given"] == 1  # not b2, which wants nothing itself
    assert stage.recovery("b3").losses.count == 0
    assert all(stage.recovery(name).next_deadline() is None for name in stage.nodes)


def test_cos_5_with_the_cache_on_the_route_the_first_holder_answers_and_the_digest_ends_there() -> None:
    stage = missed(caches="route")
    stage.run(2.0)
    assert stage.received("b3") == ["e1", "e3", "e2"]
    assert stage.recovery("b2").count["given"] == 1
    assert stage.heard_messages(PatternPull, at="b1") == []  # E-C2: nothing was left to ask for


def test_cos_5_an_event_lost_under_one_pattern_is_given_by_a_subscriber_of_another() -> None:
    """S:Pa-5 and S:Pb-4 are one event; who holds it under Pb knows its counter for Pa."""
    overlay = OverlayGraph(("S", "M", "A", "B", "C"), (("S", "M"), ("M", "A"), ("M", "B"), ("B", "C")))
    stage = Epidemics(overlay, "subscriber pull", caches="interest")
    stage.wants(("A", "a = 1"), ("B", "b = 1"), ("C", "a = 1"))
    stage.publish("S", "e1", a=1)
    stage.lose(("M", "A"), "S", "e2", a=1, b=1)
    # C holds it too; take its copy away, so that only the subscriber of the other pattern is left
    there = stage.recovery("C").cache
    there.remove(next(stored.mark.id for stored in there.all() if stored.envelope.event.id == "e2"))
    stage.publish("S", "e3", a=1)
    stage.run(2.0)
    assert stage.received("A") == ["e1", "e3", "e2"]
    assert stage.recovery("B").count["given"] == 1


def test_cos_5_rounds_ask_only_for_patterns_that_something_is_lost_of() -> None:
    """E-C3: with many patterns and one loss, no digest is empty."""
    stage = Epidemics(line(3), "subscriber pull")
    stage.wants(*(("b2", f"p{number} = 1") for number in range(8)), ("b0", "p3 = 1"))
    stage.publish("b1", "e1", p3=1)
    stage.lose(("b1", "b2"), "b1", "e2", p3=1)
    stage.publish("b1", "e3", p3=1)
    stage.run(2.0)
    pulls = stage.heard_messages(PatternPull)
    assert pulls
    assert all(pull.lost for pull in pulls)
    assert stage.received("b2")[-1] == "e2"


def test_cos_5_what_nobody_holds_any_more_is_given_up() -> None:
    stage = Epidemics(line(3), "subscriber pull", give_up=4, cache=1)
    stage.wants(("b1", "x > 0"), ("b2", "x > 0"))
    stage.publish("b0", "e1", x=1)
    stage.lose(("b1", "b2"), "b0", "e2", x=1)
    stage.publish("b0", "e3", x=1)  # and the only place in each cache is taken
    stage.run(5.0)
    assert stage.recovery("b2").losses.given_up == 1
    assert stage.recovery("b2").next_deadline() is None
    assert len(stage.heard_messages(PatternPull, at="b1")) == 4


def test_a_round_may_begin_at_once() -> None:
    """Footnote 6: the event is back a few links later, not after an interval."""
    stage = missed(at_once=True, interval_seconds=60.0)
    stage.run(0.1)
    assert stage.received("b3") == ["e1", "e3", "e2"]


def test_a_heartbeat_reveals_the_loss_of_the_last_event() -> None:
    for style in ("subscriber pull", "publisher pull"):
        stage = Epidemics(line(4), style, heartbeat_seconds=1.0)
        stage.wants(("b1", "x > 0"), ("b3", "x > 0"))
        stage.publish("b0", "e1", x=1)
        stage.lose(("b2", "b3"), "b0", "e2", x=1)
        stage.run(5.0)
        assert stage.received("b3") == ["e1", "e2"], style
        stage.run(60.0)
        assert stage.simulation.sent["CounterBeat"] == 9  # three times, over three links
        assert stage.recovery("b0").next_deadline() is None


@pytest.mark.parametrize("style", ["subscriber pull", "publisher pull"])
def test_a_digest_is_a_bloom_filter_where_that_is_smaller(style: str) -> None:
    stage = Epidemics(line(3), style, bloom=True)
    stage.wants(("b1", "x > 0"), ("b2", "x > 0"))
    for number in range(300):
        stage.publish("b0", f"a{number}", 0.0, x=1)
    stage.run(1.0)
    stage.lose(("b1", "b2"), "b0", *(f"e{number}" for number in range(400)), x=1)
    stage.publish("b0", "z", x=1)
    stage.run(8.0)
    digests = [m.bloom for m in stage.heard_messages(PatternPull) + stage.heard_messages(SourcePull)]
    assert any(bloom is not None for bloom in digests)
    assert sorted(stage.received("b2")) == sorted(stage.received("b1"))
    assert len(stage.received("b2")) == 701
    assert stage.recovery("b2").count["copies"] <= 0.1 * stage.recovery("b2").count["recovered"]


def test_what_comes_back_first_and_over_the_link_later_is_sent_on_and_told_once() -> None:
    """A slow link is no loss: those behind it still wait for the copy."""
    overlay = OverlayGraph(("S", "M", "A", "B", "C"), (("S", "M"), ("M", "A"), ("A", "B"), ("M", "C")))
    stage = Epidemics(overlay, "subscriber pull")
    stage.wants(("A", "x > 0"), ("B", "x > 0"), ("C", "x > 0"))
    stage.publish("S", "e1", x=1)
    stage.lose(("M", "A"), "S", "e2", x=1)
    stored = next(each for each in stage.recovery("M").cache.all() if each.envelope.event.id == "e2")
    stage.publish("S", "e3", x=1)
    stage.run(2.0)
    before = len(stage.received("B"))
    stage.simulation.input("A", Received("M", Forward(stored.envelope)))
    stage.run(1.0)
    assert stage.received("A").count("e2") == 1
    assert stage.received("B").count("e2") == 1
    assert len(stage.received("B")) == before  # B had recovered it by itself
    assert stage.recovery("A").count["late"] == 1


def test_an_event_that_nobody_asked_for_is_not_taken() -> None:
    for style in ("subscriber pull", "push", "lazy push"):
        stage = Epidemics(line(3), style)
        stage.wants(("b1", "x > 0"), ("b2", "x > 0"))
        stage.publish("b0", "e1", x=1)
        stage.lose(("b1", "b2"), "b0", "e2", x=1)
        stored = next(each for each in stage.recovery("b0").cache.all() if each.envelope.event.id == "e2")
        stage.simulation.input("b2", Received("b0", Recovered(stored.envelope)))
        stage.simulation.run(stage.simulation.now)
        assert stage.received("b2") == ["e1"], style
        assert stage.recovery("b2").count["unasked"] == 1
