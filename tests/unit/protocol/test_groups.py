"""Groups: many members, one subscription; an event goes to one member."""

from __future__ import annotations

import pytest
from tests.unit.protocol._stage import Stage

from tidings.model.event import FOREVER
from tidings.model.subscription import SubscriptionId
from tidings.protocol.inputs import ClientTake


def stage_with(members: int = 3, **options: object) -> tuple[Stage, dict[str, int]]:
    stage = Stage(stable=True)
    stage.client("p")
    refs = {}
    for number in range(members):
        name = stage.client(f"m{number}")
        refs[name] = stage.subscribed(name, group="workers", **options)
    return stage, refs


def test_each_event_goes_to_one_member_and_members_take_turns() -> None:
    stage, refs = stage_with()
    for number in range(9):
        stage.published("p", {"n": number})
    received = []
    for _ in range(3):
        for name, ref in refs.items():
            note = stage.taken(name, ref)
            assert note is not None
            received.append((name, note.event["n"]))
    assert [number for _, number in received] == list(range(9))
    assert note.subscription == SubscriptionId("*", "workers")


def test_what_a_member_had_goes_to_others_when_it_is_lost() -> None:
    stage, refs = stage_with(2)
    stage.published("p", {"n": 1})
    stage.published("p", {"n": 2})
    assert stage.taken("m0", refs["m0"]) is not None
    assert stage.taken("m1", refs["m1"]) is not None
    stage.cut("m0")
    stage.settle()
    assert stage.drain("m1", refs["m1"]) == [1]


def test_one_client_may_be_two_members() -> None:
    stage, refs = stage_with(1)
    second = stage.subscribed("m0", group="workers")
    stage.published("p", {"n": 1})
    stage.published("p", {"n": 2})
    assert stage.drain("m0", refs["m0"], most=1) == [1]
    assert stage.drain("m0", second) == [2]


def test_a_transient_group_ends_with_its_last_member_and_is_remembered() -> None:
    stage, refs = stage_with(2)
    stage.published("p", {"n": 1}, lifetime=FOREVER)
    assert stage.drain("m0", refs["m0"]) == [1]
    for name, ref in refs.items():
        stage.leave(name, ref)
        stage.settle()
    assert stage.node.slots["delivery"].subscriptions() == ()  # type: ignore[attr-defined]
    stage.published("p", {"n": 2}, lifetime=FOREVER)
    assert stage.drain("m1", stage.subscribed("m1", group="workers")) == [2]


def test_a_durable_group_goes_on_without_members() -> None:
    stage, refs = stage_with(1, durable=True)
    stage.leave("m0", refs["m0"])
    stage.settle()
    stage.published("p", {"n": 1})
    stage.crash()
    stage.link("m0")
    stage.settle()
    assert stage.drain("m0", stage.subscribed("m0", group="workers", durable=True)) == [1]


def test_members_agree_on_the_filter() -> None:
    stage, _ = stage_with(1)
    stage.client("x")
    call = stage.subscribe("x", "n > 3", group="workers")
    stage.settle()
    code, reason = stage.failures[call]
    assert code == "refused"
    assert "the members of group 'workers' listen with another filter" in reason


def test_one_member_that_unsubscribes_only_leaves() -> None:
    stage, refs = stage_with(2, durable=True)
    stage.leave("m0", refs["m0"], end=True)
    stage.settle()
    stage.published("p", {"n": 1})
    assert stage.drain("m1", refs["m1"]) == [1]
    stage.leave("m1", refs["m1"], end=True)
    stage.settle()
    assert stage.node.slots["delivery"].subscriptions() == ()  # type: ignore[attr-defined]


def test_what_one_member_committed_says_nothing_of_what_another_had() -> None:
    """The member that came back first counted as having handled all up to its last event, those of others
    too."""
    stage, refs = stage_with(2, durable=True)
    for number in (1, 2, 3):
        stage.published("p", {"n": number})
    assert stage.drain("m0", refs["m0"], most=1) == [1]
    assert stage.drain("m1", refs["m1"], most=1) == [2]
    assert stage.drain("m0", refs["m0"]) == [3]
    stage.wait(1.0)
    stage.crash()
    stage.link("m0")  # and m1 never comes back
    stage.wait(10.0)
    assert stage.drain("m0", refs["m0"]) == [2]


