"""Subscriptions whose filters were unknown for an event: over the work budget, or failed by a defect of ours.

Each is counted and its members are told, as of any loss. A failure (`language/unexpected.py`) is also warned
of, once for each failing expression.
"""

from __future__ import annotations

from tidings.language.evaluate import fails
from tidings.language.unexpected import FAILURES
from tidings.model.event import Event
from tidings.protocol.delivery.loss_report import LossReport
from tidings.protocol.delivery.registry import Registry
from tidings.protocol.effects import Warn
from tidings.protocol.slots import Ports


class UnknownFilters:
    def __init__(self, ports: Ports, registry: Registry, losses: LossReport) -> None:
        self._ports, self._registry, self._losses = ports, registry, losses

    def report(self, event: Event, now: float) -> None:
        """Count, and tell the subscribers, whose filters are over their work budget for the event."""
        for state in self._ports.interest.over_budget(event):
            self._losses.count_over_budget(state, now)

    def report_failed(self, now: float) -> None:
        """Find the owners of filters that failed since the last call, and tell them."""
        for failure in FAILURES.take():
            owners = [state for state in self._registry.states.values() if fails(state.filter, failure.view)]
            for state in owners:
                self._losses.count_failed(state, now)
            names = ", ".join(f"{state.id.subscriber}/{state.id.name}" for state in owners[:3]) or "a link"
            self._ports.emit(
                Warn(
                    f"the filter of {names} failed for an event, which it therefore does not accept "
                    f"({failure.error}); this is a defect of Tidings: please report it"
                )
            )


__all__ = ["UnknownFilters"]
