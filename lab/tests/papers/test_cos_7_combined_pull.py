"""COS-7: both pulls together, where brokers have several patterns and some are their own alone (Costa et al.
2003, 5)."""

from __future__ import annotations

import pytest

from tidings.simulation.topology import line
from tidings_lab.recovery.epidemic.messages import PatternPull, SourcePull

from ._epidemic import Epidemics


def lost_twice(style: str, seed: int, **knobs: object) -> Epidemics:
    """b3 misses an event of a pattern that b1 wants too, and one of a pattern that it alone wants."""
    stage = Epidemics(line(4), style, seed=seed, **knobs)
    stage.wants(("b1", "x > 0"), ("b3", "x > 0"), ("b3", "y > 0"))
    stage.publish("b0", "x1", x=1)
    stage.publish("b0", "y1", y=1)
    stage.lose(("b2", "b3"), "b0", "x2", x=1)
    stage.lose(("b2", "b3"), "b0", "y2", y=1)
    stage.publish("b0", "x3", x=1)
    stage.publish("b0", "y3", y=1)
    return stage


@pytest.mark.parametrize("seed", range(1, 9))
def test_cos_7_a_pattern_that_no_other_broker_wants_is_pulled_from_its_source(seed: int) -> None:
    stage = lost_twice("combined pull", seed, by_source=0.0)
    stage.run(2.0)
    assert sorted(stage.received("b3")) == ["x1", "x2", "x3", "y1", "y2", "y3"]
    asked = {message.pattern for message in stage.heard_messages(PatternPull)}
    assert len(asked) == 1  # the shared one; a round for the other would reach no broker
    assert stage.heard_messages(SourcePull)


def test_cos_7_a_pull_by_pattern_alone_does_not_recover_what_no_other_broker_wants() -> None:
    stage = lost_twice("subscriber pull", 1, caches="interest")
    stage.run(2.0)
    assert "x2" in stage.received("b3")
    assert "y2" not in stage.received("b3")
