"""Acknowledgements of a group's members, as its coordinator counts them.

Rules
- Acknowledgements count in one epoch. An offset that a majority of the voters has acknowledged is committed.
- An offset that is committed and acknowledged by a member is on the disk of that member for good. The
  coordinator remembers the highest one over epochs, by member and disk: a log of that disk that ends before
  it is an older copy.
"""

from __future__ import annotations

from tidings.protocol.slots import Ports


class MemberAcks:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._upto: dict[str, int] = {}  # by member, in this epoch
        self._proved: dict[tuple[str, str], int] = {}  # by member and disk: acknowledged and committed

    def voters(self) -> dict[str, str | None]:
        """Voters of the group with the disks that count now."""
        return self._ports.quorum.voters()

    def clear(self) -> None:
        """An epoch begins."""
        self._upto = {}

    def add(self, member: str, upto: int) -> None:
        self._upto[member] = max(self._upto.get(member, 0), upto)

    def majority(self) -> int:
        """Highest offset that a majority of the voters has acknowledged; 0: there is none."""
        voters = self.voters()
        counting = [name for name, disk in voters.items() if disk is not None]
        marks = sorted((self._upto.get(name, 0) for name in counting), reverse=True)
        needed = len(voters) // 2
        return marks[needed] if len(marks) > needed else 0

    def prove(self, committed: int) -> None:
        """The log is committed up to there."""
        for name, upto in self._upto.items():
            disk = self._disk(name)
            if disk and min(upto, committed) > self._proved.get((name, disk), 0):
                self._proved[name, disk] = min(upto, committed)

    def proved(self, member: str) -> int:
        """Highest offset that the present disk of the member holds for good, as far as is known."""
        return self._proved.get((member, self._disk(member)), 0)

    def _disk(self, member: str) -> str:
        return self.voters().get(member) or ""
