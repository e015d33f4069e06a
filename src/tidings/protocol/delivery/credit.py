"""Credit of members: how many events a member may be sent, and how many bytes ahead of its acknowledgements.

At the bound on bytes a member's credit is withheld until it has acknowledged some: so few large events wait
in its connection as many small ones do. The bound is lower when the memory of the member's principal is used
up.
"""

from __future__ import annotations

from tidings.protocol.delivery.subscription_state import Member
from tidings.protocol.limits import ResourceLimits

FEW_BYTES = 64 << 10  # ahead of a member's acknowledgements when its principal has used up its memory


class CreditWindow:
    def __init__(self, limits: ResourceLimits) -> None:
        self._most_bytes = limits.delivery_bytes
        self._most_credit = limits.client.credit
        self.few_bytes = min(FEW_BYTES, limits.delivery_bytes)  # below this a member is not looked at

    def _most_open(self, member: Member) -> int:
        return self.few_bytes if member.subscription.memory.is_full else self._most_bytes

    def room(self, member: Member) -> int:
        """Bytes that a member with credit may be sent; an event that is larger goes alone."""
        return max(1, self._most_open(member) - member.open_bytes)

    def withhold(self, member: Member) -> None:
        """Withhold the credit of a member that has too many bytes unacknowledged."""
        if member.open_bytes >= self._most_open(member) and member.credit > 0:
            member.withheld, member.credit = member.withheld + member.credit, 0

    def restore(self, member: Member) -> bool:
        """Give a member its withheld credit back when few enough bytes are unacknowledged."""
        is_restored = member.open_bytes < self._most_open(member)
        if is_restored:
            member.withheld, member.credit = 0, member.credit + member.withheld
        return is_restored

    def grant(self, member: Member, amount: int) -> bool:
        """Add to a member's credit, or (below 0) take some back. True: the member may be sent more."""
        if amount < 0:
            taken = min(member.withheld, -amount)
            member.withheld, amount = member.withheld - taken, amount + taken
        elif member.open_bytes >= self.few_bytes and member.open_bytes >= self._most_open(member):
            member.withheld = min(member.withheld + amount, self._most_credit)
            return False
        member.credit = min(member.credit + amount, self._most_credit)
        return amount > 0
