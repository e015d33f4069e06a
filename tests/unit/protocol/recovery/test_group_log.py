"""The log of a group at one member: views, logs of others, and proposals, as messages arrive one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tidings.availability.records import Put, Record
from tidings.model.event import make_event
from tidings.protocol.delivery.log_copy import LogCopies
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.inputs import ViewChanged
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.protocol.messages import Message
from tidings.protocol.proposals import CopyRequest, LogCopy, PlacedEvent, Proposal
from tidings.protocol.recovery.group_log import GroupLog
from tidings.protocol.recovery.group_messages import (
    AdoptLog,
    LogCopyPage,
    LogCopyRequest,
    LogState,
    LogStateRequest,
    ProposalsSettled,
    Propose,
    Replicate,
    Replicated,
)
from tidings.protocol.roles import GroupEntries, Quorum
from tidings.protocol.slots import Delivery, Membership, Ports

MEMBERS = ("b0", "b1", "b2")


def proposal(number: int, *, source: str = "p", incarnation: str = "i") -> Proposal:
    event = make_event({"x": number}, source=source, id=f"{incarnation}-{number}")
    return Proposal(event, incarnation, number, True)


def placed(offset: int, number: int | None = None) -> PlacedEvent:
    return PlacedEvent(offset, proposal(offset if number is None else number))


class Views(Membership, Quorum):
    def __init__(self, coordinator: str) -> None:
        self.leader = coordinator

    @property
    def coordinator(self) -> str | None:
        return self.leader

    def voters(self) -> dict[str, str | None]:
        return dict.fromkeys(MEMBERS, "disk")

    def trusts(self, peer: str) -> bool:
        return True

    def flushed(self, number: int, now: float) -> None:
        pass

    def view(self, scope: str = "") -> tuple[str, ...]:
        return MEMBERS


class Entered(Delivery, GroupEntries):
    """Delivery that writes down the committed events and the answers."""

    def __init__(self) -> None:
        self.entries: dict[int, Proposal] = {}
        self.answered: list[tuple[str, bool | None]] = []
        self.on_their_way = 0

    def enter(self, offset: int, proposal: Any, accepted: float, records: list[Record], now: float) -> None:
        self.entries[offset] = proposal

    def entering(self) -> int:
        return self.on_their_way

    def knows(self, proposal: Any) -> bool | None:
        if any(each.identity == proposal.identity for each in self.entries.values()):
            return True
        return None if any(each.sequence > proposal.sequence for each in self.entries.values()) else False

    def settle(self, identity: tuple[str, str], *, is_kept: bool = True, full: str = "") -> None:
        self.answered.append((identity[1], None if full else is_kept))

    def needs_from(self) -> int:
        return 0

    def bind(self, ports: Ports) -> None:
        super().bind(ports)
        self.ledger = LogIndex(ports.name, 1, lambda _: False, ports)  # none of the entries reached the disk

    def copy(self, request: CopyRequest, then: Callable[[LogCopy], None]) -> None:
        LogCopies(self.ports, self.ledger, tuple).copy(request, then)

    def adopt_identities(self, rows: tuple[Put, ...]) -> None:
        pass


class Disk:
    """Keeps a batch when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.full: str | None = None
        self.stalled: list[Any] = []

    def persist(
        self, records: Sequence[Record], then: Any = None, otherwise: Any = None, stalled: Any = None
    ) -> None:
        self.waiting.append(then)
        self.stalled.append(stalled)

    def fetch(self, from_offset: int, limit: int, then: Any, otherwise: Any) -> None:
        then((), 0.0)

    def fill(self, reason: str) -> None:
        self.full = reason
        for stalled in self.stalled:
            if stalled is not None:
                stalled(reason)

    def sync(self) -> None:
        waiting, self.waiting = self.waiting, []
        self.full, self.stalled = None, []
        for then in waiting:
            if then is not None:
                then(0.0)


class One:
    """The member `name` of a group of three."""

    def __init__(self, name: str, coordinator: str) -> None:
        self.sent: list[tuple[str, Message]] = []
        self.delivery, self.disk = Entered(), Disk()
        self.views = Views(coordinator)
        ports = Ports()
        ports.name, ports.limits = name, DEFAULT_LIMITS
        ports.send = lambda to, message, *_: self.sent.append((to, message))
        ports.disk = self.disk  # type: ignore[assignment]
        self.log = GroupLog()
        ports.offer(self.views, self.delivery, self.log)
        self.log.bind(ports)
        self.views.bind(ports)
        self.delivery.bind(ports)

    def view(self, number: int, *, is_member: bool = True) -> None:
        self.log.on_input(ViewChanged(number, MEMBERS, is_member, (), is_member), 0.0)

    def receive(self, sender: str, *messages: Message) -> None:
        for message in messages:
            self.log.on_message(sender, message, 0.0)

    def take(self, kind: type[Any]) -> list[Any]:
        """The messages of this kind that were sent, in order; all others are dropped."""
        sent, self.sent = self.sent, []
        return [message for _, message in sent if isinstance(message, kind)]


