"""Quotas: what one principal may use at most. Pure arithmetic; `now` comes in.

Rules
- At a bound the answer names it: connections, subscriptions, constraints, advertisements and stored
  bytes are refused; bytes a second are not refused but made to wait, so a fast client is slowed and not cut.
- Events in the log that wait for durable subscriptions are not refused, since that would hurt their
  publishers: beyond the bound of stored bytes the subscriptions give up the oldest
  (`protocol/delivery/bounds.py`).
- A tenant has an account of its own for stored bytes and for the backlog, beside those of its principals.
- Each counted unit is released exactly once, by the code that counted it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from tidings.errors import RefusedError

MIB = 1 << 20
HOLDS = "\x1fholds"  # stands for the client where holds are counted: no client can have this name
TENANT_ACCOUNT = "\x1ftenant "  # before a tenant's name, in the name of its account: no principal has one
FEW = 64  # accounts up to which idle ones are not collected


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one principal, over all its connections to one broker."""

    connections: int = 100  # open connections
    subscriptions: int = 10_000  # open subscriptions, and durable ones until they end
    constraints: int = 100_000  # conditions of all subscriptions and advertisements, and values of IN
    advertisements: int = 1_000  # open advertisements; every broker of the network stores them
    bytes_per_second: int = 64 * MIB  # rate of sending; beyond it reading pauses
    burst_bytes: int = 64 * MIB  # bytes sent at once after a quiet time
    stored_bytes: int = 1024 * MIB  # events with a lifetime, and those owed to durable subscriptions
    queued_bytes: int = 256 * MIB  # events that wait for its subscriptions or are unacknowledged
    holds: int = 100  # holds on the log; each counts as a subscription too
    held_bytes: int = 1024 * MIB  # log entries that one hold retains; beyond it the hold ends


UNBOUNDED = Quota(
    connections=1 << 62,
    subscriptions=1 << 62,
    constraints=1 << 62,
    advertisements=1 << 62,
    bytes_per_second=1 << 62,
    burst_bytes=1 << 62,
    stored_bytes=1 << 62,
    queued_bytes=1 << 62,
    holds=1 << 62,
    held_bytes=1 << 62,
)


class TokenBucket:
    """A token bucket: fills at `rate` a second up to `most`. It may go below zero: one large thing
    is let through and paid for by waiting afterwards."""

    def __init__(self, rate: float, most: float, now: float) -> None:
        self._rate = rate
        self._most = most
        self._level = most
        self._at = now

    def take(self, amount: float, now: float) -> float:
        """Take so much; the seconds to wait before the next taking (0: none)."""
        self._fill(now)
        self._level -= amount
        return 0.0 if self._level >= 0 else -self._level / self._rate

    def has(self, amount: float, now: float) -> bool:
        """Is so much in it?"""
        self._fill(now)
        return self._level >= amount

    def is_full(self, now: float) -> bool:
        return self.has(self._most, now)

    def _fill(self, now: float) -> None:
        if now > self._at:
            self._level = min(self._most, self._level + (now - self._at) * self._rate)
            self._at = now

    def resize(self, rate: float, most: float) -> None:
        self._rate, self._most = rate, most
        self._level = min(self._level, most)


