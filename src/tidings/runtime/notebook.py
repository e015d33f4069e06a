"""Notebooks: a table of the last events of a subscription, renewed in its cell as they come.

Rules
- It needs a blocking bus (`tidings.open`): the events come on the bus's own thread, while the notebook is
  free.
- The output is renewed at most ten times a second, with the events of the time between.
- Values are escaped: an event cannot put markup or scripts into the page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from html import escape
from time import monotonic
from typing import Any, Unpack

from tidings.model.event import Event
from tidings.runtime.blocking import BlockingBus
from tidings.runtime.options import SubscribeOptions, Wanted

REFRESH_SECONDS = 0.1  # between two renewals; less shows events sooner and costs the browser more


def html_table(events: Iterable[Event], columns: Sequence[str] | None = None) -> str:
    """Events as an HTML table, one row each; without columns those of all attributes."""
    rows = list(events)
    names = (
        list(columns)
        if columns is not None
        else list(dict.fromkeys(name for row in rows for name in row.view))
    )
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in names) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    return "" if value is None else escape(str(value))


class LiveTable:
    """The last events that a filter accepts, as a table that renews itself."""

    def __init__(
        self,
        bus: BlockingBus,
        *wanted: Wanted,
        columns: Sequence[str] | None = None,
        most: int = 20,
        **options: Unpack[SubscribeOptions],
    ) -> None:
        self.events: deque[Event] = deque(maxlen=most)
        self.seen = 0
        self._columns = columns
        self._handle: Any = None
        self._renewed = 0.0
        options.setdefault("policy", "drop oldest")
        self._calling = bus.on(wanted[0] if wanted else None, self._receive, **options)

    def _receive(self, event: Event) -> None:
        self.events.append(event)
        self.seen += 1
        if self._handle is not None and monotonic() - self._renewed >= REFRESH_SECONDS:
            self.renew()

    def renew(self) -> None:
        """Show the events that have come, now."""
        self._renewed = monotonic()
        if self._handle is not None:
            self._handle.update(self._html())

    def _html(self) -> Any:
        from IPython.display import HTML

        return HTML(self._repr_html_())  # type: ignore[no-untyped-call]

    def _repr_html_(self) -> str:
        table = html_table(self.events, self._columns)
        return f"{table}<p>{self.seen} events, the last {len(self.events)} shown</p>"

    def _ipython_display_(self) -> None:
        """Called by a notebook that shows the table as the result of a cell."""
        from IPython.display import display

        self._handle = display(self._html(), display_id=True)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Leave the subscription; the table stays as it is."""
        self._calling.stop()
        self.renew()
