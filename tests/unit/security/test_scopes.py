"""Names that clients choose: whose they are follows from the users file, and from nothing that exists."""

from __future__ import annotations

from itertools import combinations

import pytest

from tidings.errors import RefusedError, SettingsError
from tidings.language import parse_filter
from tidings.model.event import FOREVER, TENANT_MARK, make_event
from tidings.model.subscription import OWNER_MARK, SubscriptionId, unscoped
from tidings.security.audit import Audit
from tidings.security.authorization import Authorizer
from tidings.security.principal import Principal, ProofMethod
from tidings.security.users import parse_users

FILE = """
[users.ann]
groups = ["workers"]
[users."ann/desk"]
[users.bob]
[users.carl]
tenant = "acme"
[users.dora]
tenant = "acme"
groups = ["workers"]
[groups.workers]
[[allow]]
who = ["ann", "ann/desk", "carl", "dora"]
action = ["publish", "subscribe"]
[[allow]]
who = "bob"
action = ["publish", "subscribe"]
filter = "public = TRUE"
[[allow]]
who = ["group:workers", "bob"]
action = "share"
groups = ["orders", "billing-*"]
"""
ANN, DESK, BOB = (Principal(name, ProofMethod.SCRAM) for name in ("ann", "ann/desk", "bob"))
CARL, DORA = (Principal(name, ProofMethod.SCRAM) for name in ("carl", "dora"))
TOKENS = [
    Principal(name, ProofMethod.TOKEN, tenant)
    for name in ("ann", "zoe", "zoe/a", "acme")
    for tenant in ("", "acme", "evil")
]


def gate(text: str = FILE) -> Authorizer:
    users = parse_users(text, read=lambda name: b"")
    return Authorizer(users, clock=lambda: 1000.0, audit=Audit(lambda entry: None, lambda: 1000.0))


def whole(made: Authorizer, principal: Principal) -> Principal:
    return made.users.complete(principal)


def test_a_group_is_its_principal_s_own_unless_a_rule_lets_it_be_shared() -> None:
    made = gate()
    ann, bob, carl, dora = (whole(made, each) for each in (ANN, BOB, CARL, DORA))
    assert made.group_scope(ann, "orders") == made.group_scope(bob, "orders") == ""
    assert made.group_scope(ann, "billing-eu") == made.group_scope(bob, "billing-eu")
    assert made.group_scope(ann, "other") != made.group_scope(bob, "other")
    assert made.group_scope(carl, "orders") != made.group_scope(dora, "orders"), "carl has no such rule"
    assert made.group_scope(dora, "orders") == "acme" + TENANT_MARK, "shared inside its tenant alone"
    assert made.group_scope(dora, "orders/$share/orders/t/#") == "acme" + TENANT_MARK, "by MQTT too"


def test_no_two_principals_have_one_name_for_what_is_their_own() -> None:
    made = gate()
    everybody = [whole(made, one) for one in (ANN, DESK, BOB, CARL, DORA, *TOKENS)]
    different = {(one.tenant, one.name): one for one in everybody}.values()
    names = {}
    for one in different:
        client, query = made.scopes(one)
        own = {
            client + one.name + rest
            for rest in ("", "/a", "/desk", "/a/b")
            if _may(made, one, one.name + rest)
        }
        names[one] = own, {query + "q"}, {made.group_scope(one, "other") + "other"}
    for one, other in combinations(names, 2):
        for mine, theirs in zip(names[one], names[other], strict=True):
            assert not mine & theirs, (one, other)
    for mine, *_ in names.values():
        assert all(not any(mark in unscoped(name) for mark in (OWNER_MARK, TENANT_MARK)) for name in mine)


def _may(made: Authorizer, principal: Principal, client: str) -> bool:
    try:
        made.connected(principal, client)
    except RefusedError:
        return False
    made.disconnected(principal)
    return True


def test_a_user_whose_name_begins_with_another_s_is_not_spoken_for() -> None:
    made = gate()
    assert _may(made, ANN, "ann/other")
    assert not _may(made, ANN, "ann/desk")
    assert not _may(made, ANN, "ann/desk/1")
    assert _may(made, DESK, "ann/desk/1")
    assert not made.publishes_all(ANN, "ann/desk")
    with pytest.raises(RefusedError, match="may not use the source"):
        made.publish(ANN, make_event({"n": 1}, source="ann/desk", id="1"))


@pytest.mark.parametrize("mark", [OWNER_MARK, TENANT_MARK])
def test_marks_in_names_are_refused(mark: str) -> None:
    assert not _may(gate(), ANN, f"ann/{mark}x")
    with pytest.raises(RefusedError, match="control character"):
        gate().publish(ANN, make_event({"n": 1}, source=f"ann/{mark}", id="1"))


