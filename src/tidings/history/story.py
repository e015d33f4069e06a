"""Text of a counterexample: plain words, times in seconds, names as they stand in the rows."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from tidings.history.relations import Violation

WALL_CLOCK = (1e8, 1e11)  # times in between are seconds since 1970, not since a run began


def seconds(time: float) -> str:
    """12.5 s, at most microseconds; the time of day (UTC) where the clock was a wall clock."""
    if WALL_CLOCK[0] < time < WALL_CLOCK[1]:
        return datetime.fromtimestamp(time, UTC).strftime("%H:%M:%S.%f").rstrip("0").rstrip(".")
    return f"{time:.6f}".rstrip("0").rstrip(".") + " s"


def event_name(source: str, event: str) -> str:
    return f"{event} of {source}" if source else event


def on_behalf(process: str, subscription: str) -> str:
    """alice, or alice (for her subscription alice/news)."""
    return process if subscription in ("", process) else f"{process} (subscription {subscription})"


def span(start: float, end: float) -> str:
    return f"from {seconds(start)} on" if math.isinf(end) else f"from {seconds(start)} to {seconds(end)}"


def violation(record: Any, time: float, story: str, **facts: Any) -> Violation:
    """A violation by a record that knows who and what; absent columns stay empty."""
    return Violation(
        time,
        record.run,
        getattr(record, "process", ""),
        getattr(record, "subscription", ""),
        getattr(record, "source", ""),
        getattr(record, "event", ""),
        story,
        {name: finite(value) for name, value in facts.items()},
    )


def finite(value: Any) -> Any:
    """Facts go into JSON, which has no infinity: no end is None."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
