"""Subscriptions, advertisements and notifications."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from tidings.model.event import TENANT_MARK, Event
from tidings.model.filter import Filter

GROUPS = "*"  # stands for the subscriber in the identity of a consumer group
OWNER_MARK = "\x1e"  # after the principal, in names that a broker scopes by principal


def unscoped(name: str) -> str:
    """The name that a client gave, without the scope that its broker put before it."""
    return name.rpartition(OWNER_MARK)[2].rpartition(TENANT_MARK)[2]


def scope_of(name: str) -> str:
    """The scope that a broker put before a client's name; all names without a mark have the same."""
    return name.removesuffix(unscoped(name))


class Policy(StrEnum):
    """Policy for a full queue of a subscription."""

    BLOCK = "block"  # the publisher waits (embedded broker)
    DROP_OLDEST = "drop oldest"
    DROP_NEWEST = "drop newest"
    DISCONNECT = "disconnect"  # the subscription ends with SlowConsumerError


class SubscriptionId(msgspec.Struct, frozen=True, order=True, gc=False):
    """Identity: who subscribed, and the name the subscriber gave (random when transient)."""

    subscriber: str
    name: str

    def __str__(self) -> str:
        return f"{self.subscriber}/{self.name}"

    @property
    def shown(self) -> str:
        """Name for operators: with its scope, in signs that can be printed and typed."""
        return str(self).replace(TENANT_MARK, ":").replace(OWNER_MARK, ":")

    @property
    def own(self) -> str:
        """Name for its owner: without scopes."""
        return f"{unscoped(self.subscriber)}/{unscoped(self.name)}"


class DeliveryOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Delivery options of a subscription."""

    durable: bool = False  # outlives the connection of its subscriber; the broker keeps its cursor
    queue: int = 1000  # maximum of waiting notifications; beyond it `policy` decides
    policy: Policy = Policy.BLOCK  # full queue: `block`, `drop oldest`, `drop newest`, `disconnect`
    group: str | None = None  # name of a consumer group: each event goes to one of its consumers
    max_deliveries: int = 5  # attempts before an event becomes a dead letter
    keep_seconds: float | None = None  # of a durable subscription: maximum age of waiting events
    keep_events: int | None = None  # of a durable subscription: maximum number of waiting events
    replay: bool = True  # false: only events published from now on
    dead_letters_of: str | None = None  # receive the dead letters of this subscription of yours
    superseding: bool = True  # false: a waiting event stays when a newer event has its key
    until_live: bool = False  # receive the available events and end
    takes_over: bool = False  # from another client of this name, also when that listens with another filter


class Subscription(msgspec.Struct, frozen=True):
    id: SubscriptionId
    filter: Filter
    options: DeliveryOptions = DeliveryOptions()


class Advertisement(msgspec.Struct, frozen=True):
    """The events that a publisher may publish."""

    publisher: str
    filter: Filter


class Position(msgspec.Struct, frozen=True, order=True, gc=False):
    """A place in the log of one broker."""

    log: str
    offset: int


class Notification(msgspec.Struct, frozen=True, gc=False):
    """An event handed to one subscription."""

    subscription: SubscriptionId
    event: Event
    position: Position | None = None  # None for an event that no log holds
    attempt: int = 1  # 2 and more after a `nack`
