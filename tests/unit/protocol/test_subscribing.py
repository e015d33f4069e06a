"""Subscribing, resuming, leaving, ending."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.protocol._stage import BROKER, Stage

from tidings.model.event import FOREVER
from tidings.model.subscription import SubscriptionId
from tidings.protocol.client import Client
from tidings.protocol.delivery.settings import DAY, DeliverySettings
from tidings.protocol.inputs import ClientAck, ClientCancel


def stage_with(*numbers: int, lifetime: float = FOREVER, **options: object) -> Stage:
    stage = Stage(**options)  # type: ignore[arg-type]
    stage.client("p")
    stage.client("s")
    for number in numbers:
        stage.published("p", {"n": number}, lifetime=lifetime)
    return stage


def refused(stage: Stage, filter: str = "TRUE", **options: object) -> tuple[str, str]:
    call = stage.subscribe("s", filter, **options)
    stage.settle()
    return stage.failures[call]


def test_a_new_subscription_hears_what_is_available_and_then_what_comes() -> None:
    stage = stage_with(1, 2, 3)
    ref = stage.subscribed("s", "n > 1")
    stage.published("p", {"n": 4})
    assert stage.drain("s", ref) == [2, 3, 4]


def test_without_replay_it_hears_only_what_comes() -> None:
    stage = stage_with(1, 2)
    ref = stage.subscribed("s", replay=False)
    stage.published("p", {"n": 3}, lifetime=FOREVER)
    assert stage.drain("s", ref) == [3]


@pytest.mark.parametrize("end", [False, True])
def test_returning_under_the_same_name_is_not_told_twice(end: bool) -> None:
    stage = stage_with(1, 2, 3)
    ref = stage.subscribed("s", name="mine")
    assert stage.drain("s", ref, most=2) == [1, 2]
    stage.leave("s", ref, end=end)
    stage.settle()
    stage.published("p", {"n": 4}, lifetime=FOREVER)
    opened = stage.opened("s", name="mine")
    assert opened.resumed
    assert stage.drain("s", opened.ref) == [3, 4]


def test_returning_under_another_name_is_told_again() -> None:
    stage = stage_with(1, 2)
    for name in ("one", "two", None, None):
        ref = stage.subscribed("s", name=name)
        assert stage.drain("s", ref) == [1, 2]
        stage.leave("s", ref)
        stage.settle()


def test_another_subscriber_with_the_same_name_is_another_subscription() -> None:
    stage = stage_with(1, 2)
    stage.client("t")
    for who in ("s", "t"):
        assert stage.drain(who, stage.subscribed(who, name="mine")) == [1, 2]


def test_the_memory_of_an_ended_subscription_is_kept_for_seven_days() -> None:
    stage = stage_with(1, 2)
    for days, expected in ((0, [1, 2]), (6.9, []), (7.1, [1, 2])):
        stage.wait(days * DAY)
        ref = stage.subscribed("s", name="mine")
        assert stage.drain("s", ref) == expected
        stage.leave("s", ref)
        stage.settle()


def test_with_another_filter_only_the_difference_is_told() -> None:
    stage = stage_with(*range(1, 7))
    ref = stage.subscribed("s", "n <= 3", name="mine")
    assert stage.drain("s", ref) == [1, 2, 3]
    stage.leave("s", ref)
    stage.settle()
    ref = stage.subscribed("s", "n >= 2 AND n <= 5", name="mine")
    assert stage.drain("s", ref) == [4, 5]
    stage.leave("s", ref)
    stage.settle()
    assert stage.drain("s", stage.subscribed("s", name="mine")) == [6]


def test_a_durable_subscription_that_changes_its_filter_keeps_its_right_to_what_it_was_owed() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", "n <= 3", name="mine", durable=True)
    for number in range(1, 6):
        stage.published("p", {"n": number}, lifetime=0 if number < 4 else FOREVER)
    assert stage.drain("s", ref, most=1) == [1]
    stage.leave("s", ref)
    stage.wait(10)
    ref = stage.subscribed("s", "n >= 2", name="mine", durable=True)
    assert stage.drain("s", ref) == [2, 3, 4, 5]


def test_a_durable_subscription_survives_its_client_and_a_restart() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="mine", durable=True)
    for number in range(4):
        stage.published("p", {"n": number})
    assert stage.drain("s", ref, most=2) == [0, 1]
    stage.leave("s", ref)
    stage.wait(1.0)
    stage.published("p", {"n": 4})
    stage.crash()
    stage.link("p")
    stage.link("s")
    stage.published("p", {"n": 5})
    opened = stage.opened("s", name="mine", durable=True)
    assert opened.resumed
    assert stage.drain("s", opened.ref) == [2, 3, 4, 5]


def test_ending_a_durable_subscription_frees_what_was_kept_for_it() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="mine", durable=True)
    for number in range(4):
        stage.published("p", {"n": number})
    assert len(stage.disk.log) == 4
    stage.leave("s", ref, end=True)
    stage.wait(1.0)
    assert stage.disk.log == {}
    assert stage.disk.tables["subscription"] == {}
    assert not stage.disk.tables.get("progress")


def test_leaving_without_committing_gives_back_what_was_taken() -> None:
    stage = stage_with(1, 2, stable=True)
    ref = stage.subscribed("s", name="mine", durable=True)
    assert stage.taken("s", ref) is not None
    stage.leave("s", ref, commit=False)
    stage.settle()
    ref = stage.subscribed("s", name="mine", durable=True)
    assert stage.drain("s", ref) == [1, 2]


def test_acknowledging_commits_without_taking_the_next() -> None:
    stage = stage_with(1, 2, stable=True)
    ref = stage.subscribed("s", name="mine", durable=True)
    assert stage.taken("s", ref) is not None
    stage.hand("s", ClientAck(ref))
    stage.leave("s", ref, commit=False)
    stage.settle()
    assert stage.drain("s", stage.subscribed("s", name="mine", durable=True)) == [2]


def test_a_position_that_the_application_kept_says_where_to_go_on() -> None:
    stage = stage_with(1, 2, 3, stable=True)
    ref = stage.subscribed("s", name="mine", durable=True)
    stage.taken("s", ref)
    second = stage.taken("s", ref)
    assert second is not None
    assert second.position is not None
    stage.leave("s", ref, commit=False)  # as if the application had crashed
    stage.settle()
    token = {second.position.log: second.position.offset}
    ref = stage.subscribed("s", name="mine", durable=True, after=token)
    assert stage.drain("s", ref) == [3]
    stage.leave("s", ref)
    stage.settle()
    ref = stage.subscribed("s", name="other", after=token)
    assert stage.drain("s", ref) == [3]


def test_after_unsubscribed_nothing_is_handed_over() -> None:
    stage = stage_with()
    ref = stage.subscribed("s")
    take = stage.take("s", ref)
    stage.publish("p", {"n": 1})
    stage.move("message", ("s", BROKER))  # the credit
    stage.move("message", ("p", BROKER))  # the publish: a delivery is on its way
    stage.leave("s", ref)
    stage.settle()
    assert take not in stage.answers
    assert stage.failures[take][0] == "closed"
    late = stage.take("s", ref)
    assert stage.failures[late] == ("closed", "the subscription has ended")


def test_leaving_twice_is_answered_twice() -> None:
    stage = stage_with()
    ref = stage.subscribed("s")
    one, two = stage.leave("s", ref), stage.leave("s", ref)
    stage.settle()
    three = stage.leave("s", ref)
    stage.settle()
    assert {one, two, three} <= stage.answers.keys()


def test_one_name_has_one_listener_on_one_link() -> None:
    stage = stage_with()
    stage.subscribed("s", name="mine")
    code, reason = refused(stage, name="mine")
    assert code == "refused"
    assert "a group can have many" in reason


def test_a_newer_link_of_the_same_client_takes_over() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="mine", durable=True)
    stage.published("p", {"n": 1})
    stage.taken("s", ref)
    stage.client("s2", subscriber="s")
    again = stage.subscribed("s2", name="mine", durable=True)
    assert stage.ended["s", ref][1].startswith("a newer link took over: another client called 's' listens")
    assert stage.drain("s2", again) == [1], "it was not committed"
    assert "connect(name=...)" in stage.failures[stage.take("s", ref)][1]
    left = stage.leave("s", ref)
    stage.settle()
    assert left in stage.answers


def test_another_filter_takes_nothing_over_from_another_client_that_listens() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", "n > 0", name="mine", durable=True)
    stage.client("s2", subscriber="s")
    call = stage.subscribe("s2", "n > 5", name="mine", durable=True)
    stage.settle()
    code, reason = stage.failures[call]
    assert code == "refused"
    assert reason.startswith("with another filter another client called 's' listens to 'mine'")
    assert "connect(name=...)" in reason
    stage.published("p", {"n": 1})
    assert stage.drain("s", ref) == [1], "the first one goes on"
    assert stage.subscribed("s2", "n > 5", name="mine", durable=True, takes_over=True)
    stage.client("s3", subscriber="s")
    stage.cut("s2")
    assert stage.subscribed("s3", "n > 7", name="mine", durable=True), "none listens any more"


def test_a_new_link_of_the_same_process_takes_over_with_another_filter() -> None:
    stage = stage_with(stable=True)
    stage.subscribed("s", "n > 0", name="mine", durable=True)
    stage.clients["s2"] = Client("s", BROKER, rng=Random(1), incarnation=stage.clients["s"].incarnation)
    stage.link("s2")
    stage.settle()
    assert stage.subscribed("s2", "n > 5", name="mine", durable=True)


def test_a_subscribe_that_a_newer_link_overtakes_is_answered() -> None:
    stage = stage_with(stable=True)
    stage.client("s2", subscriber="s")
    stage.settle()
    calls = [stage.subscribe(who, name="mine", durable=True) for who in ("s", "s2")]
    stage.settle()
    ends = [stage.failures.get(call, ("", ""))[1] for call in calls]
    delivered = [reason for reason in ends if reason.startswith("a newer link took over: another client")]
    assert len(delivered) == 1, "both asks were under way before the disk had kept the first"
    assert len([call for call in calls if call in stage.answers]) == 1


def test_what_cannot_be_had_is_refused_with_a_reason() -> None:
    stage = stage_with(settings=DeliverySettings(allow_block=False))
    assert refused(stage, "n > 3 AND n < 2")[0] == "impossible"
    assert "at least 1" in refused(stage, queue=0)[1]
    assert "embedded broker" in refused(stage)[1]
    assert "needs a name" in refused(stage, durable=True)[1]
    assert "plain subscription" in refused(stage, dead_letters_of="x", name="y", durable=True)[1]
    stage.subscribed("s", name="mine", durable=True)
    stage.client("s2", subscriber="s")
    call = stage.subscribe("s2", name="mine", policy="drop oldest")
    stage.settle()
    assert "is durable" in stage.failures[call][1]
    assert "tidings admin end subscription 's/mine'" in stage.failures[call][1]


def test_a_subscribe_that_was_cancelled_leaves_nothing_behind() -> None:
    stage = stage_with()
    call = stage.subscribe("s")
    stage.hand("s", ClientCancel(call))
    stage.settle()
    assert stage.node.slots["delivery"].subscriptions() == ()  # type: ignore[attr-defined]
    assert call not in stage.answers


def test_a_link_that_breaks_ends_a_transient_subscription_and_detaches_a_durable_one() -> None:
    stage = stage_with(stable=True)
    stage.subscribed("s", name="short")
    stage.subscribed("s", name="long", durable=True)
    stage.cut("s")
    stage.settle()
    delivery = stage.node.slots["delivery"]
    assert delivery.subscriptions() == (SubscriptionId("s", "long"),)  # type: ignore[attr-defined]


def test_a_client_whose_link_is_back_goes_on_without_gap_or_repeat() -> None:
    stage = stage_with(1, 2, 3, lifetime=FOREVER, stable=True)
    durable = stage.subscribed("s", name="long", durable=True)
    transient = stage.subscribed("s")
    for ref in (durable, transient):
        assert stage.drain("s", ref, most=2) == [1, 2]
    stage.cut("s")
    stage.published("p", {"n": 4}, lifetime=FOREVER)
    waiting = stage.take("s", durable)
    stage.link("s")
    stage.settle()
    assert stage.answers[waiting].event["n"] == 3
    assert stage.drain("s", durable) == [4]
    assert stage.drain("s", transient) == [3, 4], "a name that was drawn is remembered for a while"


def test_leaving_while_the_link_is_down() -> None:
    stage = stage_with(stable=True)
    transient = stage.subscribed("s")
    durable = stage.subscribed("s", name="long", durable=True)
    ended = stage.subscribed("s", name="gone", durable=True)
    stage.cut("s")
    calls = [stage.leave("s", transient), stage.leave("s", durable)]
    ending = stage.leave("s", ended, end=True)
    assert all(call in stage.answers for call in calls)
    assert ending not in stage.answers, "a durable subscription can only be ended at the broker"
    stage.link("s")
    stage.settle()
    assert ending in stage.answers
    delivery = stage.node.slots["delivery"]
    assert delivery.subscriptions() == (SubscriptionId("s", "long"),)  # type: ignore[attr-defined]


def test_a_publish_that_was_in_flight_when_the_link_broke_is_published_once() -> None:
    stage = stage_with(stable=True)
    ref = stage.subscribed("s", name="mine", durable=True)
    call = stage.publish("p", {"n": 1})
    stage.move("message", ("p", BROKER))  # it arrives, and its acknowledgement is lost
    stage.move("commit", None)
    stage.cut("p")
    stage.link("p")
    stage.settle()
    assert call in stage.answers
    assert stage.drain("s", ref) == [1]


def test_events_that_a_new_filter_gives_up_are_counted_and_told() -> None:
    """Another filter under the name of a durable subscription let waiting events go without a word."""
    stage = Stage(stable=True, recording=True)
    for name in ("p", "s"):
        stage.client(name)
    ref = stage.subscribed("s", "n > 0", name="mine", durable=True)
    stage.published("p", {"n": 1})
    assert stage.drain("s", ref) == [1]
    stage.leave("s", ref)
    stage.settle()
    for n in range(2, 8):
        stage.published("p", {"n": n})
    ref = stage.subscribed("s", "n >= 5", name="mine", durable=True)
    assert stage.drain("s", ref) == [5, 6, 7]
    stage.wait(1.0)
    assert stage.lost["s", ref] == {"filter changed": 3}
    assert stage.node.figures()["lost"] == 3
    assert [row.reason for row in stage.rows if row.op == "drop"] == ["filter changed"] * 3
    stage.leave("s", ref)
    stage.settle()
    ref = stage.subscribed("s", "n >= 6", name="mine", durable=True)
    stage.wait(1.0)
    assert stage.node.figures()["lost"] == 3  # what was delivered, or given up before, is not given up again