def leading() -> One:
    """The coordinator of the first view, whose log is adopted by a majority."""
    one = One("b0", "b0")
    one.view(1)
    one.receive("b1", LogState(1, 1, 0, (), 0, 0))
    one.disk.sync()
    one.receive("b1", Replicated(1, 0, 0))
    one.receive("b2", Replicated(1, 0, 0))
    one.sent.clear()
    return one


# -- who takes part -----------------------------------------------------------------------------------


def test_a_view_of_an_earlier_life_makes_nobody_a_coordinator() -> None:
    one = One("b0", "b0")
    one.view(4, is_member=False)
    one.receive("b1", LogState(4, 3, 7, (), 0, 7))
    one.receive("b2", LogState(4, 3, 7, (), 0, 7))
    assert not one.sent
    assert not one.log.has_caught_up
    one.view(5)
    assert [message.epoch for message in one.take(LogStateRequest)] == [5, 5]


def test_a_member_has_caught_up_when_its_disk_says_which_log_it_holds() -> None:
    one = One("b1", "b0")
    one.view(5)
    one.receive("b0", AdoptLog(5, 0, (placed(1),)))
    assert not one.log.has_caught_up
    one.disk.sync()
    assert one.log.has_caught_up


def test_a_member_has_caught_up_when_all_that_is_committed_is_on_its_disk() -> None:
    one = One("b1", "b0")
    one.view(5)
    one.receive("b0", AdoptLog(5, 0, ()))
    one.disk.sync()
    caught_up = [one.log.has_caught_up]
    one.receive("b0", Replicate(5, 0, (placed(1),), 1))
    for one.delivery.on_their_way in (1, 0):
        caught_up.append(one.log.has_caught_up)
    assert caught_up == [True, False, True]


# -- a new coordinator --------------------------------------------------------------------------------


def test_an_empty_disk_says_nothing_of_committed_entries() -> None:
    """An entry was committed by b0, whose disk was then replaced, and b2; the coordinator b1 never received
    it."""
    one = One("b1", "b1")
    one.view(1)
    one.view(5)
    one.receive("b0", LogState(5, 0, 0, (), 0, 0))  # an empty disk
    assert not one.take(AdoptLog)
    one.receive("b2", LogState(5, 4, 0, (placed(1),), 0, 1))
    assert [message.tail for message in one.take(AdoptLog)] == [(placed(1),)] * 2


def test_a_group_goes_on_when_all_have_shown_their_logs() -> None:
    """The disks of two of three were replaced at once: more than a group promises to survive, and no reason
    to stop."""
    one = One("b1", "b1")
    one.view(5)
    one.receive("b0", LogState(5, 0, 0, (), 0, 0))
    assert not one.take(AdoptLog)
    one.receive("b2", LogState(5, 0, 0, (), 0, 0))
    assert one.take(AdoptLog)


def test_founders_know_that_nothing_was_committed_before_them() -> None:
    """The coordinator of the first view is gone before it was heard of again."""
    one = One("b1", "b1")
    one.view(1)
    one.view(2)
    one.receive("b2", LogState(2, 1, 0, (), 0, 0))
    assert one.take(AdoptLog)


def test_the_best_log_may_be_committed_less_far_than_another() -> None:
    one = One("b0", "b0")
    one.view(3)
    one.receive("b2", LogState(3, 2, 1, (), 0, 1))
    one.receive("b1", LogState(3, 2, 0, (placed(1),), 0, 1))
    assert [message.tail for message in one.take(AdoptLog)] == [(placed(1),)] * 2


def test_a_copy_goes_on_from_the_coordinator_of_the_new_view() -> None:
    """The old one may be gone, and would be asked for ever."""
    one = One("b1", "b0")
    one.view(5)
    one.receive("b0", AdoptLog(5, 3, ()))
    assert [to for to, message in one.sent if isinstance(message, LogCopyRequest)] == ["b0"]
    one.views.leader = "b2"
    one.sent.clear()
    one.view(6)
    one.receive("b2", AdoptLog(6, 3, ()))
    assert [to for to, message in one.sent if isinstance(message, LogCopyRequest)] == ["b2"]


