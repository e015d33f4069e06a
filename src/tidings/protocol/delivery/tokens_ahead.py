"""Resume tokens that are ahead of this broker's log.

Such a token is genuine when the disk was put back to an older copy of itself: the client knows entries that
the disk lacks, and would pass over the events that get their offsets. Rules
- A token is believed only for a subscription that the disk held when the broker started: the offsets of a
  later subscription are all from this life. The log then gives no offset up to the token (`skip_to`).
- All tokens of one life together move the log by `client.ahead` offsets at most, counted from its end at the
  start, or from the clock in microseconds, where a restored log begins (`store/restored.py`). The bound is
  absolute, so a forged token uses up no room of a genuine one.
- Every other token ahead of the log is refused, that of a transient subscription too, since its client would
  pass over events. A guest's token is not judged: its home knows the subscription. Nor is that of a member of
  a transient group: it passes over none.
"""

from __future__ import annotations

from collections.abc import Callable

from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.sessions import Session
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.messages import Subscribe

MICROSECONDS = 1_000_000


class TokensAhead:
    def __init__(self, index: LogIndex, ahead: int, skip_to: Callable[[int], None]) -> None:
        self._index = index
        self._ahead = ahead
        self._skip_to = skip_to
        self._most = 0  # the highest offset that a token may name

    def load(self, now: float) -> None:
        """The log is as the disk holds it."""
        self._most = max(self._index.end - 1, int(now * MICROSECONDS)) + self._ahead

    def heed(
        self, session: Session, message: Subscribe, state: SubscriptionState | None
    ) -> tuple[str, str] | None:
        """Move the log behind a token that is believed; the refusal of one that is not. `state`: the
        subscription that goes on, if there is one."""
        log, delivered_upto = self._index.log, self._index.end - 1
        upto = message.after.get(log, 0)
        if upto <= delivered_upto or message.ref in session.homes:
            return None
        if message.options.group is not None and not message.options.durable:
            return None
        if state is not None and state.stored.is_remote:
            return None
        if state is not None and state.stored.is_from_disk and upto <= self._most:
            self._skip_to(upto)
            return None
        reason = (
            f"the token names entry {upto} of the log {log}, which has {delivered_upto}; "
            "subscribe without a token"
        )
        return ("refused", reason)
