"""A subscription as people see it: what waits for it here, and how far it is in each log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidings.protocol.delivery.held import Held


def described(held: Held, known: Callable[[str], int]) -> dict[str, Any]:
    """`known` says how far a log is known at this broker."""
    return {
        "subscription": str(held.id),
        "filter": held.subscription.filter.text,
        "listeners": len(held.members),
        "credit": sum(member.credit for member in held.members),
        "waiting": len(held.queue),
        "unacknowledged": len(held.unacked),
        "phase": str(held.phase),
        "logs": {
            log: {"phase": str(lane.phase), "at": lane.at, "known": known(log), "missed": lane.missed}
            for log, lane in held.lanes.items()
        },
    }