def test_a_member_knows_again_what_it_committed_before_its_broker_crashed() -> None:
    stage, refs = stage_with(1, durable=True)
    for number in (1, 2):
        stage.published("p", {"n": number})
    stage.tick = 0.0  # so that no progress is written any more
    assert stage.drain("m0", refs["m0"]) == [1, 2]
    stage.crash()
    stage.link("m0")
    stage.settle()
    assert stage.drain("m0", refs["m0"]) == []
    stage.crash()
    stage.link("m0")
    stage.leave("m0", refs["m0"])
    stage.settle()
    again = stage.subscribed("m0", group="workers", durable=True)
    assert stage.drain("m0", again) == []
    stage.link("p")
    stage.settle()
    stage.published("p", {"n": 3})
    assert stage.drain("m0", again) == [3]


def test_a_group_becomes_durable_with_its_first_durable_member_and_loses_nothing() -> None:
    stage, refs = stage_with(1)
    stage.published("p", {"n": 1}, lifetime=FOREVER)
    stage.published("p", {"n": 2})
    stage.published("p", {"n": 3})
    assert stage.drain("m0", refs["m0"], most=1) == [1]
    stage.client("k")
    kept = stage.subscribed("k", group="workers", durable=True)
    assert stage.drain("k", kept, most=1) == [2], "the queue stays as it was"
    stage.published("p", {"n": 4})
    stage.published("p", {"n": 5})
    assert stage.drain("k", kept) == [3, 4, 5]
    stage.published("p", {"n": 6})
    stage.wait(1.0)
    stage.crash()
    stage.link("k")
    stage.wait(10.0)
    assert stage.drain("k", kept) == [1, 6], "the first one is with a member that did not commit it"


def test_an_event_in_the_log_that_waited_for_a_transient_group_is_owed_to_the_durable_one() -> None:
    stage, refs = stage_with(1)
    stage.published("p", {"n": 1}, lifetime=60.0)
    stage.client("k")
    kept = stage.subscribed("k", group="workers", durable=True)
    stage.leave("m0", refs["m0"])
    stage.wait(120.0)
    stage.crash()
    stage.link("k")
    stage.settle()
    assert stage.drain("k", kept) == [1]


def test_a_member_that_did_not_ask_for_a_durable_group_does_not_end_it() -> None:
    stage, refs = stage_with(1, durable=True)
    stage.client("x")
    transient = stage.subscribed("x", group="workers")
    stage.leave("m0", refs["m0"])
    stage.settle()
    stage.leave("x", transient, end=True)
    stage.settle()
    stage.published("p", {"n": 1})
    again = stage.subscribed("x", group="workers")
    stage.settle()
    assert stage.drain("x", again) == [1], "it joins a durable group that no one listens to"
    stage.crash()
    stage.link("m0")
    stage.settle()
    durable = stage.subscribed("m0", group="workers", durable=True)
    stage.leave("m0", durable, end=True)
    stage.settle()
    assert stage.node.slots["delivery"].subscriptions() == ()  # type: ignore[attr-defined]


@pytest.mark.parametrize("durable", [False, True])
def test_the_only_consumer_is_not_handed_what_it_committed_after_its_link_broke(durable: bool) -> None:
    """The batch in hand is committed while there is no link; the broker delivers it again."""
    stage = Stage(stable=True)
    stage.client("p")
    stage.client("m")
    ref = stage.subscribed("m", group="workers", durable=durable)
    for number in range(6):
        stage.published("p", {"n": number}, lifetime=FOREVER)
    stage.hand("m", ClientTake(stage.call(), ref, most=3))
    stage.settle()
    assert [note.event["n"] for note in stage.received["m", ref]] == [0, 1, 2]
    stage.cut("m")
    stage.link("m")
    stage.settle()
    assert stage.drain("m", ref) == [3, 4, 5]
    stage.cut("m")
    stage.link("m")
    assert stage.drain("m", ref) == [], "each was committed, the last ones on this link or the next"


def test_a_group_that_begins_anew_gets_what_its_members_had_not_committed() -> None:
    """Every link breaks at once. The member that returns committed later events: that is no token."""
    stage, refs = stage_with(2)
    for number in range(1, 5):
        stage.published("p", {"n": number}, lifetime=FOREVER)
    for name, number in (("m0", 1), ("m1", 2), ("m0", 3), ("m0", 4)):
        notification = stage.taken(name, refs[name])
        assert notification is not None
        assert notification.event["n"] == number
    stage.cut("m1")
    stage.cut("m0")
    stage.link("m0")
    assert stage.drain("m0", refs["m0"]) == [2]
