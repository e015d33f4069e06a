"""The omniscient observer: sees every disk, every delivery and every acknowledgement, and checks after each
step.

Rules
- An acknowledged event that is owed to a subscription is in some log on some disk. If a lone broker's disk is
  replaced, only the events (and the subscriptions) that had their only copy on it are forgiven.
- A subscription that took other filters is owed what `standing.py` says, and receives nothing that it
  forbids.
- An event of a key is owed until a newer one is published, and to subscriptions with `superseding=False` also
  after that. A superseding subscription that comes when all is settled receives none that is superseded.
- A committed entry of a group is on a majority of the disks when it is committed, and each offset holds the
  same event at every member.
- No honest machine makes a frame over the limit, or asks its disk for more than a page.
- A broker sends no more events to a user that was disabled while connected, and accepts no more from it.
- Every byte that waits for a subscription, or is unacknowledged, is counted for its principal, and no
  principal holds more than its quota and one event for each of its subscriptions. Looked at every
  `LOOK_EVERY` steps.
- The work for each step depends on what changed in it, never on the size of the world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tidings.availability.records import Append, Delete, Forget, Put, Record
from tidings.errors import WireError
from tidings.language.evaluate import accepts
from tidings.model.event import FOREVER, Event, event_size
from tidings.model.filter import Filter
from tidings.protocol import effects as fx
from tidings.protocol.delivery.owner import UNCOUNTED, OwnerMemory
from tidings.protocol.delivery.rows import SUBSCRIPTION, SubscriptionRow
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.proposals import PlacedEvent
from tidings.protocol.recovery.group_log import TABLE as TAIL
from tidings.simulation.wide.limit_meter import LimitMeter
from tidings.simulation.wide.standing import FilterStage, OwedSubscription
from tidings.simulation.world import World

Identity = tuple[str, str]  # source, id
IN_FLIGHT_SECONDS = 1.0  # until what a user sent before it was disabled is on a disk
LOOK_EVERY = 32  # steps between two looks at the memory of a broker


class BrokenPromise(AssertionError):
    """A promise was broken."""


class Observer:
    """Checks one world. `committed`, `replaced` and `oversized` are called by the simulation."""

    def __init__(
        self, world: World, meter: LimitMeter, *, grouped: bool, hostile: Iterable[str] = ()
    ) -> None:
        self._world = world
        self._hostile = frozenset(hostile)
        self._meter = meter
        self._grouped = grouped
        brokers = world.overlay.brokers
        self._majority = len(brokers) // 2 + 1
        self._logs: dict[str, dict[int, Identity]] = {name: {} for name in brokers}
        self._tails: dict[str, dict[int, bytes]] = {name: {} for name in brokers}
        self._copies: dict[Identity, set[str]] = {}  # brokers that have it in their log
        self._lost: set[Identity] = set()  # its only copy was on a disk that was replaced
        self._group_log: dict[int, Identity] = {}
        self._group_committed = 0
        self._refused: set[Identity] = set()  # refused: the answer said that they are not kept
        self.published: dict[Identity, Event] = {}
        self.acked: dict[Identity, Event] = {}
        self._published_at: dict[Identity, float] = {}
        self._acked_at: dict[Identity, float] = {}
        self._latest: dict[str, Event] = {}  # by key: what was published last
        self._newer: dict[Identity, Identity] = {}  # by event: the next one of its key
        self.standing: dict[str, OwedSubscription] = {}
        self.received: dict[str, dict[Identity, None]] = {}
        self.owed: dict[Identity, set[str]] = {}
        self.checks = 0
        self._steps = 0
        self.disabled_since: dict[str, float] = {}  # by user

    def _broken(self, what: str) -> BrokenPromise:
        return BrokenPromise(f"at {self._world.simulation.now:.3f} s: {what}")

    def is_hostile(self, client: str) -> bool:
        return client in self._hostile

    # -- disks ---------------------------------------------------------------------------------

    def committed(self, name: str, records: Sequence[Record]) -> None:
        log, tail = self._logs[name], self._tails[name]
        for record in records:
            kind = type(record)
            if kind is Append:
                self._appended(name, record.offset, record.event.identity)  # type: ignore[union-attr]
            elif kind is Forget:
                identity = log.pop(record.offset, None)  # type: ignore[union-attr]
                if identity is not None:
                    self._forgot(name, identity)
            elif kind is Put and record.table == TAIL and record.key.isdecimal():  # type: ignore[union-attr]
                tail[int(record.key)] = record.value  # type: ignore[union-attr]
            elif kind is Delete and record.table == TAIL and record.key.isdecimal():  # type: ignore[union-attr]
                tail.pop(int(record.key), None)  # type: ignore[union-attr]
            elif kind is Put and record.table == SUBSCRIPTION:  # type: ignore[union-attr]
                self._holds_again(name, record.value)  # type: ignore[union-attr]

    def _holds_again(self, name: str, encoded: bytes) -> None:
        """A disk has the row of a subscription: perhaps of one that was lost with the disk before it."""
        if not any(each.is_lost and each.home == name for each in self.standing.values()):
            return
        found = msgspec.msgpack.decode(encoded, type=SubscriptionRow).subscription
        standing = self.standing.get(f"{found.id.subscriber}/{found.id.name}")
        if standing is not None and standing.is_lost and standing.home == name:
            standing.begins_anew(found.filter, found.options.replay)

    def fetched(self, name: str, effect: fx.Fetch, found: Sequence[Append]) -> None:
        limits = self._meter.limits
        if effect.limit > limits.page_count or effect.max_bytes > limits.page_bytes:
            raise self._broken(f"{name} asked its disk for {effect.limit} entries, {effect.max_bytes} bytes")
        is_end = not self._logs[name] or not found or found[-1].offset >= max(self._logs[name])
        self._meter.fetched(effect.limit, found, is_end)

    def _appended(self, name: str, offset: int, identity: Identity) -> None:
        since = self.disabled_since.get(identity[0])
        is_late = since is not None and self._world.simulation.now > since + IN_FLIGHT_SECONDS
        if is_late and identity not in self._copies:
            raise self._broken(f"{name} accepted {identity} of a user that is disabled")
        self._logs[name][offset] = identity
        self._copies.setdefault(identity, set()).add(name)
        if self._grouped:
            agreed = self._group_log.setdefault(offset, identity)
            if agreed != identity:
                raise self._broken(f"offset {offset} is {identity} at {name} and {agreed} elsewhere")

    def _forgot(self, name: str, identity: Identity) -> None:
        copies = self._copies[identity]
        copies.discard(name)
        if copies or identity not in self.acked:
            return
        if self.owed.get(identity):
            raise self._broken(
                f"{name} forgot {identity}, owed to {sorted(self.owed[identity])}; no copy is left"
            )
        if self.acked[identity].lifetime == FOREVER and identity not in self._newer:
            raise self._broken(f"{name} forgot {identity}, which lives forever; no copy is left")

    def replaced(self, name: str) -> None:
        """A disk was replaced by an empty one."""
        log, self._logs[name], self._tails[name] = self._logs[name], {}, {}
        for identity in log.values():
            copies = self._copies[identity]
            copies.discard(name)
            if not copies:
                if self._grouped and self.owed.get(identity):
                    raise self._broken(f"the last copy of {identity} was on the disk of {name}")
                self._lost.add(identity)
                self.owed.pop(identity, None)
        if not self._grouped:
            for id, standing in self.standing.items():
                if standing.home == name:
                    standing.is_standing, standing.is_lost = False, True
                    for identity in standing.doubtful:
                        self.received[id].pop(identity, None)
                    for waiting in self.owed.values():
                        waiting.discard(id)

    # -- steps ---------------------------------------------------------------------------------

    def stepped(self, name: str, _item: Any, _now: float) -> None:
        """A broker has handled an input: did it commit anything, and is its memory within bounds?"""
        node = self._world.simulation.hosts[name].machine
        slots = getattr(node, "slots", None)
        if slots is None:
            return
        self._steps += 1
        if self._steps % LOOK_EVERY == 0:
            self._check_memory(name, slots["delivery"]._registry.states.values())
        if not self._grouped:
            return
        committed = slots["recovery"].committed
        while self._group_committed < committed:
            self._group_committed += 1
            self._check_majority(self._group_committed, name)

    def _check_memory(self, name: str, subscriptions: Iterable[SubscriptionState]) -> None:
        waiting: dict[OwnerMemory, int] = {}
        count: Counter[OwnerMemory] = Counter()
        for each in subscriptions:
            items = [*each.queue, *each.own.pending, *each.unacked.items()]
            size = sum(event_size(item.event) for item in items)
            waiting[each.memory] = waiting.get(each.memory, 0) + size
            count[each.memory] += 1
        for memory, size in waiting.items():
            if memory is UNCOUNTED:
                continue
            if memory.used < size:
                raise self._broken(f"{name} holds {size} bytes for a principal and counts {memory.used}")
            if memory.used > memory.most + count[memory] * self._meter.limits.event_bytes:
                raise self._broken(f"{name} holds {memory.used} bytes for a principal; most {memory.most}")

    def _check_majority(self, offset: int, name: str) -> None:
        self.checks += 1
        holders: dict[Identity, list[str]] = {}
        for broker in self._logs:
            identity = self._logs[broker].get(offset)
            if identity is None and (row := self._tails[broker].get(offset)) is not None:
                identity = msgspec.msgpack.decode(row, type=PlacedEvent).proposal.identity
            if identity is not None:
                holders.setdefault(identity, []).append(broker)
        if max(map(len, holders.values()), default=0) < self._majority:
            raise self._broken(f"{name} committed offset {offset}; the disks hold {holders}")

    def _is_in_tails(self, identity: Identity) -> bool:
        """Committed entries of a group wait in its tails until they fit a full disk's log."""
        rows = [row for tail in self._tails.values() for row in tail.values()]
        stored = [msgspec.msgpack.decode(row, type=PlacedEvent).proposal.identity for row in rows]
        return stored.count(identity) >= self._majority

    def oversized(self, sender: str, to: str, error: WireError) -> None:
        if sender not in self._hostile:
            raise self._broken(f"{sender} to {to}: {error}")

    # -- clients -------------------------------------------------------------------------------

    def disabled(self, users: Iterable[str]) -> None:
        self.disabled_since |= dict.fromkeys(users, self._world.simulation.now)

    def sent_to_disabled(self, user: str) -> None:
        if self._world.simulation.now > self.disabled_since[user]:
            raise self._broken(f"{user} was sent a message after it was disabled")

    def stands(self, id: str, filter: Filter, home: str, superseding: bool = True) -> None:
        """A subscription is known everywhere."""
        now = self._world.simulation.now
        stage = FilterStage(filter, True, now, now, is_settled=True)
        self.standing[id] = OwedSubscription([stage], home, superseding)
        self.received.setdefault(id, {})

    def asks(self, id: str, filter: Filter, replay: bool, is_quiet: bool = False) -> int:
        """Its client asks for it with this filter; the number of the stage that begins. What the filter does
        not accept is owed no longer."""
        standing = self.standing[id]
        now = self._world.simulation.now
        standing.stages.append(FilterStage(filter, replay, now, is_quiet=is_quiet))
        for identity, waiting in self.owed.items():
            if id in waiting and standing.forgoes(self.acked[identity]):
                waiting.remove(id)
        return len(standing.stages) - 1

    def answered(self, id: str, number: int) -> None:
        """The client was told that this stage holds: with replay, what lives forever is owed now."""
        standing = self.standing[id]
        stage = standing.stages[number]
        if stage.answered is None:
            stage.answered = self._world.simulation.now
            if stage.replay:
                for identity, event in self.acked.items():
                    if standing.is_available(event):
                        self._owe(id, standing, identity)

    def gave_back(self, id: str, identities: Iterable[Identity], behind: Iterable[Identity]) -> None:
        """A listener left without committing these: they come again. `behind`: committed out of order, behind
        the first of them, which no token says: they may come again from a home with an empty disk."""
        self.standing[id].doubtful.update(behind)
        for identity in identities:
            del self.received[id][identity]
            if identity in self.acked:
                self._owe(id, self.standing[id], identity)

    def _owe(self, id: str, standing: OwedSubscription, identity: Identity) -> None:
        """Owe an acknowledged event to a subscription, if it has a right to it and has not received it."""
        if self._is_owed(id, standing, identity, self.acked[identity]):
            self.owed.setdefault(identity, set()).add(id)
            self._check_kept(identity, "is owed again")

    def _is_owed(self, id: str, standing: OwedSubscription, identity: Identity, event: Event) -> bool:
        return (
            standing.is_standing
            and identity not in self._lost
            and identity not in self.received[id]
            and (identity not in self._newer or not standing.superseding)
            and standing.owes(event, self._published_at.get(identity, 0.0))
        )

    def _check_kept(self, identity: Identity, happening: str) -> None:
        if not self._copies.get(identity) and not self._is_in_tails(identity):
            owed = sorted(self.owed[identity])
            raise self._broken(f"{identity} {happening}, is owed to {owed}, and is in no log")

    def settle(self) -> None:
        """Every filter is known everywhere."""
        for standing in self.standing.values():
            if standing.stages[-1].answered is not None:
                standing.stages[-1].is_settled = True

    def restore(self) -> None:
        """The faults are over, and every subscription is known again."""
        for standing in self.standing.values():
            standing.is_standing = True
        self.settle()

    def publishes(self, event: Event) -> None:
        """A publisher hands an event in. An older one of its key is owed no longer, but for subscriptions
        that are owed every event."""
        self.published[event.identity] = event
        self._published_at[event.identity] = self._world.simulation.now
        if event.key is None:
            return
        older, self._latest[event.key] = self._latest.get(event.key), event
        if older is not None:
            self._newer[older.identity] = event.identity
            waiting = self.owed.get(older.identity, set())
            waiting -= {id for id in waiting if self.standing[id].superseding}

    def is_superseded(self, event: Event) -> bool:
        """Was a newer event of its key acknowledged?"""
        return self._newer.get(event.identity) in self.acked

    def acknowledged(self, identity: Identity) -> None:
        event = self.published.get(identity)
        if event is None:
            raise self._broken(f"{identity} was acknowledged and never published")
        self.acked[identity] = event
        self._acked_at[identity] = self._world.simulation.now
        waiting = {
            id for id, standing in self.standing.items() if self._is_owed(id, standing, identity, event)
        }
        if waiting:
            self.owed[identity] = waiting
            self._check_kept(identity, "was acknowledged")

    def refused(self, identity: Identity, code: str) -> None:
        """A publisher got the answer that its event is not kept."""
        self._refused.add(identity)
        for id, received in self.received.items():
            if identity in received:
                raise self._broken(f"{identity} was refused ({code}), and {id} had received it")

    def notified(self, id: str, event: Event, stage: int | None = None) -> None:
        """An event came to a listener; `stage`: of the subscription, when it opened."""
        identity = event.identity
        received = self.received.setdefault(id, {})
        if identity in received:
            raise self._broken(f"{id} received {identity} twice")
        if identity in self._refused:
            raise self._broken(f"{id} received {identity}, which was refused")
        received[identity] = None
        if identity not in self.published:
            raise self._broken(f"{id} received {identity}, which was never published")
        if stage is not None:
            times = self._published_at.get(identity, 0.0), self._acked_at.get(identity)
            why = self.standing[id].forbids(event, stage, *times)
            if why:
                raise self._broken(f"{id} received {identity} in its stage {stage}, {why}")
        waiting = self.owed.get(identity)
        if waiting is not None:
            waiting.discard(id)
            if not waiting:
                del self.owed[identity]

    def forever(self, wanted: Filter) -> list[Identity]:
        """Acknowledged events that live forever, are accepted by a filter, and were not lost with a disk."""
        return [
            identity
            for identity, event in self.acked.items()
            if event.lifetime == FOREVER
            and identity not in self._lost.union(self._newer)
            and accepts(wanted, event)
        ]

    def lasting(self, name: str) -> set[int]:
        """Offsets of the events in the log of a broker that live forever."""
        return {
            offset
            for offset, identity in self._logs[name].items()
            if identity in self.acked
            and self.acked[identity].lifetime == FOREVER
            and identity not in self._newer
        }

    @property
    def pending(self) -> int:
        """Deliveries that are owed."""
        return sum(len(waiting) for waiting in self.owed.values())
