"""Jupyter: events show themselves as tables, and a live table shows the last ones as they come.

bus = tidings.open("tidings://localhost:7300")
table = tidings.notebook.LiveTable(bus, "change < 0", most=10)
table            # the cell's output is renewed while events come
table.close()
"""

from __future__ import annotations

import tidings
from tidings import notebook


def falls(bus: tidings.BlockingBus) -> notebook.LiveTable:
    return notebook.LiveTable(bus, "change < 0", columns=["StockName", "change"], most=3)
