"""Bounded queues: what happens when one is full, and what is counted."""

from __future__ import annotations

import gc
import sys
from random import Random
from typing import Any

import pytest
from tests.unit.protocol._stage import Stage

from tidings.availability.records import Loaded
from tidings.history.schema import DROP
from tidings.model.event import FOREVER, make_event
from tidings.model.filter import EVERYTHING
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol.compositions import intermediary
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.effects import Send, SubscriptionOpened
from tidings.protocol.inputs import ClientAck, ClientNack, LinkUp, Received, ReceivedAll, Started
from tidings.protocol.messages import Credit, Deliver, DeliverAll, Hello, Publish, Subscribe

BURST = 250  # events, which fit one message


def stage_with(**options: object) -> Stage:
    stage = Stage(recording=True, **options)  # type: ignore[arg-type]
    stage.client("p")
    stage.client("s")
    return stage


def publish(stage: Stage, *numbers: int, **options: object) -> list[int]:
    calls = [stage.publish("p", {"n": number}, **options) for number in numbers]
    stage.settle()
    return calls


@pytest.mark.parametrize("lifetime", [0, FOREVER])
def test_block_withholds_the_acknowledgement_until_there_is_room(lifetime: float) -> None:
    stage = stage_with()
    ref = stage.subscribed("s", queue=2)
    calls = publish(stage, 1, 2, 3, 4, lifetime=lifetime)
    assert [call in stage.answers for call in calls] == [True, True, False, False]
    assert stage.taken("s", ref).event["n"] == 1  # type: ignore[union-attr]
    assert [call in stage.answers for call in calls] == [True, True, True, False]
    assert stage.drain("s", ref) == [2, 3, 4]
    assert calls[-1] in stage.answers


def test_a_blocked_publisher_waits_for_every_subscription_that_blocks() -> None:
    stage = stage_with()
    stage.client("t")
    first, second = stage.subscribed("s", queue=1), stage.subscribed("t", queue=1)
    calls = publish(stage, 1, 2)
    stage.taken("s", first)
    assert calls[1] not in stage.answers
    stage.taken("t", second)
    assert calls[1] in stage.answers


def test_who_blocks_and_leaves_frees_the_publisher() -> None:
    stage = stage_with()
    ref = stage.subscribed("s", queue=1)
    calls = publish(stage, 1, 2)
    stage.leave("s", ref)
    stage.settle()
    assert calls[1] in stage.answers


def test_drop_oldest_keeps_the_newest_and_counts() -> None:
    stage = stage_with()
    ref = stage.subscribed("s", queue=2, policy="drop oldest")
    publish(stage, 1, 2, 3, 4)
    assert stage.drain("s", ref) == [3, 4]
    stage.wait(1.0)
    assert stage.lost["s", ref] == {"drop oldest": 2}
    assert [(row.op, row.reason) for row in stage.rows if row.op == DROP] == [(DROP, "drop oldest")] * 2


def test_drop_newest_keeps_the_oldest_and_counts() -> None:
    stage = stage_with()
    ref = stage.subscribed("s", queue=2, policy="drop newest")
    publish(stage, 1, 2, 3, 4)
    assert stage.drain("s", ref) == [1, 2]
    stage.wait(1.0)
    assert stage.lost["s", ref] == {"drop newest": 2}


def test_what_a_named_subscription_dropped_is_not_told_when_it_returns() -> None:
    stage = stage_with()
    ref = stage.subscribed("s", name="mine", queue=1, policy="drop oldest")
    publish(stage, 1, 2, lifetime=FOREVER)
    assert stage.drain("s", ref) == [2]
    stage.leave("s", ref)
    stage.settle()
    assert stage.drain("s", stage.subscribed("s", name="mine")) == []


