"""State of an organisation's service, in one SQLite file.

Rules
- Related rows are written together: `with state.writing():` is one transaction, and when it is left all its
  rows are on the disk. An answer leaves only after that.
- An event is taken once: its identity is noted with what is to be done about it (notifications for
  local users, sendings to other organisations). The last `remember` identities are kept.
- Notifications of a subscription are numbered from 1 without gaps; they stay until they are acknowledged.
- One process at a time has the file.
- Without a path everything lives in memory, and ends with the process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tidings.errors import StoreError, StoreLockedError
from tidings.model.cloudevents import from_structured, to_structured
from tidings.model.event import Event
from tidings_quality.routing.trees import Branch

REMEMBER = 1_000_000  # identities; an event that comes again later than that is taken for a new one
LOCK_SECONDS = 1.0  # that a process may take to let go of the file at its end

_TABLES = """
CREATE TABLE IF NOT EXISTS subscription (
    id TEXT PRIMARY KEY, user TEXT, text TEXT, dispatcher TEXT, target TEXT, last INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS notification (
    subscription TEXT, number INTEGER, event BLOB, PRIMARY KEY (subscription, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (place INTEGER PRIMARY KEY, source TEXT, id TEXT, UNIQUE (source, id));
CREATE TABLE IF NOT EXISTS sending (place INTEGER PRIMARY KEY, target TEXT, event BLOB, below BLOB);
CREATE INDEX IF NOT EXISTS sending_by_target ON sending (target, place);
CREATE TABLE IF NOT EXISTS refused (target TEXT, event BLOB, reason TEXT);
CREATE TABLE IF NOT EXISTS told (producer TEXT, text TEXT, PRIMARY KEY (producer, text));
CREATE TABLE IF NOT EXISTS external (consumer TEXT, text TEXT, PRIMARY KEY (consumer, text));
CREATE TABLE IF NOT EXISTS number (who TEXT PRIMARY KEY, number INTEGER);
"""


class LocalSubscription(msgspec.Struct, frozen=True):
    """A row of the local subscription table."""

    id: str
    user: str
    text: str
    dispatcher: str = "inbox"
    target: str = ""


class Sending(msgspec.Struct, frozen=True):
    """An event to send to another organisation, with the branches that it has to send it on to."""

    place: int
    event: bytes
    below: tuple[Branch, ...] = ()


class OrganisationState:
    def __init__(self, path: Path | str | None = None, *, remember: int = REMEMBER) -> None:
        self._remember = remember
        try:
            self._db = sqlite3.connect(
                str(path or ":memory:"), timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._db.execute(
                "PRAGMA locking_mode = EXCLUSIVE"
            )  # two services on one state would tell all twice
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_TABLES)
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise StoreLockedError(
                    f"{path} is in use", hint="another process serves this organisation: stop it first"
                ) from None
            raise StoreError(f"{path}: {error}", hint="name a file that this process may write") from None
        self._writing = False

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction; inside another one, a part of it."""
        if self._writing:
            yield
            return
        self._writing = True
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        else:
            self._db.execute("COMMIT")
        finally:
            self._writing = False

    # -- local subscriptions and their notifications ----------------------------------------

    def subscriptions(self) -> list[LocalSubscription]:
        rows = self._db.execute("SELECT id, user, text, dispatcher, target FROM subscription ORDER BY rowid")
        return [LocalSubscription(*row) for row in rows]

    def add_subscription(self, one: LocalSubscription) -> None:
        with self.writing():
            self._db.execute(
                "INSERT INTO subscription (id, user, text, dispatcher, target) VALUES (?, ?, ?, ?, ?)",
                (one.id, one.user, one.text, one.dispatcher, one.target),
            )

    def remove_subscription(self, id: str) -> None:
        with self.writing():
            self._db.execute("DELETE FROM subscription WHERE id = ?", (id,))
            self._db.execute("DELETE FROM notification WHERE subscription = ?", (id,))

    def add_notification(self, subscription: str, event: bytes) -> None:
        with self.writing():
            self._db.execute("UPDATE subscription SET last = last + 1 WHERE id = ?", (subscription,))
            self._db.execute(
                "INSERT INTO notification SELECT id, last, ? FROM subscription WHERE id = ?",
                (event, subscription),
            )

    def notifications(self, subscription: str, after: int = 0, limit: int = 100) -> list[tuple[int, bytes]]:
        return self._db.execute(
            "SELECT number, event FROM notification WHERE subscription = ? AND number > ? "
            "ORDER BY number LIMIT ?",
            (subscription, after, limit),
        ).fetchall()

    def acknowledge(self, subscription: str, upto: int) -> None:
        with self.writing():
            self._db.execute(
                "DELETE FROM notification WHERE subscription = ? AND number <= ?", (subscription, upto)
            )

    # -- events -------------------------------------------------------------------------------

    def take(self, event: Event) -> bool:
        """Note an event; False: it was here before."""
        with self.writing():
            done = self._db.execute(
                "INSERT OR IGNORE INTO seen (source, id) VALUES (?, ?)", (event.source, event.id)
            )
            if not done.rowcount:
                return False
            self._db.execute(
                "DELETE FROM seen WHERE place <= ?", (int(done.lastrowid or 0) - self._remember,)
            )
        return True

    def add_sendings(self, event: bytes, branches: Sequence[Branch]) -> None:
        with self.writing():
            self._db.executemany(
                "INSERT INTO sending (target, event, below) VALUES (?, ?, ?)",
                [(one.name, event, msgspec.json.encode(one.below)) for one in branches],
            )

    def sendings(self, target: str, limit: int = 100) -> list[Sending]:
        rows = self._db.execute(
            "SELECT place, event, below FROM sending WHERE target = ? ORDER BY place LIMIT ?", (target, limit)
        )
        return [
            Sending(position, event, msgspec.json.decode(below, type=tuple[Branch, ...]))
            for position, event, below in rows
        ]

    def sent(self, positions: Sequence[int]) -> None:
        with self.writing():
            self._db.executemany(
                "DELETE FROM sending WHERE place = ?", [(position,) for position in positions]
            )

    def take_over(self, sendings: Sequence[Sending]) -> set[str]:
        """Send to those below ourselves; who has to be told now."""
        names: set[str] = set()
        with self.writing():
            for one in sendings:
                self.add_sendings(one.event, one.below)
                self._db.execute("UPDATE sending SET below = '[]' WHERE place = ?", (one.place,))
                names.update(branch.name for branch in one.below)
        return names

    def refuse(self, target: str, one: Sending, reason: str) -> None:
        """The target will never take it: it is put aside for people to look at."""
        with self.writing():
            self._db.execute("INSERT INTO refused VALUES (?, ?, ?)", (target, one.event, reason))
            self.sent([one.place])

    # -- merge subscriptions ------------------------------------------------------------------

    def confirmed(self, producer: str) -> tuple[int, set[str]]:
        """Merge subscription that a producer has confirmed: its number, and the subscriptions."""
        return self._merge("told", "producer", producer)

    def set_confirmed(self, producer: str, number: int, texts: set[str]) -> None:
        self._set_merge("told", "producer", producer, number, texts)

    def external(self, consumer: str) -> tuple[int, set[str]]:
        """The merge subscription of a consumer, and its number."""
        return self._merge("external", "consumer", consumer)

    def set_external(self, consumer: str, number: int, texts: set[str]) -> None:
        self._set_merge("external", "consumer", consumer, number, texts)

    def _merge(self, table: str, column: str, who: str) -> tuple[int, set[str]]:
        found = self._db.execute("SELECT number FROM number WHERE who = ?", (f"{table} {who}",)).fetchone()
        rows = self._db.execute(f"SELECT text FROM {table} WHERE {column} = ?", (who,))  # nosec B608 # noqa: S608 - our own names
        return (found[0] if found else 0), {text for (text,) in rows}

    def _set_merge(self, table: str, column: str, who: str, number: int, texts: set[str]) -> None:
        with self.writing():
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (who,))  # nosec B608 # noqa: S608 - our own names
            self._db.executemany(
                f"INSERT INTO {table} VALUES (?, ?)",  # nosec B608 # noqa: S608 - our own names
                [(who, text) for text in sorted(texts)],
            )
            self._db.execute("INSERT OR REPLACE INTO number VALUES (?, ?)", (f"{table} {who}", number))

    def figures(self) -> dict[str, int]:
        """Number of rows of each kind."""
        return {
            table: self._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # nosec B608 # noqa: S608 - our own names
            for table in ("subscription", "notification", "seen", "sending", "refused", "told", "external")
        }


def packed(event: Event) -> bytes:
    """An event as it is kept and sent: a CloudEvent, without loss."""
    return to_structured(event)


def unpacked(event: bytes) -> Event:
    return from_structured(event)
