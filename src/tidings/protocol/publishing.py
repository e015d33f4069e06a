"""One publish as its client sees it, until the broker has answered."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidings.errors import RefusedError, TooLargeError, UnknownOutcomeError
from tidings.history.schema import Outcome, Row, pub_row
from tidings.model.event import Event
from tidings.protocol.batches import size_of, too_large
from tidings.protocol.effects import CallFailed, Receipt
from tidings.protocol.inputs import EARLIER_PEER, ClientAsk, ClientPublishAll
from tidings.protocol.messages import Publish, Refused, StageEvents
from tidings.protocol.naming import broker_of


class PublishBatch(msgspec.Struct, eq=False, gc=False):
    """Publishes of one call, which is answered when each of them is."""

    call: int  # of the first; those of the others follow
    results: list[Receipt | CallFailed | None]  # in the order of the events
    left: int  # publishes that are not answered


class OutstandingPublish(msgspec.Struct, eq=False, gc=False):
    """A publish that is not acknowledged yet."""

    message: Publish
    issued: float
    batch: PublishBatch | None = None
    log: str = ""  # of the broker that it was sent to
    broker: str | None = None  # to which it was sent last
    was_elsewhere: bool = False  # may an earlier message be known to a broker other than the next one?

    @property
    def call(self) -> int:
        return self.message.call

    @property
    def event(self) -> Event:
        return self.message.event

    @property
    def sequence(self) -> int:
        return self.message.sequence

    def sent_to(self, broker: str) -> Publish:
        """The message, on its way to this broker. A member of a group passes a publish on at once, so an
        earlier one is known to others even when the same member gets it again."""
        is_group = broker_of(self.log) != broker != self.log
        self.was_elsewhere = self.was_elsewhere or self.broker not in (None, None if is_group else broker)
        self.broker = broker
        return self.message

    def failed(self, refused: Refused) -> CallFailed:
        """The answer for the application. A member of a group refuses for itself: a member that had the
        publish before may still have it committed, so the outcome is unknown."""
        if not self.was_elsewhere or refused.code == UnknownOutcomeError.code:
            return CallFailed(self.call, refused.code, refused.reason, self.event.id)
        reason = f"it was sent before and not answered; the broker refused it now: {refused.reason}"
        return CallFailed(self.call, UnknownOutcomeError.code, reason, self.event.id)

    def refusal(self, most: int, takes_rich: bool) -> CallFailed | None:
        """Reason why a broker that accepts events of so many bytes cannot accept this one; None: it can. The
        application is told at once: a frame that is too large ends the connection, and would be sent again on
        the next one. Another broker, with a larger limit, may have accepted it before: then its outcome is
        unknown."""
        reason, code = too_large(self.event, most), TooLargeError.code
        if self.event.rich and not takes_rich:
            reason, code = EARLIER_PEER.format("broker"), RefusedError.code
        if reason is None or self.broker is None:
            return None if reason is None else CallFailed(self.call, code, reason)
        reason = f"it was sent before and not answered; the broker now connected does not take it: {reason}"
        return CallFailed(self.call, UnknownOutcomeError.code, reason, self.event.id)

    def row(self, client: str, broker: str, outcome: Outcome) -> Row:
        """As the history has it."""
        return pub_row(
            self.issued, client, self.event, sequence=self.sequence, outcome=outcome, broker=broker
        )


def in_parts(input: ClientPublishAll, most: int) -> Iterator[ClientPublishAll]:
    """The same batch in several inputs of at most so many events, so that the broker can begin with the first
    ones while the others are made."""
    call, events, number, count = input.call, input.events, input.number, len(input.events)
    batch = input.batch or PublishBatch(call, [None] * count, count)
    for begin in range(0, count, most):
        end = begin + most
        yield ClientPublishAll(call + begin, events[begin:end], number[begin:end], input.mode, batch)


def stage_refusal(request: ClientAsk, most: int) -> CallFailed | None:
    """Reason why a part of a batch cannot be staged in one message; None: it can, or it is
    another request."""
    if type(request.message) is not StageEvents or (size := size_of(request.message)) <= most:
        return None
    reason = f"a part of {size} bytes; {most} at most: stage its events in several parts"
    return CallFailed(request.call, TooLargeError.code, reason)
