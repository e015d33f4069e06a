"""Reports of data quality as the page shows them: by organisation, property and dimension.

Input
- Output of `tidings quality evaluate --json`: lines for changes and steps, and at the end an object with the
  `organisation` and its `qualities` (property, dimension, mean, objects). The last one of an organisation
  counts.
- Rows of the table of qualities, one a line: source, class, object, property, dimension, value. Rows of many
  objects are averaged.

A value is from 0 to 1. Lines of another form are counted, and the count is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MOST_ROWS = 500  # properties of one organisation that are shown
MOST_CHANGES = 50

Report = Mapping[str, Any]


class _RunningMean:
    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def add(self, value: float, count: int) -> None:
        self.sum += value * count
        self.count += count

    def value(self) -> float:
        return round(self.sum / self.count, 4)


class _OrganisationReport:
    def __init__(self, name: str) -> None:
        self.name = name
        self.means: dict[str, dict[str, _RunningMean]] = {}
        self.objects: set[str] = set()
        self.most = 0  # objects that one row speaks of
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
            "objects": max(self.most, len(self.objects)),
            "time": self.time or None,
            "changes": self.changes[-MOST_CHANGES:],
        }


def organisations(files: Iterable[tuple[list[Report], float]]) -> tuple[list[dict[str, Any]], int]:
    """By name; and how many rows could not be read. Each file comes with the time when it was written."""
    found: dict[str, _OrganisationReport] = {}
    strange = 0
    for reports, written in files:
        changes: list[dict[str, Any]] = []
        for report in reports:
            if "change" in report:
                changes.append({"time": None, "text": _change(report)})
            elif "step" not in report:
                strange += _read(found, report, changes, written)
    return [found[name].shown() for name in sorted(found)], strange


def _change(report: Report) -> str:
    before = report.get("before")
    earlier = "new" if before is None else f"{before} →"
    return f"{report['change']}: {earlier} {report.get('value')}"


def _read(
    found: dict[str, _OrganisationReport], report: Report, changes: list[dict[str, Any]], written: float
) -> int:
    """Take a report or a row; returns how many rows could not be read."""
    rows = report.get("qualities", report.get("rows"))
    name = report.get("organisation", report.get("source"))
    if not isinstance(rows, list):
        return int(not _take(found, report, name, written))
    if isinstance(name, str):
        found[name] = _OrganisationReport(name)
    strange = sum(not _take(found, row, name, written) for row in rows)
    if isinstance(name, str):
        found[name].changes = list(changes)
        changes.clear()
    return strange


def _take(found: dict[str, _OrganisationReport], row: Any, owner: Any, written: float) -> bool:
    if not isinstance(row, Mapping):
        return False
    name = row.get("organisation", row.get("source", owner))
    property, dimension = row.get("property"), row.get("dimension")
    value = row.get("value", row.get("mean"))
    if not all(isinstance(text, str) and text for text in (name, property, dimension)):
        return False
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return False
    one = found.setdefault(str(name), _OrganisationReport(str(name)))
    position = f"{row['class']}: {property}" if isinstance(row.get("class"), str) else str(property)
    count = row.get("objects", 1)
    count = count if type(count) is int and count > 0 else 1
    one.means.setdefault(position, {}).setdefault(str(dimension), _RunningMean()).add(float(value), count)
    if isinstance(row.get("object"), str):
        one.objects.add(row["object"])
    elif count > 1:
        one.most = max(one.most, count)
    one.time = max(one.time, written)
    return True
