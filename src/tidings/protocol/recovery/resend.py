"""Buffer of the last events of each link, to be sent again: for links that often lose events (datagrams).

Rules
- A neighbour that asks for what it missed is answered from here when all of it was sent over its link since
  the link is up, and is held. Then it gets exactly what it would have had without a loss.
- Else the request goes on to the log. A log is many links away, and each of them may lose the request or the
  answer again.
- The newest events of each link are held, so many of all logs together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from tidings.protocol.messages import Envelope
from tidings.protocol.recovery.messages import PREVIOUS, RangeReply, RangeRequest


class Resend:
    def __init__(self, most: int, chunk: int) -> None:
        self._most = most
        self._chunk = chunk  # events in one answer
        self._sent: dict[str, deque[tuple[Envelope, float]]] = {}  # by link: what was sent, and when

    def note(self, link: str, envelopes: Sequence[Envelope], now: float) -> None:
        sent = self._sent.get(link)
        if sent is None:
            sent = self._sent[link] = deque(maxlen=self._most)
        sent.extend([(envelope, now) for envelope in envelopes])

    def forget(self, link: str) -> None:
        self._sent.pop(link, None)

    def answer(self, link: str, ask: RangeRequest, now: float) -> RangeReply | None:
        """All that was sent over the link of what is asked for; None: some of it may not be held."""
        after, upto = ask.after, ask.upto
        found: list[tuple[Envelope, float]] = []
        reached = False
        for envelope, at in reversed(self._sent.get(link, ())):
            offset = envelope.offset
            if envelope.origin != ask.log or offset is None:
                continue
            reached = reached or offset >= upto
            if offset <= after:
                break
            if offset <= upto:
                found.append((envelope, at))
            if envelope.headers[PREVIOUS] <= after:
                break
        else:
            return None
        if not reached:
            return None
        found.reverse()
        if len(found) > self._chunk:
            found = found[: self._chunk]
            upto = found[-1][0].offset or upto
        envelopes = (_aged(envelope, now - at) for envelope, at in found)
        return RangeReply(ask.log, after, upto, tuple(e for e in envelopes if e is not None), ask.path)

    def __len__(self) -> int:
        return sum(map(len, self._sent.values()))


def _aged(envelope: Envelope, seconds: float) -> Envelope | None:
    """Envelope after so long; None: its time is over."""
    if not envelope.remaining and envelope.expires is None:
        return envelope
    expires = None if envelope.expires is None else envelope.expires - seconds
    if expires is not None and expires <= 0:
        return None
    left = max(0.0, envelope.remaining - seconds)
    return msgspec.structs.replace(envelope, remaining=left, expires=expires)
