"""Return of the members of durable groups after a restart of their broker.

A broker that was restarted knows which events a group is owed, and not which member has them in hand. Rules
- The disk holds the members that may have events in hand: those that are linked, and those whose link broke
  less than `regroup_seconds` ago, since an orderly stop breaks every link first. At most
  `group_members` are kept. Only a member that tells its holdings (`MemberHoldings`) is among them.
- After a restart a group reads no log until each of those has returned, or `regroup_seconds` after the first
  member did. New events go on at once only when no earlier one is owed: their order holds.
- An event that a returning member holds is sent to this member, without regard to its credit: it has the
  event already, and has to be told a tag for it.
- An event that a member committed is settled, also when it is with another member by then.
- A claim of an event that is still to be read is kept until it is read, or until its member leaves.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from tidings.model.subscription import Position
from tidings.protocol.delivery.cursor import REPLAYING
from tidings.protocol.delivery.sessions import MOST_UNOPENED
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.messages import MemberHoldings

if TYPE_CHECKING:
    from tidings.protocol.delivery.dispatcher import Dispatcher
    from tidings.protocol.delivery.sessions import Session
    from tidings.protocol.delivery.settings import DeliverySettings
    from tidings.protocol.delivery.subscription_state import Member, SubscriptionState


class GroupMembers:
    """The members of one durable group, and what they say that they hold."""

    __slots__ = ("awaited", "claims", "lost_at", "until")

    def __init__(self, awaited: Sequence[str] = ()) -> None:
        self.lost_at: dict[str, float] = dict.fromkeys(awaited, inf)  # by member; infinite: it is not lost
        self.awaited = set(awaited)  # known from before a restart, and not back
        self.until: float | None = None  # the wait for them ends; None: no member is back yet
        self.claims: dict[Position, Member | None] = {}  # still to be read; None: the event was committed

    def drop_claims(self, member: Member) -> None:
        if self.claims:
            self.claims = {position: by for position, by in self.claims.items() if by is not member}

    def forget_log(self, log: str) -> None:
        """All of a log is read: no claim of it is left."""
        if self.claims:
            self.claims = {position: by for position, by in self.claims.items() if position.log != log}

    def forget_lost(self, before: float) -> None:
        """Members whose link broke so long ago have nothing in hand that a restart could spare."""
        self.lost_at = {key: at for key, at in self.lost_at.items() if at > before}

    def stop_waiting(self) -> None:
        for key in self.awaited:
            self.lost_at.pop(key, None)
        self.awaited.clear()


class GroupReturns:
    """Members that come back, in all groups of a broker."""

    def __init__(self, settings: DeliverySettings, limits: ResourceLimits, dispatcher: Dispatcher) -> None:
        self._seconds, self._limits = settings.regroup_seconds, limits
        self._dispatcher = dispatcher
        self._waiting: dict[SubscriptionState, float] = {}  # to be looked at, and when for the last time
        self.next_at: float | None = None  # when the first wait ends

    def load(self, state: SubscriptionState, members: Sequence[str]) -> None:
        """A group from the disk."""
        if members and self._seconds > 0:
            state.group_members = GroupMembers(members)

    def known(self, state: SubscriptionState) -> list[str]:
        """The members of a group for the disk, the last ones of them."""
        members = state.group_members
        return [] if members is None else list(members.lost_at)[-self._limits.group_members :]

    def joins(self, session: Session, member: Member) -> None:
        """A member of a durable group subscribes; the disk will know it before it is answered."""
        state = member.subscription
        if member.ref in session.holdings and self._seconds > 0:
            member.key = f"{session.incarnation}/{member.ref}"
            if state.group_members is None:
                state.group_members = GroupMembers()
            state.group_members.lost_at.pop(member.key, None)  # the last ones are kept
            state.group_members.lost_at[member.key] = inf

    def left(self, member: Member, *, is_lost: bool, now: float) -> None:
        """A member left, or its link broke."""
        members = member.subscription.group_members
        if members is None:
            return
        members.drop_claims(member)
        known = members.lost_at.pop(member.key, None)
        if is_lost and known is not None:
            members.lost_at[member.key] = now
            self._look_later(member.subscription, now + self._seconds)

    def opened(self, session: Session | None, member: Member, now: float) -> None:
        """A member was answered: it gets what it holds, and the group waits for the others."""
        state = member.subscription
        holdings = None if session is None else session.holdings.pop(member.ref, None)
        if holdings is not None:
            self._apply(member, holdings, now)
        if (members := state.group_members) is None or not members.awaited:
            return
        members.awaited.discard(member.key)
        if members.awaited and members.until is None:
            members.until = now + self._seconds
            self._look_later(state, members.until)

    def _look_later(self, state: SubscriptionState, at: float) -> None:
        self._waiting[state] = max(at, self._waiting.get(state, at))
        self.next_at = at if self.next_at is None else min(self.next_at, at)

    def note(self, session: Session, message: MemberHoldings, now: float) -> None:
        """Keep it for the subscribe that follows, or settle late commits of a member."""
        member = session.members.get(message.ref)
        if member is None and len(session.holdings) < MOST_UNOPENED:
            waiting = sum(map(_size, session.holdings.values())) + _size(message)
            fits = waiting <= self._limits.group_claims
            session.holdings[message.ref] = message if fits else MemberHoldings(message.ref)
        elif member is not None and member.is_open and member.subscription.options.group is not None:
            self._apply(member, message, now)
            self._dispatcher.pump(member.subscription, now)

    def on_timer(self, now: float) -> None:
        if self.next_at is None or self.next_at > now:
            return
        self.next_at = None
        for state, at in list(self._waiting.items()):
            members = state.group_members
            if state.has_ended or members is None:
                del self._waiting[state]
                continue
            members.forget_lost(now - self._seconds)
            if members.awaited and members.until is not None and members.until <= now:
                members.stop_waiting()
                self._dispatcher.pump(state, now)
            if at <= now:
                del self._waiting[state]
            elif self.next_at is None or at < self.next_at:
                self.next_at = at

    # -- claims ----------------------------------------------------------------------------------

    def _apply(self, member: Member, holdings: MemberHoldings, now: float) -> None:
        state = member.subscription
        if not state.durable or state.options.group is None:
            return
        committed = self._claim(state, holdings.committed, None)
        in_hand = self._claim(state, holdings.taken, member)
        for line in (state.queue, state.barred) if committed or in_hand else ():
            for item in [each for each in line if each.dead_letter is None]:
                if item.position in committed or (item.position in in_hand and line is state.queue):
                    line.remove(item)
                    if line is state.queue:
                        state.count_queued(-item.size)
                    if item.position in committed:
                        self._dispatcher.forget(state, item, now)
                    else:
                        item.again = True
                        self._dispatcher.send_to(member, item)
        if committed:
            self._settle_with_members(state, committed, now)

    def _settle_with_members(
        self, state: SubscriptionState, committed: Container[Position | None], now: float
    ) -> None:
        found = [
            (run.member, tag)
            for run in state.unacked
            for tag, item in zip(range(run.first, run.stop), run.own_items, strict=True)
            if item.dead_letter is None and item.position in committed
        ]
        for member, tag in found:
            if (item := self._dispatcher.take_off(member, tag)) is not None:
                self._dispatcher.settle(state, item, now)

    def _claim(
        self, state: SubscriptionState, offsets: Mapping[str, Sequence[int]], by: Member | None
    ) -> set[Position | None]:
        """Keep the claims of events that are still to be read; the others."""
        read: set[Position | None] = set()
        for log, claimed in offsets.items():
            if (cursor := state.cursor_in(log)) is None:
                continue
            for offset in claimed:
                if cursor.state is not REPLAYING or offset < cursor.next:
                    read.add(Position(log, offset))
                elif offset < cursor.again_below:
                    self._keep(state, Position(log, offset), by)
        return read

    def _keep(self, state: SubscriptionState, position: Position, by: Member | None) -> None:
        if state.group_members is None:
            state.group_members = GroupMembers()
        claims = state.group_members.claims
        if len(claims) < self._limits.group_claims and (by is None or position not in claims):
            claims[position] = by


def _size(holdings: MemberHoldings) -> int:
    """Number of logs and offsets in a message."""
    parts = (*holdings.taken.values(), *holdings.committed.values())
    return len(parts) + sum(map(len, parts))