def test_a_member_in_a_later_life_gives_no_copy_of_its_earlier_one() -> None:
    """Its log may end before the place that is asked for: the receiver would take back what it
    has committed."""
    one = One("b0", "b0")
    one.view(4, is_member=False)
    one.receive("b1", LogCopyRequest(4, 5, pages=True))
    assert not one.sent
    one.view(5)
    one.receive("b1", LogCopyRequest(5, 0, pages=True))
    assert one.take(LogCopyPage) == [LogCopyPage(5, 0, 0, (), 0)]


def test_a_copy_of_an_earlier_epoch_is_not_taken() -> None:
    one = One("b1", "b0")
    one.view(5)
    one.receive("b0", AdoptLog(5, 2, ()), LogCopyPage(4, 0, 1, (placed(1, 9),), 2))
    assert not one.delivery.entries
    one.receive("b0", LogCopyPage(5, 0, 1, (placed(1),), 2), LogCopyPage(5, 1, 2, (placed(2),), 2))
    assert [each.sequence for each in one.delivery.entries.values()] == [1, 2]


def test_a_copy_ends_where_the_disk_of_its_source_does() -> None:
    """An entry is committed, and on its way to the disk: a page that reached beyond it would leave it out for
    good."""
    one = leading()
    one.receive("b1", Propose(1, 1, (proposal(1),)))
    one.receive("b1", Replicated(1, 1, 0))
    one.receive("b2", Replicated(1, 1, 0))
    assert (one.log.committed, one.delivery.ledger.end) == (1, 1)
    one.receive("b2", LogCopyRequest(1, 0, pages=True))
    assert not one.take(LogCopyPage)


# -- proposals ----------------------------------------------------------------------------------------


def test_the_coordinator_waits_for_no_number_that_is_committed() -> None:
    """The publisher of number 1 went to another member, and the message with it was lost."""
    one = leading()
    one.receive("b1", Propose(1, 2, (proposal(2),), 1))
    assert [entry.proposal for message in one.take(Replicate) for entry in message.entries] == [
        proposal(2),
        proposal(2),
    ]


def test_proposals_behind_a_lost_one_get_no_place() -> None:
    """All are proposed again, in order: a place now would put a later event before an earlier one."""
    one = leading()
    one.receive("b1", Propose(1, 2, (proposal(2), proposal(3)), 0))
    assert one.take(Replicate) == []


def test_a_member_says_which_numbers_are_committed() -> None:
    one = One("b1", "b0")
    one.view(5)
    one.receive("b0", AdoptLog(5, 0, ()))
    one.log.propose([proposal(1), proposal(2)], 0.0)
    one.receive("b0", Replicate(5, 0, (placed(1),), 1))  # the publisher sent it to another member, too
    one.log.propose([proposal(3)], 0.0)
    assert [(message.first, message.done) for message in one.take(Propose)] == [(1, 0), (3, 1)]


def test_an_event_behind_a_later_one_of_its_publisher_gets_no_place() -> None:
    """A publisher was refused at another member, and went on there; the first member proposes the earlier one
    late."""
    one = leading()
    one.receive("b1", Propose(1, 1, (proposal(13),)))
    one.receive("b2", Propose(1, 1, (proposal(6), proposal(14))))
    (settled,) = one.take(ProposalsSettled)
    assert (settled.identities, settled.passed) == ((), (("p", "i-6"),))
    one.receive("b1", Replicated(1, 2, 0))
    one.disk.sync()
    assert [entry.sequence for entry in one.delivery.entries.values()] == [13, 14]
    one.receive("b2", Propose(1, 1, (proposal(6),)))  # the answer was lost
    (settled,) = one.take(ProposalsSettled)
    assert settled.passed == (("p", "i-6"),)


def test_a_proposal_that_was_passed_is_answered_and_not_proposed_again() -> None:
    one = One("b1", "b0")
    one.log.propose([proposal(6)], 0.0)
    one.view(5)
    one.receive("b0", AdoptLog(5, 0, ()))
    one.receive("b0", ProposalsSettled(5, (), (("p", "i-6"),)))
    assert one.delivery.answered == [("i-6", False)]
    assert one.log.figures()["group proposals waiting"] == 0


# -- full disks ----------------------------------------------------------------------------------------


