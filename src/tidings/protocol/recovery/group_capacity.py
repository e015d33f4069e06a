"""Room on the disks of a group: while too few members can keep events, publishers are refused with the
reason.

Rules
- A member with a full disk says so with each `Replicated`, again at each tick, and a few times more when
  there is room.
- The coordinator counts. While fewer than a majority of the voters have room, each `Replicate` names the full
  disks. A member that knows of it refuses new publishes at once, and answers `unknown` to those under way:
  they are committed when there is room, or never.
- A new view knows of no full disk until its members have spoken again.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidings.protocol.recovery.group_messages import Replicated
from tidings.protocol.recovery.group_proposals import Proposals
from tidings.protocol.slots import Ports

TELLINGS = 3  # times that a state is told after it ended: no message confirms it, and one may be lost


class GroupCapacity:
    """Full disks of the group, as this member knows of them."""

    def __init__(self, ports: Ports, proposals: Proposals) -> None:
        self._ports = ports
        self._proposals = proposals
        self._full: dict[str, str] = {}  # of the coordinator, by member: why its disk has no room
        self._reason = ""  # why the group keeps no event at the moment
        self._tellings = 0  # times that this member still tells of its own disk

    @property
    def reason(self) -> str:
        return self._reason

    @property
    def own(self) -> str:
        """Reason why the disk of this member has no room; empty: it has."""
        return self._ports.disk.full or ""

    def clear(self) -> None:
        self._full = {}
        self.receive("")

    def report(self, member: str, message: Replicated) -> None:
        """A member said whether its disk has room."""
        self._full.pop(member, None)
        if message.full:
            self._full[member] = message.full

    def review(self, voters: Mapping[str, str | None]) -> bool:
        """Count the disks with room, at the coordinator. True: the members have to be told of it."""
        full = {**self._full}
        if self.own:
            full[self._ports.name] = self.own
        members = self._ports.members.view()
        able = [name for name in members if name not in full and voters.get(name) is not None]
        before, reason = self._reason, ""
        if full and 2 * len(able) <= len(voters):
            disks = ", ".join(f"{name} ({why})" for name, why in sorted(full.items()))
            reason = f"too few disks of the group have room to keep an event; without room: {disks}"
        self.receive(reason)
        return reason != before

    def receive(self, reason: str) -> None:
        """The coordinator says why the group keeps no event; empty: it keeps them."""
        self._reason = reason
        if reason:
            self._proposals.wait_for_room(reason)

    def tick(self) -> bool:
        """A moment passed. True: the coordinator is told about the disk of this member."""
        self._tellings = TELLINGS if self.own else max(0, self._tellings - 1)
        return self._tellings > 0
