"""Reports of data quality as the page shows them: by organisation, property and dimension.

A report is an object with an `organisation` (or `source`) and `rows`; or each line is a row that names its own
`source`, as the table of qualities has it. A row has a class, a property, a dimension and a value from 0 to 1;
rows of many objects are averaged. What is no row is counted, and said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MOST_ROWS = 500  # properties of one organisation that are shown
MOST_CHANGES = 50


class _Mean:
    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def add(self, value: float, count: int) -> None:
        self.sum += value * count
        self.count += count

    def value(self) -> float:
        return round(self.sum / self.count, 4)


class _Organisation:
    def __init__(self, name: str) -> None:
        self.name = name
        self.means: dict[str, dict[str, _Mean]] = {}
        self.objects: set[str] = set()
        self.said_objects = 0
        self.time = 0.0
        self.changes: list[dict[str, Any]] = []

    def shown(self) -> dict[str, Any]:
        rows = [
            {"name": name, "values": {dimension: mean.value() for dimension, mean in means.items()}}
            for name, means in sorted(self.means.items())
        ]
        return {
            "name": self.name,
            "rows": rows[:MOST_ROWS],
            "objects": self.said_objects or len(self.objects),
            "time": self.time or None,
            "changes": self.changes[-MOST_CHANGES:],
        }


def organisations(reports: Iterable[tuple[Mapping[str, Any], float]]) -> tuple[list[dict[str, Any]], int]:
    """By name; and how many rows could not be read. Each report comes with the time of its file."""
    found: dict[str, _Organisation] = {}
    strange = 0
    for report, written in reports:
        rows = report.get("rows")
        name = report.get("organisation", report.get("source"))
        for row in rows if isinstance(rows, list) else [report]:
            strange += not _take(found, row, name, written)
        if isinstance(name, str) and name in found:
            _take_rest(found[name], report)
    return [found[name].shown() for name in sorted(found)], strange


def _take(found: dict[str, _Organisation], row: Any, owner: Any, written: float) -> bool:
    if not isinstance(row, Mapping):
        return False
    name = row.get("organisation", row.get("source", owner))
    told = (row.get("property"), row.get("dimension"), row.get("value"))
    whole = all(isinstance(text, str) and text for text in (name, *told[:2]))
    value = told[2]
    if not whole or isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return False
    one = found.setdefault(str(name), _Organisation(str(name)))
    place = f"{row['class']}: {told[0]}" if isinstance(row.get("class"), str) else str(told[0])
    mean = one.means.setdefault(place, {}).setdefault(str(told[1]), _Mean())
    count = row.get("objects", 1)
    mean.add(float(value), count if isinstance(count, int) and count > 0 else 1)
    if isinstance(row.get("object"), str):
        one.objects.add(row["object"])
    one.time = max(one.time, written)
    return True


def _take_rest(one: _Organisation, report: Mapping[str, Any]) -> None:
    objects, changes = report.get("objects"), report.get("changes")
    if isinstance(objects, int):
        one.said_objects = objects
    for change in changes if isinstance(changes, list) else ():
        if isinstance(change, Mapping):
            time = change.get("time")
            text = str(change.get("text") or " ".join(f"{k} {v}" for k, v in change.items() if k != "time"))
            one.changes.append({"time": time if isinstance(time, int | float) else None, "text": text})