def refusal(one: One) -> str:
    """Reason why the group keeps no event; empty: it keeps them."""
    return one.log.full or ""


def test_a_coordinator_refuses_while_fewer_than_a_majority_have_room() -> None:
    one = leading()
    one.log.propose((proposal(1),), 0.0)
    one.receive("b1", Replicated(1, 0, 0, full="no space left"))
    assert not refusal(one), "b0 and b2 keep it"
    one.sent.clear()
    one.receive("b2", Replicated(1, 0, 0, full="no space left"))
    assert "b1 (no space left), b2 (no space left)" in refusal(one)
    assert {message.full for message in one.take(Replicate)} == {refusal(one)}, "the members are told"
    assert one.delivery.answered == [(proposal(1).event.id, None)], "its publisher does not wait"
    one.receive("b1", Replicated(1, 1, 0))
    one.disk.sync()
    assert refusal(one) == ""
    assert [message.full for message in one.take(Replicate)][-1] == ""
    assert list(one.delivery.entries) == [1], "it is committed when there is room"


def test_a_full_disk_of_the_coordinator_counts_with_the_others() -> None:
    one = leading()
    one.log.propose((proposal(1),), 0.0)
    one.receive("b1", Replicated(1, 0, 0, full="no space left"))
    one.disk.fill("quota")
    assert "b0 (quota)" in refusal(one)


def test_a_member_says_at_once_that_its_disk_is_full_and_repeats_that_there_is_room() -> None:
    one = One("b1", "b0")
    one.view(1)
    one.receive("b0", AdoptLog(1, 0, ()))
    one.disk.sync()
    one.receive("b0", Replicate(1, 0, (placed(1),), 0))
    one.sent.clear()
    one.disk.fill("no space left")
    assert [message.full for message in one.take(Replicated)] == ["no space left"]
    one.log.on_timer(0.5)
    assert [message.full for message in one.take(Replicated)] == ["no space left"]
    one.disk.sync()
    for tick in range(8):
        one.log.on_timer(1.0 + tick / 2)
    stated = [message.full for message in one.take(Replicated)]
    assert set(stated) == {""}
    assert 1 < len(stated) < 8


def test_a_member_that_hears_of_full_disks_answers_those_that_wait() -> None:
    one = One("b1", "b0")
    one.view(1)
    one.receive("b0", AdoptLog(1, 0, ()))
    one.log.propose((proposal(1),), 0.0)
    one.receive("b0", Replicate(1, 0, (), 0, full="b0 (no space left)"))
    assert refusal(one) == "b0 (no space left)"
    assert one.delivery.answered == [(proposal(1).event.id, None)]
    one.receive("b0", Replicate(1, 0, (), 0))
    assert refusal(one) == ""


# -- disks that were put back to an older copy ---------------------------------------------------------


def test_the_log_of_a_disk_that_was_put_back_proves_as_little_as_an_empty_one() -> None:
    one = One("b1", "b0")
    one.view(1)
    assert one.log.log_epoch == 1
    one.log.on_input(ViewChanged(1, MEMBERS, False, (), False, went_back=True), 0.0)
    assert one.log.log_epoch == 0
    one.view(3)
    one.receive("b0", LogStateRequest(3, True))
    assert [state.log_epoch for state in one.take(LogState)] == [0]


def test_a_log_that_ends_before_what_its_member_acknowledged_is_an_older_copy() -> None:
    one = leading()
    one.log.propose((proposal(1),), 0.0)
    one.disk.sync()
    one.receive("b1", Replicated(1, 1, 0))
    assert one.log.committed == 1
    one.sent.clear()
    one.view(2)
    requested = {to: message.stored for to, message in one.sent if isinstance(message, LogStateRequest)}
    assert requested == {"b1": 1, "b2": 0}, "b2 acknowledged nothing that is committed"
    other = One("b1", "b0")
    other.view(1)
    other.view(2)
    other.receive("b0", LogStateRequest(2, True, 0))
    other.receive("b0", LogStateRequest(2, True, 1))
    assert [state.log_epoch for state in other.take(LogState)] == [1, 0]


def test_an_acknowledged_entry_that_is_not_committed_may_be_taken_back() -> None:
    """A later coordinator drops it rightly, so it says nothing about the disk."""
    one = leading()
    one.log.propose((proposal(1),), 0.0)
    one.receive("b1", Replicated(1, 1, 0))
    assert one.log.committed == 0
    one.sent.clear()
    one.view(2)
    assert {message.stored for message in one.take(LogStateRequest)} == {0}
