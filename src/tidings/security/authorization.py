"""May they? The guard of a broker's clients: rules, tenants, quotas, and the audit of refusals.

Rules
- Every path asks here: publish, subscribe, deliver, observe. Without a rule the answer is no.
- A delivery is checked against the rules of now: a right that was taken away ends at once, also
  for what was subscribed before.
- The events of a tenant carry its name in the attribute `tenant`; the gate writes it, checks it,
  and keeps the superseding keys of tenants apart.
- A superseding key is scoped by principal, unless the principal may publish everything (of its tenant) or a
  rule shares the key: so an event ends only events that its publisher could have published. The key of a
  retained message of MQTT is common to all that may publish to its topic, and comes with an event of that
  topic alone.
- A source is one principal's alone, by its text and the users file (`Users.speaker_of`), so no principal
  takes up identities (source and id) of another. Principals that both have `names` for it are trusted with
  one another.
- Replies reach the principal of their inbox alone (`inboxes.py`), and a request names an address that its
  publisher may subscribe or publish to: no replier publishes for it elsewhere.
- Names that clients choose (of consumer groups, queries, holds) are scoped by principal, or by tenant where a
  rule lets principals share a group. A scope follows from the rules, never from what exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from tidings.algebra.covers import covers
from tidings.errors import EventError, RefusedError, TidingsError
from tidings.language.measure import walk
from tidings.model.constraint import Constraint, NotOneOf, OneOf
from tidings.model.event import TENANT, TENANT_MARK, Event, event_size
from tidings.model.expression import Expression, In
from tidings.model.filter import Filter
from tidings.model.reply_header import reply_header_of
from tidings.model.subscription import (
    GROUPS,
    OWNER_MARK,
    DeliveryOptions,
    SubscriptionId,
    scope_of,
    unscoped,
)
from tidings.security.audit import OK, REFUSED, Audit
from tidings.security.inboxes import has_owner, in_inbox, inbox_of, of_topic
from tidings.security.principal import Principal
from tidings.security.quotas import HOLDS, TENANT_ACCOUNT, QuotaUsage, QuotaUsages
from tidings.security.rules import MQTT_RETAINED, AccessRight, Action, conjoined
from tidings.security.users import Users

MOST_RIGHTS = 10_000  # remembered; then they are made anew
REMEMBERED_ADDRESS = 256  # characters of the topic of a reply that is remembered as allowed


class Authorizer:
    """Implements `interfaces.Guard` by a users file."""

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
        self._rights: dict[Action, dict[Principal, AccessRight]] = {action: {} for action in Action}
        self._receiving: dict[Principal, AccessRight] = self._rights[Action.SUBSCRIBE]
        self._totals: dict[Principal, bool] = {}  # may it publish everything of its tenant?
        self._addresses: set[tuple[Principal, str]] = set()  # of replies, and who may name them
        self._reserved: dict[
            tuple[str, str, str], list[int]
        ] = {}  # constraints of open transient subscriptions
        self._attended: Counter[tuple[str, str]] = Counter()  # durable ones that a client has open
        self._publishers: dict[str, str] = {}  # by source: who published under it what has a lifetime
        self._stored: dict[str, tuple[str, int]] = {}  # by source: account and bytes in the log
        self.is_stored: Callable[[str, str], bool] = lambda client, name: True  # does the broker hold it?
        self.retained: Callable[[DeliveryOptions], DeliveryOptions] = lambda options: options  # within caps
        self._users = users
        self._accounts = QuotaUsages(users.quotas, users.default_quota)
        self.version = 0  # of the rules
        self.refused = 0
        self.withheld = 0  # deliveries that the rules of now do not allow

    @property
    def users(self) -> Users:
        return self._users

    def replace(self, users: Users) -> None:
        """New rules: they count from the next request on, for connected clients too."""
        self._users = users
        for rights in self._rights.values():
            rights.clear()
        self.version += 1
        self._totals.clear()
        self._addresses.clear()
        self._accounts.replace(users.quotas, users.default_quota)

    # -- the guard -------------------------------------------------------------------------------

    def connected(self, principal: Principal, client: str) -> None:
        with self._refusing(principal, "connect", client):
            self._check_name(principal, client, "client's name", self._users.named_in(client))
            self._accounts.of(principal.name, self._clock()).connect()

    def disconnected(self, principal: Principal) -> None:
        self._accounts.of(principal.name, self._clock()).disconnect()

    def publish(self, principal: Principal, event: Event) -> Event:
        try:
            self._check_name(principal, event.source, "source", self._users.speaker_of(event.source))
            marked = _marked(event, principal.tenant) if principal.tenant else event
            self.right(principal, Action.PUBLISH).check(marked)
            if event.headers:
                self._check_reply_address(principal, event)
            if event.key is not None:
                marked = msgspec.structs.replace(marked, key=self._scoped_key(principal, event))
            if event.lifetime > 0:
                if len(self._publishers) >= MOST_RIGHTS:
                    self._publishers.clear()
                self._publishers[event.source] = principal.name
                self._reserve(principal, event_size(marked))
            return marked
        except TidingsError as error:
            self._note_refusal(principal, "publish", f"{event.source} {event.id}", error)
            raise

    def _check_reply_address(self, principal: Principal, event: Event) -> None:
        """A replier publishes to the address of a request by its own rights: the requester needs a right to
        that topic too, to subscribe (its reply goes there) or to publish."""
        header = reply_header_of(event)
        topic = None if header is None else header.topic
        if topic is None or (principal, topic) in self._addresses:
            return
        is_received = not in_inbox(topic) or not has_owner(topic) or self._opens(principal, topic)
        actions = (Action.SUBSCRIBE, Action.PUBLISH) if is_received else (Action.PUBLISH,)
        wanted = of_topic(topic)
        rights = (self.right(principal, action).filter for action in actions)
        if all(conjoined(wanted, right).is_never_true for right in rights):
            raise RefusedError(
                f"{principal.name} may neither subscribe nor publish to {topic[:80]!r}: no reply goes there",
                hint=f"name a topic below {inbox_of(principal)!r}, with a rule that lets you subscribe to it",
            )
        if len(topic) <= REMEMBERED_ADDRESS:
            if len(self._addresses) >= MOST_RIGHTS:
                self._addresses.clear()
            self._addresses.add((principal, topic))

    def _opens(self, principal: Principal, topic: str) -> bool:
        """Is this topic of an inbox the principal's own, or one that it administers?"""
        return topic.startswith(inbox_of(principal) + "/") or self.administers(principal)

    def _receives_reply(self, principal: Principal, topic: str, named: str | None) -> bool:
        """Is this topic of an inbox for the principal, by a subscription that names that topic in full?"""
        return self._opens(principal, topic) or (topic == named and not has_owner(topic))

    def inbox(self, principal: Principal) -> str:
        return inbox_of(principal)

    def _reserve(self, principal: Principal, size: int) -> None:
        """Count an event that is to be stored, for its publisher and its tenant. Raises `RefusedError`."""
        tenant = self._tenant_account(principal.tenant)
        if tenant is not None:
            tenant.reserve(size)
        try:
            self._accounts.of(principal.name, self._clock()).reserve(size)
        except RefusedError:
            if tenant is not None:
                tenant.unreserve(size)
            raise

    def _tenant_account(self, tenant: str) -> QuotaUsage | None:
        return self._accounts.of(TENANT_ACCOUNT + tenant, self._clock()) if tenant else None

    def _account_of_tenant(self, owner: str) -> QuotaUsage | None:
        """The account of the tenant that a user of the users file lives in."""
        user = self._users.users.get(owner)
        return None if user is None else self._tenant_account(user.tenant)

    def _scoped_key(self, principal: Principal, event: Event) -> str:
        """The superseding key as brokers compare it: its tenant, its owner unless it is common, the key as
        given."""
        key = event.key or ""
        _check_key(event, key)
        tenant = principal.tenant + TENANT_MARK if principal.tenant else ""
        if self._may_publish_all(principal) or self._users.permissions.shares_key(principal, key):
            return tenant + key
        if key.startswith(MQTT_RETAINED):
            if event.topic != key.removeprefix(MQTT_RETAINED):
                raise RefusedError(
                    f"the key {key!r} is that of the retained message of another topic",
                    hint=f"publish to that topic, or choose a key that does not begin with {MQTT_RETAINED!r}",
                )
            return tenant + key
        return f"{tenant}{'' if principal.is_anonymous else principal.name}{OWNER_MARK}{key}"

    def _may_publish_all(self, principal: Principal) -> bool:
        """Is its right to publish bounded only by its tenant?"""
        known = self._totals.get(principal)
        if known is None:
            if len(self._totals) >= MOST_RIGHTS:
                self._totals.clear()
            right = self._users.permissions.right(principal, Action.PUBLISH)
            known = self._totals[principal] = right.is_total
        return known

    def subscribe(
        self,
        principal: Principal,
        client: str,
        name: str,
        filter: Filter,
        *,
        durable: bool = False,
        whole: bool = False,
    ) -> Filter:
        with self._refusing(principal, "subscribe", name):
            self._audit.check()
            allowed = self.right(principal, Action.SUBSCRIBE).narrowed(filter)
            if whole and allowed is not filter:
                raise RefusedError(
                    f"{principal.name} may not receive all that the filter accepts",
                    hint="members of a shared group take events for one another: narrow the filter",
                )
            account = self._accounts.of(principal.name, self._clock())
            if durable:
                self._keep(account, (client, name), _cost(allowed))
                self._attended[client, name] += 1
            else:
                account.subscribe(_cost(allowed))
                self._reserved.setdefault((principal.name, client, name), []).append(_cost(allowed))
        how = "" if allowed is filter else "narrowed to what is allowed"
        self._audit.note("subscribe", OK, principal.name, method=principal.means, subject=name, reason=how)
        return allowed

    def _keep(self, account: QuotaUsage, durable: tuple[str, str], cost: int) -> None:
        try:
            account.keep(durable, cost)
        except RefusedError:
            if not account.forget_durables(self._is_there):
                raise
            account.keep(durable, cost)

    def _is_there(self, client: str, name: str) -> bool:
        """A requested subscription may still be on its way to the broker's table."""
        return (client, name) in self._attended or self.is_stored(client, name)

    def unsubscribed(
        self, principal: Principal, client: str, name: str, *, durable: bool = False, ended: bool = True
    ) -> None:
        account = self._accounts.of(principal.name, self._clock())
        if durable:
            self._attended[client, name] -= 1
            if not self._attended[client, name]:
                del self._attended[client, name]
            if ended:
                account.end((client, name))
            return
        stored = self._reserved[principal.name, client, name]
        account.unsubscribe(stored.pop())
        if not stored:
            del self._reserved[principal.name, client, name]

    def hold(self, principal: Principal, name: str, filter: Filter) -> Filter:
        with self._refusing(principal, "hold", name):
            allowed = self.right(principal, Action.SUBSCRIBE).narrowed(filter)
            account = self._accounts.of(principal.name, self._clock())
            self._keep(account, (HOLDS, name), _cost(allowed))
            self._attended[HOLDS, name] += 1  # it may still be on its way to the broker's table
        self._audit.note("hold", OK, principal.name, method=principal.means, subject=name)
        return allowed

    def hold_answered(self, name: str) -> None:
        self._attended[HOLDS, name] -= 1
        if not self._attended[HOLDS, name]:
            del self._attended[HOLDS, name]

    def unheld(self, principal: Principal, name: str) -> None:
        self._accounts.of(principal.name, self._clock()).end((HOLDS, name))

    def advertise(self, principal: Principal, name: str, filter: Filter, earlier: Filter | None) -> Filter:
        """An advertisement beyond the right to publish would draw filters here that no event can match."""
        with self._refusing(principal, "advertise", name):
            allowed = self.right(principal, Action.PUBLISH).narrowed(filter)
            account = self._accounts.of(principal.name, self._clock())
            account.advertise(_cost(allowed), None if earlier is None else _cost(earlier))
        return allowed

    def unadvertised(self, principal: Principal, filter: Filter) -> None:
        self._accounts.of(principal.name, self._clock()).unadvertise(_cost(filter))

    def found(self, subscriber: str, name: str, filter: Filter) -> None:
        """The broker's disk holds this durable subscription: it counts for its owner."""
        owner = self.owner_of(SubscriptionId(subscriber, name))
        self._accounts.of(owner, self._clock()).found((subscriber, name), _cost(filter))

    def found_hold(self, name: str, filter: Filter) -> None:
        """The broker's disk holds this hold, by its name with the scope: it counts for its principal."""
        if scope := scope_of(name):  # without one it is of clients that proved no name
            owner = unscoped(scope[:-1])
            self._accounts.of(owner, self._clock()).found((HOLDS, name), _cost(filter))

    def owner_of(self, id: SubscriptionId) -> str:
        scope = id.name.rpartition(OWNER_MARK)[0]  # of a group: it names the principal
        return self._users.owner_of(unscoped(scope or id.subscriber))

    def letters_fit(self, owner: str, size: int) -> bool:
        return self._accounts.of(owner, self._clock()).letters_fit(size)

    def count_letters(self, owner: str, size: int) -> None:
        self._accounts.of(owner, self._clock()).count_letters(size)

    def records_fit(self, owner: str, size: int) -> bool:
        return self._accounts.of(owner, self._clock()).records_fit(size)

    def count_records(self, owner: str, size: int) -> None:
        self._accounts.of(owner, self._clock()).records += size

    def count_backlog(self, owner: str, size: int) -> None:
        self._accounts.of(owner, self._clock()).backlog += size
        if (tenant := self._account_of_tenant(owner)) is not None:
            tenant.backlog += size

    def is_backlog_over(self, owner: str) -> bool:
        tenant = self._account_of_tenant(owner)
        is_over = tenant is not None and tenant.is_backlog_over
        return is_over or self._accounts.of(owner, self._clock()).is_backlog_over

    def stored(self, source: str, size: int) -> None:
        """So many bytes more of this source live in the broker's log; below 0: so many fewer."""
        owner, before = self._stored.get(source) or (self.publisher_of(source), 0)
        if before + size > 0:
            self._stored[source] = (owner, before + size)
        else:
            self._stored.pop(source, None)
        self._accounts.of(owner, self._clock()).count_stored(size)
        if (tenant := self._account_of_tenant(owner)) is not None:
            tenant.count_stored(size)

    def publisher_of(self, source: str) -> str:
        """The principal that published under this name, or that would as far as the users file says."""
        return self._publishers.get(source) or self._users.owner_of(source)

    def answered(self, principal: Principal, size: int) -> None:
        self._accounts.of(principal.name, self._clock()).unreserve(size)
        if (tenant := self._tenant_account(principal.tenant)) is not None:
            tenant.unreserve(size)

    def memory(self, principal: Principal) -> tuple[str, int]:
        return principal.name, self._accounts.quota_of(principal.name).queued_bytes

    def held_bytes(self, principal: Principal) -> int:
        return self._accounts.quota_of(principal.name).held_bytes

    def scopes(self, principal: Principal) -> tuple[str, str]:
        """The users file holds each name once. A principal that it does not hold (of a token, a certificate)
        may have the name of one of another tenant, or a name that begins with another's."""
        if principal.is_anonymous:
            return "", ""
        if self._users.lists(principal):
            return "", principal.name + TENANT_MARK
        tenant = principal.tenant + TENANT_MARK if principal.tenant else ""
        client = tenant + (principal.name + OWNER_MARK if "/" in principal.name else "")
        return client, tenant + principal.name + (OWNER_MARK if tenant else TENANT_MARK)

    def group_scope(self, principal: Principal, group: str) -> str:
        tenant = principal.tenant + TENANT_MARK if principal.tenant else ""
        if principal.is_anonymous or self._users.permissions.shares(principal, group):
            return tenant
        return f"{tenant}{principal.name}{OWNER_MARK}"

    def may_receive(self, principal: Principal, filter: Filter) -> bool:
        return covers(self.right(principal, Action.SUBSCRIBE).filter, filter)

    def _check_name(self, principal: Principal, name: str, what: str, owner: str | None) -> None:
        principal.check_name(name, what, owner)
        if OWNER_MARK in name or TENANT_MARK in name:
            raise RefusedError(f"the {what} {name!r} holds a control character")

    def deliver(self, principal: Principal, event: Event, named: str | None = None) -> Event | None:
        topic = event.topic
        if topic is not None and in_inbox(topic) and not self._receives_reply(principal, topic, named):
            return None  # a wide filter is no breach: it is neither counted nor audited
        right = self._receiving.get(principal) or self.right(principal, Action.SUBSCRIBE)
        if right.allows(event):
            return event if event.key is None else _unmarked(event, event.key, principal.tenant)
        self.withheld += 1
        if self._on_withheld is not None:
            self._on_withheld(principal.name, event)
        self._audit.note(
            "deliver", REFUSED, principal.name, method=principal.means, subject=f"{event.source} {event.id}"
        )
        return None

    def receives_all(self, principal: Principal) -> bool:
        return not principal.tenant and self.right(principal, Action.SUBSCRIBE).filter.is_always_true

    def receives_nothing(self, principal: Principal) -> bool:
        return self.right(principal, Action.SUBSCRIBE).filter.is_never_true

    def publishes_all(self, principal: Principal, source: str) -> bool:
        if principal.tenant or not principal.may_be_called(source, self._users.speaker_of(source)):
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

    def tries(self, principal: Principal, what: str) -> None:
        with self._refusing(principal, "observe", what):
            actions = (Action.SUBSCRIBE, Action.OBSERVE)
            if all(self.right(principal, each).filter.is_never_true for each in actions):
                raise RefusedError(
                    f"{principal.name} may neither subscribe nor observe here, and so try no filter",
                    hint="a rule for the action subscribe or observe has to allow it",
                )

    def observes_all(self, principal: Principal) -> bool:
        return self.right(principal, Action.OBSERVE).is_total

    def sees_event(self, principal: Principal, event: Event) -> bool:
        topic = event.topic
        if topic is not None and in_inbox(topic) and not self._opens(principal, topic):
            return False
        return self.right(principal, Action.OBSERVE).allows(event)

    def sees_subscription(self, principal: Principal, id: SubscriptionId) -> bool:
        """Subscriptions of the principal; with a tenant rule without a filter, all those of the tenant."""
        if self._owns(principal, id) or self.observes_all(principal):
            return True
        if not principal.tenant or self._tenant_of(id) != principal.tenant:
            return False
        return self._users.permissions.right(principal, Action.OBSERVE).is_total

    def _owns(self, principal: Principal, id: SubscriptionId) -> bool:
        if id.subscriber == GROUPS:
            own = unscoped(id.name)
            return self.group_scope(principal, own) + own == id.name
        scope, client = self.scopes(principal)[0], unscoped(id.subscriber)
        return scope + client == id.subscriber and principal.may_be_called(
            client, self._users.named_in(client)
        )

    def _tenant_of(self, id: SubscriptionId) -> str:
        scoped = id.name if id.subscriber == GROUPS else id.subscriber
        tenant, mark, _ = scoped.partition(TENANT_MARK)
        if mark or id.subscriber == GROUPS:
            return tenant if mark else ""
        user = self._users.users.get(self._users.owner_of(unscoped(id.subscriber)))
        return "" if user is None else user.tenant

    def stages(self, principal: Principal, query: str) -> None:
        with self._refusing(principal, "stage", query):
            # A reader of the log, such as a Spark stream, notes its progress as a commit of no parts.
            if all(
                self.right(principal, each).filter.is_never_true
                for each in (Action.PUBLISH, Action.SUBSCRIBE)
            ):
                raise RefusedError(
                    f"{principal.name} may neither publish nor subscribe here, and so commit nothing",
                    hint="a rule for the action publish has to allow it",
                )

    def releases(self, principal: Principal) -> None:
        with self._refusing(principal, "release", ""):
            if not self.right(principal, Action.RELEASE).filter.is_always_true:
                raise RefusedError(
                    f"{principal.name} may not have the log forget what is archived",
                    hint="a rule for the action release, without a filter, has to allow it",
                )

    def administer(self, principal: Principal, subject: str) -> None:
        """Authorize an act on what others own; a refusal is written to the audit. Raises."""
        with self._refusing(principal, "admin", subject):
            self._audit.check()
            if not self.right(principal, Action.ADMIN).is_total:
                raise RefusedError(
                    f"{principal.name} may not administer this broker",
                    hint="a rule for the action admin, without a filter, has to allow it; tenants have none",
                )

    def note_administered(
        self, principal: Principal, subject: str, error: TidingsError | None = None
    ) -> None:
        """Write to the audit that an authorized act was done, or why it was not. Each is written, however
        many come."""
        outcome, reason = (OK, {}) if error is None else (REFUSED, {"reason": error.message})
        self._audit.note(
            "admin", outcome, principal.name, bounded=False, method=principal.means, subject=subject, **reason
        )

    def administers(self, principal: Principal) -> bool:
        return self.right(principal, Action.ADMIN).is_total

    # -- rights ---------------------------------------------------------------------------------

    def right(self, principal: Principal, action: Action) -> AccessRight:
        """The present rights of the principal, within the bound of its tenant."""
        rights = self._rights[action]
        right = rights.get(principal)
        if right is None:
            if len(rights) >= MOST_RIGHTS:
                rights.clear()
            right = rights[principal] = self._users.right(principal, action)
        return right

    @contextmanager
    def _refusing(self, principal: Principal, what: str, subject: str) -> Iterator[None]:
        """Count and write down what is refused inside the block."""
        try:
            yield
        except TidingsError as error:
            self._note_refusal(principal, what, subject, error)
            raise

    def _note_refusal(self, principal: Principal, what: str, subject: str, error: TidingsError) -> None:
        self.refused += 1
        self._audit.note(
            what, REFUSED, principal.name, method=principal.means, subject=subject, reason=error.message
        )


