"""The quota of a tenant: stored bytes of all its users together, and what waits for them."""

from __future__ import annotations

import pytest

from tidings.errors import RefusedError, SettingsError
from tidings.model.event import Event, event_size, make_event
from tidings.security.audit import Audit
from tidings.security.authorization import Authorizer
from tidings.security.principal import Principal, ProofMethod
from tidings.security.users import parse_users

TEXT = """
[users.ann]
tenant = "blue"
[users.bob]
tenant = "blue"
[users.cy]
tenant = "red"
[tenants.blue]
stored_bytes = 1500
[[allow]]
who = "anyone"
action = "publish"
"""


def guard(text: str = TEXT) -> Authorizer:
    users = parse_users(text, read=lambda name: b"")
    return Authorizer(users, clock=lambda: 0.0, audit=Audit(lambda entry: None, lambda: 0.0))


def event(source: str) -> Event:
    return make_event({"x": "y" * 600}, source=source, id="1", lifetime=60)


def principal(name: str, tenant: str = "blue") -> Principal:
    return Principal(name, ProofMethod.SCRAM, tenant)


def test_users_of_a_tenant_share_its_bound_and_others_do_not() -> None:
    requested = guard()
    requested.publish(principal("ann"), event("ann"))
    requested.publish(principal("bob"), event("bob"))
    for name in ("ann", "bob"):
        with pytest.raises(RefusedError, match=r"tenant blue would use \d+ stored bytes; its quota is 1500"):
            requested.publish(principal(name), event(name))
    for _ in range(5):
        requested.publish(principal("cy", "red"), event("cy"))


def test_room_comes_back_when_events_are_forgotten() -> None:
    requested = guard()
    size = 700
    for name in ("ann", "bob"):
        published = requested.publish(principal(name), event(name))
        requested.stored(name, size)
        requested.answered(principal(name), event_size(published))
    with pytest.raises(RefusedError):
        requested.publish(principal("ann"), event("ann"))
    requested.stored("bob", -size)
    requested.count_backlog("ann", 1000)
    assert not requested.is_backlog_over("bob")
    requested.count_backlog("ann", 1000)
    assert requested.is_backlog_over("bob"), "the backlog of the tenant counts for each of its users"
    assert not requested.is_backlog_over("cy")


def test_a_refusal_of_the_user_gives_the_tenant_its_room_back() -> None:
    requested = guard(TEXT.replace("[users.ann]", "[users.ann]\nquota = { stored_bytes = 10 }"))
    for _ in range(5):
        with pytest.raises(RefusedError, match="ann would use"):
            requested.publish(principal("ann"), event("ann"))
    requested.publish(principal("bob"), event("bob"))


def test_a_wrong_table_is_refused() -> None:
    for text in ("[tenants.blue]\nstored_byte = 1", "[tenants.blue]\nstored_bytes = -1"):
        with pytest.raises(SettingsError):
            parse_users(text, read=lambda name: b"")
