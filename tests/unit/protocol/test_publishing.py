"""Publishing: each identity once, kept before it is told, in the order of its source."""

from __future__ import annotations

from tests.unit.protocol._stage import BROKER, Stage

from tidings.errors import UnknownOutcomeError
from tidings.model.event import FOREVER, make_event
from tidings.protocol.inputs import PersistFailed
from tidings.protocol.messages import AckMode, Publish, Refused
from tidings.protocol.publishing import OutstandingPublish


def test_publishing_an_identity_again_gives_the_same_acknowledgement_and_changes_nothing() -> None:
    stage = Stage(stable=True)
    p, s = stage.client("p"), stage.client("s")
    ref = stage.subscribed(s)
    first = stage.published(p, {"n": 1}, id="x", lifetime=60)
    assert stage.published(p, {"n": 2}, id="x", lifetime=60) == first
    assert stage.drain(s, ref) == [1]
    assert stage.node.figures()["duplicate publishes"] == 1


def test_a_clear_is_acknowledged_when_the_end_of_the_older_event_is_on_the_disk() -> None:
    """An event with a key and no lifetime is not kept itself. Its acknowledgement left before the older one
    was forgotten on the disk, which a crash brought back."""
    stage = Stage(stable=True)
    p = stage.client("p")
    stage.published(p, {"n": 1}, key="k", lifetime=FOREVER)
    stage.is_full = True  # nothing is committed
    call = stage.publish(p, {"n": 2}, key="k")
    quick = stage.publish(p, {"n": 3}, key="j", mode=AckMode.BEST_EFFORT)
    stage.settle()
    assert call not in stage.answers
    assert quick in stage.answers
    assert len(stage.disk.log) == 1
    stage.is_full = False
    stage.settle()
    assert call in stage.answers
    assert stage.disk.log == {}
    stage.crash()
    s = stage.client("s")
    stage.link(s)
    assert stage.drain(s, stage.subscribed(s, replay=True)) == []


def test_another_client_that_publishes_the_same_identity_is_recognised() -> None:
    stage = Stage()
    p, q, s = stage.client("p"), stage.client("q"), stage.client("s")
    ref = stage.subscribed(s)
    stage.published(p, {"n": 1}, id="x", source="sensor")
    stage.published(q, {"n": 1}, id="x", source="sensor")
    assert stage.drain(s, ref) == [1]


def test_an_identity_is_known_after_a_restart_even_when_its_entry_was_forgotten() -> None:
    stage = Stage(stable=True)
    p, s = stage.client("p"), stage.client("s")
    ref = stage.subscribed(s, name="mine", durable=True)
    stage.published(p, {"n": 1}, id="x")
    assert stage.drain(s, ref) == [1]
    stage.leave(s, ref)
    stage.wait(1.0)
    assert stage.disk.log == {}
    stage.crash()
    stage.link(p)
    stage.link(s)
    stage.published(p, {"n": 1}, id="x")
    assert stage.drain(s, stage.subscribed(s, name="mine", durable=True)) == []


def test_a_publish_in_flight_that_is_tried_again_is_answered_once_for_each_try() -> None:
    stage = Stage(stable=True)
    p = stage.client("p")
    stage.is_full = True  # the disk does not answer
    one = stage.publish(p, {"n": 1}, id="x", lifetime=60)
    two = stage.publish(p, {"n": 1}, id="x", lifetime=60)
    stage.settle()
    assert one not in stage.answers
    stage.is_full = False
    stage.settle()
    assert stage.answers[one] == stage.answers[two]


def test_an_event_without_a_lifetime_follows_the_kept_ones_of_its_source() -> None:
    stage = Stage(stable=True)
    p, q, s = stage.client("p"), stage.client("q"), stage.client("s")
    ref = stage.subscribed(s)
    stage.is_full = True
    stage.publish(p, {"n": 1}, lifetime=60)
    stage.publish(p, {"n": 2})
    stage.publish(q, {"n": 3})
    stage.settle()
    assert stage.drain(s, ref) == [3], "another source does not wait for that disk"
    stage.is_full = False
    stage.settle()
    assert stage.drain(s, ref) == [1, 2]


def test_nobody_is_owed_it_and_it_has_no_lifetime_so_it_is_not_stored() -> None:
    stage = Stage(stable=True)
    p = stage.client("p")
    receipt = stage.published(p, {"n": 1})
    assert receipt.position is None
    assert stage.disk.log == {}


