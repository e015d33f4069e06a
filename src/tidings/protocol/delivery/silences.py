"""Silences: positions up to which a durable subscription has nothing to hear, so that its token advances there too."""

from __future__ import annotations

from collections.abc import Callable

from tidings.model.subscription import Position
from tidings.protocol.delivery.held import Held
from tidings.protocol.delivery.ledger import Ledger


def silences(held: Held, ledger: Ledger, known: Callable[[str], int]) -> list[Position]:
    """The positions that its members were not told of yet. `known`: how far a log is known at this broker."""
    if held.unacked or held.queue:
        return []
    silent: list[Position] = []
    upto = held.floor(ledger.end) - 1
    if upto > held.silent_upto:
        held.silent_upto = upto
        silent.append(Position(ledger.log, upto))
    for lane in held.lanes.values():
        upto = lane.floor(known(lane.log)) - 1
        if upto > lane.silent_upto and lane.start is not None:
            lane.silent_upto = upto
            silent.append(Position(lane.log, upto))
    return silent
