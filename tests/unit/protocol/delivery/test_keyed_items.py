"""Events of one key that a subscriber returns, beside newer ones that were sent ahead of them."""

from __future__ import annotations

import pytest
from tests.unit.protocol._stage import Stage

from tidings.model.event import FOREVER
from tidings.protocol.inputs import ClientAck, ClientNack, ClientTake


def played(*numbers: int, key: str | None = "k", **options: object) -> tuple[Stage, int]:
    """A stage on which these events were sent to a subscriber ahead of what it takes."""
    stage = Stage(recording=True, stable=True)
    stage.client("p")
    stage.client("s")
    lifetime = options.pop("lifetime", FOREVER)
    ref = stage.subscribed("s", window=8, name="mine", max_deliveries=9, **options)
    publish(stage, *numbers, key=key, lifetime=lifetime)
    return stage, ref


def publish(stage: Stage, *numbers: int, **options: object) -> None:
    for number in numbers:
        stage.published("p", {"n": number}, **options)


def take(stage: Stage, ref: int, most: int = 1, *, commits: bool = True) -> None:
    call = stage.call()
    stage.hand("s", ClientTake(call, ref, commits, most))
    stage.settle()
    assert call in stage.answers


@pytest.mark.parametrize("lifetime", [0, FOREVER])
@pytest.mark.parametrize("durable", [False, True])
def test_a_returned_batch_displaces_no_newer_event_sent_ahead(lifetime: float, durable: bool) -> None:
    stage, ref = played(1, 2, 3, 4, 5, lifetime=lifetime, durable=durable)
    take(stage, ref, 2)
    stage.hand("s", ClientNack(ref))
    assert stage.drain("s", ref) == [5]
    stage.wait(5)
    assert stage.lost["s", ref] == {"superseded": 4}


def test_other_keys_and_events_without_one_come_again_in_their_order() -> None:
    stage, ref = played(1, 2)
    publish(stage, 3, 4, lifetime=FOREVER)
    publish(stage, 5, key="other", lifetime=FOREVER)
    publish(stage, 6, key="k", lifetime=FOREVER)
    take(stage, ref, 5)
    stage.hand("s", ClientNack(ref))
    assert stage.drain("s", ref) == [3, 4, 5, 6]


@pytest.mark.parametrize("lifetime", [0, FOREVER])
def test_a_returned_event_is_superseded_by_one_that_the_application_holds(lifetime: float) -> None:
    stage, ref = played(1, 2, lifetime=lifetime)
    take(stage, ref)
    take(stage, ref, commits=False)
    stage.hand("s", ClientNack(ref, (1,)))
    stage.settle()
    stage.hand("s", ClientNack(ref, (2,)))
    assert stage.drain("s", ref) == [2]


def test_a_returned_event_does_not_come_behind_a_newer_one_that_was_committed() -> None:
    stage, ref = played(1, 2)
    take(stage, ref)
    take(stage, ref, commits=False)
    stage.hand("s", ClientAck(ref, 2))
    stage.settle()
    stage.hand("s", ClientNack(ref, (1,)))
    assert stage.drain("s", ref) == []


def test_a_subscription_that_wants_superseded_events_gets_the_batch_again() -> None:
    stage, ref = played(1, 2, 3, 4, 5, superseding=False, durable=True)
    take(stage, ref, 2)
    stage.hand("s", ClientNack(ref))
    assert stage.drain("s", ref) == [1, 2, 3, 4, 5]


def test_dead_letters_of_one_key_do_not_supersede_one_another() -> None:
    stage, ref = played(1, 2, superseding=False)
    take(stage, ref, 2)
    stage.hand("s", ClientNack(ref, reason="no use"))
    stage.settle()
    letters = stage.subscribed("s", dead_letters_of="mine", max_deliveries=9)
    take(stage, letters, 2)
    stage.hand("s", ClientNack(letters))
    publish(stage, 3, key="k", lifetime=FOREVER)
    assert stage.drain("s", letters) == [1, 2]


@pytest.mark.parametrize("durable", [False, True])
def test_what_was_superseded_after_its_return_holds_no_token(durable: bool) -> None:
    stage, ref = played(1, 2, 3, durable=durable)
    take(stage, ref, 2)
    stage.hand("s", ClientNack(ref))
    assert stage.drain("s", ref) == [3]
    publish(stage, *range(4, 40), key=None, lifetime=FOREVER)
    assert stage.drain("s", ref) == list(range(4, 40))
    subscription = stage.clients["s"]._listenings[ref]
    assert not subscription.given_back
    assert len(subscription.taken) <= 1
    assert list(subscription.after.values()) == [39]
