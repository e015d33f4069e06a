"""What was asked of whom: so that nothing is asked for twice at once, and an empty promise is noticed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidings.protocol.recovery.epidemic.marks import Received
from tidings.protocol.recovery.epidemic.standing import OFFER, Standing
from tidings.protocol.recovery.epidemic.words import Id


class Requests:
    def __init__(self, patience: float, received: Received, standing: Standing) -> None:
        self._patience = patience
        self._received = received
        self._standing = standing
        self._asked: dict[Id, int] = {}  # in how many open requests
        # until when, of whom, what, and was it sent
        self._open: deque[tuple[float, str, tuple[Id, ...], bool]] = deque()

    def __contains__(self, id: Id) -> bool:
        return id in self._asked

    def note(self, peer: str, ids: Iterable[Id], now: float, *, is_sent: bool = True) -> None:
        """One that is not sent waits all the same, and nobody is to blame for it."""
        wanted = tuple(ids)
        for id in wanted:
            self._asked[id] = self._asked.get(id, 0) + 1
        self._open.append((now + self._patience, peer, wanted, is_sent))

    @property
    def due(self) -> float | None:
        """When the time of the next one is over."""
        return self._open[0][0] if self._open else None

    def review(self, now: float) -> list[tuple[str, tuple[Id, ...]]]:
        """Requests whose time is over: one that brought nothing is a strike. What each of them still lacks."""
        lacking = []
        while self._open and self._open[0][0] <= now:
            _, peer, ids, is_sent = self._open.popleft()
            for id in ids:
                self._asked[id] -= 1
                if not self._asked[id]:
                    del self._asked[id]
            left = tuple(id for id in ids if id not in self._received)
            if is_sent and len(left) == len(ids):
                self._standing.strike(peer, OFFER, now)
            if left:
                lacking.append((peer, left))
        return lacking

    def __len__(self) -> int:
        return len(self._asked)
