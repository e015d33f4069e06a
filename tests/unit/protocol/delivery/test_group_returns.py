"""Members of a durable group return to a restarted broker: no event in hand goes to another one."""

from __future__ import annotations

import pytest
from tests.unit.protocol._stage import BROKER, Stage

from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import ALL_FEATURES, ClientAck, Feature, LinkUp, Received
from tidings.protocol.messages import MemberHoldings

MEMBERS = ("m0", "m1", "m2")
REGROUP = DeliverySettings().regroup_seconds


def stage_with_hands_full(members: tuple[str, ...] = MEMBERS) -> tuple[Stage, dict[str, int]]:
    """Each member has one event in hand: the first has 1, the second 2, ..."""
    stage = Stage(stable=True)
    stage.client("p")
    refs = {name: stage.subscribed(stage.client(name), group="workers", durable=True) for name in members}
    for number, (name, ref) in enumerate(refs.items(), 1):
        stage.published("p", {"n": number})
        assert taken(stage, name, ref) == number
    return stage, refs


def taken(stage: Stage, name: str, ref: int) -> int | None:
    notification = stage.taken(name, ref)
    return None if notification is None else notification.event["n"]  # type: ignore[return-value]


def restart(stage: Stage, how: str) -> None:
    """An orderly stop breaks one link after the other first."""
    if how == "stop":
        for name in list(stage.clients):
            stage.cut(name)
        stage.settle()  # the disk works to the end
    stage.crash()


def back(stage: Stage, *names: str) -> None:
    for name in names:
        stage.link(name)
        stage.settle()


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("order", [MEMBERS, MEMBERS[::-1], ("m1", "m2", "m0")])
def test_an_event_in_hand_stays_with_its_worker_when_the_broker_restarts(
    how: str, order: tuple[str, ...]
) -> None:
    stage, refs = stage_with_hands_full()
    stage.published("p", {"n": 4})
    restart(stage, how)
    back(stage, *order, "p")
    stage.wait(2 * REGROUP)
    assert [taken(stage, name, refs[name]) for name in order] == [4, None, None]
    for number, name in enumerate(MEMBERS, 5):
        stage.published("p", {"n": number})
        assert taken(stage, name, refs[name]) == number, "each takes the next one, and commits what it had"
    stage.wait(1.0)
    stage.crash()
    back(stage, "m0")
    stage.wait(2 * REGROUP)
    assert sorted(stage.drain("m0", refs["m0"])) == [6, 7], "the others are gone, and what they had is owed"


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_group_waits_for_its_members_and_no_longer_than_a_while(how: str) -> None:
    stage, refs = stage_with_hands_full()
    restart(stage, how)
    back(stage, "m2", "m0")
    assert taken(stage, "m2", refs["m2"]) is None
    stage.wait(REGROUP - 1)
    assert taken(stage, "m0", refs["m0"]) is None
    stage.wait(1.5)
    assert stage.drain("m0", refs["m0"]) == [2], "m1 did not return"


def test_a_group_does_not_wait_for_members_that_left_or_were_lost_long_ago() -> None:
    stage, refs = stage_with_hands_full()
    stage.leave("m2", refs["m2"], commit=False)
    stage.cut("m1")
    stage.wait(2 * REGROUP)
    stage.published("p", {"n": 4})
    assert stage.drain("m0", refs["m0"], most=1) == [2]
    stage.wait(1.0)
    stage.crash()
    back(stage, "m0")
    assert stage.drain("m0", refs["m0"]) == [3, 4]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_commit_without_a_link_counts_before_the_event_goes_to_another(how: str) -> None:
    stage, refs = stage_with_hands_full()
    restart(stage, how)
    stage.hand("m0", ClientAck(refs["m0"], None))
    back(stage, "m1", "m2", "m0")
    stage.wait(2 * REGROUP)
    assert [taken(stage, name, refs[name]) for name in MEMBERS] == [None] * 3
    for name in MEMBERS[1:]:
        stage.cut(name)
    stage.wait(1.0)
    assert stage.drain("m0", refs["m0"]) == [], "1 is settled, and the takes committed 2 and 3"


def test_a_commit_that_the_crash_swallowed_counts() -> None:
    stage, refs = stage_with_hands_full()
    stage.tick = 0.0  # so that no progress is written any more
    for name, ref in refs.items():
        stage.hand(name, ClientAck(ref, None))
    stage.settle()
    stage.crash()
    back(stage, *MEMBERS[::-1])
    assert [taken(stage, name, refs[name]) for name in MEMBERS] == [None] * 3


def test_an_event_that_nobody_took_yet_goes_to_any_member() -> None:
    stage, refs = stage_with_hands_full(("m0", "m1"))
    stage.subscribed("m0", group="workers", durable=True, window=3)  # is sent three ahead
    for number in (3, 4, 5):
        stage.published("p", {"n": number})
    stage.crash()
    back(stage, "m1", "m0")
    stage.cut("m0")
    stage.settle()
    assert sorted(stage.drain("m1", refs["m1"])) == [1, 3, 4, 5]


def test_a_late_commit_settles_the_event_wherever_it_is() -> None:
    stage, refs = stage_with_hands_full(("m0", "m1"))
    stage.cut("m0")
    stage.settle()
    assert taken(stage, "m1", refs["m1"]) == 1, "its worker counted as lost"
    stage.link("m0")
    stage.settle()
    stage.hand("m0", ClientAck(refs["m0"], None))
    stage.settle()
    third = stage.subscribed(stage.client("m2"), group="workers", durable=True)
    stage.cut("m1")
    stage.settle()
    assert stage.drain("m2", third) == []


def test_a_claim_of_an_event_that_is_not_in_the_log_means_nothing() -> None:
    stage, refs = stage_with_hands_full(("m0", "m1"))
    stage.crash()
    stage.hand(BROKER, LinkUp("m0"))
    stage.hand("m0", LinkUp(BROKER))
    stage.settle()
    far = {BROKER: tuple(range(3, 40))}
    stage.hand(BROKER, Received("m0", MemberHoldings(refs["m0"], far, far)))
    stage.hand(BROKER, Received("m0", MemberHoldings(99, far, far)))
    back(stage, "m1", "p")
    for number in (3, 4, 5):
        stage.published("p", {"n": number})
    assert stage.drain("m1", refs["m1"]) == [3, 4, 5]


def test_holdings_go_to_brokers_that_take_them_and_for_durable_groups_alone() -> None:
    stage, refs = stage_with_hands_full(("m0",))
    for features, told in ((ALL_FEATURES, 1), (ALL_FEATURES & ~Feature.HOLDINGS, 0)):
        stage.cut("m0")
        stage.handled.clear()
        stage.hand(BROKER, LinkUp("m0"))
        stage.hand("m0", LinkUp(BROKER, features=features))
        stage.settle()
        found = [message for _, _, message in stage.handled if isinstance(message, MemberHoldings)]
        assert len(found) == told
    assert taken(stage, "m0", refs["m0"]) is None
    stage.handled.clear()
    stage.subscribed("m0", name="own", durable=True)
    stage.subscribed("m0", group="passing")
    assert not [message for _, _, message in stage.handled if isinstance(message, MemberHoldings)]
