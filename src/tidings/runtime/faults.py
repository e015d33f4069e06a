"""Messages that the node failed at: logged once for each kind of failure, then counted, and their publishes
answered.

Rules
- A peer whose message the node failed at is left; the others go on. Its publishes are answered before, as of
  unknown outcome: the node may have taken some of them. So no client sends the same one again and again.
- A kind of failure is the class of the error and the line that raised it. The first of a kind is logged with
  its traceback; later ones when their number has doubled.
- A failure in the code of an extension names its package.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence

from tidings.errors import UnknownOutcomeError
from tidings.extensions import error_of_extension
from tidings.protocol.messages import Message, Publish, Refused

log = logging.getLogger("tidings.broker")
KINDS = 1_000  # that are told apart; further ones are counted together


class MessageFaults:
    """Failures of one broker's node at messages of its peers."""

    def __init__(self) -> None:
        self.count = 0
        self._kinds: dict[tuple[str, str, int], int] = {}

    def note(self, sender: str, error: Exception) -> None:
        self.count += 1
        last = traceback.extract_tb(error.__traceback__)[-1:]
        kind = (type(error).__name__, last[0].filename if last else "", (last[0].lineno or 0) if last else 0)
        if kind not in self._kinds and len(self._kinds) >= KINDS:
            kind = ("", "", 0)
        times = self._kinds[kind] = self._kinds.get(kind, 0) + 1
        of_extension = error_of_extension(error)
        said = of_extension.message if of_extension is not None else f"{type(error).__name__}: {error}"
        if times == 1:
            log.error("the node failed at a message of %s: %s", sender, said, exc_info=error)
        elif times & (times - 1) == 0:
            log.error("the node failed %d times so far, last at a message of %s: %s", times, sender, said)

    @staticmethod
    def answer(messages: Sequence[Message], error: Exception, send: Callable[[Message], object]) -> None:
        """Answer the publishes among these messages of one client."""
        of_extension = error_of_extension(error)
        what = "the broker" if of_extension is None else "an extension of the broker"
        reason = f"{what} failed at this event ({type(error).__name__}); its log says where"
        for message in messages:
            if isinstance(message, Publish):
                send(Refused(message.call, UnknownOutcomeError.code, reason))
