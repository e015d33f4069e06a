"""What a factory found, as changes of the D2Q model.

A change's version is the step that found it, which is the same when the step is told again after a
crash: whoever knows the event drops it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tidings.pipeline.quality.factory import Step
from tidings.pipeline.quality.settings import Plan
from tidings.quality.model import QualityChange, quality_attribute


def changes_of(step: Step, plan: Plan) -> Iterator[QualityChange]:
    """The changes of a step, in the order of objects, properties and dimensions."""
    ordered = step.changes().orderBy("object", "property", "dimension")
    for row in ordered.toLocalIterator():
        held = row["row"].asDict()
        values = {name: _plain(held[plan.column(name)]) for name in plan.properties}
        yield QualityChange(
            data_class=plan.data_class,
            source=plan.organisation,
            object=row["object"],
            property=row["property"],
            dimension=row["dimension"],
            value=row["value"],
            version=step.version,
            values={name: value for name, value in values.items() if value is not None},
            before=row["before"],
            state={quality_attribute(*name.rsplit(".", 1)): value for name, value in row["quality"].items()},
            time=row["time"].astimezone(UTC),
        )


def _plain(value: Any) -> Any:
    """A value that an event may hold."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
