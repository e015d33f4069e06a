"""QoS 2 exchanges of MQTT sessions, and the journal that keeps them over a crash of the broker.

Rules
- From the client: before a message is published, its packet id and the id of its event are on the disk. A
  message that comes again under that packet id is published under the same identity, which the broker knows.
  PUBCOMP leaves when it is on the disk that the packet id is free: from then on it means another message.
- QoS 1 to a kept session: the packet id is written, without a sync, before the packet leaves, so that a
  resend after a crash of the process has the same packet id and DUP.
- A message has the QoS of its first sending until it is acknowledged, whatever the client subscribes to.
- To the client: before a message is sent, its packet id and its position are on the disk; after a restart
  the same event has the same packet id. PUBREL leaves when it is on the disk that the client has the
  message: from then on that event is not sent again, though the broker may not know that it was acknowledged.
- One file for all sessions: lines of JSON, appended and synced in groups. Opening the file writes it anew
  with what is still under way, and so does a file that has grown too large.
- A session without a file (no store, or one that ends with its connection) does the same in memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from pathlib import Path
from typing import Any

import msgspec

from tidings.errors import StoreFullError
from tidings.gateway.subscriptions import replace_file
from tidings.model.decoding import UNREADABLE
from tidings.model.subscription import Position

log = logging.getLogger("tidings.gateway")

FILE = "mqtt-exchanges.jsonl"
LARGEST = 16 << 20  # bytes of the file; larger, it is written anew
MOST_HANDLED = 4096  # positions of one session that the client has, and the broker may not know of

IN, KEPT, RELEASED, OUT, RECEIVED, DONE, LEFT, END = (
    "in",
    "kept",
    "released",
    "out",
    "received",
    "done",
    "left",
    "end",
)


_Line = tuple[bytes, asyncio.Future[None] | None]  # a line of the file, and who waits for its sync


class OutgoingExchange(msgspec.Struct):
    """A message on its way to the client, or one that it has and PUBCOMP has not come for."""

    name: str  # of the subscription
    position: Position
    qos: int | None  # of its first sending; None: an earlier version wrote it
    is_received: bool = False


class Exchanges:
    """Those of one session."""

    def __init__(self, session: str, journal: ExchangeJournal | None) -> None:
        self.session = session
        self._journal = journal
        self._events: dict[int, str] = {}  # by packet id from the client: the id of its event
        self._kept: set[int] = set()  # of those: published
        self.outgoing: dict[int, OutgoingExchange] = {}  # by our packet id
        self._handled: dict[tuple[str, Position], None] = {}  # the client has them
        self._earlier: dict[tuple[str, Position], int] = {}  # packet ids of those that come again

    # -- from the client ---------------------------------------------------------------------------

    def is_kept(self, packet_id: int) -> bool:
        return packet_id in self._kept

    @property
    def open(self) -> int:
        """Messages from the client that wait for PUBREL."""
        return len(self._events)

    async def begin(self, packet_id: int, known: str | None = None) -> str:
        """The id of the event for this message, from now on the same whenever it comes again; `known` is its
        id in an earlier session."""
        event = self._events.get(packet_id)
        if event is None:
            event = known or f"mqtt-{secrets.token_hex(12)}"
            self._events[packet_id] = event
            await self._keep(IN, packet_id, event)
        return event

    def published(self, packet_id: int) -> None:
        self._kept.add(packet_id)
        self._note(KEPT, packet_id)

    def is_open(self, packet_id: int) -> bool:
        return packet_id in self._events

    async def release(self, packet_id: int) -> None:
        """The packet id is free: the client uses it for another message next."""
        if packet_id in self._events:
            await self._keep(RELEASED, packet_id)
        self._events.pop(packet_id, None)
        self._kept.discard(packet_id)

    def drop(self, packet_id: int) -> None:
        """The message was refused: no event was published under its id."""
        if self._events.pop(packet_id, None) is not None:
            self._kept.discard(packet_id)
            self._note(RELEASED, packet_id)

    # -- to the client -----------------------------------------------------------------------------

    def resume(self) -> list[int]:
        """The broker will bring again what the client has not confirmed. Packet ids that wait for PUBCOMP."""
        sent = {(out.name, out.position): id for id, out in self.outgoing.items() if not out.is_received}
        self._earlier = sent
        return [id for id, out in self.outgoing.items() if out.is_received]

    def packet_id(self, name: str, position: Position) -> int | None:
        """Under which it was sent before, by an earlier life of the session."""
        return self._earlier.pop((name, position), None) if self._earlier else None

    def qos(self, name: str, position: Position | None) -> int | None:
        """With which it was sent before, by an earlier life: a SUBSCRIBE changes no message that was sent."""
        packet_id = self._earlier.get((name, position)) if self._earlier and position is not None else None
        return None if packet_id is None else self.outgoing[packet_id].qos

    def sent(self, name: str) -> list[tuple[int, Position]]:
        """Packet ids and positions of this subscription that the client has not confirmed."""
        return [
            (id, out.position)
            for id, out in self.outgoing.items()
            if out.name == name and not out.is_received
        ]

    def is_handled(self, name: str, position: Position) -> bool:
        return (name, position) in self._handled

    def send(self, packet_id: int, name: str, position: Position) -> asyncio.Future[None] | None:
        """Record the packet id of an outgoing message; returns when to send it (None: at once)."""
        self.outgoing[packet_id] = OutgoingExchange(name, position, 2)
        return self._append(OUT, packet_id, name, position.log, position.offset, 2)

    def note_sent(self, packet_id: int, name: str, position: Position) -> None:
        """Record the packet id of a message of QoS 1, which is sent at once: a resend after a crash has it
        too."""
        self.outgoing[packet_id] = OutgoingExchange(name, position, 1)
        self._note(OUT, packet_id, name, position.log, position.offset, 1)

    def received(self, packet_id: int) -> asyncio.Future[None] | None:
        """PUBREC came; when PUBREL may leave (None: at once)."""
        out = self.outgoing.get(packet_id)
        if out is None:
            return None
        self._handle(out)
        return self._append(RECEIVED, packet_id)

    def done(self, packet_id: int) -> None:
        """PUBCOMP came."""
        if self.outgoing.pop(packet_id, None) is not None:
            self._note(DONE, packet_id)

    def left(self, name: str) -> None:
        """The subscription has ended: its sent messages do not concern the next subscription of its name."""
        self._leave(name)
        self._note(LEFT, name)

    def end(self) -> None:
        """The session is over."""
        if self._journal is not None:
            self._journal.end(self.session)

    def _handle(self, out: OutgoingExchange) -> None:
        out.is_received = True
        self._handled[out.name, out.position] = None
        if len(self._handled) > MOST_HANDLED:
            del self._handled[next(iter(self._handled))]

    def _leave(self, name: str) -> None:
        for packet_id in [
            id for id, out in self.outgoing.items() if out.name == name and not out.is_received
        ]:
            del self.outgoing[packet_id]
        for handled in [each for each in self._handled if each[0] == name]:
            del self._handled[handled]

    # -- the journal -------------------------------------------------------------------------------

    async def _keep(self, *stated: Any) -> None:
        future = self._append(*stated)
        if future is not None:
            await future

    def _append(self, *stated: Any) -> asyncio.Future[None] | None:
        return None if self._journal is None else self._journal.append(self.session, stated)

    def _note(self, *stated: Any) -> None:
        """Written with the next line that has to be; when it is lost, the exchange only repeats a step."""
        if self._journal is not None:
            self._journal.note(self.session, stated)

    def lines(self) -> list[tuple[Any, ...]]:
        """All of it, for a file that is written anew."""
        lines: list[tuple[Any, ...]] = [(IN, id, event) for id, event in self._events.items()]
        lines += [(KEPT, id) for id in self._kept]
        for name, position in self._handled:
            lines += [(OUT, 0, name, position.log, position.offset), (RECEIVED, 0), (DONE, 0)]
        for id, out in self.outgoing.items():
            lines.append((OUT, id, out.name, out.position.log, out.position.offset, out.qos))
            if out.is_received:
                lines.append((RECEIVED, id))
        return lines

    def replay(self, what: str, *stated: Any) -> None:
        """Take in a line of the file."""
        match what, stated:
            case "in", (int(id), str(event)):
                self._events[id] = event
            case "kept", (int(id),):
                self._kept.add(id)
            case "released", (int(id),):
                self._events.pop(id, None)
                self._kept.discard(id)
            case "out", (int(id), str(name), str(log), int(offset), *qos):
                self.outgoing[id] = OutgoingExchange(name, Position(log, offset), qos[0] if qos else None)
            case "received", (int(id),) if id in self.outgoing:
                self._handle(self.outgoing[id])
            case "done", (int(id),):
                self.outgoing.pop(id, None)
            case "left", (str(name),):
                self._leave(name)


class ExchangeJournal:
    """The file. Lines are written on the event loop, and synced in a thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._sessions: dict[str, Exchanges] = {}
        self._waiting: list[_Line] = []
        self._unsynced: list[_Line] = []  # written: those that wait for a sync, and all while `_is_renewing`
        self._is_renewing = False
        self._syncing: asyncio.Task[None] | None = None
        self._file: int | None = None
        self._size = self._most = 0  # bytes; of more, the file is written anew
        self._is_flushing = False

    def load(self, sessions: set[str]) -> None:
        """Read the exchanges of these sessions; the last line may be torn, since it was never
        acknowledged."""
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        for line in lines:
            try:
                session, *stated = msgspec.json.decode(line, type=list[Any])
            except (*UNREADABLE, ValueError):
                continue
            if session in sessions and stated:
                if stated[0] == END:
                    self._sessions.pop(session, None)
                else:
                    self.of(session).replay(*stated)
        data = self._all()
        replace_file(self._path, data)
        self._open(len(data))

    def of(self, session: str) -> Exchanges:
        found = self._sessions.get(session)
        if found is None:
            found = self._sessions[session] = Exchanges(session, self)
        return found

    def end(self, session: str) -> None:
        if self._sessions.pop(session, None) is not None:
            self.note(session, (END,))

    def append(self, session: str, stated: tuple[Any, ...]) -> asyncio.Future[None]:
        """Write a line; the future is done when it is on the disk."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((_line(session, stated), future))
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync(), name="mqtt exchanges")
        return future

    def note(self, session: str, stated: tuple[Any, ...]) -> None:
        """Write a line without a sync, before the next packet leaves; a crash of the machine may lose it."""
        self._waiting.append((_line(session, stated), None))
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write the lines that wait."""
        self._is_flushing = False
        if self._file is None or not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        data = b"".join(line for line, _ in batch)
        try:
            if os.write(self._file, data) != len(data):
                raise OSError(28, "No space left on device")
        except OSError as error:
            os.ftruncate(self._file, self._size)  # half a line would spoil the next one
            self._failed(batch, error)
            return
        self._size += len(data)
        self._unsynced += batch if self._is_renewing else [line for line in batch if line[1] is not None]
        if self._size > self._most and self._syncing is None:
            self._syncing = asyncio.create_task(self._sync(), name="mqtt exchanges")

    async def close(self) -> None:
        """Close the file when every line is on the disk, also one that comes while this waits."""
        self.flush()
        while self._syncing is not None:
            await self._syncing
            self.flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    async def _sync(self) -> None:
        """One sync for all that came while the one before it was under way."""
        try:
            while True:
                self.flush()
                if self._size <= self._most and not self._unsynced:
                    return
                batch, self._unsynced = self._unsynced, []
                try:
                    assert self._file is not None
                    if self._size > self._most:
                        await self._write_anew(batch)
                    else:
                        await asyncio.to_thread(os.fdatasync, self._file)
                except OSError as error:
                    self._failed(batch, error)
                else:
                    _finish(batch, None)
        finally:
            self._syncing = None

    async def _write_anew(self, batch: list[_Line]) -> None:
        """Replace the file by what is under way, and by lines that the exchanges may not have followed yet.
        Lines that are written meanwhile are in both files."""
        data = self._all() + b"".join(line for line, _ in batch)
        self._most = self._size + LARGEST  # when it is tried again, if it fails
        self._is_renewing = True
        try:
            await asyncio.to_thread(replace_file, self._path, data)
            self._open(len(data))
            waiting, self._unsynced = self._unsynced, []
            self._waiting = waiting + self._waiting
        finally:
            self._is_renewing = False
            self._unsynced = [line for line in self._unsynced if line[1] is not None]
        self.flush()

    def _open(self, size: int) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self._size, self._most = size, max(LARGEST, 2 * size)

    def _all(self) -> bytes:
        lines = [_line(name, stated) for name, each in self._sessions.items() for stated in each.lines()]
        return b"".join(lines)

    def _failed(self, batch: list[_Line], error: OSError) -> None:
        log.error("mqtt: %s cannot be written: %s", self._path, error.strerror)
        _finish(batch, StoreFullError(f"the exchange cannot be kept: {error.strerror}"))


def _line(session: str, stated: tuple[Any, ...]) -> bytes:
    return msgspec.json.encode((session, *stated)) + b"\n"


def _finish(batch: list[_Line], problem: StoreFullError | None) -> None:
    for _, future in batch:
        if future is None or future.done():
            continue
        if problem is None:
            future.set_result(None)
        else:
            future.set_exception(problem)
