"""Administration of what others own: an operator ends subscriptions and holds, settles dead letters, purges
the log.

Rules
- Each act is an input of the node (`AdminInput`) and leaves the records to persist; the runtime has asked
  for the right and writes the audit.
- An ended subscription is as if its client had ended it: its deliveries are remembered, so that a client that
  subscribes again under the name receives none twice.
- A redelivered dead letter stays in its box until its subscription acknowledges it. That it was sent again is
  on the disk, so a broker that restarts sends it again.
- A purged entry is as one that has expired: it ends for every reader, also for durable subscriptions. Events
  that were sent to a consumer already may still be delivered.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from tidings.availability.records import Record
from tidings.model.filter import Filter
from tidings.model.subscription import SubscriptionId
from tidings.protocol.delivery.cursor import REPLAYING
from tidings.protocol.delivery.dead_letters import DeadLetters
from tidings.protocol.delivery.dispatcher import Dispatcher
from tidings.protocol.delivery.jobs import Jobs
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.registry import Registry
from tidings.protocol.inputs import (
    AdminInput,
    EndRetentionHold,
    EndSubscription,
    Input,
    PrincipalRevoked,
    PurgeEntries,
    SettleDeadLetters,
)
from tidings.protocol.slots import Ports

ADMINISTERED = (AdminInput, PrincipalRevoked)
ENDED = "an operator ended it"
READER, UNNAMED = "reader", "a replay, or a broker that has not acknowledged it"  # a pin without a name


class Administration:
    def __init__(
        self,
        ports: Ports,
        registry: Registry,
        dispatcher: Dispatcher,
        index: LogIndex,
        dead: DeadLetters,
        jobs: Jobs,
    ) -> None:
        self._ports, self._registry, self._dispatcher = ports, registry, dispatcher
        self._index, self._dead, self._jobs = index, dead, jobs

    def handle(self, input: Input, now: float) -> list[Record]:
        """Do what an operator asks for; the records to persist."""
        if isinstance(input, PrincipalRevoked):
            return self._jobs.disowned(input)
        if isinstance(input, EndSubscription):
            return self._end_subscription(input, now)
        if isinstance(input, EndRetentionHold):
            return self._jobs.holding.drop(input.name)
        if isinstance(input, SettleDeadLetters):
            return self._settle(input, now)
        if isinstance(input, PurgeEntries):
            self._purge(set(input.offsets), now)
        return []

    def _purge(self, offsets: set[int], now: float) -> None:
        """Entries that wait in queues count as expired too; those that a consumer has are delivered."""
        for state in self._registry.states.values():
            for item in (*state.queue, *state.own.pending):
                position = item.position
                if position is not None and position.log == self._index.log and position.offset in offsets:
                    item.expires_at = now
        self._index.purge(offsets)

    def _end_subscription(self, input: EndSubscription, now: float) -> list[Record]:
        state = self._registry.states.get(input.id)
        if state is None:
            return []
        if not state.durable:
            return self._registry.close(state, "closed", ENDED, now)  # ends it too
        self._registry.close(state, "closed", ENDED, now)
        return self._registry.end(state, now)

    def _settle(self, input: SettleDeadLetters, now: float) -> list[Record]:
        wanted = set(input.numbers)
        letters = [each for each in self._dead.letters(input.id) if not wanted or each.number in wanted]
        if not input.redelivers:
            return [record for each in letters for record in self._dead.remove(input.id, each.number)]
        records = self._dead.redelivered(letters)
        state = self._registry.states.get(input.id)
        if state is not None:
            self._dispatcher.oversized.resend(state, letters)
            self._dispatcher.pump(state, now)
        return records

    # -- for people ------------------------------------------------------------------------------

    def inspect(self, what: str, about: Any = None) -> Any:
        if what == "pins":
            return self.pins(about)
        if what == "holds":
            return self.holds()
        if what == "released":
            return self._jobs.holding.released
        if what == "superseded":
            return self._index.is_superseded
        if what == "letters":
            return self.letters(about)
        if what == "client":
            return self.client(about)
        if what == "consumers":
            return self.consumers(about)
        if what == "uncounted":
            return self.uncounted()
        if what == "counted":
            self.counted(about)
        return None

    def uncounted(self) -> list[tuple[SubscriptionId, Filter, int, int]]:
        """Durable subscriptions that are owed an unknown number of entries from one offset to another: id,
        filter, the first offset and the one behind the last."""
        states = self._registry.durables.values()
        return [
            (state.id, state.filter, state.own.next, state.own.seam)
            for state in states
            if state.own.state is REPLAYING and state.own.next < state.own.seam and not state.has_bounds
        ]

    def counted(self, found: Mapping[SubscriptionId, Sequence[int]]) -> None:
        """Take over the offsets that were found to be owed; nothing but figures depends on them."""
        for id, offsets in found.items():
            state = self._registry.durables.get(id)
            if state is not None and state.own.state is REPLAYING:
                settled = state.own.progress.is_settled
                state.own.counted = array("Q", (at for at in offsets if not settled(at)))

    def pins(self, most: int | None = None) -> dict[str, Any]:
        """The log's oldest offset, and who needs it or what comes next: the lowest need first. `most`: with
        more durable subscriptions none of them is looked at."""
        index, now = self._index, self._index.now
        oldest = index.first_offset
        entry = index.entries.get(oldest)
        pins: list[dict[str, Any]] = []
        durables = self._registry.durables
        for state in () if most is not None and len(durables) > most else durables.values():
            needs = state.own.needs_from()
            if needs < index.end:
                pins.append({"kind": "subscription", "name": state.id.shown, "offset": max(needs, oldest)})
        for hold in self.holds():
            if hold["entries"] or not hold["is_known"]:
                first = hold["first"] if hold["first"] is not None else oldest
                pins.append({"kind": "hold", "name": hold["name"], "offset": first})
        if entry is not None and entry.ends_at > now:
            until = None if entry.ends_at == inf else entry.ends_at
            pins.append({"kind": "lifetime", "name": entry.source, "offset": oldest, "until": until})
        if entry is not None and not pins and index.is_pinned(oldest):
            pins += self._readers(oldest, most)
        pins.sort(key=lambda pin: (pin["offset"], pin["kind"], pin["name"]))
        return {
            "log": index.log,
            "oldest": oldest,
            "next": index.end,
            "entries": len(index.entries),
            "accepted": None if entry is None else entry.accepted,
            "pins": pins[: self._ports.limits.described_subscriptions],
        }

    def _readers(self, offset: int, most: int | None) -> list[dict[str, Any]]:
        """The replays that may have to read this entry, and one row for the brokers that have not
        acknowledged it. Of many subscriptions no replay is looked for."""
        states = self._registry.states
        replays = [
            {"kind": "replay", "name": state.id.shown, "offset": offset}
            for state in (() if most is not None and len(states) > most else states.values())
            if state.own.state is REPLAYING and state.own.next <= offset
        ]
        return [*replays, {"kind": READER, "name": UNNAMED, "offset": offset}]

    def client(self, address: str) -> dict[str, int] | None:
        """Use of one client's link; None: the link is not there."""
        session = self._registry.sessions.get(address)
        if session is None:
            return None
        states = {member.subscription for member in session.members.values()}
        return {
            "subscriptions": len(states),
            "delivered": sum(state.last_tag for state in states),
            "published": session.published,
            "waiting": sum(state.backlog() for state in states),
        }

    def consumers(self, addresses: Iterable[str]) -> Counter[str]:
        """Number of consumers that the clients of these links have, by the shown name of a subscription."""
        sessions = self._registry.sessions
        found = (session for address in addresses if (session := sessions.get(address)) is not None)
        return Counter(member.subscription.id.shown for each in found for member in each.members.values())

    def holds(self) -> list[dict[str, Any]]:
        return self._jobs.holding.described()

    def letters(self, id: SubscriptionId | None) -> list[dict[str, Any]]:
        """Dead letters of a subscription; without one, how many each subscription has."""
        if id is None:
            return [
                {"id": each, "letters": count, "bytes": size} for each, count, size in self._dead.counts()
            ]
        return [
            {
                "number": letter.number,
                "event": letter.event,
                "attempts": letter.attempts,
                "reason": letter.reason,
                "died": letter.died,
                "position": letter.position,
            }
            for letter in self._dead.letters(id)
        ]
