"""Report of a factory's findings, as changes of the D2Q model, to the organisation's service.

Rules
- A change's version is the step that found it, which is the same when the step is told again after a
  crash: the service drops an event that it knows.
- A service that does not answer is asked again for a while. Then the step fails, and with it the stream; the
  next start goes on with reporting that very step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from tidings.errors import UnreachableError
from tidings_quality.model import QualityChange, quality_attribute
from tidings_quality.spark.factory import FactoryStep
from tidings_quality.spark.settings import FactoryPlan

if TYPE_CHECKING:
    from tidings_quality.client import OrganisationClient

AT_ONCE = 500  # changes in one request
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 0.5


def teller(
    client: OrganisationClient, plan: FactoryPlan, *, patience_seconds: float = PATIENCE_SECONDS
) -> Callable[[FactoryStep], int]:
    """Tells the steps of a factory to a service; how many changes were new to it."""

    def tell(step: FactoryStep) -> int:
        changes = changes_of(step, plan)
        new = 0
        while some := list(islice(changes, AT_ONCE)):
            new += _published(client, some, patience_seconds)
        return new

    return tell


def _published(client: OrganisationClient, changes: list[QualityChange], patience_seconds: float) -> int:
    end = time.monotonic() + patience_seconds
    while True:
        try:
            return client.publish(changes)
        except UnreachableError:
            if time.monotonic() >= end:
                raise
            time.sleep(PAUSE_SECONDS)


def changes_of(step: FactoryStep, plan: FactoryPlan) -> Iterator[QualityChange]:
    """The changes of a step, in the order of objects, properties and dimensions."""
    ordered = step.changes().orderBy("object", "property", "dimension")
    for row in ordered.toLocalIterator():
        stored = row["row"].asDict()
        values = {name: _plain(stored[plan.column(name)]) for name in plan.properties}
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