def _cost(filter: Filter) -> int:
    """Constraints, each value of an `IN` for one: a list of values costs the memory of as many
    comparisons."""
    return sum(
        sum(map(_weight, part.constraints)) + sum(map(_computed_weight, part.residuals))
        for part in filter.conjunctions
    )


def _weight(constraint: Constraint) -> int:
    return max(1, len(constraint.values)) if isinstance(constraint, OneOf | NotOneOf) else 1


def _computed_weight(residual: Expression) -> int:
    return max(1, sum(len(node.items) for node in walk(residual) if isinstance(node, In)))


def _check_key(event: Event, key: str) -> None:
    """A key that looks like a tenant's own comes only with an event of that tenant, and none with
    an owner."""
    tenant, mark, _ = key.partition(TENANT_MARK)
    if OWNER_MARK in key or (mark and event.body.get(TENANT) != tenant):
        raise RefusedError("the key holds a control character", hint="choose another key")


def _marked(event: Event, tenant: str) -> Event:
    """The event as it goes into the broker."""
    given = event.body.get(TENANT)
    if given not in (None, tenant):
        raise EventError(f"the event says that it is of tenant {given!r}", hint="leave the attribute out")
    return msgspec.structs.replace(event, body={**event.body, TENANT: tenant})


def _unmarked(event: Event, key: str, tenant: str) -> Event:
    """The event as subscribers see it: its key without the owner, and to a tenant without the tenant."""
    scope, mark, own = key.partition(OWNER_MARK)
    shown = "".join(scope.rpartition(TENANT_MARK)[:2]) + own if mark else key
    if tenant:
        shown = shown.removeprefix(tenant + TENANT_MARK)
    return event if shown == key else msgspec.structs.replace(event, key=shown)
