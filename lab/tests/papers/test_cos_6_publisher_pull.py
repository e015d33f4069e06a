"""COS-6, COS-7: pull back along the route to the publisher, and both pulls together (Costa et al.
2003, 4.2)."""

from __future__ import annotations

from tidings.simulation.topology import OverlayGraph, line
from tidings_lab.recovery.epidemic.messages import PatternPull, Recovered, SourcePull

from ..papers._epidemic import Epidemics


def missed(style: str = "publisher pull", **knobs: object) -> Epidemics:
    """b3 misses e2 on its last link."""
    stage = Epidemics(line(4), style, **knobs)
    stage.wants(("b3", "x > 0"))
    stage.publish("b0", "e1", x=1)
    stage.lose(("b2", "b3"), "b0", "e2", x=1)
    stage.publish("b0", "e3", x=1)
    return stage


def test_cos_6_an_event_records_the_brokers_that_it_crossed_and_the_way_back_is_the_reverse() -> None:
    stage = missed()
    source = stage.recovery("b0").counters.source
    assert stage.recovery("b3").way_back(source) == ("b2", "b1", "b0")  # E-C4


def test_cos_6_the_nearest_cache_on_the_route_answers_and_nobody_else() -> None:
    stage = missed()
    stage.run(2.0)
    assert stage.received("b3") == ["e1", "e3", "e2"]
    assert [stage.recovery(name).count["given"] for name in ("b0", "b1", "b2")] == [0, 0, 1]
    assert stage.heard_messages(SourcePull, at="b1") == []  # E-C2
    assert len(stage.heard_messages(Recovered)) == 1


def test_cos_6_with_caches_only_where_it_is_wanted_the_source_answers() -> None:
    stage = missed(caches="interest")
    stage.run(2.0)
    assert stage.received("b3") == ["e1", "e3", "e2"]
    assert [stage.recovery(name).count["given"] for name in ("b0", "b1", "b2")] == [1, 0, 0]


def test_cos_6_a_stale_route_still_leads_to_the_source() -> None:
    """The tree changes: b1 hangs elsewhere now, and the way back names links that are gone."""
    stage = missed(caches="interest", interval_seconds=3.0)
    stage.simulation.disconnect("b1", "b2")
    stage.run(6.0)
    assert stage.received("b3") == ["e1", "e3", "e2"]
    assert stage.recovery("b0").count["given"] == 1


def test_cos_6_of_a_digest_only_what_was_not_answered_goes_on() -> None:
    """b2 holds one of the two; the other is asked of those behind it."""
    stage = Epidemics(line(4), "publisher pull")
    stage.wants(("b3", "x > 0"))
    stage.publish("b0", "e1", x=1)
    stage.lose(("b1", "b2"), "b0", "e2", x=1)
    stage.lose(("b2", "b3"), "b0", "e3", x=1)
    stage.publish("b0", "e4", x=1)
    stage.run(2.0)
    assert sorted(stage.received("b3")) == ["e1", "e2", "e3", "e4"]
    [at_b2] = stage.heard_messages(SourcePull, at="b2")
    [at_b1] = stage.heard_messages(SourcePull, at="b1")
    [both], [one] = at_b2.lost.values(), at_b1.lost.values()
    assert (len(both), len(one)) == (2, 1)
    assert stage.heard_messages(SourcePull, at="b0") == []


def test_cos_7_the_chance_decides_which_way_a_round_goes() -> None:
    overlay = OverlayGraph(("S", "M", "A", "B"), (("S", "M"), ("M", "A"), ("M", "B")))
    for by_source, kind in ((0.0, PatternPull), (1.0, SourcePull)):
        stage = Epidemics(overlay, "combined pull", by_source=by_source, caches="interest")
        stage.wants(("A", "x > 0"), ("B", "x > 0"))
        stage.publish("S", "e1", x=1)
        stage.lose(("M", "A"), "S", "e2", x=1)
        stage.publish("S", "e3", x=1)
        stage.run(2.0)
        assert stage.received("A") == ["e1", "e3", "e2"]
        pulls = {type(message) for _, _, message in stage.handled} & {PatternPull, SourcePull}
        assert pulls == {kind}
        assert stage.recovery("S" if by_source else "B").count["given"] == 1


def test_cos_7_where_nobody_shares_a_pattern_only_the_publisher_can_help() -> None:
    """COS-11.1 in small: subscriptions that do not intersect."""
    alone = missed("subscriber pull")
    alone.run(20.0)
    assert alone.received("b3") == ["e1", "e3"]
    assert alone.recovery("b3").losses.given_up == 1
    together = missed("combined pull")
    together.run(20.0)
    assert together.received("b3") == ["e1", "e3", "e2"]


def test_cos_10_only_the_publisher_matches_for_recovery() -> None:
    stage = Epidemics(line(4), "combined pull")
    stage.wants(("b1", "x > 0"), ("b3", "x > 1"), ("b3", "y = 1"))
    requested = dict.fromkeys(stage.nodes, 0)
    for name, node in stage.nodes.items():
        routing = node.slots["routing"]

        def counted(event: object, name: str = name, matching: object = routing.matching) -> object:  # type: ignore[attr-defined]
            requested[name] += 1
            return matching(event)  # type: ignore[operator]

        routing.matching = counted  # type: ignore[attr-defined]
    for number in range(10):
        stage.publish("b0", f"e{number}", x=2)
    assert requested == {"b0": 10, "b1": 0, "b2": 0, "b3": 0}
