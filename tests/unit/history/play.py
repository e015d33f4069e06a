"""Histories written like a play, for tests: who did what, when."""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.history import schema
from tidings.history.check import check
from tidings.history.report import CheckReport
from tidings.history.schema import Outcome, Row
from tidings.model.event import Event, make_event


class Play:
    """Each call adds one row; events are known by their id after `pub`."""

    def __init__(self, run: str = "") -> None:
        self.rows: list[Row] = []
        self.events: dict[str, Event] = {}
        self.run = run
        self._counters: dict[str, int] = {}

    def sub(self, time: float, who: str, filter: str, name: str | None = None, **more: Any) -> Play:
        return self._add(schema.sub_row(time, who, name or who, filter, run=self.run, **more))

    def usub(self, time: float, who: str, name: str | None = None, **more: Any) -> Play:
        return self._add(schema.usub_row(time, who, name or who, run=self.run, **more))

    def pub(
        self,
        time: float,
        id: str,
        attributes: dict[str, Any] | None = None,
        /,
        *,
        source: str = "press",
        outcome: Outcome = "ok",
        **more: Any,
    ) -> Play:
        event = self.events[id] = make_event(attributes or {"x": 1}, source=source, id=id, **more)
        sequence = self._counters[source] = self._counters.get(source, 0) + 1
        row = schema.pub_row(time, source, event, run=self.run, sequence=sequence, outcome=outcome)
        return self._add(row)

    def told(self, time: float, who: str, id: str, name: str | None = None, **more: Any) -> Play:
        event = self.events.get(id) or make_event({}, source="press", id=id)
        return self._add(schema.ntfy_row(time, who, name or who, event, run=self.run, **more))

    def row(self, make: Any, *arguments: Any, **more: Any) -> Play:
        """Any other kind of row; an event is given by its id."""
        known = [self.events.get(each, each) if isinstance(each, str) else each for each in arguments]
        return self._add(make(*known, run=self.run, **more))

    def _add(self, row: Row) -> Play:
        self.rows.append(row)
        return self

    def check(self, **settings: Any) -> CheckReport:
        return check(self.rows, **settings)

    def without(self, *positions: int) -> Play:
        return self._changed([row for position, row in enumerate(self.rows) if position not in positions])

    def changed(self, position: int, **fields: Any) -> Play:
        rows = list(self.rows)
        rows[position] = msgspec.structs.replace(rows[position], **fields)
        return self._changed(rows)

    def _changed(self, rows: list[Row]) -> Play:
        other = Play(self.run)
        other.rows, other.events = rows, self.events
        return other
