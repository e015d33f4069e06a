"""Strong membership: a group that agrees on one sequence of views (Mathur et al. 1995, 3.1 and 4.1.2).

Rules
- Each view is decided by a majority of the voters of the view before it, so there is one sequence of views,
  and a minority never makes one.
- While the coordinator lives two phases do: propose and acknowledge, install. A member that takes over first
  interrogates (`voting.py`): three phases. Words of a coordinator that was taken over are refused.
- Failure detection (`failure_detector.py`) only says when to try. The most senior trusted member tries.
- A newcomer knows no view. It is let in by the next one, and the other slots hand it what it needs.
- A process whose disk was put back to an older copy learns so from a view that names a later life of that
  disk. It has forgotten promises, so it goes on under a new disk id, as with an empty disk.
- The first view of all needs every member that was named when the group was founded.
- A process serves while it is in the view that it knows and trusts a majority of the voters, itself included.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from tidings.availability.records import Put, Record
from tidings.history.schema import suspect_row, view_row
from tidings.protocol.effects import OpenLink
from tidings.protocol.effects import Record as Row
from tidings.protocol.inputs import Input, LinkDown, LinkUp, Started, ViewChanged
from tidings.protocol.membership.failure_detector import DetectorSettings, FailureDetector
from tidings.protocol.membership.views import (
    MESSAGES,
    AgreedView,
    Ballot,
    ViewAck,
    ViewAnswer,
    ViewAsk,
    ViewBeat,
    ViewHello,
    ViewInstall,
    ViewPropose,
    ViewRefused,
    went_back,
)
from tidings.protocol.membership.voting import Vote, VotingRound
from tidings.protocol.messages import Message
from tidings.protocol.roles import Quorum
from tidings.protocol.slots import Membership, Ports

TABLE = "membership.group"  # rows: self, view, vote
WEAK, VIRTUAL = "weak", "virtual"


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    detector: DetectorSettings = DetectorSettings()
    round_seconds: float = 1.0  # until a try that was not answered is tried again
    back_off_seconds: float = 0.3  # at most, after a refusal: two who take over do not keep on meeting
    dials: bool = True  # members that another member names are dialled
    synchrony: str = WEAK  # virtual: every survivor flushes before it acknowledges a view


class _LocalMember(msgspec.Struct, array_like=True):
    disk: str
    lives: int
    name: str = ""  # of the broker; the last version wrote none


def member_of(tables: Mapping[str, Mapping[str, bytes]]) -> str:
    """The member of a group whose disk it is; empty: no group's, or no name was written by the
    last version."""
    row = tables.get(TABLE, {}).get("self")
    return msgspec.msgpack.decode(row, type=_LocalMember).name if row is not None else ""


class PeerHello(msgspec.Struct, frozen=True):
    """Content of a peer's hello."""

    life: str
    disk: str
    address: str


