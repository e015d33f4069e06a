"""Delivery at a member of a group whose log is one (`recovery`): publishes get their place from the group,
and a subscription's token counts at every member.

Rules
- A publish is acknowledged when its event is committed, which is when a majority has it on stable storage,
  and told by every member to its own subscriptions, in the order of the log.
- The log has the group's name. A client that comes from another member says up to where it has handled the
  log, and hears what comes after that: no gap and no duplicate, and members exchange no subscriptions.
- A durable subscription that moved is ended where it was before. One that comes without a token is asked for
  (`subscription_lookup.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from tidings.availability.identity import IdentityStatus
from tidings.availability.records import Append, Put, Record
from tidings.errors import TooLargeError
from tidings.model.event import Event, event_size
from tidings.model.subscription import Position, SubscriptionId
from tidings.protocol.batches import too_large
from tidings.protocol.delivery.log_copy import LogCopies
from tidings.protocol.delivery.pending import PendingPublish
from tidings.protocol.delivery.refusals import GROUP, STALE, kept_out, not_known, unsure
from tidings.protocol.delivery.serving import DistributorDelivery
from tidings.protocol.delivery.sessions import Session, identity
from tidings.protocol.delivery.subscription_lookup import (
    ASK_SECONDS,
    SubscriptionLookup,
    SubscriptionQuery,
    SubscriptionQueryReply,
)
from tidings.protocol.delivery.subscription_state import Member
from tidings.protocol.inputs import ALL_FEATURES, EARLIER_PEER, Feature, Input, LinkDown, LinkUp, ViewChanged
from tidings.protocol.messages import (
    AckMode,
    CommitParts,
    CommitStaged,
    Hello,
    Message,
    Publish,
    Published,
    Refused,
    Silence,
    StageEvents,
    Subscribe,
)
from tidings.protocol.proposals import CopyRequest, LogCopy, Proposal
from tidings.protocol.roles import GroupCommit, GroupEntries
from tidings.protocol.slots import Ports

NO_STAGING = "a group takes no staged batches; publish to it, or stage at a broker of its own"
PASSED = "not kept, since a later event of its publisher was accepted at another member; publish it again"
NO_STORE = "modes 'kept' and 'replicated' need a store at every member of the group; this one has none"


class TakenOver(Message, frozen=True, tag="TakenOver"):
    """These durable subscriptions are at the sender now, since then (by age: clocks need not agree)."""

    cut_field: ClassVar[str] = "ids"

    ids: tuple[tuple[str, str, float], ...]


class GroupDelivery(DistributorDelivery, GroupEntries):
    name = "exactly once, from the group's log"
    needs = (GroupCommit,)
    messages: ClassVar[tuple[type[Message], ...]] = (
        *DistributorDelivery.messages,
        TakenOver,
        SubscriptionQuery,
        SubscriptionQueryReply,
    )

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._index.log = self._group
        self._copies = LogCopies(ports, self._index, lambda: self._flow.identities.rows())
        self._proposed: dict[
            tuple[str, str], PendingPublish
        ] = {}  # by identity: published here, not committed yet
        self._entering: dict[int, PendingPublish] = {}  # by offset: committed, on its way to our disk
        self._askings: dict[int, SubscriptionLookup] = {}  # by number
        self._asks_of: dict[str, SubscriptionLookup] = {}  # by the address of the client
        self._last_ask = 0
        self._features: dict[str, int] = {}  # by linked peer: what it announced
        for kind in (StageEvents, CommitStaged, CommitParts):
            self._handlers[kind] = self._refuse_staging
        self._handlers[Publish] = lambda session, message, now: self._publish(((session, (message,)),), now)

    def _refuse_staging(self, session: Session, message: Any, now: float) -> None:
        self.ports.send(session.address, Refused(message.call, "refused", NO_STAGING))

    # -- publishing --------------------------------------------------------------------------------

    def _publish(self, parts: Sequence[tuple[Session, Sequence[Publish]]], now: float) -> None:
        """Propose the publishes of a batch together."""
        batch: list[Proposal] = []
        for session, messages in parts:
            requests = self._asks_of.get(session.address)
            if requests is not None:
                requests.later.extend(messages)
                continue
            session.published += len(messages)
            for message in messages:
                event = message.event
                if not self._is_answered(session, message, now):
                    is_own = event.id == f"{session.incarnation}-{message.sequence}"
                    batch.append(Proposal(event, session.incarnation, message.sequence, is_own))
                    pending = self._proposed[event.identity] = self._pending(event, message.sequence, now)
                    pending.waiters = ((session.address, message.call),)
        if batch:
            self.ports.group_commit.propose(batch, now)

    def _takes_rich(self, member: str) -> bool:
        """Does a member read more than flat bodies? One without a link is taken for one that does."""
        return bool(self._features.get(member, ALL_FEATURES) & Feature.RICH_BODIES)

    def _pending(self, event: Event, sequence: int, accepted: float) -> PendingPublish:
        expires_at = None if event.expires is None else accepted + event.expires
        return PendingPublish(event, event_size(event), None, accepted, expires_at, sequence=sequence)

    def _is_answered(self, session: Session, message: Publish, now: float) -> bool:
        """Refused, known, or on its way already."""
        address, identity, disk = session.address, message.event.identity, self.ports.disk
        if (reason := too_large(message.event, self.ports.event_bytes)) is not None:
            self.ports.send(address, Refused(message.call, TooLargeError.code, reason))
            return True
        if message.event.rich and not all(map(self._takes_rich, self._members())):
            reason = EARLIER_PEER.format("member of this group without the upgrade")
            self.ports.send(address, Refused(message.call, "refused", reason))
            return True
        under_way = self._proposed.get(identity)
        if disk.failed is not None:
            refusal = ("store", f"the broker's disk has failed: {disk.failed.reason}")
            if under_way is not None or self._index.offset_of(identity) is not None:
                refusal = not_known(disk.failed.reason)  # the other members may commit it
            self.ports.send(address, Refused(message.call, *refusal))
            return True
        if message.mode in (AckMode.KEPT, AckMode.REPLICATED) and not disk.stable:
            self.ports.send(address, Refused(message.call, "refused", NO_STORE))
            return True
        full = (disk.full,) if disk.full is not None else (self.ports.group_commit.full, GROUP)
        if under_way is not None and full[0] is not None:
            self.ports.send(address, Refused(message.call, *unsure(*full)))
            return True
        if under_way is not None:
            under_way.waiters += ((address, message.call),)
            return True
        offset = self._index.offset_of(identity)
        if offset is not None and offset >= self._index.end:
            return self._wait_for(offset, address, message.call)
        seen = self._seen(message.event, session.incarnation, message.sequence, now)
        if offset is not None or seen is IdentityStatus.SEEN:
            position = None if offset is None else Position(self._index.log, offset)
            self.ports.send(address, Published(message.call, position))
            return True
        if seen is IdentityStatus.STALE:
            self.ports.send(address, Refused(message.call, "refused", STALE))
            return True
        if full[0] is not None:
            self._flow.figures["refused for room"] += 1
            self.ports.send(address, Refused(message.call, *kept_out(*full)))
        return full[0] is not None

    def _wait_for(self, offset: int, address: str, call: int) -> bool:
        """The publish is committed, and on its way to our disk."""
        pending = self._entering.get(offset)
        if pending is not None:
            pending.waiters += ((address, call),)
        return pending is not None

    def _seen(self, event: Event, incarnation: str, sequence: int, now: float) -> IdentityStatus:
        seen = self._flow.identities.look_number(event.source, incarnation, sequence)
        if seen is IdentityStatus.NEW and event.id != f"{incarnation}-{sequence}":
            seen = self._flow.identities.look(*event.identity, None, now)
        return seen

    # -- the group's log (port) ----------------------------------------------------------------------

    def knows(self, proposal: Any) -> bool | None:
        event = proposal.event
        if self._index.offset_of(event.identity) is not None:
            return True
        identities = self._flow.identities
        if (
            identities.look_number(event.source, proposal.incarnation, proposal.sequence)
            is not IdentityStatus.NEW
        ):
            return True
        source, id = event.identity
        seen = identities.look(source, id, None, self._index.now)
        if not proposal.is_own and seen is IdentityStatus.SEEN:
            return True
        last = identities.last(event.source, proposal.incarnation)
        return None if last is not None and proposal.sequence < last else False

    def needs_from(self) -> int:
        waiting = [state.own.low_water for state in self._registry.durables.values()]
        return min([self._index.end, *waiting])

    def enter(self, offset: int, proposal: Any, accepted: float, records: list[Record], now: float) -> None:
        """An event was committed: into our log, and when it is on our disk, to our subscriptions."""
        event, identities = proposal.event, self._flow.identities
        pending = self._proposed.pop(event.identity, None) or self._pending(
            event, proposal.sequence, accepted
        )
        self._flow.number += 1
        pending.number, pending.accepted = self._flow.number, accepted
        pending.position = Position(self._index.log, offset)
        kept: list[Record] = self._index.append(
            Append(offset, event, accepted, proposal.sequence, pending.expires_at)
        )
        if proposal.incarnation:
            identities.take(event.source, proposal.incarnation, proposal.sequence, now)
            kept.append(identities.row(event.source, proposal.incarnation))
            self._forget_identities_later(now)
        self._flow.figures["published"] += 1
        self._flow.figures["kept"] += 1
        self._entering[offset] = pending
        self.ports.disk.persist(
            [*kept, *records],
            lambda at: self._entered(pending, at),
            lambda failure, at: None,
            lambda reason: self._flow.stalled((pending,), reason),
        )

    def _entered(self, pending: PendingPublish, now: float) -> None:
        assert pending.offset is not None
        self._entering.pop(pending.offset, None)
        self._flow.kept((pending,), now)

    def skip_to(self, upto: int) -> None:
        self._index.next_offset = max(self._index.next_offset, upto + 1)
        if not self._entering:
            self._index.end = max(self._index.end, upto + 1)

    def settle(self, identity: tuple[str, str], *, is_kept: bool = True, full: str = "") -> None:
        if full:
            self._answer_unsure(identity, full)
            return
        pending = self._proposed.pop(identity, None)
        if pending is not None and is_kept:
            offset = self._index.offset_of(identity)
            pending.position = None if offset is None else Position(self._index.log, offset)
            self._flow.answer(pending)
        elif pending is not None:
            for address, call in pending.waiters:
                self.ports.send(address, Refused(call, "refused", PASSED))

    def _answer_unsure(self, identity: tuple[str, str], full: str) -> None:
        """The publish waits for room on the disks of the group; its publisher does not."""
        pending = self._proposed.get(identity)
        if pending is not None:
            waiters, pending.waiters = pending.waiters, ()
            for address, call in waiters:
                self.ports.send(address, Refused(call, *unsure(full, GROUP)))

    def entering(self) -> int:
        return len(self._entering)

    def copy(self, request: CopyRequest, then: Callable[[LogCopy], None]) -> None:
        self._copies.copy(request, then)

    def adopt_identities(self, rows: tuple[Put, ...]) -> None:
        tables: dict[str, dict[str, bytes]] = {}
        for row in (*self._flow.identities.rows(), *rows):
            tables.setdefault(row.table, {})[row.key] = row.value
        self._flow.adopt(tables)
        if rows:
            self.ports.disk.persist(list(rows))

    # -- subscriptions that move -----------------------------------------------------------------------

    def _opened(self, member: Member, message: Subscribe, is_resumed: bool, now: float) -> None:
        state = member.subscription
        is_opening = member in state.joining
        super()._opened(member, message, is_resumed, now)
        if not is_opening:
            return  # it left before it was answered, or was answered while the disk was full
        if not is_resumed:  # a token from the start: it may resume at another member
            self.ports.send(
                member.address, Silence(member.ref, Position(self._index.log, state.own.first - 1))
            )
        if state.durable:
            self._announce_takeover([state.id], now)

    def _announce_takeover(
        self, ids: list[SubscriptionId], now: float, to: tuple[str, ...] | None = None
    ) -> None:
        announced = tuple(
            (id.subscriber, id.name, now - self._registry.states[id].stored.attended) for id in ids
        )
        for member in to if to is not None else self._members():
            if member != self.ports.name and announced:
                self.ports.send(member, TakenOver(announced))

    def _members(self) -> tuple[str, ...]:
        return self.ports.members.view()

    def _on_subscribe(self, session: Session, message: Subscribe, now: float) -> None:
        others = {member for member in self._members() if member != self.ports.name}
        is_known = identity(session, message) in self._registry.states or self._index.log in message.after
        if not message.options.durable or is_known or not others:
            super()._on_subscribe(session, message, now)
            return
        id = identity(session, message)
        self._last_ask += 1
        requests = SubscriptionLookup(session.address, message, others, now + ASK_SECONDS)
        self._askings[self._last_ask] = self._asks_of[session.address] = requests
        for member in sorted(others):
            self.ports.send(member, SubscriptionQuery(self._last_ask, id.subscriber, id.name))

    def _found(self, number: int, now: float) -> None:
        """Open the subscription where it stood, or anew; then hear what its client said meanwhile."""
        requests = self._askings.pop(number)
        session = self._registry.sessions.get(requests.address)
        if self._asks_of.get(requests.address) is not requests or session is None:
            return  # its client is gone
        del self._asks_of[requests.address]
        message = requests.message
        if requests.upto is not None:
            message = msgspec.structs.replace(
                message, after={**message.after, self._index.log: requests.upto}
            )
        super()._on_subscribe(session, message, now)
        for later in requests.later:
            self.on_message(requests.address, later, now)

    def _on_group(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, SubscriptionQuery):
            state = self._registry.durables.get(SubscriptionId(message.subscriber, message.name))
            upto = None if state is None else state.own.low_water - 1
            self.ports.send(sender, SubscriptionQueryReply(message.number, upto))
        elif isinstance(message, SubscriptionQueryReply):
            requests = self._askings.get(message.number)
            if requests is not None and requests.answered(sender, message.upto):
                self._found(message.number, now)
        elif isinstance(message, TakenOver):
            for subscriber, name, age in message.ids:
                state = self._registry.states.get(SubscriptionId(subscriber, name))
                if state is not None and not state.has_members:
                    self._persist(self._registry.end_away(state.id, now - age, now), now)

    def on_timer(self, now: float) -> None:
        super().on_timer(now)
        for number in [number for number, requests in self._askings.items() if requests.until <= now]:
            self._found(number, now)

    def next_deadline(self) -> float | None:
        due = super().next_deadline()
        requested = min((requests.until for requests in self._askings.values()), default=None)
        return due if requested is None else requested if due is None else min(due, requested)

    def on_input(self, input: Input, now: float) -> None:
        super().on_input(input, now)
        if isinstance(input, LinkUp):
            self._features[input.peer] = input.features
        if isinstance(input, LinkDown):
            self._features.pop(input.peer, None)
            self._asks_of.pop(input.peer, None)
        if isinstance(input, ViewChanged):
            here = [state.id for state in self._registry.durables.values() if state.has_members]
            self._announce_takeover(here, now, input.joined)

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if isinstance(message, SubscriptionQuery | SubscriptionQueryReply | TakenOver):
            self._on_group(sender, message, now)
        elif sender in self._asks_of and not isinstance(message, Hello):
            self._asks_of[sender].later.append(message)
        else:
            if isinstance(message, Hello):
                self._asks_of.pop(sender, None)
            super().on_message(sender, message, now)
