"""Backup, restore, verification and compaction of a broker's store, running or stopped.

Rules
- A stopped broker's store is read where it lies, under its lock; a running one's through a checkpoint that
  its broker makes (`store_control.py`), so publishing goes on.
- A log that goes back to an older copy must give no offset twice (decision 26). Neighbours and resume tokens
  know some of the offsets that were given after the backup; a restored log therefore begins behind all that
  could have been given (`store/restored.py`), whether or not any of them speaks.
- The store of a unit (`--processes`) is that of its processes, each with backups of its own; `NAME-k` and the
  number of processes are the same in both directories.
- The disk of a group's member goes back without its promises: the committed log stays, the votes, the view
  and the uncommitted tail go, and the other members hand it the rest as to an empty disk.
- A group that has lost the majority of its disks cannot be continued. The events of a remaining disk can be
  exported and published to a new group; the uncommitted tail is among them, since any of its events may have
  been acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tidings.availability.records import Append, Delete, Loaded, Put, Record
from tidings.errors import InputError, StoreLockedError
from tidings.language import accepts
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocol.delivery.rows import SUBSCRIPTION, SubscriptionRow, decoded
from tidings.protocol.membership import agreed
from tidings.protocol.proposals import PlacedEvent
from tidings.protocol.recovery import group_log
from tidings.runtime.broker import owner_of
from tidings.runtime.processes import mark_unit, processes_of
from tidings.runtime.store_control import ControlConnection
from tidings.store.audit import audit
from tidings.store.backup import Backup, BackupSet, StoreSummary, check_empty, inspect
from tidings.store.keyed import KeyedStore
from tidings.store.restored import claim
from tidings.store.rocks import CHECKPOINTS, RocksEngine, RocksStore

PAGE_EVENTS, PAGE_BYTES = 1_000, 16 << 20  # read at once by an export
_NOTHING_PROVED = b"\x00"  # epoch 0, in MessagePack


def backup_set(path: Path) -> BackupSet:
    return BackupSet(path, lambda loaded: (owner_of(loaded), is_member(loaded)))


def is_member(loaded: Loaded) -> bool:
    """Is it the disk of a group's member?"""
    return bool(loaded.tables.get(agreed.TABLE))


def durables_of(loaded: Loaded) -> list[str]:
    """Names of the durable subscriptions of a store."""
    rows = decoded(loaded.tables, SUBSCRIPTION, SubscriptionRow)
    return [row.subscription.id.name for row in rows]


class Restored(NamedTuple):
    """A backup that became a store again."""

    backup: Backup
    gap: int  # offsets that the log leaves out; 0: of a group's member, or of a log that had not begun
    is_remembered: bool  # does the directory of the backups know where the log goes on?


@contextmanager
def readable(store: Path) -> Iterator[tuple[Path, StoreSummary]]:
    """A directory whose content is that of the store and does not change, and what it holds."""
    check_store(store)
    try:
        summary = inspect(store)
    except StoreLockedError:
        with closing(ControlConnection(store)) as broker:
            folder = store / CHECKPOINTS / str(broker.ask("checkpoint")["folder"])
            yield folder, inspect(folder)
        return
    yield store, summary


def back_up(store: Path, into: Path) -> tuple[Backup, int]:
    """Back a store up; the backup, and how many bytes were copied for it."""
    if into.resolve().is_relative_to(store.resolve()):
        raise InputError(f"{into} lies in the store itself", hint="name a directory on another disk")
    with readable(store) as (folder, _):
        return backup_set(into).take(folder, store=store)


def restore(backups: Path, store: Path, number: int | None = None, now: datetime | None = None) -> Restored:
    """Put a backup into an empty place, ready for its broker to start."""
    gap, is_remembered = 0, True
    source = backup_set(backups)

    def finish(new: Path, backup: Backup) -> None:
        nonlocal gap, is_remembered
        with closing(RocksStore(new)) as opened:
            loaded = opened.load()
            if is_member(loaded):
                opened.commit(_without_promises(loaded))
            elif backup.broker or backup.next_offset > 1:  # a log has begun
                known = max(each.next_offset for each in (backup, *source.backups()))
                start, is_remembered = claim(backups, known, now or datetime.now(UTC))
                gap = start - backup.next_offset
                opened.skip(gap)

    return Restored(source.restore(store, number, finish=finish), gap, is_remembered)


def back_up_all(store: Path, into: Path) -> Iterator[tuple[Path, Backup, int]]:
    """Back up the store of a broker, or of each process of a unit: where to, the backup, and how many bytes
    were copied."""
    stores = members(store)
    if stores == [store]:
        yield into, *back_up(store, into)
        return
    if BackupSet.is_at(into):
        raise InputError(
            f"{into} holds backups of one broker, and {store} is that of a unit",
            hint="give them a directory of their own",
        )
    for each in stores:
        yield into / each.name, *back_up(each, into / each.name)
    mark_unit(into, len(stores))


def restore_all(backups: Path, store: Path, number: int | None = None) -> list[tuple[Path, Restored]]:
    """Restore the store of a broker, or of each process of a unit. A unit is marked as one when all its
    processes are there."""
    sets = members(backups)
    if sets == [backups]:
        return [(store, restore(backups, store, number))]
    check_empty(store)
    for each in sets:
        backup_set(each).find(number)
    done = [(store / each.name, restore(each, store / each.name, number)) for each in sets]
    mark_unit(store, len(sets))
    return done


