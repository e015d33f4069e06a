"""Clients that fail over by themselves (`System.roams`), and history rows for the lives of their brokers.

A judge of a group has to know which brokers were up: crashes and restarts of brokers are rows of its history.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from tidings.history.schema import crash_row, restart_row
from tidings.protocol.client_failover import FailoverClient, FailoverSettings
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.messages import Message
from tidings.simulation.simulator import Simulation


class BrokerLifetimes(Simulation):
    """A simulation that reports when brokers go down and come up."""

    def crash(self, name: str) -> bool:
        took = super().crash(name)
        if took and self.on_row is not None and self.hosts[name].is_broker:
            self.on_row(crash_row(self.now, name))
        return took

    def restart(self, name: str, *, keep_disk: bool = True) -> None:
        was_up = self.hosts[name].up
        super().restart(name, keep_disk=keep_disk)
        if not was_up and self.on_row is not None and self.hosts[name].is_broker:
            self.on_row(restart_row(self.now, name))


def roamer(
    name: str,
    broker: str,
    brokers: tuple[str, ...],
    options: dict[str, Any],
    rng: Random,
    recording: bool,
    limits: ResourceLimits = DEFAULT_LIMITS,
    reports_received: Callable[..., Message] | None = None,
) -> FailoverClient:
    """The client's primary is its given broker; then come those that follow it, in a circle."""
    position = brokers.index(broker)
    return FailoverClient(
        name,
        (*brokers[position:], *brokers[:position]),
        rng=rng,
        settings=msgspec.convert(options.get("roaming", {}), FailoverSettings),
        reports_received=reports_received,
        recording=recording,
        limits=limits,
    )
