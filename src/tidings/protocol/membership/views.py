"""Agreed views: the view, and the messages by which members agree on the next one.

Rules
- A view is a number, its members by seniority (the first coordinates), which life of each of them it means,
  and the voters: the members that decide on the next view, and the disk of each.
- A process that comes back is another process (Mathur et al. 1995, 3.1): its life is new. A voter that comes
  back without its disk has forgotten what it promised, so its word counts again only in a later view.
- A life is `disk.number.chance`. The number is on the disk and grows with each start, so a disk that was put
  back to an older copy is found out: a view names a life of the same number or a later one.
- A ballot orders the tries to agree on one number: `(try, who)`. The coordinator of a view has the try 0 to
  itself, and needs no interrogation for it.
"""

from __future__ import annotations

import msgspec

from tidings.protocol.messages import Message

Ballot = tuple[int, str]


def went_back(life: str, known: str) -> bool:
    """Was the disk of this life put back to an older copy, seen that a view names the life `known`?"""
    disk, number = life.split(".")[:2]
    known_disk, known_number = known.split(".")[:2]
    return life != known and disk == known_disk and int(number) <= int(known_number)


class AgreedView(msgspec.Struct, frozen=True, array_like=True):
    """One view of a group: its number, its members and its voters."""

    number: int
    members: tuple[str, ...]  # by seniority
    lives: tuple[str, ...]  # of each member
    voters: dict[str, str]  # by name: the disk

    @property
    def coordinator(self) -> str | None:
        return self.members[0] if self.members else None

    @property
    def quorum(self) -> int:
        """Number of voters that decide. The first view needs them all: no other member could tell of it."""
        return len(self.voters) if self.number == 0 else len(self.voters) // 2 + 1

    def has(self, name: str, life: str) -> bool:
        return (name, life) in zip(self.members, self.lives, strict=True)

    def is_majority(self, disks: dict[str, str]) -> bool:
        """Are there enough voters among these?"""
        return sum(self.voters.get(name) == disk for name, disk in disks.items()) >= self.quorum


class ViewHello(Message, frozen=True, tag="ViewHello"):
    """The first word on a link: who I am now, and the view that I know."""

    group: str
    life: str
    disk: str
    view: AgreedView | None = None
    address: str = ""
    peers: dict[str, str] = msgspec.field(
        default_factory=dict
    )  # others of the group, and where they are reached
    asks: bool = False  # say yours


class ViewBeat(Message, frozen=True, tag="ViewBeat"):
    """I am there. Failure detection; no word of it decides anything."""

    number: int  # of the view that I know
    received_from: tuple[str, ...]


class ViewAsk(Message, frozen=True, tag="ViewAsk"):
    """Interrogation: what did you accept for the view after `base`? Accept no lower ballot."""

    base: AgreedView
    ballot: Ballot


class ViewAnswer(Message, frozen=True, tag="ViewAnswer"):
    number: int
    ballot: Ballot
    disk: str
    accepted_at: Ballot | None = None
    accepted: AgreedView | None = None


class ViewPropose(Message, frozen=True, tag="ViewPropose"):
    base: AgreedView
    ballot: Ballot
    view: AgreedView


class ViewAck(Message, frozen=True, tag="ViewAck"):
    number: int
    ballot: Ballot
    disk: str


class ViewRefused(Message, frozen=True, tag="ViewRefused"):
    """A higher ballot was promised for this number."""

    number: int
    promised: Ballot


class ViewInstall(Message, frozen=True, tag="ViewInstall"):
    """This view was decided."""

    view: AgreedView


MESSAGES: tuple[type[Message], ...] = (
    ViewHello, ViewBeat, ViewAsk, ViewAnswer, ViewPropose, ViewAck, ViewRefused, ViewInstall,
)  # fmt: skip
