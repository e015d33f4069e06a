"""Positions of a client's last acknowledged events: by source and log, an offset.

A client that goes to another broker names them there, so that the events of one source keep their
order across the logs of two brokers. Bounded: of a source the logs that it was at last, and of the
sources those that published last.
"""

from __future__ import annotations

from collections import OrderedDict

from tidings.model.subscription import Position
from tidings.protocol.messages import ClientJoined

MOST_LOGS = 8  # of a source; more holds its order over more moves
MOST_SOURCES = 10_000


def within_bounds(positions: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Bounded copy of the positions: a client's message may name any number of them."""
    return {
        source: dict(list(by_log.items())[-MOST_LOGS:])
        for source, by_log in list(positions.items())[-MOST_SOURCES:]
    }


class PublisherPositions:
    def __init__(self) -> None:
        self._by_source: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._log = ""  # of the broker where we are
        self._came: ClientJoined | None = None  # where we were before; None: nowhere

    def arrive(self, log: str) -> ClientJoined | None:
        """At a broker, another or the same again: what to tell it."""
        if self._log not in ("", log):
            stay = 0 if self._came is None else self._came.stay
            self._came = ClientJoined(stay + 1, self.all())
        self._log = log
        return self._came

    def note(self, source: str, position: Position) -> None:
        """An event of this source was acknowledged."""
        positions = self._by_source.setdefault(source, {})
        before = positions.pop(position.log, 0)
        positions[position.log] = max(before, position.offset)
        if len(positions) > MOST_LOGS:
            del positions[next(iter(positions))]
        self._by_source.move_to_end(source)
        if len(self._by_source) > MOST_SOURCES:
            self._by_source.popitem(last=False)

    def all(self) -> dict[str, dict[str, int]]:
        return {source: dict(positions) for source, positions in self._by_source.items()}
