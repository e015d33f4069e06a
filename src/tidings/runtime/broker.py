"""The broker beside a bus: started by the first client that joins, stopped when the last one parts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random, SystemRandom
from types import EllipsisType
from typing import Any, Protocol

from tidings.availability.records import Loaded
from tidings.errors import ClosedError, RefusedError, SettingsError, TidingsError, require
from tidings.extensions import call, offered
from tidings.history.recorder import FileRecorder, Recorder
from tidings.history.schema import ntfy_row
from tidings.model.event import Event
from tidings.model.subscription import DeliveryOptions, Policy, Position, SubscriptionId
from tidings.protocol.client import Client
from tidings.protocol.compositions import intermediary
from tidings.protocol.delivery import rows
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import Input, Started
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.membership.agreed import member_of
from tidings.protocol.naming import broker_of
from tidings.protocol.node import Node
from tidings.runtime.clock import RealClock, RuntimeClock
from tidings.runtime.driver import Driver, EffectHandler
from tidings.runtime.kernels import prepare_in_background
from tidings.store.checked import CheckedStore
from tidings.store.memory import MemoryStore
from tidings.store.store import Store

NAME = "embedded"  # of the broker and of its log
STORES = "tidings.stores"  # the entry-point group
LOOKED_AT = 100  # subscriptions, the longest queues first, among which a full one is looked for


Timeout = float | EllipsisType | None  # seconds; None: no limit; left out: `call_timeout` of `connect`


Full = dict[
    str, set[tuple[str, int]]
]  # by subscription with a full queue: address and call of who waits for it


class ConnectionState(str):
    """State of a connection: new, connecting, up, down, refused or closed; a text with a reason.

    `reason` says why no broker is connected, and `broker` names the one that is. Both may be empty.
    """

    __slots__ = ("broker", "reason")

    def __new__(cls, state: str, *, reason: str = "", broker: str = "") -> ConnectionState:
        made = super().__new__(cls, state)
        made.reason, made.broker = reason, broker
        return made

    reason: str
    broker: str

    def __repr__(self) -> str:
        return f"<{self}{f': {self.reason}' if self.reason else ''}>"


Watch = Callable[[ConnectionState, TidingsError | None], None]  # a new state, or a new reason; why it is over


class BrokerInterface(Protocol):
    """Interface of a broker, embedded or remote, as a bus uses it."""

    policy: Policy  # of a subscription that names none
    warns: bool  # of losses, in the log of this process, which is the application's
    call_timeout: float | None  # seconds for an answer to a call that names no timeout; None: no limit

    async def join(self, client: str, on_effect: EffectHandler, watch: Watch) -> str:
        """Connect a client; the address under which it is known."""

    async def part(self, address: str) -> None:
        """The client is done."""

    def inlet(self, address: str) -> Callable[[Input], None]:
        """The function that hands an input to a client."""

    def inbox(self, address: str) -> str:
        """The topic below which replies go to this client alone; empty: the broker keeps no inboxes apart."""

    def window(self, options: DeliveryOptions) -> int:
        """Number of notifications that are sent ahead of the application's takes."""

    async def inquire(self, address: str, what: str, about: dict[str, Any]) -> Any:
        """Ask the broker about itself."""

    def figures(self) -> dict[str, Any]:
        """Counters for people."""

    def note(self, address: str, subscription: SubscriptionId, event: Event, position: Position) -> None:
        """Record that a client was handed an event that came another way than by its machine."""

    def full_queues(self) -> Full:
        """Subscriptions whose full queue makes publishers wait (policy `block`), and those publishers."""


