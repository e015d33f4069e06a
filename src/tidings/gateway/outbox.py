"""Transactional outbox: events that are published when a database transaction commits, and only then.

    outbox = Outbox(metadata)                     # a table beside the application's own

    with Session(engine) as session, session.begin():
        session.add(Order(number=7))
        session.execute(outbox.insert({"order": 7}, topic="orders"))

    with tidings.open("tidings://…") as bus:      # in a process or thread of its own
        OutboxRelay(engine, outbox, bus).run()

Rules
- The row of an event is part of the application's transaction: both are there, or neither.
- The identity of the event (source and id) is fixed in its row. A relay that was killed between publishing
  and deleting publishes the same identity again, and the broker answers with the first receipt: each event is
  accepted once. That holds for as long as the broker remembers identities (`dedup_seconds`, an hour after the
  event has ended); a relay that was away for longer than this between the two steps may repeat its last
  batch.
- Rows are published in the order of their numbers. Several relays take turns: each batch locks its rows.
- A row that the broker refuses for good (too large, no right to publish) keeps its error and is passed over,
  so that it holds no other back; `outbox.refused` reads them.
- No network call is made while the application's transaction is open.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from tidings.errors import (
    EventError,
    MissingDependencyError,
    RefusedError,
    StoreFullError,
    TidingsError,
    UnknownOutcomeError,
    UnreachableError,
    install_command,
)
from tidings.model.event import Event
from tidings.runtime.blocking import BlockingBus
from tidings.runtime.coercion import event_from
from tidings.runtime.options import Mode, PublishOptions

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Insert, MetaData, Table

log = logging.getLogger("tidings.outbox")
TABLE = "tidings_outbox"
POLL_SECONDS = 0.2  # between two looks at an empty table; less finds events sooner and asks the database more
PUBLISH_SECONDS = 2.0  # at most for the publish of a batch, which holds locks; SQLite's writers wait for 5
RETRY_SECONDS = 1.0  # after a database or a broker could not be reached

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Event).decode


def _sqlalchemy() -> Any:
    try:
        import sqlalchemy
    except ImportError:
        raise MissingDependencyError(
            "the outbox needs the package sqlalchemy", hint=install_command("tidings[outbox]")
        ) from None
    return sqlalchemy


class Outbox:
    """The table of events that wait to be published, as a part of the application's schema."""

    def __init__(
        self, metadata: MetaData | None = None, *, name: str = TABLE, source: str = "outbox"
    ) -> None:
        sa = _sqlalchemy()
        self.source = source  # of events that name no other
        number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite counts in INTEGER alone
        self.table: Table = sa.Table(
            name,
            sa.MetaData() if metadata is None else metadata,
            sa.Column("number", number, primary_key=True, autoincrement=True),
            sa.Column("source", sa.String(255), nullable=False),
            sa.Column("id", sa.String(255), nullable=False),
            sa.Column("event", sa.LargeBinary, nullable=False),
            sa.Column("refused", sa.Text, nullable=True),  # why the broker does not accept it
            sa.UniqueConstraint("source", "id", name=f"{name}_identity"),
            sqlite_autoincrement=True,
        )

    def create(self, engine: Engine) -> None:
        """Make the table unless it is there; applications with migrations describe it in these."""
        self.table.create(engine, checkfirst=True)

    def insert(
        self, what: Mapping[str, Any] | Event | Any = None, /, **options: Unpack[PublishOptions]
    ) -> Insert:
        """The statement that puts an event into the outbox; execute it in the transaction of the data that
        the event is about. Options as for `Bus.publish`."""
        given: dict[str, Any] = {**options}
        if not isinstance(what, Event) and given.get("id") is None:
            given["id"] = uuid.uuid4().hex
        event, _ = event_from(what, given, self.source)
        return self.table.insert().values(source=event.source, id=event.id, event=_encode(event))

    def pending(self, connection: Connection) -> int:
        """How many events wait to be published."""
        sa, rows = _sqlalchemy(), self.table.c
        query = sa.select(sa.func.count()).select_from(self.table).where(rows.refused.is_(None))
        return int(connection.execute(query).scalar_one())

    def refused(self, connection: Connection) -> list[tuple[int, Event, str]]:
        """Events that the broker refused, with their numbers and the reasons."""
        rows = self.table.c
        query = self.table.select().where(rows.refused.is_not(None)).order_by(rows.number)
        return [(row.number, _decode(row.event), row.refused) for row in connection.execute(query)]


class OutboxRelay:
    """Publishes the events of an outbox, in order, and deletes their rows."""

    def __init__(
        self, engine: Engine, outbox: Outbox, bus: BlockingBus, *, batch: int = 256, mode: Mode = "auto"
    ) -> None:
        self.published = 0
        self._engine = engine
        self._outbox = outbox
        self._bus = bus
        self._batch = batch  # rows of one transaction; more is faster and repeats more after a crash
        self._mode = mode
        self._end = threading.Event()
        self._wake = threading.Event()

    def run(self, *, poll: float = POLL_SECONDS, retry: float = RETRY_SECONDS) -> None:
        """Relay until `stop` is called. A broker or database that is away is tried again every `retry`
        seconds."""
        from sqlalchemy.exc import DBAPIError

        while not self._end.is_set():
            try:
                pause = 0.0 if self.relay() else poll
            except (UnreachableError, UnknownOutcomeError, StoreFullError, DBAPIError) as error:
                log.warning("the outbox waits: %s", error)
                pause = retry
            if pause:
                self._wake.wait(pause)
                self._wake.clear()

    def stop(self) -> None:
        """End `run` after the batch that is on its way."""
        self._end.set()
        self._wake.set()

    def wake(self) -> None:
        """Look at the table now, as after a commit in this process."""
        self._wake.set()

    def relay(self) -> int:
        """Publish one batch and delete its rows; how many were published."""
        table = self._outbox.table
        if self._bus.state == "down":  # no lock is taken: the application's transactions go on
            raise UnreachableError(f"no broker is connected: {self._bus.state.reason}")
        with self._engine.begin() as connection:
            if connection.dialect.name == "sqlite":  # it has no row locks: the whole batch is one writer
                connection.execute(table.update().where(table.c.number < 0).values(refused=None))
            query = table.select().where(table.c.refused.is_(None)).order_by(table.c.number)
            rows = connection.execute(query.limit(self._batch).with_for_update()).all()
            if not rows:
                return 0
            refused = self._publish([(row.number, _decode(row.event)) for row in rows])
            done = [row.number for row in rows if row.number not in refused]
            connection.execute(table.delete().where(table.c.number.in_(done)))
            for number, reason in refused.items():
                connection.execute(table.update().where(table.c.number == number).values(refused=reason))
        self.published += len(done)
        return len(rows)

    def _publish(self, rows: list[tuple[int, Event]]) -> dict[int, str]:
        """Publish events; those that the broker refuses for good, with the reasons."""
        try:
            self._bus.publish_many([event for _, event in rows], mode=self._mode, timeout=PUBLISH_SECONDS)
        except (EventError, RefusedError) as error:
            if len(rows) == 1:
                log.error("the broker refused event %s of the outbox: %s", rows[0][1].id, error)
                return {rows[0][0]: _words(error)}
            return self._one_by_one(rows)
        return {}

    def _one_by_one(self, rows: Iterable[tuple[int, Event]]) -> dict[int, str]:
        """Find those that are refused; what was accepted before has its identity, and is not accepted
        again."""
        refused: dict[int, str] = {}
        for row in rows:
            refused |= self._publish([row])
        return refused


def _words(error: TidingsError) -> str:
    return f"{type(error).__name__}: {error}"
