"""Sums of MQTT sessions in the file of the gateway, and what the store says about a file that is gone.

Rules
- Each session carries the SHA-256 of its own bytes as its last field, which earlier versions pass over. One
  without it was written by an earlier version. A sum that is another one is damage: the file is refused, as a
  damaged store is.
- Durable subscriptions of sessions are in the store. When they are there and the file is not, that is said.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tidings.errors import CorruptionError, StoreError
from tidings.model.decoding import UNREADABLE

FILE = "mqtt-sessions.json"
SUM = b',"sum":"'  # before the sum of a session
OF_SESSION = re.compile("mqtt:[0-9a-f]{8}:")  # how names of their durable subscriptions begin


def sealed(sessions: Iterable[bytes]) -> bytes:
    """The content of the file: these sessions as JSON objects, each with its sum."""
    contents = (each[:-1] for each in sessions)
    return b"[" + b",".join(content + SUM + _sum_of(content) for content in contents) + b"]"


def _sum_of(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + b'"}'


def unsealed(file: Path) -> list[bytes]:
    """The sessions of the file as JSON objects. Raises `StoreError`, and `CorruptionError` where a sum is
    another one."""
    try:
        sessions = [bytes(each) for each in msgspec.json.decode(file.read_bytes(), type=list[msgspec.Raw])]
    except (OSError, *UNREADABLE) as error:
        raise StoreError(
            f"{file} cannot be read: {error}", hint="restore it, or move it away to begin without"
        ) from None
    for number, session in enumerate(sessions, start=1):
        content, mark, sum = session.rpartition(SUM)
        if mark and sum != _sum_of(content):
            raise CorruptionError(
                f"{file} is damaged: session {number} of {len(sessions)} has another sum than it says",
                hint="restore it, or move it away to begin without",
            )
    return sessions


def orphans(folder: Path, names: Iterable[str]) -> int:
    """How many of these durable subscriptions are of MQTT sessions whose file is gone."""
    return 0 if (folder / FILE).exists() else sum(OF_SESSION.match(name) is not None for name in names)


def check(folder: Path, names: Iterable[str]) -> None:
    """Check the file of the sessions beside a store with these durable subscriptions. Raises."""
    if (folder / FILE).exists():
        unsealed(folder / FILE)
    elif count := orphans(folder, names):
        raise CorruptionError(
            f"{folder / FILE} is gone, and the store has {count} durable subscriptions of MQTT sessions",
            hint="restore the file; or end those subscriptions: tidings admin end",
        )
