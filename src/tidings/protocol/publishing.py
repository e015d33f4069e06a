"""One publish as its client sees it, until the broker has answered."""

from __future__ import annotations

from tidings.history.schema import Outcome, Row, pub_row
from tidings.protocol.messages import Publish


class Publishing:
    """A publish that is not acknowledged yet."""

    __slots__ = ("call", "event", "issued", "log", "message", "sequence")

    def __init__(self, message: Publish, issued: float) -> None:
        self.call = message.call
        self.event = message.event
        self.sequence = message.sequence
        self.message = message
        self.issued = issued
        self.log = ""  # of the broker that it was sent to

    def row(self, client: str, broker: str, outcome: Outcome) -> Row:
        """As the history has it."""
        return pub_row(
            self.issued, client, self.event, sequence=self.sequence, outcome=outcome, broker=broker
        )