def test_a_key_of_a_tenant_is_superseded_by_events_of_that_tenant_alone() -> None:
    made = gate()
    carl = whole(made, CARL)
    mine = made.publish(carl, make_event({"n": 1}, source="carl", id="1", key="kitchen", lifetime=FOREVER))
    assert mine.key is not None
    with pytest.raises(RefusedError, match="control character"):
        made.publish(ANN, make_event({"n": 2}, source="ann", id="1", key=mine.key))
    speaking = make_event({"n": 2, "tenant": "acme"}, source="ann", id="1", key=mine.key)
    assert made.publish(ANN, speaking).key == mine.key, "it may publish in every tenant"


def test_a_member_of_a_shared_group_may_hear_all_of_it() -> None:
    made = gate()
    wide, narrow = parse_filter("kind = 'order'"), parse_filter("public = TRUE")
    assert made.may_receive(BOB, narrow)
    assert not made.may_receive(BOB, wide)
    with pytest.raises(RefusedError, match="may not receive all"):
        made.subscribe(BOB, "*", "orders", wide, whole=True)
    assert made.subscribe(BOB, "*", "orders", narrow, whole=True) is narrow


def test_stored_groups_count_for_their_principal() -> None:
    made = gate()
    carl = whole(made, CARL)
    id = SubscriptionId("*", made.group_scope(carl, "mine") + "mine")
    made.found(id.subscriber, id.name, parse_filter("x > 0"))
    assert made._accounts.of("carl", 0.0).subscriptions == 1


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ('action = "share"', "share names no groups"),
        ('action = ["share", "subscribe"]\ngroups = ["a"]', "share stands alone"),
        ('action = "share"\ngroups = ["a"]\nfilter = "x > 0"', "share stands alone"),
        ('action = "subscribe"\ngroups = ["a"]', "groups and keys are for the action share"),
    ],
)
def test_slips_in_rules_of_sharing_are_named(rule: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        gate(f'[[allow]]\nwho = "ann"\n{rule}\n')


def test_a_tenant_has_a_plain_name() -> None:
    with pytest.raises(SettingsError, match="control character"):
        gate('[users.ann]\ntenant = "a\\u001fb"\n')


UNLISTED = """
[users.bob]
names = ["zoe/shared", "bobs-*"]
[groups.makers]
[[allow]]
who = ["ann/b", "zoe", "zoe/a"]
action = "publish"
filter = "topic = 'orders/#'"
[[allow]]
who = ["ann", "group:makers"]
action = "publish"
"""


def _speaks(made: Authorizer, principal: Principal, source: str) -> bool:
    try:
        made.publish(principal, make_event({"n": 1}, source=source, id="order-1", topic="orders/x"))
    except RefusedError:
        assert not made.publishes_all(principal, source)
        return False
    return True


def test_a_source_is_one_principal_s_also_when_tokens_and_certificates_name_them() -> None:
    """`ann` published under the source `ann/b`, a token's principal, whose events with the same ids were
    lost."""
    made = gate(UNLISTED)
    names = (
        "ann",
        "ann/b",
        "ann/b/c",
        "ann/z",
        "zoe",
        "zoe/a",
        "zoe/a/b",
        "spiffe:",
        "spiffe://x",
        "spiffe://x/y",
    )
    for means in (ProofMethod.TOKEN, ProofMethod.CERTIFICATE):
        principals = [Principal(name, means, groups=("makers",)) for name in names]
        for source in (*names, *(name + "/1" for name in names)):
            speakers = [one.name for one in principals if _speaks(made, one, source)]
            assert len(speakers) <= 1, f"{source} is for {speakers}"
    speakers = {source: [p.name for p in principals if _speaks(made, p, source)] for source in names}
    assert speakers["ann"] == speakers["ann/z"] == ["ann"]
    assert speakers["ann/b"] == speakers["ann/b/c"] == ["ann/b"], "the file names it by a rule"
    assert speakers["zoe/a/b"] == ["zoe/a"]


def test_a_principal_that_has_no_source_is_told_what_to_do() -> None:
    with pytest.raises(RefusedError, match="may not use the source") as caught:
        gate(UNLISTED).publish(
            Principal("eve/x", ProofMethod.TOKEN, groups=("makers",)),
            make_event({"n": 1}, source="eve/x", id="1"),
        )
    assert caught.value.hint is not None
    assert "by `who` of a rule" in caught.value.hint


def test_a_source_of_no_name_in_the_file_belongs_to_a_user_with_such_further_names() -> None:
    users = gate(UNLISTED).users
    assert users.owner_of("bobs-van") == users.owner_of("bob/1") == "bob"
    assert users.owner_of("ann/b/1") == "ann/b"
    assert users.owner_of("eve/x") == "eve"