def test_mode_kept_stores_what_would_not_be_stored() -> None:
    stage = Stage(stable=True)
    p = stage.client("p")
    receipt = stage.published(p, {"n": 1}, mode=AckMode.KEPT)
    assert receipt.position is not None
    assert stage.node.figures()["kept"] == 1
    stage.wait(1.0)
    assert stage.disk.log == {}, "and forgotten: it has no lifetime, and nobody is owed it"


def test_mode_kept_is_refused_by_a_broker_without_a_store() -> None:
    stage = Stage(stable=False)
    p = stage.client("p")
    call = stage.publish(p, {"n": 1}, mode=AckMode.KEPT)
    stage.settle()
    code, reason = stage.failures[call]
    assert code == "refused"
    assert "needs a broker with a store" in reason


def test_a_failed_disk_refuses_publishers_and_lets_consumers_run() -> None:
    stage = Stage(stable=True)
    p, s = stage.client("p"), stage.client("s")
    stage.published(p, {"n": 1}, lifetime=FOREVER)
    stage.is_full = True
    call = stage.publish(p, {"n": 2}, lifetime=FOREVER)
    follower = stage.publish(p, {"n": 3})
    stage.settle()
    token = stage.disk.pending[0].token
    stage.disk.pending.clear()
    stage.hand(BROKER, PersistFailed(token, "store", "input/output error"))
    stage.settle()
    assert stage.failures[call] == ("store", "not kept: input/output error")
    assert stage.failures[follower][0] == "store"
    later = stage.publish(p, {"n": 4}, lifetime=FOREVER)
    durable = stage.subscribe(s, name="mine", durable=True)
    stage.settle()
    assert "disk has failed" in stage.failures[later][1]
    assert "disk has failed" in stage.failures[durable][1]
    assert stage.drain(s, stage.subscribed(s)) == [1]


def test_the_number_of_a_publisher_that_went_on_long_ago_is_refused_not_guessed() -> None:
    stage = Stage()
    p = stage.client("p")
    machine = stage.clients[p]
    for number in range(600):  # every other number is missing, so that gaps are forgotten
        machine._sequences["p"] = 2 * number
        stage.publish(p, {"n": number})
    stage.settle()
    machine._sequences["p"] = 1
    call = stage.publish(p, {"n": -1})
    stage.settle()
    assert "not known any more" in stage.failures[call][1]


def test_publishes_in_flight_are_bounded_and_keep_their_order() -> None:
    stage = Stage(stable=True, check=False)  # checking thousands of steps on long queues takes long
    p, s = stage.client("p"), stage.client("s")
    ref = stage.subscribed(s, name="mine", durable=True, queue=5000)
    calls = [stage.publish(p, {"n": n}) for n in range(1500)]
    assert len(stage.clients[p]._in_flight) == 1024
    stage.settle()
    assert all(call in stage.answers for call in calls)
    assert stage.drain(s, ref) == list(range(1500))


def test_a_refusal_is_final_only_where_no_other_broker_had_the_publish() -> None:
    """A member of a group refuses for itself; the member before it may still have the event committed."""
    publishing = OutstandingPublish(
        Publish(1, make_event({"x": 1}, source="p", id="i-1"), 1, AckMode.AUTO), 0.0
    )
    publishing.log = "b0#1"
    refused = Refused(1, "full", "no space left")
    publishing.sent_to("b0")
    publishing.sent_to("b0")
    assert publishing.failed(refused).code == "full", "its log would know it"
    publishing.sent_to("b1")
    assert publishing.failed(refused).code == UnknownOutcomeError.code
    publishing.sent_to("b1")
    assert "no space left" in publishing.failed(refused).reason
    assert publishing.failed(refused).code == UnknownOutcomeError.code


def test_a_refusal_of_a_publish_that_a_group_got_before_is_unknown() -> None:
    """Seeds 1485, 2522, 2775 and 2798 of the wide world: the member had passed it on before it was refused
    there."""
    publishing = OutstandingPublish(
        Publish(1, make_event({"x": 1}, source="p", id="i-1"), 1, AckMode.AUTO), 0.0
    )
    publishing.log = "news"
    refused = Refused(1, "store", "the disk has failed")
    publishing.sent_to("b0")
    assert publishing.failed(refused).code == "store", "it was sent once"
    publishing.sent_to("b0")
    assert publishing.failed(refused).code == UnknownOutcomeError.code
