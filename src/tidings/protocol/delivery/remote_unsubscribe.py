"""A subscription that was ended where it is a guest: its home has to end it too, also when it is down now.

Rules
- The guest's broker keeps on its disk that the subscription was ended, before the client is told. It says
  so toward its home (`RemoteUnsubscribe`) until that has answered, with pauses that grow, and at once when a
  link is up again; after as long as ended subscriptions are remembered it gives up, and counts it.
- A farewell goes toward the log of the home, from broker to broker, and its answer back along its path.
  Brokers in between keep no state.
- It carries its age: a client that subscribed at home again after the end has another subscription under the
  same name, and that one stays. Clocks need not agree.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidings.availability.records import Delete, Loaded, Put, Record
from tidings.model.subscription import SubscriptionId
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.messages import Message
from tidings.protocol.naming import broker_of
from tidings.protocol.slots import Ports

REMOTE_UNSUBSCRIBES = "farewell"  # table: one row for each that its home has not heard of
FIRST_SECONDS, SLOW_SECONDS = 0.5, 30.0  # between two tries: at first, and at last
MOST = 10_000  # that are kept; then the oldest is given up, and counted

End = Callable[[SubscriptionId, float, float], list[Record]]  # id, when it was ended, now


class RemoteUnsubscribe(Message, frozen=True, tag="Farewell"):
    """A subscription whose home is the broker of this log was ended at another broker, `age` seconds ago."""

    subscriber: str
    name: str
    log: str
    age: float
    path: tuple[str, ...]


class RemoteUnsubscribed(Message, frozen=True, tag="FarewellHeard"):
    """Answer: the home has ended the subscription, or never had it."""

    subscriber: str
    name: str
    log: str
    path: tuple[str, ...]


MESSAGES: tuple[type[Message], ...] = (RemoteUnsubscribe, RemoteUnsubscribed)


class RemoteUnsubscribeRow(msgspec.Struct, array_like=True, frozen=True):
    subscription: SubscriptionId
    log: str
    ended: float
    version: int = 1


class RemoteUnsubscribes:
    """`end` ends a subscription of this broker and gives the records to persist."""

    def __init__(self, ports: Ports, index: LogIndex, seconds: float, end: End) -> None:
        self._ports = ports
        self._index = index
        self._seconds = seconds
        self._end = end
        self._rows: dict[str, RemoteUnsubscribeRow] = {}  # by key
        self._pause = FIRST_SECONDS
        self.next_at: float | None = None
        self.given_up = 0

    def load(self, state: Loaded, now: float) -> None:
        for key, value in state.tables.get(REMOTE_UNSUBSCRIBES, {}).items():
            self._rows[key] = msgspec.msgpack.decode(value, type=RemoteUnsubscribeRow)
        self._soon(now)

    def __len__(self) -> int:
        return len(self._rows)

    def send(self, id: SubscriptionId, home: str, now: float) -> list[Record]:
        """The subscription was ended here; the records to persist before that is answered."""
        row = RemoteUnsubscribeRow(id, home, now)
        key = _key(id, home)
        records: list[Record] = [Put(REMOTE_UNSUBSCRIBES, key, msgspec.msgpack.encode(row))]
        self._rows[key] = row
        if len(self._rows) > MOST:
            records += self._give_up(next(iter(self._rows)))
        self._soon(now)
        return records

    def _give_up(self, key: str) -> list[Record]:
        del self._rows[key]
        self.given_up += 1
        return [Delete(REMOTE_UNSUBSCRIBES, key)]

    def link_up(self, now: float) -> None:
        self._soon(now)

    def _soon(self, now: float) -> None:
        self._pause = FIRST_SECONDS
        self.next_at = now + FIRST_SECONDS if self._rows else None

    def on_timer(self, now: float) -> list[Record]:
        """Say what is not answered; the records to persist."""
        if self.next_at is None or self.next_at > now:
            return []
        records: list[Record] = []
        for key, row in list(self._rows.items()):
            if row.ended + self._seconds <= now:
                records += self._give_up(key)
            else:
                self._send(row, now)
        self.next_at = now + self._pause if self._rows else None
        self._pause = min(2 * self._pause, SLOW_SECONDS)
        return records

    def _send(self, row: RemoteUnsubscribeRow, now: float) -> None:
        id, path = row.subscription, (self._ports.name,)
        self._pass(RemoteUnsubscribe(id.subscriber, id.name, row.log, now - row.ended, path), None)

    def _pass(self, request: RemoteUnsubscribe, sender: str | None) -> None:
        link = self._ports.log_paths.upstream(request.log)
        if link is not None and link != sender and self._is_linked(link):
            self._ports.send(link, request)

    def _is_linked(self, peer: str) -> bool:
        return peer in self._ports.neighbours.links()

    # -- what others say -----------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if not self._is_linked(sender):
            return
        if isinstance(message, RemoteUnsubscribe):
            self._receive(sender, message, now)
        elif (
            isinstance(message, RemoteUnsubscribed) and message.path and message.path[-1] == self._ports.name
        ):
            self._answered(message)

    def _receive(self, sender: str, message: RemoteUnsubscribe, now: float) -> None:
        name = self._ports.name
        if name in message.path:
            return
        if broker_of(message.log) != name:
            path = (*message.path, name)
            onward = RemoteUnsubscribe(message.subscriber, message.name, message.log, message.age, path)
            self._pass(onward, sender)
            return
        answer = RemoteUnsubscribed(message.subscriber, message.name, message.log, message.path)
        records: list[Record] = []
        if message.log == self._index.log:
            id = SubscriptionId(message.subscriber, message.name)
            records = self._end(id, now - message.age, now)
        disk = self._ports.disk
        if not records or not disk.stable:
            self._ports.send(sender, answer)
        elif disk.failed is None:
            disk.persist(records, lambda _: self._ports.send(sender, answer))

    def _answered(self, message: RemoteUnsubscribed) -> None:
        if len(message.path) > 1:
            path = message.path[:-1]
            back = RemoteUnsubscribed(message.subscriber, message.name, message.log, path)
            self._ports.send(path[-1], back)
            return
        key = _key(SubscriptionId(message.subscriber, message.name), message.log)
        if self._rows.pop(key, None) is not None and self._ports.disk.failed is None:
            if self._ports.disk.stable:
                self._ports.disk.persist([Delete(REMOTE_UNSUBSCRIBES, key)])
            if not self._rows:
                self.next_at = None


def _key(id: SubscriptionId, log: str) -> str:
    return f"{len(id.subscriber)}:{id.subscriber}{len(id.name)}:{id.name}{log}"