class QuotaUsage:
    """Present usage of one principal."""

    def __init__(self, name: str, quota: Quota, now: float) -> None:
        self.name = name.removeprefix("\x1f")
        self.quota = quota
        self.connections = 0
        self.subscriptions = 0
        self.constraints = 0
        self.advertisements = 0
        self.holds = 0
        self.stored = 0  # bytes of events in the log with a lifetime that lasts ...
        self.pending = 0  # ... and of those that were admitted and are not in the log yet
        self.letters = 0  # bytes of dead letters
        self.records = 0  # bytes of records of deliveries to subscriptions that have ended
        self.backlog = 0  # bytes of the log that wait for its durable subscriptions, each event once
        self._bucket = TokenBucket(quota.bytes_per_second, quota.burst_bytes, now)
        self._durables: dict[tuple[str, str], int] = {}  # by client and name: constraints

    def connect(self) -> None:
        self._check("connections", self.connections + 1)
        self.connections += 1

    def disconnect(self) -> None:
        self.connections -= 1

    def subscribe(self, constraints: int) -> None:
        self._check("subscriptions", self.subscriptions + 1)
        self._check("constraints", self.constraints + constraints)
        self.subscriptions += 1
        self.constraints += constraints

    def unsubscribe(self, constraints: int) -> None:
        self.subscriptions -= 1
        self.constraints -= constraints

    def advertise(self, constraints: int, earlier: int | None) -> None:
        """`earlier`: the constraints of the one that it replaces."""
        self._check("advertisements", self.advertisements + (earlier is None))
        self._check("constraints", self.constraints + constraints - (earlier or 0))
        self.advertisements += earlier is None
        self.constraints += constraints - (earlier or 0)

    def unadvertise(self, constraints: int) -> None:
        self.advertisements -= 1
        self.constraints -= constraints

    def keep(self, durable: tuple[str, str], constraints: int) -> None:
        """A durable subscription, or a hold, by client and name: counted once until it is ended."""
        before = self._durables.get(durable)
        if before is not None:
            self._check("constraints", self.constraints - before + constraints)
            self.constraints += constraints - before
        else:
            self._check("holds", self.holds + _is_hold(durable))
            self.subscribe(constraints)
            self.holds += _is_hold(durable)
        self._durables[durable] = constraints

    def end(self, durable: tuple[str, str]) -> None:
        """Release it; releasing an absent one has no effect."""
        constraints = self._durables.pop(durable, None)
        if constraints is not None:
            self.unsubscribe(constraints)
            self.holds -= _is_hold(durable)

    def found(self, durable: tuple[str, str], constraints: int) -> None:
        """The broker's disk holds it: counted, regardless of the bounds."""
        if durable not in self._durables:
            self._durables[durable] = constraints
            self.subscriptions += 1
            self.constraints += constraints
            self.holds += _is_hold(durable)

    def receive(self, size: int, now: float) -> float:
        """Charge received bytes; returns the seconds to wait before reading on."""
        return self._bucket.take(size, now)

    def reserve(self, size: int) -> None:
        """An event of this size is to be stored: it counts until the broker has answered, and then in
        `stored`."""
        self._check("stored_bytes", self.kept + size)
        self.pending += size

    @property
    def kept(self) -> int:
        """All bytes that count in the quota of stored ones."""
        return self.stored + self.pending + self.letters

    @property
    def is_backlog_over(self) -> bool:
        """The backlog has the bound of stored bytes by itself: a slow subscription does not stop its owner's
        publishes, and an event that the owner both published and is owed does not count twice."""
        return self.backlog > self.quota.stored_bytes

    def letters_fit(self, size: int) -> bool:
        """Dead letters are stored, and in memory."""
        return self.kept + size <= self.quota.stored_bytes and self.letters + size <= self.quota.queued_bytes

    def records_fit(self, size: int) -> bool:
        """Records of ended subscriptions are stored, and in memory. They have these bounds by themselves, as
        the backlog has: no user can end them, so they stop no publish."""
        return self.records + size <= min(self.quota.stored_bytes, self.quota.queued_bytes)

    def count_letters(self, size: int) -> None:
        self.letters += size

    def unreserve(self, size: int) -> None:
        """The broker answered and has reported the stored bytes."""
        self.pending -= size

    def count_stored(self, size: int) -> None:
        """Add to the bytes of it in the log; below 0: subtract. Counted regardless of the bounds."""
        self.stored += size

    def forget_durables(self, is_stored: Callable[[str, str], bool]) -> bool:
        """Forget durable subscriptions that expired or were ended at another broker; were there any?"""
        gone = [durable for durable in self._durables if not is_stored(*durable)]
        for durable in gone:
            self.end(durable)
        return bool(gone)

    def is_idle(self, now: float) -> bool:
        """Does the account hold no usage and no debt of bytes that would be forgotten with it?"""
        used = self.connections or self.subscriptions or self.advertisements or self.kept
        used = used or self.backlog or self.records
        return not used and self._bucket.is_full(now)

    def bound(self, quota: Quota) -> None:
        """New bounds; what is used above them is kept, not cut."""
        self.quota = quota
        self._bucket.resize(quota.bytes_per_second, quota.burst_bytes)

    def _check(self, what: str, wanted: int) -> None:
        most = getattr(self.quota, what)
        if wanted > most:
            raise RefusedError(
                f"{self.name} would use {wanted} {what.replace('_', ' ')}; its quota is {most}",
                hint=f"end some, or raise `{what}` in its quota in the users file",
            )


def _is_hold(durable: tuple[str, str]) -> bool:
    return durable[0] == HOLDS


class QuotaUsages:
    """The accounts of all principals that are here; an idle one is forgotten."""

    def __init__(self, quotas: Mapping[str, Quota], default: Quota) -> None:
        self._quotas = dict(quotas)
        self._default = default
        self._accounts: dict[str, QuotaUsage] = {}
        self._tidy_at = FEW

    def of(self, name: str, now: float) -> QuotaUsage:
        """The account of a principal; the first call for one also forgets those that are idle."""
        account = self._accounts.get(name)
        if account is None:
            self._tidy(now)
            account = self._accounts[name] = QuotaUsage(name, self.quota_of(name), now)
        return account

    def quota_of(self, name: str) -> Quota:
        default = UNBOUNDED if name.startswith(TENANT_ACCOUNT) else self._default
        return self._quotas.get(name, default)

    def _tidy(self, now: float) -> None:
        if len(self._accounts) >= self._tidy_at:
            self._accounts = {name: a for name, a in self._accounts.items() if not a.is_idle(now)}
            self._tidy_at = max(FEW, 2 * len(self._accounts))

    def replace(self, quotas: Mapping[str, Quota], default: Quota) -> None:
        """New bounds, also for connected clients."""
        self._quotas, self._default = dict(quotas), default
        for name, account in self._accounts.items():
            account.bound(self.quota_of(name))

    def __len__(self) -> int:
        return len(self._accounts)