def test_disconnect_ends_the_subscription_with_its_reason() -> None:
    stage = stage_with()
    ref = stage.subscribed("s", queue=1, policy="disconnect")
    waiting = publish(stage, 1, 2, 3)
    assert all(call in stage.answers for call in waiting)
    assert stage.ended["s", ref][0] == "slow"
    code, reason = stage.failures[stage.take("s", ref)]
    assert code == "slow"
    assert "disconnect" in reason


@pytest.mark.parametrize("queue", [1, 2, 3, 7])
def test_a_slow_durable_subscription_spills_to_the_log_and_loses_nothing(queue: int) -> None:
    stage = stage_with(stable=True, settings=DeliverySettings(chunk=2))
    ref = stage.subscribed("s", name="mine", durable=True, queue=queue, policy="drop oldest")
    calls = publish(stage, *range(20))
    assert all(call in stage.answers for call in calls), "a slow subscriber hurts only itself"
    assert stage.drain("s", ref, most=5) == [0, 1, 2, 3, 4]
    publish(stage, *range(20, 30))
    assert stage.drain("s", ref) == list(range(5, 30))
    stage.hand("s", ClientAck(ref))
    stage.wait(1.0)
    assert stage.disk.log == {}


def test_events_that_no_log_holds_wait_behind_a_replay_in_the_order_of_their_source() -> None:
    stage = stage_with(settings=DeliverySettings(chunk=2))
    publish(stage, *range(6), lifetime=FOREVER)
    ref = stage.subscribed("s", queue=4)
    for number in range(6, 10):
        publish(stage, number, lifetime=0 if number % 2 else FOREVER)
    assert stage.drain("s", ref) == list(range(10))


def test_a_bound_on_count_gives_up_the_oldest() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="mine", durable=True, queue=2, keep_events=3)
    publish(stage, *range(8))
    assert stage.drain("s", ref) == [5, 6, 7]
    stage.wait(1.0)
    assert stage.lost["s", ref] == {"bound on count": 5}
    assert sum(row.op == DROP for row in stage.rows) == 5


def test_a_bound_on_count_leaves_out_what_is_with_a_member() -> None:
    """Four were delivered and are not acknowledged: the newest three of the others stay, not the oldest."""
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="mine", durable=True, queue=2, keep_events=3, window=4)
    publish(stage, *range(20))
    assert stage.drain("s", ref) == [0, 1, 2, 3, 17, 18, 19]


def test_a_bound_on_age_gives_up_what_waited_too_long_and_frees_the_log() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="mine", durable=True, queue=2, keep_seconds=60)
    publish(stage, 1, 2, 3)
    stage.leave("s", ref)
    stage.wait(50)
    publish(stage, 4)
    stage.wait(20)
    assert len(stage.disk.log) == 1
    ref = stage.subscribed("s", name="mine", durable=True, keep_seconds=60)
    assert stage.drain("s", ref) == [4]


def test_a_bound_on_age_holds_through_a_restart_also_for_who_does_not_return() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="mine", durable=True, keep_seconds=60)
    stage.leave("s", ref)
    publish(stage, 1, 2, 3)
    stage.wait(30)
    publish(stage, 4)
    stage.crash()
    stage.wait(40)
    assert [record.event["n"] for record in stage.disk.log.values()] == [4]
    stage.link("s")
    stage.settle()
    ref = stage.subscribed("s", name="mine", durable=True, keep_seconds=60)
    assert stage.drain("s", ref) == [4]


def test_what_expires_while_it_waits_is_not_told() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="mine", durable=True)
    publish(stage, 1, expires=5)
    publish(stage, 2, expires=500)
    stage.wait(10)
    assert stage.drain("s", ref) == [2]
    assert stage.lost["s", ref] == {"expired": 1}


def test_members_are_told_of_losses_at_once_and_then_not_too_often() -> None:
    stage = stage_with()
    ref = stage.subscribed("s", queue=1, policy="drop newest")
    publish(stage, 1, 2)
    assert stage.lost["s", ref] == {"drop newest": 1}
    stage.tick = 1e-6
    publish(stage, *range(10))
    assert stage.lost["s", ref] == {"drop newest": 1}
    stage.wait(0.1)
    assert stage.lost["s", ref] == {"drop newest": 11}


