"""One subscription as its client sees it.

Rules
- An event that arrives before the broker's `Subscribed` waits. After the application left no event is handed
  over, unless it is handed over by itself (`auto`): then until the broker's `Unsubscribed`.
- Credit is granted for what the application waits for, and for `window` more. An event that arrives when no
  take waits stays in `buffer`, in order.
- An event that was handed over is *taken* until it is committed, and all before it. The application names it
  by a number of this client: the broker's tag is valid on one link alone.
- After a broken link the broker sends again what was taken, and what was committed too late for it to know;
  both are recognised by their position and not handed over twice. An event that is committed before it is
  sent again is acknowledged then; one that is returned before that is handed over then.
- An event that is rejected, or returned by its last attempt, becomes a dead letter. It holds the token until
  the broker has the letter (`Fenced`): a link that breaks before loses neither.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import NamedTuple

import msgspec

from tidings.history.schema import Row, ntfy_row
from tidings.language.evaluate import accepts
from tidings.model.event import FOREVER
from tidings.model.filter import Filter
from tidings.model.packed import pack, unpack
from tidings.model.subscription import DeliveryOptions, Notification, Position, SubscriptionId
from tidings.protocol.lazy_queues import EMPTY, NOTHING, own_table
from tidings.protocol.messages import Deliver, Subscribe


class BrokerLinkState(StrEnum):
    """State of the link to the broker."""

    DOWN = "down"  # none; `LinkUp` ends it
    GREETING = "greeting"  # said hello; the broker's welcome ends it
    UP = "up"  # usable; `LinkDown` ends it


class SubscriptionPhase(StrEnum):
    """State of a subscription, and what ends each state."""

    OPENING = "opening"  # asked for; the broker's answer ends it
    OPEN = "open"  # heard; leaving it, or the broker's `Closed`, ends it
    LEAVING = "leaving"  # the application left; the broker's answer ends it
    ENDED = "ended"  # over for good


# The members by themselves: reading one from its class costs as much as a call.
DOWN, GREETING, UP = BrokerLinkState
OPENING, OPEN, LEAVING, ENDED = SubscriptionPhase

TRANSITIONS: dict[tuple[SubscriptionPhase, str], SubscriptionPhase] = {
    (OPENING, "Subscribed"): OPEN,
    (OPENING, "Refused"): ENDED,
    (OPENING, "Closed"): ENDED,
    (OPENING, "leave"): LEAVING,
    (OPEN, "Subscribed"): OPEN,  # opened again after a broken link
    (OPEN, "Refused"): ENDED,
    (OPEN, "Closed"): ENDED,
    (OPEN, "leave"): LEAVING,
    (LEAVING, "Subscribed"): LEAVING,
    (LEAVING, "Refused"): ENDED,
    (LEAVING, "Closed"): ENDED,
    (LEAVING, "Unsubscribed"): ENDED,
}


NO_TAG = -1
Identity = tuple[str, str]  # source and id of an event
NONE_AWAITED: set[Identity] = set()  # shared: only a set with members is changed


class UncommittedDelivery(msgspec.Struct, eq=False, gc=False):
    """A notification that was handed over and is not committed yet."""

    deliver: Deliver
    call: int | None
    number: int  # the application's name for it
    tag: int  # of the delivery, another one when it was delivered again; NO_TAG: its link is gone
    is_committed: bool = False  # an earlier one is not


class FilterProgress(NamedTuple):
    """Deliveries to a subscription of this filter: all that it wanted, by log up to an offset."""

    filter: Filter
    upto: dict[str, int]
    away: dict[str, int]  # the same of logs that its home has said nothing of

    def holds(self, deliver: Deliver) -> bool:
        position = deliver.position
        if position is None or position.offset > self.upto.get(position.log, 0):
            return False
        return accepts(self.filter, deliver.event)


class CommittedPositions:
    """The last positions that a client committed in a group, or that its token does not say."""

    __slots__ = ("__weakref__", "_most", "positions")

    def __init__(self, most: int) -> None:
        self._most = most
        self.positions: dict[Position, None] = {}

    def add(self, position: Position) -> None:
        self.positions[position] = None
        if len(self.positions) > self._most:
            del self.positions[next(iter(self.positions))]

    def __contains__(self, position: Position) -> bool:
        return position in self.positions


class ClientSubscription:
    """The state of one subscription, or of one membership of a group."""

    __slots__ = (
        "_asked_after", "_packed", "after", "ahead", "apart", "auto", "awaited", "away", "buffer", "buried",
        "call", "committed", "delivered", "ending", "fence", "given_back", "gives_way", "granted",
        "has_untagged", "has_untold", "home", "id", "is_fenced", "is_on", "is_remote", "is_resumed",
        "late", "leaving_calls", "most_late", "must_end", "named", "number", "options", "phase", "policy",
        "ref", "returned", "skipped", "taken", "waiting", "waits", "wanted", "window",
    )  # fmt: skip

    def __init__(
        self,
        ref: int,
        call: int,
        id: SubscriptionId,
        filter: Filter,
        options: DeliveryOptions,
        *,
        named: bool,
        window: int,
        auto: bool,
        after: dict[str, int],
    ) -> None:
        self.ref = ref
        self.call: int | None = call  # the subscribe that waits for its answer
        self.leaving_calls: tuple[int, ...] = ()  # the leaves that wait for their answer
        self.must_end = False  # True: leaving ends a durable subscription, also over a broken link
        self.id = id  # as the broker has it, once it answered
        self.named = named
        self._packed = pack(filter)
        self.options = options
        self.window = window
        self.auto = auto
        self.after = (
            dict(after) if after else NOTHING
        )  # token: by log, everything up to this offset was committed
        self.away = NOTHING  # the same of logs that its home has said nothing of, at other brokers
        self.is_remote = False  # another broker than the one at home listens for it
        self.apart: frozenset[Position] = frozenset()  # taken there of such logs, and not committed there
        self.ahead: CommittedPositions | None = None  # of a durable one: commits that no token says
        self.committed: CommittedPositions | None = None  # of a member of a group
        self.given_back: frozenset[Position] = (
            frozenset()
        )  # `nack`ed and not committed since: the token waits
        self.buried: tuple[
            UncommittedDelivery, ...
        ] = ()  # of those, dead letters that the broker may not have
        self.skipped = NOTHING  # by log: up to here the application has it from an archive ...
        self.policy: Filter | None = None  # ... what lives forever, and what this accepts
        self.delivered: tuple[
            FilterProgress, ...
        ] = ()  # under the same name, with other filters, before we left it
        self.phase = OPENING
        self.waiting: tuple[tuple[int, int], ...] = ()  # takes: call, and the most that its answer holds ...
        self.wanted = 0  # ... and the sum of those
        self.buffer: deque[Deliver] = EMPTY
        self.taken: tuple[UncommittedDelivery, ...] = ()
        self.number = 0  # of the last that was taken
        self.has_untold = False  # True: the broker may not know how far the token is ...
        self.has_untagged = False  # ... since an event was committed that has no tag on this link
        self.most_late = 0  # so many commits by position does the broker take at once ...
        self.late: tuple[Position, ...] = ()  # ... and these have no tag on this link
        self._asked_after: dict[str, int] = NOTHING  # the token of the last request for it
        self.granted = 0  # credit that the broker has not used yet; below 0 after a race
        self.waits = False  # an earlier one of its name is being left; the broker's answer to that ends it
        self.is_on = False  # the broker said so; a transient one ends with its link, and begins on the next
        self.ending: tuple[str, str] | None = None  # code and reason for later takes
        self.is_resumed = False  # does it know the token that an earlier one of its name left?
        self.home = ""  # the log of the broker where it was opened first
        self.fence = 0  # the last one that was asked for
        self.is_fenced = False  # returned events come first: no event is handed over until they are here
        self.awaited = NONE_AWAITED  # those that are not here yet ...
        self.returned = 0  # ... and the number that is, at the front of the buffer
        self.gives_way = False  # what was sent ahead is returned too, and no credit is granted

    def skips(self, deliver: Deliver) -> bool:
        """Does the application have it from an archive?"""
        position, event = deliver.position, deliver.event
        if not self.skipped or position is None or position.offset > self.skipped.get(position.log, 0):
            return False
        return event.lifetime == FOREVER or (self.policy is not None and accepts(self.policy, event))

    @property
    def filter(self) -> Filter:
        return unpack(self._packed)

    def next_waiting(self) -> int:
        """The call of the take that has waited longest; it waits no more."""
        call, most = self.waiting[0]
        self.waiting, self.wanted = self.waiting[1:], self.wanted - most
        return call

    def stop_waiting(self, call: int) -> bool:
        """Remove a take that waits; False: it does not wait."""
        left = tuple([take for take in self.waiting if take[0] != call])
        was_waiting = len(left) < len(self.waiting)
        self.waiting, self.wanted = left, sum([most for _, most in left])
        return was_waiting

    def step(self, happening: str) -> bool:
        """Move to the next phase; False when this cannot happen in this phase."""
        phase = TRANSITIONS.get((self.phase, happening))
        if phase is not None:
            self.phase = phase
        return phase is not None

    def is_namesake(self, other: ClientSubscription) -> bool:
        """Would the broker take one for the other? (A group has many listeners.)"""
        groups = (self.options.group, other.options.group)
        return self is not other and groups == (None, None) and self.id.name == other.id.name

    @property
    def is_receiving(self) -> bool:
        """Is what arrives for the application?"""
        return self.phase in (OPENING, OPEN) or (self.phase is LEAVING and self.auto)

    def asked(self, call: int) -> Subscribe:
        """The request for it, with credit for all that is waited for."""
        self.granted = 0 if self.phase is LEAVING else self.window + self.wanted
        after = self._asked_after = self.token()
        return Subscribe(
            call, self.ref, self.id.name, self.filter, self.options, self.named, after, self.granted
        )

    def goes_to(self, log: str) -> bool:
        """The broker with this log is asked for it: is it another one than at home?"""
        was_remote, self.is_remote = self.is_remote, self.home not in ("", log)
        if was_remote and not self.is_remote:
            taken = [each.deliver.position for each in self.taken]
            self.apart = frozenset(each for each in taken if each is not None and each.log not in self.after)
        return self.is_remote

    def token(self) -> dict[str, int]:
        """By log: everything up to this offset was committed. A broker that is not at home begins at the end
        of a log that the token lacks: what was committed of it there says nothing of what the home holds."""
        return {**self.away, **self.after} if self.is_remote else dict(self.after)

    def is_answered(self) -> None:
        """The broker knows the token that it was asked with."""
        if self.token() == self._asked_after:
            self.has_untold = self.has_untagged = False

    @property
    def must_return(self) -> bool:
        """Has the broker to be told on a new link what was committed, or that a durable one ends?"""
        return self.must_end or (
            self.has_untold and self.options.durable and self.options.group is None and not self.ending
        )

    def was_committed(self, deliver: Deliver) -> bool:
        """True when our token is past it. (Deliveries to a member do not show what the other members of its
        group handled.)"""
        position = deliver.position
        if self.committed is not None:
            return position is not None and position in self.committed
        if position is None or self.options.group is not None or self.options.dead_letters_of is not None:
            return False
        if self.ahead is not None and self.ahead.positions and position in self.ahead:
            return position not in self.given_back
        return position.offset <= self.after.get(position.log, 0) and position not in self.given_back

    def was_delivered(self, deliver: Deliver) -> bool:
        """True when it was told under this name already, since another filter wanted it too
        (`resume_tokens.py`)."""
        return self.options.dead_letters_of is None and any(
            earlier.holds(deliver) for earlier in self.delivered
        )

    def taken_again(self, deliver: Deliver) -> UncommittedDelivery | None:
        """The one that was taken before the link broke and is delivered again; its tag is renewed."""
        if deliver.position is None:
            return None
        for taken in self.taken:
            if taken.deliver.position == deliver.position:
                taken.tag = deliver.tag
                return taken
        return None

    def queue_up(self, deliver: Deliver) -> None:
        """What was given back comes before what was sent ahead."""
        if not self.buffer:
            self.buffer = deque()
        if self.awaited and deliver.event.identity in self.awaited:
            self.awaited.remove(deliver.event.identity)
            self.buffer.insert(self.returned, deliver)
            self.returned += 1
        else:
            self.buffer.append(deliver)

    def notification(self, deliver: Deliver) -> Notification:
        return Notification(self.id, deliver.event, deliver.position, deliver.attempt)

    def row(self, deliver: Deliver, now: float, client: str, broker: str | None) -> Row:
        """The delivery as a row of the history."""
        position, again = deliver.position, deliver.again
        return ntfy_row(
            now, client, self.id, deliver.event, position=position, redelivery=again, broker=broker
        )

    def commit(self, number: int | None) -> tuple[int, ...]:
        """Commit this one, or all, and move the token as far as everything before it is committed; the tags
        to acknowledge. One behind an event that is open, or was returned, stays taken: it is recognised
        when it comes again."""
        taken = self.taken
        if not self.given_back and (number is None or (not taken[1:] and taken[0].number == number)):
            self.taken, settled = (), list[int]()
            for each in taken:
                if not each.is_committed and each.tag != NO_TAG:
                    settled += (each.tag,)
                elif not each.is_committed:
                    self._commit_late(each)
                if (position := each.deliver.position) is not None:
                    self.advance(position)
            return tuple(settled)
        chosen = [
            each for each in taken if not each.is_committed and (number is None or each.number == number)
        ]
        tags = [each.tag for each in chosen if each.tag != NO_TAG]
        for each in chosen:
            each.is_committed = True
            if each.tag == NO_TAG:
                self._commit_late(each)
            if (position := each.deliver.position) is not None:
                self.given_back -= {position}
                if self.committed is not None:
                    self.committed.add(position)
        self._move_token()
        return tuple(tags)

    def _commit_late(self, each: UncommittedDelivery) -> None:
        """Its link is gone: the broker learns of the commit by the token, by its position (of a member of a
        group), or when it delivers the event again."""
        self.has_untagged = True
        if self.most_late and each.deliver.position is not None:
            self.late = (*self.late, each.deliver.position)[-self.most_late :]

    def _move_token(self) -> None:
        """Move the token by log up to the first event that is open, or was returned."""
        first: dict[str, int] = {}  # by log
        still = [each.deliver.position for each in self.taken if not each.is_committed]
        for position in (*still, *self.given_back):
            if position is not None and position.offset < first.get(position.log, position.offset + 1):
                first[position.log] = position.offset
        left: list[UncommittedDelivery] = []
        for each in self.taken:
            position = each.deliver.position
            if each.is_committed and position is not None:
                if position.offset < first.get(position.log, position.offset + 1):
                    self.advance(position)
                else:
                    left.append(each)
            elif not each.is_committed:
                left.append(each)
        self.taken = tuple(left)

    def advance(self, position: Position) -> None:
        """An event is committed, and so is all before it: move the token, unless an event was returned.
        A member of a group has none: an event before it may be with another member, or was returned."""
        if self.committed is not None:
            self.committed.add(position)
            return
        if self.given_back:
            self.given_back -= {position}
            if any(p.log == position.log and p.offset < position.offset for p in self.given_back):
                return
        is_apart = bool(self.apart) and position in self.apart
        if not is_apart and self._moves_to(position):
            self.has_untold = True
        if is_apart or position.log not in self.after:
            self.commits_ahead(position)

    def commits_ahead(self, position: Position | None) -> None:
        """It is committed, and no token says so."""
        if self.ahead is not None and position is not None:
            self.ahead.add(position)

    def _moves_to(self, position: Position) -> bool:
        """Move the token to this offset; False: it is there."""
        name = "away" if self.is_remote and position.log not in self.after else "after"
        if getattr(self, name).get(position.log, -1) >= position.offset:
            return False
        own_table(self, name)[position.log] = position.offset
        return True

    def give_back(self, numbers: tuple[int, ...] | None, *, rejects: bool) -> tuple[int, ...]:
        """Return these, or all that are not committed, and hold the token until they were delivered again and
        committed, or are dead letters; the tags to return. The broker delivers again anyway what was taken on
        an earlier link. A member of a group has no token: another one may get what it returns."""
        given = [
            each for each in self.taken
            if not each.is_committed and (numbers is None or each.number in numbers)
        ]  # fmt: skip
        if given:
            self.taken = tuple([each for each in self.taken if each not in given])
        if given and self.options.group is None:
            self.given_back |= {each.deliver.position for each in given if each.deliver.position}
            most = 1 if rejects else self.options.max_deliveries
            self.buried += tuple([e for e in given if e.tag != NO_TAG and e.deliver.attempt >= most])
            again = [e.deliver for e in given if e.tag != NO_TAG and e.deliver.attempt < most]
            self.awaited = self.awaited | {deliver.event.identity for deliver in again}
        return tuple([each.tag for each in given if each.tag != NO_TAG])

    def give_way(self) -> tuple[int, ...]:
        """Drop what was sent ahead; the tags to return."""
        tags = tuple([deliver.tag for deliver in self.buffer if deliver.tag != NO_TAG])
        self.buffer = deque([deliver for deliver in self.buffer if deliver.tag == NO_TAG]) or EMPTY
        self.returned = 0
        return tags

    def bury(self) -> None:
        """The broker has the dead letters: they count as committed."""
        buried, self.buried = self.buried, ()
        for each in buried:
            each.is_committed = True
            self.given_back -= {each.deliver.position}
        if buried:
            self.taken += buried
            self._move_token()

    def untake(self, call: int) -> list[Deliver]:
        """Deliveries that answered that take, no longer taken; without those that were committed since, and
        those that the broker will deliver again."""
        before = [taken for taken in self.taken if taken.call == call and not taken.is_committed]
        self.taken = tuple([taken for taken in self.taken if taken not in before])
        return [
            msgspec.structs.replace(taken.deliver, tag=taken.tag)
            for taken in before
            if taken.tag != NO_TAG or (taken.deliver.position is None and self.options.group is None)
        ]

    def receive_silence(self, position: Position) -> None:
        """No more events up to there: what was returned before is settled, and the token moves, unless an
        earlier event is not committed."""
        if self.given_back:
            buried = {each.deliver.position for each in self.buried}  # those have an answer of their own
            self.given_back = frozenset(
                each for each in self.given_back
                if each in buried or each.log != position.log or each.offset > position.offset
            )  # fmt: skip
            self._move_token()
        if not self.taken and not self.buffer and not self.given_back:
            self._moves_to(position)

    def forget_link(self) -> None:
        """The link is gone, and its tags with it: the broker will send again what it had sent ahead, and what
        was taken."""
        for taken in self.taken:
            taken.tag = NO_TAG
        self.buffer = EMPTY
        self.most_late = 0  # until it is opened on the next link, with all of these
        self.buried = ()  # the broker has them, or delivers them again
        self.granted = 0
        self.is_fenced = self.gives_way = False
        self.awaited, self.returned = NONE_AWAITED, 0

    def check(self) -> None:
        is_receiving = self.phase is OPEN and not self.is_fenced
        assert not (self.waiting and self.buffer and is_receiving), "no reader waits beside a filled buffer"
        assert self.phase is not ENDED or not self.waiting, (
            "no reader waits for a subscription that has ended"
        )
        tags = [taken.tag for taken in self.taken if taken.tag != NO_TAG]
        assert len(tags) == len(set(tags)), "a notification is taken once"