class EmbeddedBroker:
    """A broker in this process, with its log in memory or in the directory `path`."""

    policy = Policy.BLOCK
    warns = True

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        call_timeout: float | None = None,
        record: Recorder | Path | str | None,
        seed: int | None,
        clock: RuntimeClock | None,
        settings: DeliverySettings,
        limits: ResourceLimits = DEFAULT_LIMITS,
    ) -> None:
        if path is not None and "://" not in str(path):
            require("rocksdict", "a store on disk")  # said here, before an event loop starts
        self._limits = limits
        self.call_timeout = call_timeout
        self._path = path
        self._record = record
        self._rng = Random(SystemRandom().getrandbits(64) if seed is None else seed)  # noqa: S311 - names and pauses
        self._clock = clock or RealClock()
        self._settings = settings
        self._driver: Driver | None = None
        self._node: Node | None = None
        self._recorder: Recorder | None = None
        self._starting = asyncio.Lock()
        self._joined = 0
        self._has_stopped = False
        self._names = 0

    async def join(self, client: str, on_effect: EffectHandler, watch: Watch) -> str:
        async with self._starting:
            if self._has_stopped:
                raise ClosedError("the broker has stopped", hint="call tidings.connect again")
            if self._driver is None:
                await self._start()
            self._joined += 1
        driver = self._running()
        self._names += 1
        address = f"{client}#{self._names}"
        machine = Client(
            client, driver.name, rng=self._rng, recording=self._recorder is not None, remembers=0,
            limits=self._limits,
        )  # fmt: skip
        driver.attach(address, machine, on_effect)
        watch(ConnectionState("up", broker=NAME), None)
        return address

    async def part(self, address: str) -> None:
        driver = self._running()
        driver.detach(address)
        self._joined -= 1
        if not self._joined:
            self._driver = None
            self._has_stopped = True
            self._stop(driver)
            await driver.close()
            if self._recorder is not None:
                self._recorder.close()

    def inlet(self, address: str) -> Callable[[Input], None]:
        return partial(self._running().hand, address)

    def inbox(self, address: str) -> str:
        return ""  # all clients are of one process

    def window(self, options: DeliveryOptions) -> int:
        return 0  # the queue at the broker is in this process

    async def inquire(self, address: str, what: str, about: dict[str, Any]) -> Any:
        if what != "figures":
            raise RefusedError(f"an embedded broker knows nothing of {what!r}")
        return self.figures()

    def note(self, address: str, subscription: SubscriptionId, event: Event, position: Position) -> None:
        if self._recorder is not None:
            who = address.rpartition("#")[0]
            self._recorder.record(ntfy_row(self._clock.now(), who, subscription, event, position=position))

    def full_queues(self) -> Full:
        assert self._node is not None
        rows = self._node.describe(LOOKED_AT)
        return {row["subscription"]: set(row["publishers"]) for row in rows if row["blocked"]}

    def figures(self) -> dict[str, Any]:
        self._running()
        assert self._node is not None
        return self._node.figures()

    def _running(self) -> Driver:
        if self._driver is None:
            raise ClosedError("the broker has stopped")
        return self._driver

    def _stop(self, driver: Driver) -> None:
        """The last client has parted."""

    async def _start(self) -> None:
        store = await open_store(self._path)
        state = await asyncio.to_thread(store.load)
        self._recorder = recorder_of(self._record)
        node = self._node = intermediary(
            NAME,
            rng=self._rng,
            stable=self._path is not None,
            recording=self._recorder is not None,
            settings=self._settings,
            limits=self._limits,
        )
        prepare_in_background(node)
        record: Callable[[Any], None] = self._recorder.record if self._recorder is not None else _nothing
        driver = self._driver = Driver(NAME, node, self._clock, record=record)
        driver.use_store(store, threaded=self._path is not None)
        driver.start(Started(state))


async def open_store(path: str | os.PathLike[str] | None, most_bytes: int | None = None) -> Store:
    if path is None:
        return MemoryStore()
    scheme, sign, _ = str(path).partition("://")
    if sign:
        return await asyncio.to_thread(_store_of(scheme), str(path))
    scheme, colon, rest = str(path).partition(":")
    if colon and scheme in ("nats", *offered(STORES, ("nats",))):
        raise SettingsError(
            f"the store {str(path)!r} would be a folder, and {scheme} is a scheme of stores",
            hint=f"{scheme}://{rest} is such a store; ./{path} is the folder",
        )
    from tidings.store.rocks import RocksStore

    is_bounded = most_bytes is not None and most_bytes < DEFAULT_LIMITS.store_bytes
    return await asyncio.to_thread(partial(RocksStore, path, most_bytes=most_bytes if is_bounded else None))


def _store_of(scheme: str) -> Callable[[str], Store]:
    """The store that addresses of this scheme name: JetStream, or one of the group `tidings.stores`."""
    if scheme == "nats":
        from tidings.store.jetstream import JetStreamStore

        return JetStreamStore
    if scheme not in offered(STORES, ("nats",)):
        known = ", ".join(f"{each}://" for each in ("nats", *offered(STORES, ("nats",))))
        raise SettingsError(f"no store has addresses {scheme}://", hint=f"a directory, or one of: {known}")
    return lambda address: CheckedStore(call(STORES, scheme, address, gives=Store), scheme)


def owner_of(state: Loaded) -> str:
    """The broker whose log, or whose copy of a group's log, the disk holds; empty: none has begun one."""
    for row in rows.decoded(state.tables, rows.LOG, rows.LogRow):
        return broker_of(row.name)
    return member_of(state.tables)


def recorder_of(record: Recorder | Path | str | None) -> Recorder | None:
    return FileRecorder(record) if isinstance(record, str | Path) else record


def _nothing(row: Any) -> None:
    """No recorder is set."""
