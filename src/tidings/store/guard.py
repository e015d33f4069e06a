"""Encoding of records as keys and values, each value under its own checksum.

Rules
- A value is stored as CRC32C (4 bytes, little endian) of key and payload together, then the payload. So a
  sound value that turns up under another key is found too.
- This stands beside the checksums of the engine: those guard its files, this one guards the way from
  `commit` to `fetch`, also through memory, compaction and rewriting.
- Offsets are big-endian, so that the order of keys is the order of the log.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from crc32c import crc32c

from tidings.availability.records import Append, Entry, ending
from tidings.errors import CorruptionError, StoreError
from tidings.model.body import is_rich
from tidings.model.decoding import UNREADABLE
from tidings.model.event import Event
from tidings.model.fields import RESERVED

FORMAT_KEY = b"f"
ACCOUNT_KEY = b"a"
ENTRY = b"e"
ENTRY_END = b"f"  # the first key after all entries
ROW = b"r"
ROW_END = b"s"
CRC_BYTES = 4
MAX_OFFSET = 2**63 - 1

_encode = msgspec.msgpack.Encoder().encode


class _EntryPayload(msgspec.Struct, array_like=True, frozen=True):
    """The payload of a log entry; its offset is in the key."""

    accepted: float
    expires_at: float | None
    sequence: int | None
    event: Event


class _Tenant(msgspec.Struct, frozen=True):
    """Of an event's attributes, the one that its identity needs."""

    tenant: Any = None


class _EventHead(msgspec.Struct, frozen=True):
    """The few things of an event that the index needs; decoding skips the rest."""

    source: str
    id: str
    lifetime: float = 0.0
    key: str | None = None
    topic: str | None = None
    attributes: _Tenant = _Tenant()


class _Head(msgspec.Struct, array_like=True, frozen=True):
    accepted: float
    expires_at: float | None
    sequence: int | None
    event: _EventHead


_decode_stored = msgspec.msgpack.Decoder(_EntryPayload).decode
_decode_head = msgspec.msgpack.Decoder(_Head).decode


def checksum(key: bytes, payload: bytes) -> int:
    """CRC32C over key and payload."""
    return crc32c(payload, crc32c(key))


def guarded(key: bytes, payload: bytes) -> bytes:
    """The value to store for this payload."""
    return checksum(key, payload).to_bytes(CRC_BYTES, "little") + payload


def opened(key: bytes, value: bytes, name: str) -> bytes:
    """The payload of a stored value, checked."""
    payload = value[CRC_BYTES:]
    if crc32c(payload, crc32c(key)) != int.from_bytes(value[:CRC_BYTES], "little") or len(value) < CRC_BYTES:
        raise damaged(name, f"the record {key!r} fails its checksum")
    return payload


def damaged(name: str, problem: str) -> CorruptionError:
    """The one way to report damage: what, where, and what to do."""
    return CorruptionError(
        f"store {name} is damaged: {problem}",
        hint="nothing of it is served; keep the directory for study and restore a copy of it",
    )


FLAT = frozenset({str, int, float, bool})


def entry_key(offset: int) -> bytes:
    return ENTRY + offset.to_bytes(8, "big")


def offset_of(key: bytes) -> int:
    return int.from_bytes(key[1:], "big")


@functools.lru_cache(maxsize=4096)
def row_key(table: str, key: str) -> bytes:
    if "\0" in table:
        raise StoreError(f"the table name {table!r} holds a NUL", hint="use a plain name")
    return ROW + table.encode() + b"\0" + key.encode()


def row_of(key: bytes) -> tuple[str, str]:
    table, _, name = key[1:].partition(b"\0")
    return table.decode(), name.decode()


def stored_entry(append: Append) -> tuple[bytes, int, bytes]:
    """Key, the key's own checksum, and value of a log entry. Written out: this is the hot path."""
    key = ENTRY + append.offset.to_bytes(8, "big")
    key_sum = crc32c(key)
    # The same bytes as an encoded `_EntryPayload`, without building one.
    payload = _encode((append.accepted, append.expires_at, append.sequence, append.event))
    return key, key_sum, crc32c(payload, key_sum).to_bytes(CRC_BYTES, "little") + payload


def append_from(key: bytes, value: bytes, name: str) -> Append:
    """The log entry in a stored value."""
    try:
        stored = _decode_stored(opened(key, value, name))
    except UNREADABLE as error:
        raise damaged(name, f"the record {key!r} cannot be decoded: {error}") from error
    event = stored.event
    if not event.rich:  # or copied by a member of 0.1, which knows no such mark
        body = event.body
        for attribute in body:  # flat values under plain names need no closer look: this is the hot path
            if type(body[attribute]) not in FLAT or "." in attribute or attribute in RESERVED:
                event = msgspec.structs.replace(event, rich=is_rich(body))
                break
    offset = int.from_bytes(key[1:], "big")
    return Append(offset, event, stored.accepted, stored.sequence, stored.expires_at)


def entry_from(key: bytes, value: bytes, name: str) -> Entry:
    """The index entry in a stored value, without building the event."""
    try:
        head = _decode_head(opened(key, value, name))
    except UNREADABLE as error:
        raise damaged(name, f"the record {key!r} cannot be decoded: {error}") from error
    event = head.event
    ends_at = ending(head.accepted, event.lifetime, head.expires_at)
    return Entry(
        offset_of(key),
        event.source,
        event.id,
        head.accepted,
        ends_at,
        head.expires_at,
        head.sequence,
        event.key,
        len(value),
        tenant if type(tenant := event.attributes.tenant) is str else "",
        event.topic if event.lifetime else None,
    )
