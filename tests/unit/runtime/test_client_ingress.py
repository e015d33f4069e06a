"""The gate of a connection with the guard behind it: what is found free is asked anew when a rule changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tidings.language import accepts, parse_filter
from tidings.model.event import Event, make_event
from tidings.model.filter import Filter
from tidings.model.schemas import SCHEMAS
from tidings.model.subscription import DeliveryOptions
from tidings.protocol import messages as msg
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.runtime.client_ingress import ClientIngress
from tidings.security.audit import Audit
from tidings.security.authorization import Authorizer as Guard
from tidings.security.principal import Principal, ProofMethod
from tidings.security.quotas import Quota
from tidings.security.rules import AccessRule, Action, Permissions
from tidings.security.users import NO_USERS, Users

ANN = Principal("ann", ProofMethod.SCRAM)


def users(filter: str, quota: Quota = NO_USERS.default_quota) -> Users:
    rules = [AccessRule("ann", action, parse_filter(filter)) for action in Action]
    return Users({}, {}, Permissions(rules), {}, quota, NO_USERS.verifier)


class Door:
    def __init__(self, filter: str, quota: Quota = NO_USERS.default_quota) -> None:
        self.said: list[Any] = []  # to the client
        self.handed: list[Any] = []  # to the node, in the client's place
        self.guard = Guard(
            users(filter, quota), clock=lambda: 0.0, audit=Audit(lambda entry: None, lambda: 0.0)
        )
        self.gate = ClientIngress("ann", ANN, self.guard, say=self.said.append, hand_in=self.handed.append)
        self.out = self.gate.outlet(lambda: None)

    def received(self, level: int) -> bool:
        before = len(self.said)
        self.out(msg.Deliver(1, level, quote(level)))
        return len(self.said) > before

    def let_in(self, level: int, **options: Any) -> bool:
        return bool(self.gate.inward([msg.Publish(level, quote(level, **options), level)]))

    def advertised(self, filter: str, name: str = "a") -> str | None:
        """The filter as the node is told it; None: it was refused."""
        let_in = self.gate.inward([msg.Advertise(7, name, parse_filter(filter))])
        return let_in[0].filter.text if let_in else None  # type: ignore[attr-defined]


def quote(level: int, **options: Any) -> Event:
    return make_event({"level": level}, **{"source": "ann", "id": str(level), **options})


def test_a_right_to_everything_that_is_taken_away_ends_at_once() -> None:
    listener = Door("TRUE")
    assert all(listener.received(level) for level in (1, 9, 1, 9))
    listener.guard.replace(users("level < 5"))
    assert [listener.received(level) for level in (1, 9)] == [True, False]
    assert listener.handed == [msg.Ack(1, (9,)), msg.Credit(1, 1)]  # what is withheld counts as taken
    listener.guard.replace(users("TRUE"))
    assert listener.received(9)


def test_a_page_of_the_log_holds_what_may_be_heard_when_it_leaves() -> None:
    """The rule changed between the request, whose filter was narrowed, and its answer."""
    listener = Door("TRUE")
    page = msg.LogRead(1, "b", tuple(msg.LogEntry(level, quote(level), 0.0) for level in (1, 9)), 9, 1, 9)
    listener.out(page)
    listener.guard.replace(users("level < 5"))
    listener.out(page)
    assert [[entry.offset for entry in stated.entries] for stated in listener.said] == [[1, 9], [1]]
    assert [stated.upto for stated in listener.said] == [9, 9], "all of it was looked at"


def test_publishing_everything_ends_with_its_rule_and_never_covers_another_source() -> None:
    listener = Door("TRUE")
    assert all(listener.let_in(level) for level in (1, 9, 1))
    assert not listener.let_in(1, source="bob")
    assert listener.let_in(9)
    assert listener.let_in(9, source="ann/desk")
    assert not listener.let_in(1, source="bob")
    listener.guard.replace(users("level < 5"))
    assert [listener.let_in(level) for level in (1, 9)] == [True, False]


def test_a_client_is_told_what_its_rights_leave_of_its_filter() -> None:
    listener = Door("level < 5")
    for call, filter in ((1, "price > 0"), (2, "level < 3")):
        listener.gate.inward([msg.Subscribe(call, call, f"s{call}", parse_filter(filter), DeliveryOptions())])
        listener.out(msg.Subscribed(call, call, "ann", f"s{call}"))
    assert [answer.narrowed for answer in listener.said] == ["level < 5 AND price > 0", ""]


def test_an_advertisement_is_narrowed_to_what_may_be_published() -> None:
    listener = Door("level < 5")
    assert listener.advertised("level < 3") == "level < 3"
    (delivered,) = listener.gate.inward([msg.Advertise(7, "b", parse_filter("price > 0"))])
    assert isinstance(delivered, msg.Advertise)
    assert accepts(delivered.filter, Event("ann", "1", body={"level": 1, "price": 1}))
    assert not accepts(delivered.filter, Event("ann", "1", body={"level": 9, "price": 1}))


def test_an_advertisement_beyond_every_right_is_refused_and_says_so() -> None:
    listener = Door("level < 5")
    assert listener.advertised("level > 7") is None
    (refused,) = listener.said
    assert refused.call == 7
    assert "publish nothing of level > 7" in refused.reason
    assert listener.guard.refused == 1


def test_advertisements_are_counted_and_given_back() -> None:
    listener = Door("TRUE", Quota(advertisements=2, constraints=5))
    assert listener.advertised("level < 5", "a")
    assert listener.advertised("level < 5 AND price > 1", "b")
    assert listener.advertised("level < 6", "c") is None
    assert "its quota is 2" in listener.said[-1].reason
    assert listener.advertised("level < 5 AND price > 1 AND size > 1", "a"), "a name again replaces it"
    assert listener.advertised("level < 5 AND price > 1 AND size > 1 AND x > 1", "a") is None
    assert "constraints; its quota is 5" in listener.said[-1].reason
    listener.gate.inward([msg.Unadvertise(8, "b"), msg.Unadvertise(9, "b"), msg.Unadvertise(10, "nobody's")])
    assert listener.advertised("level < 6", "c")
    listener.gate.close()
    account = listener.guard._accounts.of("ann", 0.0)
    assert (account.advertisements, account.constraints) == (0, 0)


def test_an_advertisement_under_an_endless_name_is_refused() -> None:
    listener = Door("TRUE")
    assert listener.advertised("level < 5", "a" * 2000) is None


def test_a_principal_without_a_right_to_subscribe_has_no_filter_parsed() -> None:
    listener = Door("FALSE")
    broken = Filter("this is (no filter", ())
    wishes: list[msg.Message] = [
        msg.Subscribe(1, 1, "s", broken, DeliveryOptions(), credit=1),
        msg.ReadLog(2, broken),
        msg.HoldLog(3, "h", broken),
    ]
    assert listener.gate.inward(wishes) == []
    assert [stated.code for stated in listener.said] == ["refused"] * 3
    assert listener.guard.refused == 3


@pytest.fixture
def schema() -> Iterator[None]:
    SCHEMAS.attach({"properties": {"level": {"enum": [1, 2]}}}, topic="b/#")
    yield
    SCHEMAS.detach(topic="b/#")


@pytest.mark.usefixtures("schema")
def test_a_schema_says_nothing_to_a_principal_without_the_right() -> None:
    """The refusal named the values that the schema allows, before rights were asked about."""
    listener = Door("topic = 'a/#'")
    assert not listener.let_in(1, topic="b/x")
    assert not listener.let_in(9, topic="b/x")
    staged = msg.StageEvents(3, "q", 0, 0, (quote(9, topic="b/x"),))
    assert not listener.gate.inward([staged])
    assert [(refused.code, "schema" in refused.reason) for refused in listener.said] == [
        ("refused", False)
    ] * 3


@pytest.mark.usefixtures("schema")
def test_an_event_of_a_known_topic_has_to_fit_too_and_gives_its_quota_back() -> None:
    """The first event of a topic was checked, and those behind it took the short way."""
    listener = Door("TRUE")
    assert listener.let_in(1, topic="b/x")
    assert not listener.let_in(9, topic="b/x")
    assert not listener.let_in(9, topic="b/x", lifetime=60.0)
    assert [(refused.code, "one of [1, 2]" in refused.reason) for refused in listener.said] == [
        ("schema", True)
    ] * 2
    assert not listener.gate._storing


def test_acknowledgements_and_credit_that_come_together_reach_the_node_as_one_message_each() -> None:
    gate = Door("level >= 0").gate
    pairs = [each for tag in (1, 65, 129) for each in (msg.AckAll(1, tag, 64), msg.Credit(1, 64))]
    assert gate.inward(pairs) == [msg.AckAll(1, 1, 192), msg.Credit(1, 192)]


@pytest.mark.parametrize(
    "apart",
    [
        [msg.AckAll(1, 1, 64), msg.AckAll(1, 66, 64)],  # a tag between them is not acknowledged
        [msg.AckAll(1, 1, 64), msg.AckAll(2, 65, 64)],  # of another subscription
        [msg.AckAll(1, 1, 64), msg.Nack(1, (65,)), msg.AckAll(1, 66, 64)],  # the order holds
        [msg.AckAll(1, 1, 1), msg.Credit(1, 5), msg.AckAll(1, 3, 1), msg.Credit(1, -5)],
        [msg.AckAll(1, 1, 1), msg.Credit(1, 5), msg.AckAll(1, 3, 1), msg.Credit(2, 5)],
        [
            msg.AckAll(1, 1, 64),
            msg.Credit(1, DEFAULT_LIMITS.client.credit),
            msg.AckAll(1, 65, DEFAULT_LIMITS.client.tag_range),
            msg.Credit(1, 1),
        ],
    ],
)
def test_what_does_not_belong_together_stays_apart(apart: list[msg.Message]) -> None:
    assert Door("level >= 0").gate.inward(apart) == apart
