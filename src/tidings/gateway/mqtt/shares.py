"""Shared subscriptions of MQTT sessions (`$share/GROUP/FILTER`): the sessions that divide one, and how long
it is kept.

Rules
- A share is a consumer group of the broker, in the scope that the guard gives its name: that of a principal,
  or of those that a rule lets share the group.
- The group is durable from the moment that a kept session subscribes to it, with all that waits for it. Clean
  sessions are members of the same group.
- The group ends with its last session. After its last kept session it stays durable while clean sessions have
  it; the file of sessions then holds it under an empty client id, so that a broker that was killed ends it.
- QoS 2: a message that was sent to a kept session belongs to that session. The broker may deliver it to
  another member (after a crash, say); that member lends it to the session, and it is settled when the session
  has it. It is not sent to another session, also when its own has ended (MQTT-4.8.2-5).
- Messages of QoS 1 that a session had not acknowledged go to another member when the session ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.errors import FilterError, TidingsError
from tidings.gateway.mqtt.events import SHARE, wanted
from tidings.gateway.mqtt.exchanges import Exchanges
from tidings.gateway.mqtt.state import MqttSubscription, StoredMqttSubscription
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import Notification, Position
from tidings.runtime.listener import Listener

if TYPE_CHECKING:
    from tidings.gateway.mqtt.session import MqttSession

SessionKey = tuple[str, str, str]  # tenant, user and client id


def is_shared(filter: str) -> bool:
    return filter.startswith(SHARE)


def group_of(name: str) -> str:
    """The consumer group of a shared subscription; rules name it by its first part, the name of the share."""
    return f"{name.removeprefix(SHARE).partition('/')[0]}/{name}"


class StoredShareMember(NamedTuple):
    """A kept session of a share, connected or not."""

    user: list[tuple[str, str]]  # its content filter
    exchanges: Exchanges


class SharedDelivery(NamedTuple):
    """An event that the broker delivered to one member and that another session has in flight."""

    listener: Listener[Event]
    tag: int
    notification: Notification


class SharedSubscription:
    """One shared subscription."""

    def __init__(self, id: tuple[str, str], name: str) -> None:
        self.id = id
        self.name = name
        self.lock = asyncio.Lock()
        self.kept: dict[SessionKey, StoredShareMember] = {}
        self.members: dict[SessionKey, MqttSession] = {}  # sessions that have it open, kept or not
        self.is_durable = False
        self.last: tuple[Any, StoredMqttSubscription] | None = (
            None  # the principal that joined last, and the subscription
        )
        self._sent: dict[
            Position, tuple[SessionKey, int] | None
        ] = {}  # QoS 2 in flight; None: its session has ended
        self._lent: dict[Position, SharedDelivery] = {}

    # -- members -----------------------------------------------------------------------------------

    async def join(
        self, session: MqttSession, kept: StoredMqttSubscription, filter: Filter
    ) -> Listener[Event]:
        """Open the subscription for a session; the lock is held. Raises."""
        if any(member.user != kept.user for key, member in self.kept.items() if key != session.key):
            raise FilterError("the other sessions of this share have another content filter")
        listener: Listener[Event] = await self._opened(session, filter, durable=session.durable)
        self.members[session.key] = session
        self.last = (session.owner, kept)
        if session.durable:
            self.keep(session.key, kept, session.exchanges)
        return listener

    def _opened(self, session: MqttSession, filter: Filter, *, durable: bool) -> Any:
        group = group_of(self.name)
        return session.bus.subscribe(filter, replay=False, group=group, durable=durable, superseding=False)

    def keep(self, key: SessionKey, kept: StoredMqttSubscription, exchanges: Exchanges) -> None:
        """A kept session has it, from now on or from an earlier life of the broker."""
        self.is_durable = True
        self.kept[key] = StoredShareMember(kept.user, exchanges)
        for packet_id, position in exchanges.sent(self.name):
            self._sent[position] = (key, packet_id)

    async def leave(self, session: MqttSession, subscription: MqttSubscription) -> None:
        """A session ends its subscription; the lock is held."""
        self.members.pop(session.key, None)
        self.kept.pop(session.key, None)
        self._disown(session.key)
        if self.members or self.kept or not self.is_durable:
            await subscription.listener.close(commit=False)
            return
        if session.durable:
            await subscription.listener.unsubscribe()
        else:  # only a member that asked for a durable group ends it
            assert self.last is not None
            filter, _ = wanted(self.name, {"user": self.last[1].user})
            ending: Listener[Event] = await self._opened(session, filter, durable=True)
            await subscription.listener.close(commit=False)
            await ending.unsubscribe()
        self.is_durable = session.bus.state != "up"  # without its principal it cannot be ended now

    def _disown(self, key: SessionKey) -> None:
        """The session has ended: what it had in flight is sent to no other."""
        for position in [at for at, holder in self._sent.items() if holder is not None and holder[0] == key]:
            lent = self._lent.pop(position, None)
            if lent is not None:
                with suppress(TidingsError):  # its member may be gone too
                    lent.listener.settle(lent.tag)
                del self._sent[position]
            else:
                self._sent[position] = None

    # -- QoS 2 -------------------------------------------------------------------------------------

    def sent(self, key: SessionKey, packet_id: int, position: Position) -> None:
        self._sent[position] = (key, packet_id)

    def received(self, position: Position) -> None:
        self._sent.pop(position, None)

    def is_elsewhere(
        self, session: MqttSession, subscription: MqttSubscription, notification: Notification, tag: int
    ) -> bool:
        """Does another session have the event, or had it? Then this one is not to send it."""
        position = notification.position
        if position is None:
            return False
        if any(member.exchanges.is_handled(self.name, position) for member in self.kept.values()):
            subscription.listener.settle(tag)
            return True
        if position not in self._sent:
            return False
        holder = self._sent[position]
        if holder is None:
            del self._sent[position]
            subscription.listener.settle(tag)
            return True
        if holder[0] == session.key:
            return False
        self._lent[position] = SharedDelivery(subscription.listener, tag, notification)
        other = self.members.get(holder[0])
        if other is not None:
            other.borrow(self.name)
        return True

    def lent_to(self, key: SessionKey) -> list[tuple[Position, int]]:
        """Positions and packet ids of what was lent to this session, in the order of the packets."""
        found = []
        for position in self._lent:
            holder = self._sent.get(position)
            if holder is not None and holder[0] == key:
                found.append((position, holder[1]))
        return found

    def take_lent(self, position: Position) -> SharedDelivery | None:
        return self._lent.pop(position, None)


class SharedSubscriptions:
    """Those of all sessions of one listener.

    `scope` gives what the broker puts before the name of a group.
    """

    def __init__(self, scope: Callable[[Any, str], str]) -> None:
        self._scope = scope
        self._table: dict[tuple[str, str], SharedSubscription] = {}

    def of(self, owner: Any, name: str) -> SharedSubscription:
        id = (self._scope(owner, group_of(name)), name)
        found = self._table.get(id)
        if found is None:
            found = self._table[id] = SharedSubscription(id, name)
        return found

    @asynccontextmanager
    async def changing(self, owner: Any, name: str) -> AsyncIterator[SharedSubscription]:
        """The share of this name, while no other session joins or leaves it."""
        while True:
            share = self.of(owner, name)
            async with share.lock:
                if self._table.get(share.id) is not share:
                    continue  # it ended while we waited
                try:
                    yield share
                finally:
                    self._drop(share)
                return

    def _drop(self, share: SharedSubscription) -> None:
        if not (share.members or share.kept or share.is_durable):
            self._table.pop(share.id, None)

    def found(
        self,
        owner: Any,
        key: SessionKey,
        subscriptions: Mapping[str, StoredMqttSubscription],
        exchanges: Exchanges,
    ) -> None:
        """The file of sessions holds this one."""
        for name, kept in subscriptions.items():
            if is_shared(name):
                share = self.of(owner, name)
                share.keep(key, kept, exchanges)
                share.last = (owner, kept)

    def forget(self, key: SessionKey) -> None:
        """This session is over, though its subscriptions may not have been ended."""
        for share in list(self._table.values()):
            share.kept.pop(key, None)
            self._drop(share)

    def without_sessions(self) -> list[tuple[Any, str, StoredMqttSubscription]]:
        """The durable groups that no kept session has: principal, name and subscription of each."""
        return [
            (share.last[0], share.name, share.last[1])
            for share in self._table.values()
            if share.is_durable and not share.kept and share.last is not None
        ]
