"""Open requests by peer: no event is asked for twice at once, and an empty promise is noticed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

from tidings_lab.recovery.epidemic.marks import ReceivedNumbers
from tidings_lab.recovery.epidemic.messages import Id
from tidings_lab.recovery.epidemic.patience import Patience
from tidings_lab.recovery.epidemic.standing import OFFER, PeerStanding

MOST_OVERDUE = 10_000


class Requests:
    def __init__(self, patience: Patience, received: ReceivedNumbers, standing: PeerStanding) -> None:
        self._patience = patience
        self._received = received
        self._standing = standing
        self._requested: dict[Id, int] = {}  # in how many open requests
        self._overdue: OrderedDict[Id, None] = OrderedDict()  # no longer waited for, and they may come
        # until when, the peer, the events, and was it sent
        self._open: deque[tuple[float, str, tuple[Id, ...], bool]] = deque()

    def __contains__(self, id: Id) -> bool:
        return id in self._requested

    def take(self, id: Id) -> bool:
        """An event came: was it asked for?"""
        if id in self._requested:
            self._patience.answered()
            return True
        if id not in self._overdue:
            return False
        del self._overdue[id]
        self._patience.was_short()
        return True

    def note(self, peer: str, ids: Iterable[Id], now: float, *, is_sent: bool = True) -> None:
        """Note a request. An unsent one waits all the same, and no peer is blamed for it."""
        wanted = tuple(ids)
        for id in wanted:
            self._requested[id] = self._requested.get(id, 0) + 1
        self._open.append((now + self._patience.seconds, peer, wanted, is_sent))

    @property
    def due(self) -> float | None:
        """Time at which the next request times out."""
        return self._open[0][0] if self._open else None

    def review(self, now: float) -> list[tuple[str, tuple[Id, ...]]]:
        """Requests whose time is over: one without an answer is a strike. The events that each of them still
        lacks."""
        lacking = []
        while self._open and self._open[0][0] <= now:
            _, peer, ids, is_sent = self._open.popleft()
            for id in ids:
                self._requested[id] -= 1
                if not self._requested[id]:
                    del self._requested[id]
            left = tuple(id for id in ids if id not in self._received)
            if is_sent and len(left) == len(ids):
                self._standing.strike(peer, OFFER, now)
            self._overdue.update(dict.fromkeys(left))
            while len(self._overdue) > MOST_OVERDUE:
                self._overdue.popitem(last=False)
            if left:
                lacking.append((peer, left))
        return lacking

    def __len__(self) -> int:
        return len(self._requested)
