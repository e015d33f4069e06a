"""Permissions: an allow-list of (who, action, filter). The default is to deny.

Rules
- A right is one filter: the union of what the rules allow, and of it only what every mandatory
  filter of the principal accepts. It is made once per principal and action.
- Overlap is not subset: a subscription is narrowed to its intersection with the right, and never
  taken as it is because the two meet. Only where the right covers it does it stay as written.
- Every way out asks `AccessRight.allows` again, event by event: live, replay, recovery, gateways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property, reduce

import msgspec

from tidings.algebra.covers import covers, intersect, without_covered
from tidings.errors import FilterError, RefusedError
from tidings.language.evaluate import accepts
from tidings.model.constraint import Equals
from tidings.model.event import TENANT, Event
from tidings.model.filter import EVERYTHING, NOTHING, TIDINGS, Conjunction, Filter
from tidings.security.principal import ANONYMOUS, ANYONE, GROUP, Principal

MQTT_RETAINED = "mqtt:"  # before the topic, in the key of a retained message of MQTT
MQTT_SHARED = "/$share/"  # behind the share name, in the group of an MQTT shared subscription


class Action(StrEnum):
    """Actions that a rule can allow."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"  # receive live events, and replay available ones
    OBSERVE = "observe"  # see figures and traces of the broker
    RELEASE = "release"  # have the log forget what rests in an archive
    ADMIN = "admin"  # list, inspect and end what others own, purge the log
    SHARE = "share"  # have groups and superseding keys in common with the other principals of such a rule


class AccessRule(msgspec.Struct, frozen=True):
    """Allows one action to a user or group, for the events that the filter accepts."""

    who: str  # a principal's name, group:NAME, anyone, or anonymous
    action: Action
    filter: Filter = EVERYTHING
    groups: tuple[str, ...] = ()  # of `share`: names of consumer groups; * is a wildcard
    keys: tuple[str, ...] = ()  # of `share`: superseding keys; * is a wildcard

    def speaks_of(self, principal: Principal) -> bool:
        if principal.is_anonymous:
            return self.who == ANONYMOUS
        if self.who.startswith(GROUP):
            return self.who.removeprefix(GROUP) in principal.groups
        return self.who in (principal.name, ANYONE)

    def shares(self, group: str) -> bool:
        names = (group, group.partition(MQTT_SHARED)[0])
        return any(fnmatchcase(name, pattern) for pattern in self.groups for name in names)

    def shares_key(self, key: str) -> bool:
        return any(fnmatchcase(key, pattern) for pattern in self.keys)


class AccessRight(msgspec.Struct, frozen=True, dict=True):
    """Right of one principal to one action."""

    principal: str
    action: Action
    filter: Filter

    @cached_property
    def is_total(self) -> bool:
        return self.filter.is_always_true

    def allows(self, event: Event) -> bool:
        if self.is_total:
            return True
        known = self.filter.__dict__.get("_allowed")  # an event goes to many who share a rule
        if known is not None and known[0] is event:
            verdict: bool = known[1]
            return verdict
        verdict = accepts(self.filter, event)
        self.filter.__dict__["_allowed"] = (event, verdict)
        return verdict

    def narrowed(self, wanted: Filter) -> Filter:
        """The allowed part of a filter: it accepts no event beyond the right."""
        if self.filter.is_never_true:
            raise self._refusal(f"{self.principal} may {self.action} nothing")
        allowed = wanted if covers(self.filter, wanted) else conjoined(wanted, self.filter)
        if allowed.is_never_true and not wanted.is_never_true:
            raise self._refusal(f"{self.principal} may {self.action} nothing of {_short(wanted.text)}")
        return allowed

    def check(self, event: Event) -> None:
        if not self.allows(event):
            where = "without a topic" if event.topic is None else f"to topic {event.topic!r}"
            what = f"event {event.id} of {event.source}"
            raise self._refusal(f"{self.principal} may not {self.action} {where} ({what})")

    def _refusal(self, message: str) -> RefusedError:
        return RefusedError(message, hint=f"a rule for the action {self.action} has to allow it")


class Permissions:
    """The whole allow-list, with the mandatory filters of principals and groups."""

    def __init__(
        self, rules: Iterable[AccessRule] = (), mandatory: Mapping[str, Filter] | None = None
    ) -> None:
        self.rules = tuple(rules)
        self.mandatory = dict(mandatory or {})  # by a principal's name, or group:NAME
        for rule in self.rules:
            _check_dialect(rule.filter)
        for filter in self.mandatory.values():
            _check_dialect(filter)

    def shares(self, principal: Principal, group: str) -> bool:
        """Is this consumer group common to the principal and to others? Else the name is its own."""
        return any(rule.shares(group) for rule in self.rules if rule.speaks_of(principal))

    def shares_key(self, principal: Principal, key: str) -> bool:
        """Is this superseding key common to the principal and to others by a rule?"""
        return any(rule.shares_key(key) for rule in self.rules if rule.speaks_of(principal))

    def shared_by(self, principal: Principal) -> tuple[str, ...]:
        """The patterns of consumer groups and keys that the principal shares with others."""
        rules = [rule for rule in self.rules if rule.speaks_of(principal)]
        return tuple(pattern for rule in rules for pattern in (*rule.groups, *rule.keys))

    def is_shared(self, group: str) -> bool:
        """Does some rule let principals share this consumer group?"""
        return any(rule.shares(group) for rule in self.rules)

    def right(self, principal: Principal, action: Action) -> AccessRight:
        """The rights of this principal."""
        allowed = _union([r.filter for r in self.rules if r.action is action and r.speaks_of(principal)])
        bounds = [self.mandatory[key] for key in _keys(principal) if key in self.mandatory]
        return AccessRight(principal.name, action, reduce(conjoined, bounds, allowed))


def of_tenant(tenant: str) -> Filter:
    text = tenant.replace("'", "\\'")
    return Filter(f"{TENANT} = '{text}'", (Conjunction((Equals(TENANT, tenant),)),))


def _keys(principal: Principal) -> tuple[str, ...]:
    return (principal.name, *(GROUP + group for group in principal.groups))


def _union(filters: list[Filter]) -> Filter:
    if any(filter.is_always_true for filter in filters):
        return EVERYTHING
    if not filters:
        return NOTHING
    if len(filters) == 1:
        return filters[0]
    parts = [part for filter in filters for part in filter.conjunctions]
    return Filter(" OR ".join(f"({filter.text})" for filter in filters), without_covered(parts, TIDINGS))


def conjoined(wanted: Filter, bound: Filter) -> Filter:
    """Both at once. Constraints mean the same in every dialect; residuals do not."""
    if wanted.dialect != bound.dialect and not any(part.residuals for part in bound.conjunctions):
        bound = msgspec.structs.replace(bound, dialect=wanted.dialect)
    if wanted.dialect != bound.dialect:
        raise FilterError(
            f"a filter in the dialect {wanted.dialect!r} cannot be narrowed to what is allowed here",
            hint=f"write it in the dialect {TIDINGS!r}: the rule computes with attributes",
        )
    return intersect(wanted, bound)


def _check_dialect(filter: Filter) -> None:
    if filter.dialect != TIDINGS:
        raise FilterError(f"a rule's filter is written in the dialect {TIDINGS!r}, not {filter.dialect!r}")


def _short(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


ALL_ALLOWED = Permissions(
    [AccessRule(who, action, groups=("*",)) for who in (ANYONE, ANONYMOUS) for action in Action]
)  # of an embedded broker, and of a development cluster on loopback
