"""May they? The guard of a broker's clients: rules, tenants, quotas, and the audit of refusals.

Rules
- Every path asks here: publish, subscribe, deliver, observe. Nothing is allowed by silence.
- A delivery is checked against the rules of now: a right that was taken away ends at once, also
  for what was subscribed before.
- The events of a tenant carry its name in the attribute `tenant`; the gate writes it, checks it,
  and keeps the superseding keys of tenants apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidings.errors import EventError, RefusedError, TidingsError
from tidings.model.constraint import Equals
from tidings.model.event import Event
from tidings.model.filter import Conjunction, Filter
from tidings.security.audit import OK, REFUSED, Audit
from tidings.security.principal import Principal
from tidings.security.quotas import Accounts
from tidings.security.rules import Action, Right, conjoined
from tidings.security.users import Users

TENANT = "tenant"  # the attribute
KEY_MARK = "\x1f"  # between a tenant and a key of its own
MOST_RIGHTS = 10_000  # remembered; then they are made anew


class Gate:
    """Implements `doors.Guard` by a users file."""

    def __init__(
        self,
        users: Users,
        *,
        clock: Callable[[], float],
        audit: Audit,
        on_withheld: Callable[[str, Event], None] | None = None,
    ) -> None:
        self._on_withheld = on_withheld
        self._clock = clock
        self._audit = audit
        self._rights: dict[tuple[Principal, Action], Right] = {}
        self._held: dict[tuple[str, str], list[int]] = {}  # constraints of open subscriptions, by name
        self._users = users
        self._accounts = Accounts(users.quotas, users.default_quota)
        self.refused = 0
        self.withheld = 0  # deliveries that the rules of now do not allow
        self.version = 0  # of the rules

    @property
    def users(self) -> Users:
        return self._users

    def replace(self, users: Users) -> None:
        """New rules: they count for the next thing that is asked, whoever is connected."""
        self._users = users
        self._rights.clear()
        self.version += 1
        self._accounts.replace(users.quotas, users.default_quota)

    # -- the guard -------------------------------------------------------------------------------

    def connected(self, principal: Principal, client: str) -> None:
        with self._refusing(principal, "connect", client):
            principal.check_name(client, "client's name")
            self._accounts.of(principal.name, self._clock()).connect()

    def disconnected(self, principal: Principal) -> None:
        self._accounts.of(principal.name, self._clock()).disconnect()

    def publish(self, principal: Principal, event: Event) -> Event:
        with self._refusing(principal, "publish", f"{event.source} {event.id}"):
            principal.check_name(event.source, "source")
            marked = _marked(event, principal.tenant)
            self.right(principal, Action.PUBLISH).check(marked)
            if event.lifetime > 0:
                size = len(msgspec.msgpack.encode(marked))
                now = self._clock()
                self._accounts.of(principal.name, now).store(size, event.lifetime, now)
            return marked

    def subscribe(self, principal: Principal, name: str, filter: Filter) -> Filter:
        with self._refusing(principal, "subscribe", name):
            allowed = self.right(principal, Action.SUBSCRIBE).narrowed(filter)
            cost = sum(len(part.constraints) + len(part.residuals) for part in allowed.conjunctions)
            self._accounts.of(principal.name, self._clock()).subscribe(cost)
            self._held.setdefault((principal.name, name), []).append(cost)
        how = "" if allowed is filter else "narrowed to what is allowed"
        self._audit.note("subscribe", OK, principal.name, means=principal.means, subject=name, reason=how)
        return allowed

    def unsubscribed(self, principal: Principal, name: str) -> None:
        held = self._held[principal.name, name]
        self._accounts.of(principal.name, self._clock()).unsubscribe(held.pop())
        if not held:
            del self._held[principal.name, name]

    def deliver(self, principal: Principal, event: Event) -> Event | None:
        if self.right(principal, Action.SUBSCRIBE).allows(event):
            return _unmarked(event, principal.tenant)
        self.withheld += 1
        if self._on_withheld is not None:
            self._on_withheld(principal.name, event)
        self._audit.note(
            "deliver", REFUSED, principal.name, means=principal.means, subject=f"{event.source} {event.id}"
        )
        return None

    def hears_all(self, principal: Principal) -> bool:
        return not principal.tenant and self.right(principal, Action.SUBSCRIBE).filter.is_always_true

    def publishes_all(self, principal: Principal, source: str) -> bool:
        if principal.tenant or not principal.may_be_called(source):
            return False
        return self.right(principal, Action.PUBLISH).filter.is_always_true

    def charge(self, principal: Principal, received_bytes: int) -> float:
        now = self._clock()
        return self._accounts.of(principal.name, now).receive(received_bytes, now)

    def observe(self, principal: Principal, what: str) -> None:
        with self._refusing(principal, "observe", what):
            if self.right(principal, Action.OBSERVE).filter.is_never_true:
                raise RefusedError(
                    f"{principal.name} may not observe this broker",
                    hint="a rule for the action observe has to allow it",
                )

    # -- rights ---------------------------------------------------------------------------------

    def right(self, principal: Principal, action: Action) -> Right:
        """What the principal may do now, its tenant's bound included."""
        right = self._rights.get((principal, action))
        if right is None:
            if len(self._rights) >= MOST_RIGHTS:
                self._rights.clear()
            right = self._users.permissions.right(principal, action)
            if principal.tenant and action is not Action.OBSERVE:
                bound = conjoined(right.filter, _of_tenant(principal.tenant))
                right = msgspec.structs.replace(right, filter=bound)
            self._rights[principal, action] = right
        return right

    def _refusing(self, principal: Principal, what: str, subject: str) -> _Refusing:
        return _Refusing(self, principal, what, subject)


class _Refusing:
    """Counts and writes down what is refused inside the block."""

    def __init__(self, gate: Gate, principal: Principal, what: str, subject: str) -> None:
        self._gate, self._principal, self._what, self._subject = gate, principal, what, subject

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, TidingsError):
            self._gate.refused += 1
            self._gate._audit.note(
                self._what,
                REFUSED,
                self._principal.name,
                means=self._principal.means,
                subject=self._subject,
                reason=error.message,
            )


def _of_tenant(tenant: str) -> Filter:
    text = tenant.replace("'", "\\'")
    return Filter(f"{TENANT} = '{text}'", (Conjunction((Equals(TENANT, tenant),)),))


def _marked(event: Event, tenant: str) -> Event:
    """The event as it goes into the broker."""
    if not tenant:
        return event
    given = event.attributes.get(TENANT)
    if given not in (None, tenant):
        raise EventError(f"the event says that it is of tenant {given!r}", hint="leave the attribute out")
    key = None if event.key is None else f"{tenant}{KEY_MARK}{event.key}"
    return msgspec.structs.replace(event, attributes={**event.attributes, TENANT: tenant}, key=key)


def _unmarked(event: Event, tenant: str) -> Event:
    """The event as the tenant's subscribers see it."""
    if not tenant or event.key is None:
        return event
    return msgspec.structs.replace(event, key=event.key.removeprefix(tenant + KEY_MARK))
