"""Keyword options of the public calls, one type for each call.

A type checker and an editor read the names from here (`**options: Unpack[SubscribeOptions]`), so that a
misspelt option is found before the program runs. A program that is not checked gets `SettingsError`, which
names the nearest option: the same types are the list that it is compared with.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from tidings.errors import SettingsError
from tidings.language.build import Condition
from tidings.model.filter import Filter
from tidings.model.subscription import Policy, Position
from tidings.protocol.messages import AckMode
from tidings.runtime.broker import ConnectionState, Timeout

if TYPE_CHECKING:
    from ssl import SSLContext

    from tidings.availability.identity import IdentityBounds
    from tidings.history.recorder import Recorder
    from tidings.runtime.clock import RuntimeClock
    from tidings.runtime.connection import NetworkSettings
    from tidings.security.interfaces import Credentials

OnState = Callable[[ConnectionState], Awaitable[None] | None]
Mode = AckMode | Literal["auto", "best effort", "kept", "replicated"]
PolicyName = Policy | Literal["block", "drop oldest", "drop newest", "disconnect"]
EventClass = type[Any]
Wanted = (
    str | Filter | Condition | Mapping[str, Any]
)  # a text, a filter, a condition or an EventBridge pattern


class KeepOptions(TypedDict, total=False):
    """Options of a whole `Event` that is published: how long it is kept."""

    lifetime: float | None  # seconds, or FOREVER; 0 by default
    key: str | None  # supersedes older events of the same key
    expires: float | None  # seconds until it ends for all subscribers


class EventOptions(KeepOptions, total=False):
    """Envelope of an event, beside its attributes."""

    topic: str | None
    type: str | tuple[str, ...] | None
    source: str | None
    time: datetime | None
    payload: bytes | None
    content_type: str | None


class PublishOptions(EventOptions, total=False):
    """Envelope of one event: that of many events has no `id`."""

    id: str | None


class SubscribeOptions(TypedDict, total=False):
    """Options of a subscription."""

    name: str | None
    topic: str | None  # a pattern: `shop/+`, `shop/#`
    type: str | EventClass | None  # a name, or a class as if it were given first
    since: Position | Mapping[str, int] | Literal["forever"] | None
    dialect: str
    strict: bool  # refuse a filter that can never be true; without it a warning is logged
    timeout: Timeout  # seconds for the broker to answer
    durable: bool | None
    queue: int | None  # events that wait at most; then `policy`
    policy: PolicyName | None
    group: str | None  # consumers that share one subscription
    max_deliveries: int | None  # attempts before an event becomes a dead letter
    keep_seconds: float | None
    keep_events: int | None
    replay: bool | None  # False: only events published from now on
    dead_letters_of: str | None
    superseding: bool | None  # False: events that wait stay when a newer event has their key
    until_live: bool | None  # True: receive what is available and end
    takes_over: bool | None  # True: from another client of this name, also one with another filter


class ConnectOptions(TypedDict, total=False):
    """Options of every `connect`."""

    name: str  # of this client
    record: Recorder | Path | str | None  # writes a history
    seed: int | None
    clock: RuntimeClock | None
    on_connected: OnState | None
    on_disconnected: OnState | None
    call_timeout: float | None  # seconds for an answer to a call that names no timeout


class EmbeddedOptions(ConnectOptions, total=False):
    """Options of `connect` with a broker in this process; below `path` those of `DeliverySettings`."""

    path: str | os.PathLike[str] | None
    chunk: int
    flush_seconds: float
    collect_budget: int
    maintain_budget: int
    memory_seconds: float
    linger_seconds: float
    remote_subscription_seconds: float
    staging_seconds: float
    staging_bytes: int
    staging_principals: int
    dead_letters: int
    dead_letter_bytes: int
    dead_letter_seconds: float
    identities: IdentityBounds
    dedup_seconds: float
    names_log: bool
    regroup_seconds: float
    allow_block: bool
    shared_log: bool


class RemoteOptions(ConnectOptions, total=False):
    """Options of `connect` with a remote broker."""

    timeout: float  # seconds for the first connection
    patience: float  # seconds for a broker to come back before another address is tried
    tenant: str
    credentials: Credentials | None
    tls: SSLContext | None
    network: NetworkSettings


class PeerOptions(TypedDict, total=False):
    """Options of `peer`."""

    listen: str
    join: Iterable[str]
    topics: Iterable[str]
    system: str
    advertise: str
    options: dict[str, Any] | None
    record: Recorder | str | None
    seed: int | None
    clock: RuntimeClock | None


PUBLISH = frozenset(PublishOptions.__annotations__)
PUBLISH_MANY = frozenset(EventOptions.__annotations__)
SUBSCRIBE = tuple(SubscribeOptions.__annotations__)


def resume_token(since: Position | Mapping[str, int] | None) -> dict[str, int]:
    """The value of `since=` as a token: by log, the offset up to which events were taken."""
    if since is None:
        return {}
    if isinstance(since, Position):
        return {since.log: since.offset}
    if isinstance(since, Mapping) and all(type(offset) is int for offset in since.values()):
        return dict(since)
    raise SettingsError(f"since={since!r} is no position", hint="news.positions, a Position, or 'forever'")
