"""Rules: default deny, unions, mandatory filters, and why overlap is not subset."""

from __future__ import annotations

import pytest

from tidings.errors import FilterError, RefusedError
from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings.security.principal import ANYBODY, Principal, ProofMethod, checked_name
from tidings.security.rules import ALL_ALLOWED, AccessRule, Action, Permissions

ANN = Principal("ann", ProofMethod.SCRAM, groups=("traders",))
IBM = make_event({"name": "IBM", "change": -4}, source="ann", id="1")


def rule(who: str, filter: str = "TRUE", action: Action = Action.SUBSCRIBE) -> AccessRule:
    return AccessRule(who, action, parse_filter(filter))


def test_what_no_rule_allows_is_denied() -> None:
    right = Permissions([rule("bob"), rule("ann", action=Action.PUBLISH)]).right(ANN, Action.SUBSCRIBE)
    assert not right.allows(IBM)
    with pytest.raises(RefusedError, match="ann may subscribe nothing"):
        right.narrowed(parse_filter("name = 'IBM'"))


@pytest.mark.parametrize(
    ("who", "principal", "allowed"),
    [
        ("ann", ANN, True),
        ("group:traders", ANN, True),
        ("anyone", ANN, True),
        ("anonymous", ANN, False),
        ("group:others", ANN, False),
        ("traders", ANN, False),
        ("anyone", ANYBODY, False),
        ("anonymous", ANYBODY, True),
        ("ann", Principal("ann", ProofMethod.ANONYMOUS), False),  # a claimed name proves nothing
    ],
)
def test_who_a_rule_speaks_of(who: str, principal: Principal, allowed: bool) -> None:
    assert Permissions([rule(who)]).right(principal, Action.SUBSCRIBE).allows(IBM) is allowed


def test_overlap_is_not_subset() -> None:
    right = Permissions([rule("ann", "change < 0")]).right(ANN, Action.SUBSCRIBE)
    narrowed = right.narrowed(parse_filter("name = 'IBM'"))
    assert accepts(narrowed, IBM)
    assert not accepts(narrowed, make_event({"name": "IBM", "change": 1}, source="s", id="2"))


def test_a_subscription_within_the_right_stays_as_it_was_written() -> None:
    right = Permissions([rule("ann", "change < 0")]).right(ANN, Action.SUBSCRIBE)
    wanted = parse_filter("name = 'IBM' AND change < -3")
    assert right.narrowed(wanted) is wanted


def test_rules_add_up_and_mandatory_filters_cut() -> None:
    permissions = Permissions(
        [rule("ann", "name = 'IBM'"), rule("group:traders", "name = 'DEC'")],
        {"ann": parse_filter("change < 0"), "group:traders": parse_filter("change > -10")},
    )
    right = permissions.right(ANN, Action.SUBSCRIBE)
    seen = [
        (name, change)
        for name in ("IBM", "DEC", "SUN")
        for change in (-20, -5, 5)
        if right.allows(make_event({"name": name, "change": change}, source="s", id="1"))
    ]
    assert seen == [("IBM", -5), ("DEC", -5)]


def test_nothing_in_common_is_refused_and_says_so() -> None:
    right = Permissions([rule("ann", "change < 0")]).right(ANN, Action.SUBSCRIBE)
    with pytest.raises(RefusedError, match="nothing of change > 5"):
        right.narrowed(parse_filter("change > 5"))


def test_a_subscription_in_cesql_is_narrowed_by_constraints_and_refused_by_computing_rules() -> None:
    wanted = parse_filter("name = 'IBM'", dialect="cesql")
    narrowed = Permissions([rule("ann", "change < 0")]).right(ANN, Action.SUBSCRIBE).narrowed(wanted)
    assert accepts(narrowed, IBM)
    assert not accepts(narrowed, make_event({"name": "IBM", "change": 1}, source="s", id="2"))
    computing = Permissions([rule("ann", "change + 1 < 0")]).right(ANN, Action.SUBSCRIBE)
    with pytest.raises(FilterError, match="cannot be narrowed"):
        computing.narrowed(wanted)


def test_a_rule_in_another_dialect_is_refused() -> None:
    with pytest.raises(FilterError, match="dialect"):
        Permissions([AccessRule("ann", Action.SUBSCRIBE, parse_filter("a = 1", dialect="cesql"))])


def test_development_allows_everything() -> None:
    assert all(ALL_ALLOWED.right(who, action).allows(IBM) for who in (ANN, ANYBODY) for action in Action)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("ann", True), ("ann/desk", True), ("anna", False), ("bob", False), ("ann2/x", False), ("desk-7", True)],
)
def test_names_belong_to_a_principal(name: str, allowed: bool) -> None:
    ann = Principal("ann", ProofMethod.TOKEN, names=("desk-*",))
    assert ann.may_be_called(name) is allowed
    if not allowed:
        with pytest.raises(RefusedError, match="may not use the source"):
            ann.check_name(name, "source")


@pytest.mark.parametrize("name", ["", "a\nb", "a\x00b", "x" * 201, " a", "a*", "a\u202eb"])
def test_names_that_would_mislead_are_refused(name: str) -> None:
    with pytest.raises(RefusedError):
        checked_name(name)