def _without_promises(loaded: Loaded) -> list[Record]:
    rows = [(table, key) for table in (agreed.TABLE, group_log.TABLE) for key in loaded.tables.get(table, ())]
    gone: list[Record] = [Delete(table, key) for table, key in rows if key != group_log.EPOCH]
    return [*gone, Put(group_log.TABLE, group_log.EPOCH, _NOTHING_PROVED)]


def verify(
    path: Path,
    number: int | None = None,
    beside: Callable[[Path, list[str]], None] = lambda folder, names: None,
) -> dict[str, Any]:
    """Read and check everything in a store, or in a backup. `beside` checks the files of gateways in the
    directory of a store, with the names of its durable subscriptions. Raises `CorruptionError`."""
    if BackupSet.is_at(path):
        backups = backup_set(path)
        backup = backups.verify(number)
        return {
            "backup": backup.number,
            "checked": len(backups.backups()) if number is None else 1,
            "broker": backup.broker,
            "entries": backup.entries,
            "rows": backup.rows,
            "next_offset": backup.next_offset,
            "bytes": backup.size,
        }
    with readable(path) as (folder, summary):
        beside(path, durables_of(summary.loaded))
        account, size = summary.account, sum(file.stat().st_size for file in (folder / "db").glob("*"))
        return {
            "broker": owner_of(summary.loaded),
            "entries": account.entries,
            "rows": account.rows,
            "next_offset": account.next_offset,
            "bytes": size,
        }


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a log that is exported: all of it by default."""

    filter: Filter | None = None
    since: float = -inf  # seconds since 1970: accepted then or later ...
    until: float = inf  # ... and before then
    first: int = 1  # offsets, both ends included
    last: int | None = None

    def takes(self, entry: Append) -> bool:
        if self.last is not None and entry.offset > self.last:
            return False
        if not self.since <= entry.accepted < self.until:
            return False
        return self.filter is None or accepts(self.filter, entry.event)


EVERYTHING = Selection()


def exported(
    path: Path, selection: Selection = EVERYTHING, number: int | None = None
) -> Iterator[tuple[int, float, Event]]:
    """The events of the log of a store, or of a backup, in their order, each with its offset and the time of
    its acceptance; of a group's member also those that it does not know to be committed. Only reads."""
    with _still(path, number) as folder, closing(RocksEngine(folder)) as engine:
        found = audit(engine)
        loaded, kept = found[1], KeyedStore(engine, found)
        after, last = selection.first - 1, selection.last or loaded.next_offset
        while after < last and (page := kept.fetch(after + 1, PAGE_EVENTS, PAGE_BYTES)):
            yield from ((each.offset, each.accepted, each.event) for each in page if selection.takes(each))
            after = page[-1].offset
        for each in _uncommitted(loaded):
            if each.offset >= selection.first and selection.takes(each):
                yield each.offset, each.accepted, each.event


def _uncommitted(loaded: Loaded) -> list[Append]:
    """Entries of a group's member behind its log, in their order. When they were accepted is not stored: they
    count as the latest."""
    tail = [
        msgspec.msgpack.decode(value, type=PlacedEvent)
        for key, value in loaded.tables.get(group_log.TABLE, {}).items()
        if key != group_log.EPOCH
    ]
    return [
        Append(placed.offset, placed.proposal.event, loaded.latest)
        for placed in sorted(tail, key=lambda placed: placed.offset)
        if placed.offset >= loaded.next_offset
    ]


@contextmanager
def _still(path: Path, number: int | None) -> Iterator[Path]:
    """The directory of a store, or of that of a backup, that does not change meanwhile."""
    if BackupSet.is_at(path):
        with backup_set(path).opened(number) as folder:
            yield folder
        return
    if number is not None:
        raise InputError(f"{path} is a store", hint="--number is that of a backup: name their directory")
    with readable(path) as (folder, _):
        yield folder


def compact(store: Path) -> dict[str, int]:
    """Rewrite the tables of a store without what was forgotten; its bytes before and after."""
    check_store(store)
    try:
        opened = RocksStore(store)
    except StoreLockedError:
        with closing(ControlConnection(store)) as broker:
            answer = broker.ask("compact")
            return {"before": answer["before"], "after": answer["after"]}
    with closing(opened):
        before = opened.sizes()["bytes"]
        opened.compact()
        return {"before": before, "after": opened.sizes()["bytes"]}


def members(folder: Path) -> list[Path]:
    """The stores, or the backups, of the processes of a unit; of one broker, the folder itself."""
    count = processes_of(folder)
    if not count:
        return [folder]
    found = {each.name.rpartition("-")[2]: each for each in folder.iterdir() if each.is_dir()}
    missing = [number for number in map(str, range(1, count + 1)) if number not in found]
    if missing:
        raise InputError(
            f"{folder} is that of {count} processes, and that of process {', '.join(missing)} is not there",
            hint="restore each from its own backups: tidings store restore DIR/NAME-k STORE/NAME-k",
        )
    return [found[str(number)] for number in range(1, count + 1)]


def check_store(store: Path) -> None:
    """Refuse a path that holds no store: opening it would make one."""
    if ":/" in str(store):  # Path makes one slash of two
        raise InputError(
            f"{store} is no directory", hint="back up what keeps it: of JetStream, its own streams"
        )
    if not (store / "db").is_dir():
        raise InputError(f"{store} holds no store", hint="name the directory that the broker has as --store")
