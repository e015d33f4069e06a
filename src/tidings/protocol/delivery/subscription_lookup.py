"""Search in a group for the cursor of a durable subscription that this member does not know and that has no
token.

Its subscriber may have been at another member of the group, and have lost its token with its process. So the
other members are asked; the one that holds the subscription says up to where it was handled, and it goes on
from there. Further messages of its client wait meanwhile, in order. No client waits longer than
`ASK_SECONDS`: a member that is down takes its knowledge with it, and then the subscription begins anew.
"""

from __future__ import annotations

from tidings.protocol.messages import Message, Subscribe

ASK_SECONDS = 1.0  # for the answers of members that may be down; longer waits longer for the dead


class SubscriptionQuery(Message, frozen=True, tag="HeldAsk"):
    """Do you hold this durable subscription?"""

    number: int
    subscriber: str
    name: str


class SubscriptionQueryReply(Message, frozen=True, tag="HeldAnswer"):
    number: int
    upto: int | None  # of the group's log: all up to here was handled; None: we do not hold it


class SubscriptionLookup:
    """One question, and the clients that wait for its answer."""

    def __init__(self, address: str, message: Subscribe, members: set[str], until: float) -> None:
        self.address = address
        self.message = message
        self.until = until
        self.waiting = members
        self.upto: int | None = None
        self.later: list[Message] = []  # what the client said meanwhile

    def answered(self, member: str, upto: int | None) -> bool:
        """True when all have answered.

        A subscriber only ever goes forward: the highest answer is the last.
        """
        self.waiting.discard(member)
        if upto is not None:
            self.upto = upto if self.upto is None else max(self.upto, upto)
        return not self.waiting
