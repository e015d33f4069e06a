"""Nodes that are put together from the strategies of this room."""

from __future__ import annotations

from random import Random

from tidings.matching.engine import MatchingEngine
from tidings.matching.matcher import Matcher
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.limits import DEFAULT_LIMITS, ResourceLimits
from tidings.protocol.node import Node


def intermediary(
    name: str,
    *,
    rng: Random,
    stable: bool = False,
    recording: bool = False,
    matcher: Matcher | None = None,
    settings: DeliverySettings | None = None,
    limits: ResourceLimits = DEFAULT_LIMITS,
) -> Node:
    """The intermediary of Baldoni et al. 2002, section 5.2: one broker, every client, no network."""
    delivery = ExactlyOnce(matcher or MatchingEngine(), settings)
    return Node(name, delivery=delivery, rng=rng, stable=stable, recording=recording, limits=limits)
