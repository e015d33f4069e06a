"""What the application has from elsewhere is not handed over, and counts as handled."""

from __future__ import annotations

from typing import Any

from tests.unit.protocol.delivery.test_staging import Sink

from tidings.language import parse_filter
from tidings.model.event import FOREVER
from tidings.protocol.inputs import ClientSkip


def heard(stage: Sink, ref: int) -> list[Any]:
    stage.drain("s", ref)
    return [note.event["n"] for note in stage.received.get(("s", ref), [])]


def test_only_what_lives_forever_or_the_policy_names_and_lies_up_to_the_place_is_skipped() -> None:
    stage = Sink()
    stage.client("s")
    stage.client("p")
    for n, lifetime in ((1, FOREVER), (2, 60.0), (3, 60.0), (4, FOREVER)):
        stage.publish("p", {"n": n}, lifetime=lifetime)
        stage.settle()
    ref = stage.subscribed("s", name="mine", durable=True)
    log = stage.node.log
    stage.hand("s", ClientSkip(ref, {log: 3}, parse_filter("n = 3")))
    assert heard(stage, ref) == [2, 4]
    stage.crash()
    stage.link("s")
    stage.settle()
    assert heard(stage, ref) == [2, 4], "what was skipped was acknowledged"