class AgreedViews(Membership, Quorum):
    name = "agreed views"
    messages = MESSAGES

    def __init__(
        self, founders: tuple[str, ...], group: str = "group", settings: GroupSettings | None = None
    ) -> None:
        self._founders = tuple(sorted(founders))
        self._group = group
        self._settings = settings or GroupSettings()
        self.current: AgreedView | None = None
        self._vote = Vote(1)
        self._round: VotingRound | None = None
        self._hellos: dict[str, PeerHello] = {}
        self._where: dict[str, str] = {}  # of others in the group, by name
        self._trusted: set[str] = set()
        self._disk = self.life = ""  # empty: not started
        self._highest = 0  # try that was seen
        self._waits_until = 0.0  # after a refusal
        self._beat_at: float | None = None
        self._flushing: tuple[int, Ballot, str] | None = None  # what is acknowledged when we have flushed
        self._was_serving = False
        self._clock = 0.0  # time of the last input
        self.figures_of = {"views": 0, "takeovers": 0, "refused ballots": 0, "disks put back": 0}

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self._detector = FailureDetector(ports.name, self._settings.detector)

    # -- for the other slots (port) -----------------------------------------------------------

    def view(self, scope: str = "") -> tuple[str, ...]:
        return self.current.members if self.current is not None else ()

    @property
    def epoch(self) -> int:
        return self.current.number if self.current is not None else 0

    @property
    def coordinator(self) -> str | None:
        return self.current.coordinator if self.current is not None else None

    @property
    def is_member(self) -> bool:
        return self.current is not None and self.current.has(self.ports.name, self.life)

    @property
    def is_serving(self) -> bool:
        view = self.current
        return view is not None and self.is_member and view.is_majority(self._disks(self._trusted))

    def voters(self) -> dict[str, str | None]:
        voters = self.current.voters if self.current is not None else {}
        return {peer: disk if self.counts(peer) else None for peer, disk in voters.items()}

    def trusts(self, peer: str) -> bool:
        return peer == self.ports.name or peer in self._trusted

    def counts(self, peer: str) -> bool:
        """Does the word of this peer count now?"""
        disk = (
            self._disk if peer == self.ports.name else self._hellos[peer].disk if peer in self._hellos else ""
        )
        return self.current is not None and self.current.voters.get(peer) == disk

    def _disks(self, peers: set[str]) -> dict[str, str]:
        disks = {peer: self._hellos[peer].disk for peer in sorted(peers) if peer in self._hellos}
        return {**disks, self.ports.name: self._disk}

    # -- inputs ----------------------------------------------------------------------------------

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            self._start(input.state.tables.get(TABLE, {}), now)
        elif isinstance(input, LinkUp) and input.peer in self.ports.neighbours.peers():
            self._detector.link_up(input.peer, now)
            self._greet(input.peer)
        elif isinstance(input, LinkDown):
            self._detector.link_down(input.peer)
            self._hellos.pop(input.peer, None)
            self._review(now)

    def _start(self, rows: dict[str, bytes], now: float) -> None:
        me = msgspec.msgpack.decode(rows["self"], type=_LocalMember) if "self" in rows else None
        me = self._new_disk() if me is None else me
        me.lives, me.name = me.lives + 1, self.ports.name
        if "view" in rows:
            self.current = msgspec.msgpack.decode(rows["view"], type=AgreedView)
            self._vote = Vote(self.current.number + 1)
        if "vote" in rows:
            vote = msgspec.msgpack.decode(rows["vote"], type=Vote)
            self._vote = vote if vote.number >= self._vote.number else self._vote
        self._keep([self._row("self", me)], partial(self._started, me))

    def _new_disk(self) -> _LocalMember:
        return _LocalMember(f"{self.ports.rng.getrandbits(48):012x}", 0)

    def _started(self, me: _LocalMember, now: float) -> None:
        self._disk, self.life = me.disk, f"{me.disk}.{me.lives}.{self.ports.rng.getrandbits(32):08x}"
        for peer in self._detector.links():
            self._greet(peer)
        self._beat_at = now

    def _look_at_disk(self, view: AgreedView, now: float) -> None:
        """Go on under a new disk id where the view knows that our disk was put back to an older copy."""
        lives = dict(zip(view.members, view.lives, strict=True))
        if not self.life or not went_back(self.life, lives.get(self.ports.name, self.life)):
            return
        me = self._new_disk()
        me.lives, me.name = 1, self.ports.name
        self._disk = self.life = ""  # no message is sent until the new id is kept
        self._round = self._flushing = None
        self._was_serving = False
        self.figures_of["disks put back"] += 1
        change = ViewChanged(self.epoch, self.view(), False, (), is_member=False, went_back=True)
        self.ports.events.view_changed(change, now)
        self._keep([self._row("self", me)], partial(self._started, me))

    def _row(self, key: str, value: Any) -> Put:
        return Put(TABLE, key, msgspec.msgpack.encode(value))

    def _keep(self, records: list[Record], then: Any = None) -> None:
        self.ports.disk.persist(records, then)

    def _greet(self, peer: str, *, asks: bool = False) -> None:
        if self.life:
            hello = ViewHello(
                self._group, self.life, self._disk, self.current, self.ports.address, dict(self._where), asks
            )
            self.ports.send(peer, hello)

    # -- messages --------------------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        if not self.life:
            return  # no message is sent before our own id is known
        self._look_at_clock(now)
        self._detector.seen(sender, now)
        if isinstance(message, ViewHello):
            self._on_hello(sender, message, now)
        elif isinstance(message, ViewBeat):
            self._on_beat(sender, message, now)
        elif isinstance(message, ViewInstall):
            self._install(message.view, now)
        elif isinstance(message, ViewAsk | ViewPropose):
            self._on_ballot(sender, message, now)
        elif isinstance(message, ViewAnswer):
            self._on_answer(sender, message, now)
        elif isinstance(message, ViewAck):
            self._on_ack(sender, message, now)
        elif isinstance(message, ViewRefused):
            self._on_refused(message, now)

    def _on_hello(self, sender: str, message: ViewHello, now: float) -> None:
        if message.group != self._group:
            return
        self._hellos[sender] = PeerHello(message.life, message.disk, message.address)
        if message.address and self._where.get(sender) != message.address:
            self._where[sender] = message.address
            for peer in self._detector.links():  # those greeted before we knew it would never dial it
                if peer != sender:
                    self._greet(peer)
        for peer, address in message.peers.items():
            if peer != self.ports.name and peer not in self._where:
                self._where[peer] = address
                if self._settings.dials and peer not in self._detector.links():
                    self.ports.emit(OpenLink(peer, address))
        if message.asks:
            self._greet(sender)
        if message.view is not None:
            self._install(message.view, now)
        self._beat(now)  # it should know soon that it is heard
        self._review(now)

    def _on_beat(self, sender: str, message: ViewBeat, now: float) -> None:
        self._detector.beat(sender, message.received_from, now)
        if sender not in self._hellos:  # its hello was lost
            self._greet(sender, asks=True)
        if self.current is not None and message.number < self.current.number:
            self.ports.send(sender, ViewInstall(self.current))
        self._review(now)

    # -- voting ----------------------------------------------------------------------------------

    def _on_ballot(self, sender: str, message: ViewAsk | ViewPropose, now: float) -> None:
        self._install(message.base, now, is_base=message.base.number == 0)
        if not self.life:
            return  # our disk has forgotten what it promised
        number, ballot = message.base.number + 1, message.ballot
        self._highest = max(self._highest, ballot[0])
        if number < self._vote.number:  # the sender does not know what was decided
            if self.current is not None and sender != self.ports.name:
                self.ports.send(sender, ViewInstall(self.current))
            return
        vote = self._vote
        took = vote.promise(ballot) if isinstance(message, ViewAsk) else vote.accept(ballot, message.view)
        if not took:
            assert vote.promised is not None
            self.figures_of["refused ballots"] += 1
            self._send(sender, ViewRefused(number, vote.promised), now)
        elif isinstance(message, ViewAsk):
            answer = ViewAnswer(number, ballot, self._disk, vote.accepted_at, vote.accepted)
            self._keep([self._row("vote", vote.copy())], lambda at: self._send(sender, answer, at))
        else:
            self._keep([self._row("vote", vote.copy())], partial(self._accepted, sender, message))

    def _accepted(self, sender: str, message: ViewPropose, now: float) -> None:
        """Our acceptance is on the disk. With virtual synchrony the acknowledgement waits for the flush."""
        number, ballot = message.view.number, message.ballot
        if self._vote.accepted_at != ballot:
            return
        me, before = self.ports.name, self.current
        stays = before is not None and before.has(me, self.life) and message.view.has(me, self.life)
        if self._settings.synchrony == VIRTUAL and stays:
            assert before is not None
            self._flushing = (number, ballot, sender)
            if self.ports.synchrony.flush(number, self._survivors(before, message.view), now):
                self.flushed(number, now)
        else:
            self._send(sender, ViewAck(number, ballot, self._disk), now)

    def _survivors(self, before: AgreedView, view: AgreedView) -> tuple[str, ...]:
        """Members that go on from one view to the next, and have not begun another life since."""
        alive = {peer: self._hellos[peer].life for peer in self._trusted} | {self.ports.name: self.life}
        both = set(zip(before.members, before.lives, strict=True)) & set(
            zip(view.members, view.lives, strict=True)
        )
        return tuple(member for member, life in sorted(both) if alive.get(member) == life)

    def flushed(self, number: int, now: float) -> None:
        if self._flushing is not None and self._flushing[0] == number:
            _, ballot, sender = self._flushing
            self._flushing = None
            self._send(sender, ViewAck(number, ballot, self._disk), now)

    def _send(self, to: str, message: Message, now: float) -> None:
        if to == self.ports.name:
            self.on_message(to, message, now)
        else:
            self.ports.send(to, message)

    # -- deciding --------------------------------------------------------------------------------

    def _review(self, now: float) -> None:
        """Look at who is there; try to agree on another view where there is a reason to, and it is for us."""
        if not self.life:
            return
        before, self._trusted = self._trusted, self._detector.review(now) & self._hellos.keys()
        if self.ports.recording:
            for lost in sorted(before - self._trusted):
                self.ports.emit(Row(suspect_row(now, self.ports.name, lost)))
        self._announce_serving(now)
        if self._round is not None and self._round.view is not None:
            self._conclude(self._round, now)
        if self._round is None and now >= self._waits_until and self._leads():
            base, wanted = self._base(), self._wanted(now)
            if base is not None and wanted is not None and base.is_majority(self._disks(set(wanted))):
                self._begin(base, now)

    def _announce_serving(self, now: float) -> None:
        serves, view = self.is_serving, self.current
        if serves is not self._was_serving:
            self._was_serving = serves
            if view is not None:
                self.ports.events.view_changed(
                    ViewChanged(view.number, view.members, serves, (), self.is_member), now
                )

    def _base(self) -> AgreedView | None:
        """The view that we know; for the first of all, the founders when each has said that it knows none."""
        if self.current is not None:
            return self.current
        disks = self._disks(set(self._hellos))
        if self.ports.name not in self._founders or not disks.keys() >= set(self._founders):
            return None
        return AgreedView(0, (), (), {name: disks[name] for name in self._founders})

    def _leads(self) -> bool:
        """Are we the most senior member that we trust?"""
        me, view = self.ports.name, self.current
        if view is None:
            return me == self._founders[0]
        for member, life in zip(view.members, view.lives, strict=True):
            if member == me and life == self.life:
                return True
            if member in self._trusted and self._hellos[member].life == life:
                return False
        others = [peer for peer in sorted(view.voters) if peer in self._trusted and self.counts(peer)]
        return self.counts(me) and all(me < peer for peer in others)

    def _wanted(self, now: float) -> dict[str, str] | None:
        """The members that the next view should have, with their lives; None: those that it has."""
        view, me = self.current, self.ports.name
        alive = {peer: self._hellos[peer].life for peer in self._trusted} | {me: self.life}
        if view is None:
            return (
                {name: alive[name] for name in self._founders}
                if alive.keys() >= set(self._founders)
                else None
            )
        lives = list(zip(view.members, view.lives, strict=True))
        kept = {member: life for member, life in lives if alive.get(member) == life}
        new = {
            peer: life
            for peer, life in sorted(alive.items())
            if peer not in kept and (peer == me or self._detector.is_steady(peer, now))
        }
        return None if not new and len(kept) == len(lives) else kept | new

    def _begin(self, base: AgreedView, now: float) -> None:
        me = self.ports.name
        is_own = base.number > 0 and base.coordinator == me and base.has(me, self.life)
        ends_at = now + self._settings.round_seconds
        promised = self._vote.promised
        if is_own and (promised is None or promised == (0, me)) and self._vote.accepted is None:
            self._round = VotingRound(base, (0, me), ends_at)
            self._propose(self._round, now)
            return
        self._highest = max(self._highest, promised[0] if promised is not None else 0) + 1
        self.figures_of["takeovers"] += not is_own
        self._round = VotingRound(base, (self._highest, me), ends_at)
        self._to_voters(self._round, ViewAsk(base, self._round.ballot), now)

    def _to_voters(self, round: VotingRound, message: Message, now: float) -> None:
        for peer in sorted(self._trusted):
            if peer in round.base.voters or (round.view is not None and peer in round.view.members):
                self.ports.send(peer, message)
        self._send(self.ports.name, message, now)

    def _on_answer(self, sender: str, message: ViewAnswer, now: float) -> None:
        round = self._round
        if round is None or (message.number, message.ballot) != (round.number, round.ballot):
            return
        if round.base.voters.get(sender) == message.disk and round.answered(
            sender, message.accepted_at, message.accepted
        ):
            self._propose(round, now)

    def _propose(self, round: VotingRound, now: float) -> None:
        view = round.found()
        if view is None:
            wanted = self._wanted(now)
            if wanted is None or not round.base.is_majority(self._disks(set(wanted))):
                self._round = None
                return
            disks = self._disks(self._trusted)
            voters = round.base.voters | {name: disks[name] for name in wanted}
            view = AgreedView(round.number, tuple(wanted), tuple(wanted.values()), voters)
        round.view = view
        self._to_voters(round, ViewPropose(round.base, round.ballot, view), now)

    def _on_ack(self, sender: str, message: ViewAck, now: float) -> None:
        round = self._round
        if round is None or (message.number, message.ballot) != (round.number, round.ballot):
            return
        round.acks[sender] = message.disk
        self._conclude(round, now)

    def _conclude(self, round: VotingRound, now: float) -> None:
        view = round.view
        assert view is not None
        if not round.base.is_majority(round.acks):
            return
        survivors = self._survivors(round.base, view) if self._settings.synchrony == VIRTUAL else ()
        if not set(survivors) <= round.acks.keys():
            return
        self._round = None
        for peer in self._detector.links():
            if peer in view.members or peer in self._hellos:
                self.ports.send(peer, ViewInstall(view))
        self._install(view, now)

    def _on_refused(self, message: ViewRefused, now: float) -> None:
        round = self._round
        self._highest = max(self._highest, message.promised[0])
        if round is not None and round.number == message.number and message.promised > round.ballot:
            self._round = None
            self._waits_until = now + self.ports.rng.uniform(0.0, self._settings.back_off_seconds)

    # -- installing ------------------------------------------------------------------------------

    def _install(self, view: AgreedView, now: float, *, is_base: bool = False) -> None:
        self._look_at_disk(view, now)
        if is_base or (self.current is not None and view.number <= self.current.number):
            return
        before, self.current = self.current, view
        if self._vote.number <= view.number:
            self._vote = Vote(view.number + 1)
        if self._round is not None and self._round.number <= view.number:
            self._round = None
        self._flushing = None
        self._keep([self._row("view", view), self._row("vote", self._vote.copy())])
        self.figures_of["views"] += 1
        if self.is_member and self.ports.recording:
            self.ports.emit(Row(view_row(now, self.ports.name, view.number, view.members, topic=self._group)))
        self._trusted = self._detector.review(now) & self._hellos.keys()
        self._was_serving = self.is_serving
        joined = tuple(
            member
            for member, life in zip(view.members, view.lives, strict=True)
            if before is None or not before.has(member, life)
        )
        change = ViewChanged(view.number, view.members, self._was_serving, joined, self.is_member)
        self.ports.events.view_changed(change, now)
        self._review(now)

    def _look_at_clock(self, now: float) -> None:
        """A clock that was set back must not stop our beats, nor make us trust the dead."""
        if now < self._clock - self._settings.detector.suspect_seconds:
            self._detector.set_back(now)
            self._beat_at, self._waits_until = now, now
            if self._round is not None:
                self._round.ends_at = now
        self._clock = now

    # -- time ------------------------------------------------------------------------------------

    def on_timer(self, now: float) -> None:
        self._look_at_clock(now)
        if self._round is not None and now >= self._round.ends_at:
            self._round = None
        if self._beat_at is not None and now >= self._beat_at:
            self._beat(now)
        self._review(now)

    def _beat(self, now: float) -> None:
        beat = ViewBeat(self.epoch, self._detector.reachable(now))
        for peer in self._detector.links():
            self.ports.send(peer, beat)
        self._beat_at = now + self._settings.detector.beat_seconds

    def next_deadline(self) -> float | None:
        times = [self._beat_at, self._round.ends_at if self._round is not None else None]
        return min((at for at in times if at is not None), default=None)

    def check(self) -> None:
        view = self.current
        if view is not None:
            assert self._vote.number > view.number, "a vote is for a later view"
            assert view.number == 0 or view.members, "a view has members"
            stored = sum(member in view.voters for member in view.members)
            assert stored >= view.quorum, "a view holds a majority of its voters"
        assert self._round is None or self._round.number > self.epoch, "a round is for a later view"

    def figures(self) -> dict[str, Any]:
        return {"view": self.epoch, "members": len(self.view()), **self.figures_of}
