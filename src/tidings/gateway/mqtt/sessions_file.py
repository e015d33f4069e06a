"""MQTT sessions as the file of the gateway holds them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tidings.errors import StoreError
from tidings.gateway.mqtt.events import filters_of
from tidings.gateway.mqtt.exchanges import FILE as JOURNAL
from tidings.gateway.mqtt.session_sums import FILE, orphans, sealed, unsealed
from tidings.gateway.mqtt.shares import SharedSubscriptions
from tidings.gateway.mqtt.state import StoredMqttSubscription
from tidings.gateway.mqtt.wills import StoredWill
from tidings.gateway.subscriptions import replace_file
from tidings.model.decoding import UNREADABLE
from tidings.security.principal import Principal

FIRST_START = "mqtt-headers.json"  # when this version began on the store

log = logging.getLogger("tidings.gateway")


class SessionKey(NamedTuple):
    """The session that a connection means. Groups, rules and proofs of a user change; these do not."""

    tenant: str
    user: str
    client_id: str


def key_of(principal: Any, client_id: str) -> SessionKey:
    return SessionKey(getattr(principal, "tenant", ""), principal.name, client_id)


def first_start(folder: Path | None, now: float) -> float:
    """When a version that keeps headers of messages apart from attributes first started on this store; 0
    when none other did before. Events from before have those fields among their attributes."""
    if folder is None:
        return 0.0
    file = folder / FIRST_START
    try:
        return msgspec.json.decode(file.read_bytes(), type=float)
    except (OSError, *UNREADABLE):
        began = now if (folder / FILE).exists() or (folder / JOURNAL).exists() else 0.0
    try:
        replace_file(file, msgspec.json.encode(began))
    except OSError as error:
        log.warning("mqtt: %s cannot be written: %s", file, error.strerror)
    return began


def read(file: Path) -> list[StoredSession]:
    """The sessions of the file.

    Raises `StoreError`, and `CorruptionError` where a sum is another one. Earlier versions wrote every user
    property of a SUBSCRIBE.
    """
    parts = unsealed(file)
    try:
        listed = [msgspec.json.decode(part, type=StoredSession) for part in parts]
    except UNREADABLE as error:
        raise StoreError(
            f"{file} cannot be read: {error}", hint="restore it, or move it away to begin without"
        ) from None
    for kept in (each for written in listed for each in written.subscriptions.values()):
        kept.user = filters_of(kept.user)
    return listed


class StoredSession(msgspec.Struct):
    """A session as the file holds it."""

    owner: Principal
    client_id: str
    expiry: int
    left_at: float | None
    subscriptions: dict[str, StoredMqttSubscription]
    session: str = ""  # the name of its exchanges in the journal
    will: StoredWill | None = None  # of the connection, or one that waits for its delay


class SessionsFile:
    """The file of the kept sessions, and the sessions that it holds."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._folder: os.stat_result | None = None  # where the file was read
        self._writing = asyncio.Lock()
        self._next: asyncio.Task[bool] | None = None  # the write that has not begun
        self.known: dict[SessionKey, StoredSession] = {}  # also those that no connection uses now

    def load(self, now: float, names: Iterable[str] = ()) -> None:
        """Read the file; `names` are those of the broker's durable subscriptions. Raises `StoreError`."""
        if self._path is None:
            return
        self._folder = self._path.parent.stat() if self._path.parent.exists() else None
        if not self._path.exists():
            if count := orphans(self._path.parent, names):
                log.error(
                    "mqtt: %s is gone: no session has the %d durable subscriptions of MQTT sessions in the "
                    "store, and what waits for them is kept; restore it, or end them (tidings admin end)",
                    self._path, count,
                )  # fmt: skip
            return
        for written in read(self._path):
            if written.left_at is None:
                written.left_at = now
            self._take_up(key_of(written.owner, written.client_id), written)

    def _take_up(self, key: SessionKey, written: StoredSession) -> None:
        """Earlier versions wrote a session for each set of groups of one user: all that they held is one
        session."""
        other = self.known.get(key)
        if other is not None:
            last = max(other, written, key=lambda each: each.left_at or 0.0)
            last.subscriptions = {**other.subscriptions, **written.subscriptions}
            last.expiry = max(other.expiry, written.expiry)
            written = last
        self.known[key] = written

    async def is_written(self, shares: SharedSubscriptions) -> bool:
        """Write the sessions, and the shares that only clean sessions have: the next start ends those. False:
        the file could not be written."""
        if self._path is None:
            return True
        if self._next is None:
            self._next = asyncio.create_task(self._write(self._path, shares), name="mqtt sessions")
        return await asyncio.shield(self._next)

    async def _write(self, path: Path, shares: SharedSubscriptions) -> bool:
        """One write for all that changed while the one before it was under way."""
        async with self._writing:
            self._next = None
            left = [
                StoredSession(owner, "", 0, 0.0, {name: kept})
                for owner, name, kept in shares.without_sessions()
            ]
            written = sealed(msgspec.json.encode(each) for each in (*self.known.values(), *left))
            if self._folder is not None and not _is_at(path.parent, self._folder):
                log.error("mqtt: %s is another directory now: sessions are not written there", path.parent)
                return False
            try:
                await asyncio.to_thread(replace_file, path, written)
            except OSError as error:
                log.error("mqtt: sessions cannot be written to %s: %s", path, error.strerror)
                return False
        return True


def _is_at(folder: Path, status: os.stat_result) -> bool:
    """Is it still the directory that had this status?"""
    return folder.exists() and os.path.samestat(folder.stat(), status)
