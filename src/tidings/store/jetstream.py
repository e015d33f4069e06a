"""A store behind which an existing replicated engine stands: NATS JetStream.

Every commit is one message, or several that count together, in a stream with replicas: JetStream answers when
a majority has it, so an acknowledgement means replicated, and the broker needs no disk of its own. The stream
is replayed into memory when the store is opened.

Rules
- One owner at a time: each message names the sequence number that it comes after. An opening owner writes a
  message first; from then on an earlier owner, on any machine, is refused (`StoreError`), and stops.
- A message of the earlier owner may become visible between an opening owner's reading and its first message:
  a leader that was just elected answers before it has applied its log. The opening owner then reads again.
- A message that was not answered is sent again under its identity until `patience` is over, so that a server
  may die and another take its place; whether it was kept is looked up, never guessed.
- A value that is larger than a message goes in several, which count together: servers take 1 MB by default.
- `nats://HOST:PORT/NAME?replicas=1` is for development: acknowledged events live on one disk, and a warning
  says so. A stream that exists keeps its number of replicas.
- When the journal is several times as large as what it amounts to, all of that is written anew, and the rest
  purged.
- How safe a majority is decides the server: `sync_interval: always` makes each write wait for its disk.
  Servers before 2.10 do not know that setting, and sync every two minutes: a power cut of all machines can
  lose what was acknowledged there.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

import msgspec

from tidings.errors import MissingDependencyError, SettingsError, StoreError, install_command
from tidings.store.audit import audit
from tidings.store.engine import Change
from tidings.store.keyed import KeyedStore
from tidings.store.memory import MemoryDisk

log = logging.getLogger("tidings.store")

SCHEME = "nats://"
PART_BYTES = 512 << 10  # of one message; servers take 1 MB by default
LEAST_BYTES = 8 << 20  # below this a journal is not worth writing anew
WRONG_SEQUENCE = 10071  # JetStream's code: another owner wrote
TRY_SECONDS = 2.0
OPENING_TRIES = 10  # of an opening owner; an earlier owner that still writes moves the end of the stream
EXPECTED = "Nats-Expected-Last-Sequence"
IDENTITY = "Nats-Msg-Id"


class _OvertakenError(StoreError):
    """Another owner wrote after the last message that this one knows."""


class _JournalPart(msgspec.Struct, array_like=True):
    """A message of the journal: a part of a commit, or of everything written anew."""

    owner: str
    batch: int
    part: int
    parts: int
    marked: int  # the last commit that was acknowledged before it
    is_anew: bool
    changes: list[tuple[bytes, bytes | None]] | bytes  # bytes: a piece of such a list, in msgpack


class StreamJournal:
    """A stream of JetStream, from a thread of its own."""

    def __init__(self, servers: Sequence[str], name: str, *, replicas: int, patience: float) -> None:
        self._servers, self._name, self._replicas = list(servers), name, replicas
        self._patience = patience
        self._subject = f"tidings.store.{name}"
        self.last = 0
        self.bytes = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"jetstream {name}", daemon=True)
        self._thread.start()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def open(self) -> list[_JournalPart]:
        """Connect, make the stream if there is none, and read it all."""
        return self._do(self._open())  # type: ignore[no-any-return]

    async def _open(self) -> list[_JournalPart]:
        try:
            import nats
            from nats.js.api import RetentionPolicy, StorageType, StreamConfig
        except ImportError:
            raise MissingDependencyError(
                "a store in JetStream needs the package nats-py", hint=install_command("tidings[bridges]")
            ) from None
        deadline = self._loop.time() + self._patience
        config = StreamConfig(
            name=self._name, subjects=[self._subject], num_replicas=self._replicas,
            storage=StorageType.FILE, retention=RetentionPolicy.LIMITS,
        )  # fmt: skip
        options = {"connect_timeout": 2, "max_reconnect_attempts": -1, "error_cb": self._note}
        self._connection = await self._until(deadline, lambda: nats.connect(self._servers, **options))
        self._stream = self._connection.jetstream(timeout=TRY_SECONDS)
        await self._until(deadline, lambda: self._make(config))
        return await self._read_by(deadline)

    def read(self) -> list[_JournalPart]:
        """Read the stream again, from its beginning to its end."""
        return self._do(self._read_by(self._loop.time() + self._patience))  # type: ignore[no-any-return]

    async def _read_by(self, deadline: float) -> list[_JournalPart]:
        found: list[_JournalPart] = await self._until(deadline, self._read)
        return found

    async def _note(self, error: Exception) -> None:
        """A line instead of the client's own traceback for each server that is down."""
        log.info("store %s: %r", self._name, error)

    async def _make(self, config: Any) -> None:
        """Make the stream, or take it as it is. Raises `StoreError` when it has other replicas."""
        from nats.js.errors import NotFoundError

        try:
            found = (await self._stream.stream_info(self._name)).config.num_replicas or 1
        except NotFoundError:
            await self._stream.add_stream(config)
            return
        if found != self._replicas:
            raise StoreError(
                f"store {self._name}: its stream has {found} replicas, and {self._replicas} were asked for",
                hint=f"write ?replicas={found}, or change the stream with NATS's own tools",
            )

    async def _until(self, deadline: float, work: Callable[[], Any]) -> Any:
        """Try until it is done; a cluster that has just started has no leader yet."""
        import nats.errors
        from nats.js.errors import Error as StreamError

        while True:
            try:
                return await work()
            except (nats.errors.Error, StreamError, OSError, TimeoutError) as error:
                if self._loop.time() > deadline:
                    servers = ", ".join(self._servers)
                    raise StoreError(
                        f"store {self._name}: JetStream at {servers} does not answer: {error!r}",
                        hint="is it a cluster with JetStream, and is a majority of it up?",
                    ) from None
                await asyncio.sleep(0.1)

    async def _read(self) -> list[_JournalPart]:
        state = (await self._stream.stream_info(self._name)).state
        self.last, self.bytes = state.last_seq, state.bytes
        found: list[_JournalPart] = []
        if state.messages:
            reading = await self._stream.subscribe(self._subject, stream=self._name, ordered_consumer=True)
            while True:
                message = await reading.next_msg(timeout=TRY_SECONDS)
                found.append(msgspec.msgpack.decode(message.data, type=_JournalPart))
                if message.metadata.sequence.stream >= self.last:
                    break
            await reading.unsubscribe()
        return found

    def append(self, part: _JournalPart) -> int:
        """Append a message; returns its sequence number. Raises `StoreError`."""
        return self._do(self._append(part))  # type: ignore[no-any-return]

    async def _append(self, part: _JournalPart) -> int:
        from nats.errors import Error as ClientError
        from nats.js.errors import APIError
        from nats.js.errors import Error as StreamError

        data, identity = msgspec.msgpack.encode(part), uuid4().hex
        headers = {EXPECTED: str(self.last), IDENTITY: identity}
        deadline = self._loop.time() + self._patience
        while True:
            try:
                ack = await self._stream.publish(self._subject, data, timeout=TRY_SECONDS, headers=headers)
                self.last = ack.seq
                self.bytes += len(data)
                return self.last
            except APIError as error:
                reason: Exception = error
                if error.err_code == WRONG_SEQUENCE and (seen := await self._looked_up(identity)) is not None:
                    return seen
            except (ClientError, StreamError, OSError, TimeoutError) as error:
                reason = error
            if self._loop.time() > deadline:
                raise StoreError(
                    f"store {self._name}: JetStream took nothing for {self._patience:g} s: {reason!r}",
                    hint="a majority of its servers has to be up",
                ) from None
            await asyncio.sleep(0.1)

    async def _looked_up(self, identity: str) -> int | None:
        """The number of our own message, which follows the last one that we know; None: the server that was
        asked is behind, as a new leader is for a moment. Raises `StoreError` when another broker wrote."""
        try:
            found = await self._stream.get_last_msg(self._name, self._subject)
        except Exception as error:  # a leader that goes: ask again
            log.debug("store %s: the last message cannot be read now: %r", self._name, error)
            return None
        assert found.seq is not None
        if found.seq <= self.last:
            return None
        if (found.headers or {}).get(IDENTITY) != identity:
            raise _OvertakenError(
                f"store {self._name}: another broker has opened it, and this one is its owner no more",
                hint="one broker at a time; give each its own stream",
            )
        self.last = found.seq
        return self.last

    def purge_before(self, sequence: int) -> None:
        async def purge() -> None:
            await self._stream.purge_stream(self._name, seq=sequence)

        with suppress(Exception):  # it is only room; the next time will do
            self._do(purge())

    def close(self) -> None:
        with suppress(Exception):  # the server may be gone, and everything was answered
            self._do(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class JetStreamDisk(MemoryDisk):
    """An engine that writes to JetStream."""

    def __init__(
        self, servers: Sequence[str], stream: str, *, replicas: int = 3, patience: float = 30.0
    ) -> None:
        super().__init__()
        self.name = f"{SCHEME}{','.join(servers)}/{stream}"
        self._owner = uuid4().hex
        self._batch = 0
        self._marked = 0
        self._journal = StreamJournal(
            [f"{SCHEME}{server}" for server in servers], stream, replicas=replicas, patience=patience
        )
        try:
            self._own(self._journal.open())
        except BaseException:
            self._journal.close()
            raise

    def _own(self, parts: Sequence[_JournalPart]) -> None:
        """Replay the stream and write a first message; from then on the stream is ours. When a
        message of an earlier owner came between, the stream is read again."""
        for tries_left in reversed(range(OPENING_TRIES)):
            self._replay(parts)
            try:
                self._send([], is_anew=False)
            except _OvertakenError as error:
                if not tries_left:
                    raise
                log.info("%s: reads again: %s", self.name, error)
                parts = self._journal.read()
            else:
                return

    def _replay(self, parts: Sequence[_JournalPart]) -> None:
        """A commit with missing parts was never acknowledged."""
        self._values, self._keys, self._marked = {}, [], 0
        begun: list[_JournalPart] = []
        for part in parts:
            is_next = begun and (part.owner, part.batch, part.part) == (
                begun[0].owner,
                begun[0].batch,
                len(begun),
            )
            begun = [*begun, part] if is_next else [part] if part.part == 0 else []
            if begun and len(begun) == part.parts:
                if part.is_anew:
                    self._values, self._keys = {}, []
                for changes in _joined(begun):
                    super().write(changes)
                self._marked = max(self._marked, part.marked)
                begun = []

    def write(self, changes: Sequence[Change]) -> None:
        self._send(list(changes), is_anew=False)
        super().write(changes)
        if self._journal.bytes > LEAST_BYTES and self._journal.bytes > 4 * self.size():
            self._write_anew()

    def _send(self, changes: list[Change], *, is_anew: bool) -> int:
        """The sequence number of its first part."""
        self._batch += 1
        parts = list(_split(changes))
        numbers = [
            self._journal.append(
                _JournalPart(self._owner, self._batch, position, len(parts), self._marked, is_anew, part)
            )
            for position, part in enumerate(parts)
        ]
        return numbers[0]

    def _write_anew(self) -> None:
        first = self._send([(key, self._values[key]) for key in self._keys], is_anew=True)
        self._journal.purge_before(first)
        self._journal.bytes = self.size()

    def watermark(self) -> int:
        return self._marked

    def mark(self, commit: int) -> None:
        self._marked = commit

    def close(self) -> None:
        self._journal.close()


def _split(changes: list[Change]) -> Generator[list[Change] | bytes, None, None]:
    """Parts that fit into a message each. Changes that no message holds whole go as pieces of bytes."""
    part: list[Change] = []
    size = 0
    for key, value in changes:
        length = len(key) + len(value or b"")
        if part and size + length > PART_BYTES:
            yield part
            part, size = [], 0
        if length > PART_BYTES:
            encoded = msgspec.msgpack.encode([(key, value)])
            yield from (encoded[at : at + PART_BYTES] for at in range(0, len(encoded), PART_BYTES))
            yield b""  # ends the pieces
            continue
        part.append((key, value))
        size += length
    yield part


def _joined(parts: Sequence[_JournalPart]) -> Generator[list[Change], None, None]:
    """The changes of a commit whose parts are all there."""
    pieces: list[bytes] = []
    for part in parts:
        if not isinstance(part.changes, bytes):
            yield part.changes
        elif part.changes:
            pieces.append(part.changes)
        else:
            yield msgspec.msgpack.decode(b"".join(pieces), type=list[tuple[bytes, bytes | None]])
            pieces = []


class JetStreamStore(KeyedStore):
    """`nats://host:port,host:port,host:port/NAME`: a store in the stream of that name, with three replicas
    or as many as `?replicas=` says."""

    def __init__(self, address: str, *, replicas: int = 3, patience: float = 30.0) -> None:
        position, _, query = address.partition("?")
        if query:
            replicas = _replicas(query, address)
        servers, _, stream = position.removeprefix(SCHEME).partition("/")
        if not servers or not stream.replace("_", "").replace("-", "").isalnum():
            raise SettingsError(
                f"{address!r} is no store in JetStream", hint="write nats://host:port,host:port/NAME"
            )
        if replicas == 1:
            log.warning(
                "store %s has one replica: acknowledged events are lost with the disk of that server; "
                "three replicas on three machines survive one of them",
                stream,
            )
        disk = JetStreamDisk(servers.split(","), stream, replicas=replicas, patience=patience)
        try:
            super().__init__(disk, audit(disk))
        except BaseException:
            disk.close()
            raise


def _replicas(query: str, address: str) -> int:
    name, _, number = query.partition("=")
    if name != "replicas" or number not in ("1", "3", "5"):
        raise SettingsError(f"{address!r} is no store in JetStream", hint="write ?replicas=1, 3 or 5")
    return int(number)
