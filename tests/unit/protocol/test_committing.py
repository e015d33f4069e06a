"""Committing, giving back, dead letters, cancelling."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from tests.unit.protocol._stage import BROKER, Stage

from tidings.history.schema import DEAD, NTFY, REDELIVERY
from tidings.model.event import FOREVER
from tidings.model.subscription import Policy
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import (
    ALL_FEATURES,
    ClientAck,
    ClientCancel,
    ClientNack,
    ClientTake,
    Feature,
    LinkUp,
)
from tidings.protocol.limits import DEFAULT_LIMITS


def stage_with(*numbers: int, **options: object) -> Stage:
    stage = Stage(recording=True, stable=True, **options)  # type: ignore[arg-type]
    stage.client("p")
    stage.client("s")
    for number in numbers:
        stage.published("p", {"n": number}, lifetime=FOREVER)
    return stage


def attempts(stage: Stage, ref: int) -> list[tuple[object, int]]:
    return [(note.event["n"], note.attempt) for note in stage.received["s", ref]]


def test_what_is_given_back_comes_again_before_what_is_next() -> None:
    stage = stage_with(1, 2)
    ref = stage.subscribed("s")
    stage.taken("s", ref)
    stage.hand("s", ClientNack(ref))
    stage.settle()
    stage.drain("s", ref)
    assert attempts(stage, ref) == [(1, 1), (1, 2), (2, 1)]
    reasons = [row.reason for row in stage.rows if row.op == NTFY]
    assert reasons == [None, REDELIVERY, None]


@pytest.mark.parametrize("seed", range(60))
def test_a_batch_that_is_given_back_comes_again_before_all_that_follows(seed: int) -> None:
    """Whatever was sent ahead of it, is on its way, or does not fit beside it; found from outside."""
    rng = Random(seed)
    few = msgspec.structs.replace(DEFAULT_LIMITS, delivery_bytes=rng.choice([1_000, 20_000, 4 << 20]))
    stage = Stage(rng=rng, stable=True, limits=few)
    stage.client("p")
    stage.client("s")
    options: dict[str, Any] = {"window": rng.choice([0, 1, 5, 50]), "max_deliveries": 1_000}
    if rng.random() < 0.5:
        options |= {"name": "mine", "durable": True, "queue": rng.choice([3, 20, 500])}
    ref, count, sent, done = stage.subscribed("s", **options), 150, 0, 0
    lifetime = rng.choice([0, FOREVER])
    while done < count:
        call, most, before = stage.call(), rng.choice([1, 2, 10, 40]), len(stage.received.get(("s", ref), ()))
        stage.hand("s", ClientTake(call, ref, most=most))
        while call not in stage.answers:
            if sent < count and rng.random() < 0.3:
                for _ in range(rng.choice([1, 1, 30])):
                    stage.publish("p", {"n": sent}, payload=bytes(rng.choice([0, 0, 300])), lifetime=lifetime)
                    sent += 1
            elif not stage.step():
                assert sent < count, f"{done} of {count} came"
        batch = [note.event["n"] for note in stage.received["s", ref][before:]]
        assert batch == list(range(done, done + len(batch)))
        if rng.random() < 0.4:
            stage.hand("s", ClientNack(ref))
        else:
            done += len(batch)
    stage.settle()


def test_a_batch_that_is_given_back_to_a_full_queue_disturbs_no_publisher() -> None:
    """The queue is then longer than the subscription asked for: the broker failed at the next publishes."""
    stage = Stage(together=True)
    stage.client("p")
    stage.client("s")
    ref = stage.subscribed("s", group="work", queue=20, policy=Policy.DROP_OLDEST)

    def publish(begin: int, end: int) -> list[int]:
        calls = [stage.publish("p", {"n": number}) for number in range(begin, end)]
        stage.settle()
        return calls

    stage.hand("s", ClientTake(stage.call(), ref, most=10))
    publish(0, 10)
    publish(10, 40)
    stage.hand("s", ClientNack(ref))
    stage.settle()
    calls = publish(40, 44)
    assert all(call in stage.answers for call in calls), stage.failures
    assert not stage.ended
    left = stage.drain("s", ref)
    assert left == sorted(left)
    assert len(left) + sum(stage.lost["s", ref].values()) == 44
    assert left[-4:] == [40, 41, 42, 43]


def test_after_max_deliveries_it_goes_to_dead_letters() -> None:
    stage = stage_with(1, 2)
    ref = stage.subscribed("s", name="mine", max_deliveries=3)
    for _ in range(3):
        stage.taken("s", ref)
        stage.hand("s", ClientNack(ref))
    assert stage.drain("s", ref) == [2]
    assert attempts(stage, ref) == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert [(row.op, row.reason) for row in stage.rows if row.op == DEAD] == [(DEAD, "given back 3 times")]
    assert stage.node.figures()["dead letters"] == 1


def bury(stage: Stage, ref: int, *, who: str = "s") -> None:
    stage.taken(who, ref)
    stage.hand(who, ClientNack(ref))
    stage.settle()


def test_dead_letters_are_heard_by_who_subscribes_to_them() -> None:
    stage = stage_with(1, 2)
    ref = stage.subscribed("s", name="mine", max_deliveries=1)
    bury(stage, ref)
    dead = stage.subscribed("s", dead_letters_of="mine")
    assert stage.drain("s", dead) == [1]
    bury(stage, ref)
    assert stage.drain("s", dead) == [2], "those that come later too"
    stage.hand("s", ClientAck(dead))
    stage.settle()
    assert stage.node.figures()["dead letters"] == 0
    assert stage.disk.tables["dead"] == {}


def test_dead_letters_that_were_not_committed_stay() -> None:
    stage = stage_with(1)
    ref = stage.subscribed("s", name="mine", max_deliveries=1)
    bury(stage, ref)
    for _ in range(2):
        dead = stage.subscribed("s", dead_letters_of="mine")
        assert stage.taken("s", dead) is not None
        stage.leave("s", dead, commit=False)
        stage.settle()
    dead = stage.subscribed("s", "n > 5", dead_letters_of="mine")
    assert stage.drain("s", dead) == [], "a filter works on them as well"
    dead = stage.subscribed("s", dead_letters_of="mine", max_deliveries=1)
    bury(stage, dead)
    assert stage.drain("s", dead) == [], "given back too often, it stays in its box"
    assert stage.node.figures()["dead letters"] == 1


def test_dead_letters_survive_a_restart() -> None:
    stage = stage_with(1)
    ref = stage.subscribed("s", name="mine", durable=True, max_deliveries=1)
    bury(stage, ref)
    stage.wait(1.0)
    stage.crash()
    stage.link("s")
    stage.settle()
    dead = stage.subscribed("s", dead_letters_of="mine")
    assert stage.drain("s", dead) == [1]


def test_a_kill_after_a_dead_letter_delivers_its_event_to_no_other_member() -> None:
    """The letter was on the disk at once, and the progress of its group with the next flush: another member
    got the event again, and it became a second letter."""
    stage = stage_with()
    stage.client("t")
    one = stage.subscribed("s", group="workers", durable=True, max_deliveries=1)
    other = stage.subscribed("t", group="workers", durable=True, max_deliveries=1)
    stage.published("p", {"n": 1})
    assert stage.drain("s", one, most=1) == [1]
    stage.hand("s", ClientNack(one))
    while moves := [move for move in stage.movable() if move[0] != "timer"]:
        stage.move(*moves[0])
    stage.crash()
    for name in ("p", "s", "t"):
        stage.link(name)
    assert stage.drain("t", other) == []
    assert stage.drain("s", stage.subscribed("s", dead_letters_of="workers")) == [1]


def test_a_rejected_event_is_a_dead_letter_at_once_and_carries_its_reason() -> None:
    stage = stage_with(1, 2)
    ref = stage.subscribed("s", name="mine")
    stage.taken("s", ref)
    stage.hand("s", ClientNack(ref, reason="Reject: no ones"))
    assert stage.drain("s", ref) == [2]
    assert attempts(stage, ref) == [(1, 1), (2, 1)]
    assert [row.reason for row in stage.rows if row.op == DEAD] == ["Reject: no ones"]
    dead = stage.subscribed("s", dead_letters_of="mine")
    stage.taken("s", dead)
    letter = stage.received["s", dead][0].event.dead_letter
    assert (letter.reason, letter.attempts) == ("Reject: no ones", 1)


def test_a_broker_of_the_version_before_gets_a_plain_nack() -> None:
    stage = stage_with(1)
    stage.cut("s")
    stage.hand("s", LinkUp(BROKER, features=ALL_FEATURES & ~Feature.REJECT))
    stage.hand(BROKER, LinkUp("s"))
    ref = stage.subscribed("s", name="mine", max_deliveries=2)
    for _ in range(2):
        stage.taken("s", ref)
        stage.hand("s", ClientNack(ref, reason="no"))
    assert stage.drain("s", ref) == []
    assert attempts(stage, ref) == [(1, 1), (1, 2)]


@pytest.mark.parametrize("reason", ["", "no"])
def test_a_dead_letter_does_not_hold_the_token(reason: str) -> None:
    stage = stage_with(*range(1, 6))
    ref = stage.subscribed("s", name="mine", durable=True, max_deliveries=1)
    stage.taken("s", ref)
    stage.hand("s", ClientNack(ref, reason=reason))
    stage.drain("s", ref)
    stage.hand("s", ClientAck(ref))
    stage.settle()
    subscription = stage.clients["s"]._listenings[ref]
    assert (len(subscription.taken), list(subscription.after.values())) == (0, [5])


def test_a_rejection_that_the_broken_link_lost_is_no_commit() -> None:
    stage = stage_with(1, 2)
    ref = stage.subscribed("s", name="mine", durable=True)
    stage.taken("s", ref)
    stage.hand("s", ClientNack(ref, reason="no"))
    stage.cut("s")
    stage.link("s")
    stage.settle()
    assert stage.drain("s", ref) == [1, 2], "the broker never heard of it: it is delivered again"


def test_a_letter_that_the_broker_lost_before_its_disk_had_it_is_delivered_again() -> None:
    stage = stage_with(1, 2)
    ref = stage.subscribed("s", name="mine", durable=True)
    stage.taken("s", ref)
    stage.hand("s", ClientNack(ref, reason="no"))
    stage.take("s", ref)
    move_messages(stage)
    stage.hand("s", ClientAck(ref))  # of the second one
    move_messages(stage)
    assert stage.node.figures()["dead letters"] == 1
    stage.crash()
    stage.link("s")
    stage.settle()
    assert stage.drain("s", ref) == [1]


def move_messages(stage: Stage) -> None:
    """Let all messages arrive while the disk does nothing."""
    while messages := [thing for thing in stage.movable() if thing[0] == "message"]:
        stage.move(*messages[0])


def test_the_box_of_dead_letters_is_bounded() -> None:
    stage = stage_with(1, 2, 3, settings=DeliverySettings(dead_letters=2))
    ref = stage.subscribed("s", name="mine", max_deliveries=1)
    for _ in range(3):
        bury(stage, ref)
    assert stage.drain("s", stage.subscribed("s", dead_letters_of="mine")) == [2, 3]
    assert stage.node.figures()["dead letters dropped"] == 1


def test_dead_letters_of_a_group() -> None:
    stage = stage_with()
    stage.client("t")
    one = stage.subscribed("s", group="workers", max_deliveries=1)
    stage.published("p", {"n": 1})
    bury(stage, one)
    assert stage.drain("t", stage.subscribed("t", dead_letters_of="workers")) == [1]


def test_a_cancelled_take_loses_nothing() -> None:
    stage = stage_with()
    ref = stage.subscribed("s")
    take = stage.take("s", ref)
    stage.settle()
    stage.hand("s", ClientCancel(take, ref))
    stage.published("p", {"n": 1})
    assert stage.drain("s", ref) == [1]


def test_a_take_that_is_cancelled_while_its_event_is_on_the_way_loses_nothing() -> None:
    stage = stage_with()
    ref = stage.subscribed("s")
    take = stage.take("s", ref)
    stage.publish("p", {"n": 1})
    stage.move("message", ("s", BROKER))
    stage.move("message", ("p", BROKER))  # the delivery is on its way
    stage.hand("s", ClientCancel(take, ref))
    stage.settle()
    assert take not in stage.answers
    assert stage.drain("s", ref) == [1]
    stage.published("p", {"n": 2})
    stage.published("p", {"n": 3})
    assert stage.drain("s", ref) == [2, 3], "the credit is right again"


def test_a_take_that_is_cancelled_after_its_answer_puts_the_event_back() -> None:
    stage = stage_with(1, 2)
    ref = stage.subscribed("s")
    take = stage.take("s", ref)
    stage.settle()
    assert take in stage.answers  # but the application was cancelled before it saw it
    stage.hand("s", ClientCancel(take, ref))
    assert stage.drain("s", ref) == [1, 2]


def test_a_cancelled_member_of_a_group_lets_another_have_the_event() -> None:
    stage = stage_with()
    stage.client("t")
    one, two = stage.subscribed("s", group="workers"), stage.subscribed("t", group="workers")
    take = stage.take("s", one)
    stage.settle()
    stage.hand("s", ClientCancel(take, one))
    stage.settle()
    stage.published("p", {"n": 1})
    assert stage.drain("t", two) == [1]
    take = stage.take("s", one)
    stage.published("p", {"n": 2})
    assert take in stage.answers
    stage.hand("s", ClientCancel(take, one))
    stage.settle()
    note = stage.taken("t", two)
    assert note is not None
    assert (note.event["n"], note.attempt) == (2, 1), "it was never seen, so this is the first attempt"


def test_a_second_take_commits_the_first() -> None:
    stage = stage_with(1, 2, 3)
    ref = stage.subscribed("s", name="mine", durable=True, window=3, auto=False)
    for _ in range(2):
        stage.take("s", ref)
    stage.settle()
    assert attempts(stage, ref) == [(1, 1), (2, 1)]
    stage.leave("s", ref, commit=False)
    stage.settle()
    ref = stage.subscribed("s", name="mine", durable=True)
    assert stage.drain("s", ref) == [2, 3], "the second take had committed the first"


def test_an_acknowledgement_for_something_else_changes_nothing() -> None:
    stage = stage_with(1)
    ref = stage.subscribed("s", name="mine", durable=True)
    stage.taken("s", ref)
    stage.hand("s", ClientAck(ref, number=99))
    stage.hand("s", ClientNack(ref, numbers=(99,)))
    stage.hand("s", ClientAck(77))
    stage.hand("s", ClientNack(77))
    stage.leave("s", ref, commit=False)
    stage.settle()
    assert stage.drain("s", stage.subscribed("s", name="mine", durable=True)) == [1]


def test_silence_moves_the_token_over_what_is_not_for_the_subscriber() -> None:
    stage = stage_with()
    ref = stage.subscribed("s", "n = 1", name="mine", durable=True)
    for number in range(5):
        stage.published("p", {"n": number}, lifetime=FOREVER)
    assert stage.drain("s", ref) == [1]
    stage.wait(1.0)
    assert stage.clients["s"]._listenings[ref].after == {BROKER: 5}


def test_a_take_that_is_cancelled_after_its_link_broke_hands_the_event_over_once() -> None:
    stage = stage_with(1, 2)
    ref = stage.subscribed("s", name="mine", durable=True)
    call = stage.take("s", ref)
    stage.settle()
    stage.cut("s")
    stage.hand("s", ClientCancel(call, ref))
    stage.link("s")
    stage.settle()
    assert stage.drain("s", ref) == [1, 2]


@pytest.mark.parametrize("options", [{"name": "mine"}, {"group": "workers"}], ids=["named", "group"])
def test_a_take_that_is_cancelled_after_its_link_broke_leaves_its_event_to_the_broker(
    options: dict[str, str],
) -> None:
    """The broker delivers it again: one that was put back too would be taken twice."""
    stage = stage_with(1, 2)
    ref = stage.subscribed("s", durable=True, **options)
    take = stage.take("s", ref)
    stage.settle()
    assert take in stage.answers  # but the application was cancelled before it saw it
    stage.cut("s")
    stage.hand("s", ClientCancel(take, ref))
    early = stage.take("s", ref)
    stage.settle()
    assert early not in stage.answers, "without a link there is none to take"
    stage.link("s")
    stage.settle()
    assert stage.answers[early] is not None
    assert [1, *stage.drain("s", ref)] == [1, 2]
    assert [number for number, _ in attempts(stage, ref)] == [1, 1, 2], "handed over again, taken once"
