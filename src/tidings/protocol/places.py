"""Where a client's last acknowledged events are: by source and log, an offset.

A client that goes to another broker names them there, so that the events of one source keep their
order across the logs of two brokers. Bounded: of a source the logs that it was at last, and of the
sources those that published last.
"""

from __future__ import annotations

from collections import OrderedDict

from tidings.model.subscription import Position

MOST_LOGS = 8  # of a source; more holds its order over more moves
MOST_SOURCES = 10_000


class Places:
    def __init__(self) -> None:
        self._by_source: OrderedDict[str, dict[str, int]] = OrderedDict()

    def note(self, source: str, position: Position) -> None:
        """An event of this source was acknowledged."""
        places = self._by_source.setdefault(source, {})
        before = places.pop(position.log, 0)
        places[position.log] = max(before, position.offset)
        if len(places) > MOST_LOGS:
            del places[next(iter(places))]
        self._by_source.move_to_end(source)
        if len(self._by_source) > MOST_SOURCES:
            self._by_source.popitem(last=False)

    def all(self) -> dict[str, dict[str, int]]:
        return {source: dict(places) for source, places in self._by_source.items()}
