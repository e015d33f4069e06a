"""Names of logs. A broker has one log at a time; one that begins on an empty disk has a new name."""

from __future__ import annotations


def log_name(broker: str, begun: float) -> str:
    """The name of a log that begins now. A later log of the same broker has a greater name."""
    return f"{broker}#{max(0, int(begun * 1e6)):016x}"


def broker_of(log: str) -> str:
    return log.rpartition("#")[0]