# -- superseding ------------------------------------------------------------------------------


def test_a_newer_event_of_the_same_key_supersedes_older_ones_in_the_log() -> None:
    stage = stage_with()
    publish(stage, 1, 2, 3, key="k", lifetime=FOREVER)
    publish(stage, 4, key="other", lifetime=FOREVER)
    assert stage.drain("s", stage.subscribed("s")) == [3, 4]
    assert len(stage.disk.log) == 2


def test_it_supersedes_those_that_wait_in_queues() -> None:
    stage = stage_with(stable=True)
    stage.client("t")
    transient = stage.subscribed("s", queue=2)
    durable = stage.subscribed("t", name="mine", durable=True)
    calls = publish(stage, 1, 2, 3, 4, key="k")
    assert all(call in stage.answers for call in calls), "one of them at a time is in the queue"
    publish(stage, 5)
    assert stage.drain("s", transient) == [4, 5]
    assert stage.drain("t", durable) == [4, 5]
    stage.wait(1.0)
    assert stage.lost["s", transient] == {"superseded": 3}


def test_it_supersedes_also_for_those_who_do_not_want_the_newer_one() -> None:
    stage = stage_with()
    ref = stage.subscribed("s", "n < 3")
    publish(stage, 1, 9, key="k")
    assert stage.drain("s", ref) == []


def test_an_event_without_a_lifetime_supersedes_one_with() -> None:
    stage = stage_with()
    publish(stage, 1, key="k", lifetime=FOREVER)
    publish(stage, 2, key="k")
    assert stage.disk.log == {}
    assert stage.drain("s", stage.subscribed("s")) == []


def test_what_was_given_back_is_superseded_by_a_newer_one_that_waits() -> None:
    stage = stage_with()
    ref = stage.subscribed("s")
    publish(stage, 1, key="k")
    assert stage.taken("s", ref) is not None
    publish(stage, 2, key="k")
    stage.hand("s", ClientNack(ref))
    assert stage.drain("s", ref) == [2]


def test_a_blocked_event_that_is_superseded_frees_its_publisher() -> None:
    stage = stage_with()
    ref = stage.subscribed("s", queue=1)
    publish(stage, 1)
    (blocked,) = publish(stage, 2, key="k")
    assert blocked not in stage.answers
    publish(stage, 3, key="k")
    assert blocked in stage.answers
    assert stage.drain("s", ref) == [1, 3]


def test_a_burst_uses_up_what_a_subscriber_has_room_for() -> None:
    stage = stage_with(together=True)
    ref = stage.subscribed("s", queue=1, policy="drop newest", window=4)
    publish(stage, 1, 2, 3)
    publish(stage, 4, 5, 6)
    assert stage.drain("s", ref) == [1, 2, 3, 4, 5]
    stage.wait(1.0)
    assert stage.lost["s", ref] == {"drop newest": 1}


def test_a_durable_subscription_is_not_told_what_was_taken_in_before_it() -> None:
    """It waits for the disk behind another of its source; no log holds it, so nobody could tell it twice."""
    stage = stage_with(stable=True)
    stage.publish("p", {"n": 1}, lifetime=FOREVER)
    stage.publish("p", {"n": 2})
    stage.subscribe("s", name="mine", durable=True)
    stage.settle()
    [opened] = [answer for answer in stage.answers.values() if isinstance(answer, SubscriptionOpened)]
    assert stage.drain("s", opened.ref) == [1]


