"""Clients of a system whose clients fail over by themselves (`System.roams`)."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from tidings.protocol.recovery.streams import Heard
from tidings.protocol.roaming import Roamer, RoamingSettings


def roamer(
    name: str, broker: str, brokers: tuple[str, ...], options: dict[str, Any], rng: Random, recording: bool
) -> Roamer:
    """Its primary is the broker that it was told; then those that follow it, in a circle."""
    place = brokers.index(broker)
    return Roamer(
        name,
        (*brokers[place:], *brokers[:place]),
        rng=rng,
        settings=msgspec.convert(options.get("roaming", {}), RoamingSettings),
        tells_heard=Heard if options.get("mode") == "no-gap" else None,
        recording=recording,
    )
