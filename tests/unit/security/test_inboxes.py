"""Inboxes of principals: a reply reaches the requester alone, and a request names an address of its own."""

from __future__ import annotations

from itertools import combinations

import pytest

from tidings.errors import RefusedError
from tidings.language import parse_filter
from tidings.model.event import Event, make_event
from tidings.model.reply_header import ReplyHeader, with_header
from tidings.security.audit import Audit, AuditEntry
from tidings.security.authorization import Authorizer
from tidings.security.inboxes import inbox_of, named_inbox
from tidings.security.principal import ANYBODY, Principal, ProofMethod
from tidings.security.users import parse_users

RULES = """
[users.ann]
[users.bob]
[users.root]
[users.watch]
[users.replier]
[[allow]]
who = ["ann", "bob"]
action = "publish"
filter = "topic = 'rpc/#'"
[[allow]]
who = ["ann", "bob"]
action = "subscribe"
filter = "topic = '_inbox/#' OR topic = 'news'"
[[allow]]
who = ["root", "watch"]
action = "subscribe"
[[allow]]
who = "watch"
action = "observe"
filter = "topic = '_inbox/#' OR topic = 'news'"
[[allow]]
who = "root"
action = ["observe", "admin"]
[[allow]]
who = "replier"
action = "publish"
filter = "topic = '_inbox/#' OR topic = 'rpc/#'"
"""


def no_file(name: str) -> bytes:
    raise AssertionError(name)


def principal(name: str, tenant: str = "") -> Principal:
    return Principal(name, ProofMethod.SCRAM, tenant)


def guard(entries: list[AuditEntry] | None = None) -> Authorizer:
    noted: list[AuditEntry] = [] if entries is None else entries
    return Authorizer(
        parse_users(RULES, read=no_file), clock=lambda: 0.0, audit=Audit(noted.append, lambda: 0.0)
    )


def at(topic: str) -> Event:
    return make_event({"secret": 1}, source="replier", id="1", topic=topic)


def request(source: str, address: str) -> Event:
    return with_header(make_event({}, source=source, id="1", topic="rpc/x"), ReplyHeader(address, b"1"))


def test_no_two_principals_have_one_inbox() -> None:
    everyone = [
        principal("ann"), principal("ann", "acme"), principal("acme:ann"), principal("acme%3Aann"),
        principal("ann/desk"), principal("ann", "acme/ann"), principal("+"), principal("#"), ANYBODY,
        principal("anonymous"), principal(":anonymous"), principal("é"),
    ]  # fmt: skip
    inboxes = [inbox_of(one) for one in everyone]
    assert all(inbox.count("/") == 1 and "+" not in inbox and "#" not in inbox for inbox in inboxes)
    assert all(not one.startswith(other + "/") and one != other for one, other in combinations(inboxes, 2))


@pytest.mark.parametrize(
    ("who", "topic", "named", "is_delivered"),
    [
        ("ann", "_inbox/ann/1", None, True),
        ("bob", "_inbox/ann/1", None, False),
        ("bob", "_inbox/ann/1", "_inbox/ann/1", False),
        ("ann", "_inbox/annex/1", None, False),
        ("watch", "_inbox/ann/1", None, False),  # a rule without a filter is not enough ...
        ("root", "_inbox/ann/1", None, True),  # ... the right to administer is
        ("ann", "_inbox/1", "_inbox/1", True),  # the address of an earlier client ...
        ("bob", "_inbox/1", None, False),  # ... for a subscription that names it
        ("root", "_inbox/1", None, True),
        ("bob", "news", None, True),
    ],
)
def test_a_reply_is_delivered_to_the_principal_of_the_inbox(
    who: str, topic: str, named: str | None, is_delivered: bool
) -> None:
    entries: list[AuditEntry] = []
    rules = guard(entries)
    assert (rules.deliver(principal(who), at(topic), named) is not None) == is_delivered
    assert not entries  # a filter that is wider than an inbox is no breach


def test_who_observes_a_part_of_the_events_sees_no_reply_to_others() -> None:
    assert not guard().sees_event(principal("watch"), at("_inbox/ann/1"))
    assert guard().sees_event(principal("watch"), at("news"))
    assert guard().sees_event(principal("root"), at("_inbox/ann/1"))


@pytest.mark.parametrize(
    ("who", "address", "is_accepted"),
    [
        ("ann", "_inbox/ann/1", True),
        ("ann", "_inbox/1", True),  # an earlier client
        ("ann", "news", True),  # it may subscribe there
        ("ann", "rpc/y", True),  # it may publish there
        ("ann", "payroll/commands", False),
        ("ann", "_inbox/bob/1", False),
        ("replier", "_inbox/bob/1", True),  # it may publish there
        ("replier", "news", False),
    ],
)
def test_a_request_names_an_address_that_its_publisher_has_a_right_to(
    who: str, address: str, is_accepted: bool
) -> None:
    rules, asked = guard(), request(who, address)
    for _ in range(2):  # also from what is remembered
        if is_accepted:
            assert rules.publish(principal(who), asked) == asked
        else:
            with pytest.raises(RefusedError, match="may neither subscribe nor publish"):
                rules.publish(principal(who), asked)


def test_an_address_is_asked_about_again_when_the_rules_change() -> None:
    rules = guard()
    rules.publish(principal("ann"), request("ann", "news"))
    rules.replace(parse_users(RULES.replace(" OR topic = 'news'", ""), read=no_file))
    with pytest.raises(RefusedError, match="news"):
        rules.publish(principal("ann"), request("ann", "news"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("topic = '_inbox/1'", "_inbox/1"),
        ("topic = '_inbox/1' AND n > 1", "_inbox/1"),
        ("topic = '_inbox/#'", None),
        ("topic = '_inbox/1' OR topic = '_inbox/2'", None),
        ("topic = '_inbox/1' OR n > 1", None),
        ("topic = 'news'", None),
    ],
)
def test_the_inbox_that_a_filter_names_in_full(text: str, named: str | None) -> None:
    assert named_inbox(parse_filter(text)) == named
