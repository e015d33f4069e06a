"""Progress of a subscription in each log: settled offsets, and offsets that it is still owed.

Words. *Heard*: the first offset that was not yet considered for this subscription; every offset below it was
handed out, or is silent (no event for it there). *Owed*: handed out and not yet acknowledged. *Low-water
mark*: the first offset that is not settled: the lowest owed one, or else `received`.

Rules
- Acknowledgements may come in any order (competing consumers); the low-water mark waits for the slowest.
  Above it, every offset below `received` that is not owed is settled.
- `silence(upto)` moves `received` on without an event, so a token also advances over events
  that do not match.
- A token is {log: low-water mark}. Resuming from a token takes it at its word: what it says is settled is
  settled, and everything from there on is handed out again.
- Bounded by what is in flight: `owed` holds no more than was handed out and not acknowledged.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

import msgspec


class LogProgress(msgspec.Struct, array_like=True):
    """Progress in one log."""

    received: int = 1
    owed: list[int] = []  # ascending, all below `received`

    @property
    def low_water(self) -> int:
        return self.owed[0] if self.owed else self.received

    def is_settled(self, offset: int) -> bool:
        return offset < self.received and not self._is_owed(offset)

    def hand_out(self, offset: int) -> bool:
        """An event goes to the subscriber. False: it was settled before, so it must not go again."""
        if offset >= self.received:
            self.received = offset + 1
            self.owed.append(offset)
            return True
        return self._is_owed(offset)

    def hand_out_all(self, offsets: Sequence[int]) -> bool:
        """The same for events whose offsets ascend."""
        if offsets[0] < self.received:
            return False not in [self.hand_out(offset) for offset in offsets]
        self.received = offsets[-1] + 1
        self.owed += offsets
        return True

    def settle_all(self, offsets: Sequence[int]) -> None:
        """Settle offsets that ascend."""
        if self.owed[: len(offsets)] == offsets:  # mostly the oldest are acknowledged
            del self.owed[: len(offsets)]
            return
        for offset in offsets:
            self.settle(offset)

    def settle(self, offset: int) -> bool:
        """Acknowledged, or given up. False: it was not owed."""
        if not self._is_owed(offset):
            return False
        del self.owed[bisect_left(self.owed, offset)]
        return True

    def owe_again(self, offset: int) -> None:
        """Undo a settlement: the event will be handed out once more."""
        if offset < self.received and not self._is_owed(offset):
            insort(self.owed, offset)

    def silence(self, upto: int) -> None:
        """Below `upto` this subscription has no events except those already handed out."""
        self.received = max(self.received, upto)

    def _is_owed(self, offset: int) -> bool:
        at = bisect_left(self.owed, offset)
        return at < len(self.owed) and self.owed[at] == offset


class SubscriptionProgress:
    """Progress in all the logs of a subscription."""

    def __init__(self, logs: Mapping[str, LogProgress] | None = None) -> None:
        self.logs: dict[str, LogProgress] = dict(logs or {})

    def of(self, log: str) -> LogProgress:
        """Progress in this log; a new one begins at its first offset."""
        found = self.logs.get(log)
        if found is None:
            found = self.logs[log] = LogProgress()
        return found

    def token(self) -> dict[str, int]:
        """Resume token that a client keeps: for each log the first offset that is not settled."""
        return {log: progress.low_water for log, progress in sorted(self.logs.items())}

    def resume(self, token: Mapping[str, int]) -> None:
        """Go on from a token; logs that it does not name keep what is known here."""
        for log, offset in token.items():
            self.logs[log] = LogProgress(received=offset)

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(dict(sorted(self.logs.items())))

    @classmethod
    def decode(cls, data: bytes) -> SubscriptionProgress:
        return cls(msgspec.msgpack.decode(data, type=dict[str, LogProgress]))

    def check(self) -> None:
        for progress in self.logs.values():
            assert progress.owed == sorted(set(progress.owed)), "owed ascends"
            assert not progress.owed or progress.owed[-1] < progress.received, (
                "only what was handed out is owed"
            )