def burst(credit: int) -> tuple[int, int]:
    """Python calls for a burst of events to ten subscribers with so much credit each, until each was sent all
    of them; and how many messages that took."""
    node = intermediary("b", rng=Random(1))
    node.handle(Started(Loaded.empty()), 0.0)
    for name in ("p", *map(str, range(10))):
        node.handle(LinkUp(name), 0.0)
        node.handle(Received(name, Hello(name, "i")), 0.0)
        if name == "p":  # its first publish, which makes its source known, is no part of the burst
            first = Publish(1, make_event({"n": 1}, source="p", id="i-1"), 1)
            node.handle(Received(name, first), 0.0)
        else:
            options = DeliveryOptions(queue=10_000, policy=Policy.DISCONNECT)
            node.handle(Received(name, Subscribe(1, 1, "w", EVERYTHING, options, False, {}, credit)), 0.0)
    stated = [Publish(n, make_event({"n": n}, source="p", id=f"i-{n}"), n) for n in range(2, BURST + 2)]
    calls, sent = 0, 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    inputs: list[Any] = [ReceivedAll("p", stated)]
    more = [Credit(1, 64)] * -(-(BURST - credit) // 64) if credit < BURST else []
    inputs += [ReceivedAll(str(name), more) for name in range(10) if more]
    gc.collect()
    gc.disable()
    sys.setprofile(count)
    try:
        effects = [effect for input in inputs for effect in node.handle(input, 0.0)]
    finally:
        sys.setprofile(None)
        gc.enable()
    node.check()
    for effect in effects:
        assert isinstance(effect, Send)
        sent += isinstance(effect.message, Deliver | DeliverAll)
    got = [effect.message.events for effect in effects if isinstance(effect.message, DeliverAll)]  # type: ignore[union-attr]
    assert sum(map(len, got)) == 10 * BURST
    return calls, sent


@pytest.mark.parametrize("credit", [0, 100])
def test_a_delivery_that_has_to_wait_costs_little_more_than_one_that_does_not(credit: int) -> None:
    (at_once, messages), (later, parts) = burst(BURST), burst(credit)
    assert messages == 10, "one message for each subscriber"
    assert parts <= 10 * (1 + bool(credit)), "credit that came together lets one message go"
    more = (later - at_once) / (10 * BURST)
    assert more < 3, f"{more:.1f} calls more for each delivery that waits"


def test_subscribers_that_are_sent_the_same_events_share_one_sequence() -> None:
    """So it is encoded once for all of them (`Codec`)."""
    stage = Stage(together=True)
    for name in ("p", "s", "t"):
        stage.client(name)
    for name in ("s", "t"):
        stage.subscribed(name, window=100)
    for number in range(5):
        stage.publish("p", {"n": number})
    sent: list[Any] = []
    while stage.step():
        for (sender, _), line in stage.channels.items():
            sent += [m.events for _, m in line if sender == "b" and isinstance(m, DeliverAll)]
    assert len({id(events) for events in sent}) == 1
    assert sent


def test_no_token_passes_losses_whose_counts_are_on_their_way_to_the_disk() -> None:
    """A later flush, for another subscription, told that no event was left below; after a kill the one that
    had been dropped was counted nowhere."""
    stage = Stage(stable=True)
    for name in ("p", "s", "t"):
        stage.client(name)
    bounded = stage.subscribed("s", name="n", durable=True, keep_seconds=1.0, window=0)
    other = stage.subscribed("t", name="m", durable=True, auto=False)
    stage.published("p", {"n": 0})
    assert stage.drain("t", other, most=1) == [0]

    def pass_on_without_the_disk(seconds: float) -> None:
        stage.now += seconds
        while moves := [move for move in stage.movable() if move[0] in ("message", "timer")]:
            stage.move(*moves[0])

    pass_on_without_the_disk(2.0)
    pass_on_without_the_disk(0.1)
    stage.hand("t", ClientAck(other))
    pass_on_without_the_disk(0.1)
    pass_on_without_the_disk(0.1)
    stage.crash()
    for name in ("p", "s", "t"):
        stage.link(name)
    stage.settle()
    stage.wait(3.0)
    assert stage.drain("s", bounded) == []
    assert stage.lost["s", bounded] == {"bound on age": 1}
