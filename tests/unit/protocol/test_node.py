"""The interface of nodes and clients: inputs in, effects out, as lists to compare."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from tidings.availability.records import Append, Loaded, Put
from tidings.errors import SettingsError
from tidings.language import accepts, parse_filter
from tidings.matching.small import SmallMatcher
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions, Notification, Position, SubscriptionId
from tidings.protocol import messages as msg
from tidings.protocol.client import Client
from tidings.protocol.compositions import intermediary
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.effects import (
    CallFailed,
    CallResult,
    Fetch,
    Notify,
    Persist,
    Receipt,
    Send,
    SubscriptionOpened,
)
from tidings.protocol.inputs import (
    ALL_FEATURES,
    ClientAdvertise,
    ClientPublish,
    ClientSubscribe,
    ClientTake,
    Fetched,
    LinkDown,
    LinkUp,
    Persisted,
    Received,
    Started,
    TimerFired,
)
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.protocol.messages import Envelope, Message
from tidings.protocol.node import Node
from tidings.protocol.recovery.group_log import GroupLog
from tidings.protocol.slots import KINDS, Assignment, Delivery, Membership, Overlay, Recovery, Routing

DROPS = parse_filter("change < -3")
EVENT = make_event({"change": -4.5}, source="p", id="1")
KEPT = make_event({"change": -4.5}, source="p", id="1", lifetime=60)
OPTIONS = DeliveryOptions()


def greeted(*, stable: bool = False) -> Node:
    node = intermediary("b", rng=Random(1), stable=stable)
    assert node.handle(Started(Loaded.empty()), 0.0) == []
    for client in ("p", "s"):
        assert node.handle(LinkUp(client), 0.0) == []
        welcome = [Send(client, msg.Welcome("b", "b", event_bytes=DEFAULT_LIMITS.event_bytes))]
        assert node.handle(Received(client, msg.Hello(client, "i")), 0.0) == welcome
    return node


def subscribed(node: Node, *, credit: int = 1, durable: bool = False) -> None:
    options = DeliveryOptions(durable=durable)
    subscribe = msg.Subscribe(1, 1, "news", DROPS, options, named=True, credit=credit)
    effects = node.handle(Received("s", subscribe), 1.0)
    if effects and isinstance(effects[0], Persist):
        effects = node.handle(Persisted(effects[0].token), 1.1)
    assert effects == [Send("s", msg.Subscribed(1, 1, "s", "news"))]


def test_an_event_that_no_log_holds_is_delivered_and_acknowledged_in_one_step() -> None:
    node = greeted()
    subscribed(node)
    assert node.handle(Received("p", msg.Publish(7, EVENT, 1)), 2.0) == [
        Send("s", msg.Deliver(1, 1, EVENT)),
        Send("p", msg.Published(7)),
    ]


def test_a_kept_event_is_delivered_and_acknowledged_after_persisted() -> None:
    node = greeted()
    subscribed(node)
    assert node.handle(Received("p", msg.Publish(7, KEPT, 1)), 2.0) == [
        Persist(1, (Append(1, KEPT, 2.0, 1),)),
    ]
    position = Position("b", 1)
    assert node.handle(Persisted(1), 2.1) == [
        Send("s", msg.Deliver(1, 1, KEPT, position)),
        Send("p", msg.Published(7, position)),
    ]


def test_an_event_that_a_durable_subscription_is_owed_is_kept_whatever_its_lifetime() -> None:
    node = greeted(stable=True)
    subscribed(node, durable=True)
    (persist,) = node.handle(Received("p", msg.Publish(7, EVENT, 1)), 2.0)
    assert isinstance(persist, Persist)
    assert persist.records[0] == Append(1, EVENT, 2.0, 1)
    assert {type(record) for record in persist.records[1:]} == {Put}


def test_a_best_effort_publish_is_acknowledged_before_the_disk() -> None:
    node = greeted()
    effects = node.handle(Received("p", msg.Publish(7, KEPT, 1, msg.AckMode.BEST_EFFORT)), 2.0)
    assert effects == [
        Persist(1, (Append(1, KEPT, 2.0, 1),)),
        Send("p", msg.Published(7, Position("b", 1))),
    ]
    assert node.handle(Persisted(1), 2.1) == []


def test_a_late_subscription_reads_the_log_and_then_goes_live() -> None:
    node = greeted()
    node.handle(Received("p", msg.Publish(7, KEPT, 1)), 2.0)
    node.handle(Persisted(1), 2.1)
    subscribe = msg.Subscribe(1, 1, "news", DROPS, OPTIONS, credit=5)
    assert node.handle(Received("s", subscribe), 3.0) == [
        Send("s", msg.Subscribed(1, 1, "s", "news")),
        Fetch(1, 1, 256, 1 << 20),
    ]
    live = node.handle(Received("p", msg.Publish(8, make_event({"change": -9}, source="p", id="2"), 2)), 3.1)
    assert live == [Send("p", msg.Published(8))], "it waits behind the replay"
    delivered = node.handle(Fetched(1, (Append(1, KEPT, 2.0, 1),)), 3.2)
    assert [effect.message.event.id for effect in delivered] == ["1", "2"]


def test_nothing_is_delivered_without_credit() -> None:
    node = greeted()
    subscribed(node, credit=0)
    assert node.handle(Received("p", msg.Publish(7, EVENT, 1)), 2.0) == [Send("p", msg.Published(7))]
    assert node.handle(Received("s", msg.Credit(1, 1)), 2.1) == [Send("s", msg.Deliver(1, 1, EVENT))]


def test_an_acknowledgement_with_credit_settles_and_lets_the_next_one_go() -> None:
    node = greeted()
    subscribed(node, credit=1)
    node.handle(Received("p", msg.Publish(7, EVENT, 1)), 2.0)
    second = make_event({"change": -7}, source="p", id="2")
    assert node.handle(Received("p", msg.Publish(8, second, 2)), 2.0) == [Send("p", msg.Published(8))]
    sent = node.handle(Received("s", msg.AckCredit(1, (1,), 1)), 2.1)
    assert sent == [Send("s", msg.Deliver(1, 2, second))]
    (described,) = node.describe(1)
    assert described["unacknowledged"] == 1, "the first one is settled"


def test_who_did_not_say_hello_is_refused() -> None:
    node = greeted()
    refused = node.handle(Received("x", msg.Publish(7, EVENT, 1)), 2.0)
    assert refused == [Send("x", msg.Refused(7, "refused", "say hello first"))]
    assert node.handle(Received("x", msg.Credit(1, 1)), 2.0) == []


def test_a_message_that_no_strategy_declared_is_counted() -> None:
    node = greeted()
    assert node.handle(Received("s", msg.Welcome("x", "x")), 2.0) == []
    assert node.figures()["unknown messages"] == 1


def test_a_node_and_a_client_refuse_each_others_inputs() -> None:
    node = greeted()
    with pytest.raises(SettingsError, match="hand it to a client"):
        node.handle(ClientTake(1, 1), 0.0)
    client = Client("s", "b", rng=Random(1))
    with pytest.raises(SettingsError, match="hand it to a node"):
        client.handle(TimerFired(), 0.0)


def linked(features: int = ALL_FEATURES) -> Client:
    client = Client("s", "b", rng=Random(1), incarnation="i")
    assert client.handle(LinkUp("b", features=features), 0.0) == [Send("b", msg.Hello("s", "i"))]
    assert client.handle(Received("b", msg.Welcome("b", "b")), 0.0) == []
    return client


def test_a_client_numbers_what_it_publishes() -> None:
    client = linked()
    event = make_event({"a": 1}, source="s", id="-")
    (send,) = client.handle(ClientPublish(5, event, number=True), 1.0)
    assert send == Send("b", msg.Publish(5, make_event({"a": 1}, source="s", id="i-1"), 1))
    (send,) = client.handle(ClientPublish(6, event, number=True), 1.0)
    assert send.message.event.id == "i-2"
    answers = client.handle(Received("b", msg.Published(5, Position("b", 3))), 2.0)
    assert answers == [CallResult(5, Receipt("s", "i-1", Position("b", 3)))]


def test_a_client_holds_back_what_its_broker_said_that_nobody_wants() -> None:
    client = linked()
    client.handle(ClientAdvertise(1, "all", DROPS), 1.0)
    event = make_event({"change": -5.0}, source="s", id="e")
    assert accepts(DROPS, event)
    client.handle(Received("b", msg.Quench(DROPS.digest, True)), 2.0)
    assert client.handle(ClientPublish(2, event), 3.0) == [CallResult(2, Receipt("s", "e", unwanted=True))]
    (send,) = client.handle(ClientPublish(3, event, mode=msg.AckMode.KEPT), 3.0)
    assert send.message.call == 3, "what must be kept is never held back"
    client.handle(Received("b", msg.Quench(DROPS.digest, False)), 4.0)
    (send,) = client.handle(ClientPublish(4, event), 5.0)
    assert send.message.call == 4


def test_a_client_takes_one_at_a_time_and_commits_the_one_before() -> None:
    client = linked()
    (send,) = client.handle(ClientSubscribe(1, DROPS, name="news"), 1.0)
    assert send == Send("b", msg.Subscribe(1, 1, "news", DROPS, OPTIONS))
    opened = client.handle(Received("b", msg.Subscribed(1, 1, "s", "news", True)), 1.1)
    assert opened == [CallResult(1, SubscriptionOpened(1, SubscriptionId("s", "news"), True))]
    assert client.handle(ClientTake(2, 1), 1.2) == [Send("b", msg.Credit(1, 1))]
    notified = client.handle(Received("b", msg.Deliver(1, 1, EVENT)), 1.3)
    assert notified == [Notify(1, [Notification(SubscriptionId("s", "news"), EVENT)], (1,), 2)]
    assert client.handle(ClientTake(3, 1), 1.4) == [Send("b", msg.AckCredit(1, (1,), 1))]


def test_a_broker_that_does_not_announce_it_gets_acknowledgement_and_credit_apart() -> None:
    client = linked(features=0)
    client.handle(ClientSubscribe(1, DROPS, name="news"), 1.0)
    client.handle(Received("b", msg.Subscribed(1, 1, "s", "news", True)), 1.1)
    client.handle(ClientTake(2, 1), 1.2)
    client.handle(Received("b", msg.Deliver(1, 1, EVENT)), 1.3)
    assert client.handle(ClientTake(3, 1), 1.4) == [Send("b", msg.Ack(1, (1,))), Send("b", msg.Credit(1, 1))]


def test_a_client_waits_for_its_link() -> None:
    client = Client("s", "b", rng=Random(1), incarnation="i")
    assert client.handle(ClientSubscribe(1, DROPS, name="news"), 0.0) == []
    assert client.handle(ClientPublish(2, EVENT), 0.0) == []
    client.handle(LinkUp("b"), 1.0)
    sent = client.handle(Received("b", msg.Welcome("b", "b")), 1.0)
    assert [type(effect.message) for effect in sent] == [msg.Subscribe, msg.Publish]


def test_every_message_survives_its_encoding() -> None:
    union = msg.union()
    samples: list[Message] = [
        msg.Hello("s", "i"),
        msg.Welcome("b", "b"),
        msg.Publish(1, KEPT, 2, msg.AckMode.KEPT),
        msg.Published(1, Position("b", 2)),
        msg.Subscribe(1, 2, "news", DROPS, DeliveryOptions(durable=True, queue=3), True, {"b": 4}, 5),
        msg.Subscribed(1, 2, "s", "news", True),
        msg.Unsubscribe(1, 2, False),
        msg.Unsubscribed(1, 2),
        msg.Credit(1, -1),
        msg.AckCredit(1, (1, 2), 3),
        msg.Deliver(1, 2, EVENT, Position("b", 3), 4, True),
        msg.DeliverAll(1, 2, (EVENT, EVENT)),
        msg.PublishedAll(1, 2),
        msg.Quench("00ff", True),
        msg.AckAll(1, 2, 3),
        msg.Ack(1, (2, 3)),
        msg.Nack(1, (2,), False),
        msg.Silence(1, Position("b", 2)),
        msg.Lost(1, {"drop oldest": 2}),
        msg.Refused(1, "refused", "no"),
        msg.Closed(1, "slow", "too slow"),
        msg.Advertise(1, "quotes", DROPS),
        msg.Unadvertise(1, "quotes"),
        msg.Advertised(1),
        msg.Home(1, "b"),
        msg.MemberHoldings(1, {"b": (4, 9)}, {"b": (3,)}),
        msg.Fence(1, 2),
        msg.Fenced(1, 2),
        msg.ReadLog(1, DROPS, 2, 3, "b"),
        msg.LogRead(1, "b", (msg.LogEntry(2, EVENT, 3.0),), 4, 1, 9),
        msg.StageEvents(1, "q", 2, 3, (EVENT,), "b"),
        msg.Staged(1),
        msg.ClientJoined(2, {"press": {"b0": 9}}),
        msg.CommitStaged(1, "q", 2, 3, "b"),
        msg.AskCommitted(1, "q"),
        msg.Committed(1, "q", 2, True),
        msg.CommitParts(1, "q", 2, (3, 70_000), "b"),
        msg.HoldLog(1, "r", DROPS, 7, 60.0, True, "b"),
        msg.EndHold(1, "r"),
        msg.LogHeld(1, "b", 2, 9, 7, True),
    ]
    assert {type(sample) for sample in samples} == set(msg.CLIENT_MESSAGES + msg.BROKER_MESSAGES)
    for sample in samples:
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(sample), type=union) == sample
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(Envelope(KEPT, "b", 1)), type=Envelope).offset == 1


class Chatter(Message, frozen=True):
    text: str


class Chatting(Routing):
    name = "chatting"
    messages = (Chatter,)
    headers = frozenset({"routing.path"})

    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_message(self, sender: str, message: Message, now: float) -> None:
        self.ports.send(sender, Chatter("heard"))

    def forward(
        self, envelopes: Sequence[Envelope], matches: Any, at: Any, came_from: str | None, now: float
    ) -> None:
        self.seen += [(envelope.event.id, at, came_from) for envelope in envelopes]

    def next_deadline(self) -> float | None:
        return 5.0

    def on_timer(self, now: float) -> None:
        self.seen.append(now)


def test_a_strategy_in_a_slot_needs_no_change_of_the_node() -> None:
    routing = Chatting()
    node = Node("b", delivery=ExactlyOnce(SmallMatcher()), routing=routing, rng=Random(1))
    assert node.handle(Received("x", Chatter("hello")), 1.0) == [Send("x", Chatter("heard"))]
    node.handle(Received("p", msg.Hello("p", "i")), 1.0)
    node.handle(Received("p", msg.Publish(1, EVENT, 1)), 1.0)
    assert routing.seen == [("1", None, None)]
    assert node.next_deadline() == 5.0
    node.handle(TimerFired(), 5.0)
    assert routing.seen[1:] == [5.0]
    union = msg.union(routing.messages)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(Chatter("a")), type=union) == Chatter("a")


def test_an_event_from_another_broker_reaches_our_subscribers() -> None:
    node = greeted()
    subscribed(node)
    node.arrived((Envelope(EVENT, "elsewhere", 9),), "neighbour", 2.0)
    assert node.handle(TimerFired(), 2.0) == [Send("s", msg.Deliver(1, 1, EVENT))]


def test_a_meaningless_composition_is_refused() -> None:
    delivery = ExactlyOnce(SmallMatcher())
    with pytest.raises(SettingsError, match="slot for routing"):
        Node("b", delivery=delivery, routing=Assignment(), rng=Random(1))  # type: ignore[arg-type]

    class Rival(Recovery):
        name = "rival"
        messages = (msg.Ack,)

    with pytest.raises(SettingsError, match="both declare Ack"):
        Node("b", delivery=ExactlyOnce(SmallMatcher()), recovery=Rival(), rng=Random(1))

    class Thief(Overlay):
        name = "thief"
        headers = frozenset({"recovery.route"})

    with pytest.raises(SettingsError, match=r"header 'recovery\.route' of another kind"):
        Node("b", delivery=ExactlyOnce(SmallMatcher()), overlay=Thief(), rng=Random(1))


def test_a_composition_without_a_role_that_a_strategy_needs_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"group log \(recovery\) needs the role GroupEntries") as refused:
        Node("b", delivery=ExactlyOnce(SmallMatcher()), recovery=GroupLog(), rng=Random(1))
    assert refused.value.hint == "put a delivery strategy with this role into the composition"

    class Climbing(Routing):
        def on_timer(self, now: float) -> None:
            self.ports.keys.next_hop("key")

    routing = Climbing()
    Node("b", delivery=ExactlyOnce(SmallMatcher()), routing=routing, rng=Random(1))
    with pytest.raises(SettingsError, match="a strategy needs the role KeyLookup"):
        routing.on_timer(0.0)
    with pytest.raises(AttributeError):
        routing.ports.overlay  # type: ignore[attr-defined]  # noqa: B018


def test_the_null_strategies_answer_for_a_node_alone() -> None:
    node = intermediary("b", rng=Random(1))
    assert tuple(node.slots) == KINDS
    membership, overlay = node.slots["membership"], node.slots["overlay"]
    assert isinstance(membership, Membership)
    assert isinstance(overlay, Overlay)
    assert membership.view() == ("b",)
    assert membership.sample(3) == ()
    assert overlay.links() == ()
    routing, recovery = node.slots["routing"], node.slots["recovery"]
    assert isinstance(routing, Routing)
    assert isinstance(recovery, Recovery)
    assert routing.interest("x") == ()
    assert recovery.logs() == ()
    assert Delivery().subscriptions() == ()
    assert Delivery().figures() == {}
    node.check()


def test_a_publish_that_a_broker_with_a_smaller_limit_cannot_take_after_another_had_it_is_unknown() -> None:
    client = Client("c", "d1", rng=Random(1))
    client.handle(LinkUp("d1"), 0.0)
    client.handle(Received("d1", msg.Welcome("d1", "group", event_bytes=1 << 20)), 0.0)
    large = make_event({"x": "y" * 5000}, source="c", id="-")
    assert [type(effect) for effect in client.handle(ClientPublish(1, large, number=True), 0.0)] == [Send]
    client.handle(LinkDown("d1"), 1.0)
    client.handle(LinkUp("d2"), 1.0)
    effects = client.handle(Received("d2", msg.Welcome("d2", "group", event_bytes=1000)), 1.0)
    failed = [effect for effect in effects if isinstance(effect, CallFailed)]
    assert [each.code for each in failed] == ["unknown"]
    assert "sent before and not answered" in failed[0].reason
    effects = client.handle(ClientPublish(2, large, number=True), 2.0)
    assert [effect.code for effect in effects if isinstance(effect, CallFailed)] == ["too large"]
