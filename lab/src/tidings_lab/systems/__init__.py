"""The published systems, each a composition with what it promises; offered as `tidings.systems`."""

from __future__ import annotations

import msgspec

from tidings.systems.system import System
from tidings_lab.systems import brokers, distributors, epidemic, rendezvous, rivals, surveyed
from tidings_lab.systems.choosing import CHOICES

FAMILIES = (brokers, epidemic, rivals, rendezvous, surveyed, distributors)

SYSTEMS: tuple[System, ...] = tuple(
    msgspec.structs.replace(system, choice=CHOICES[system.name])
    for family in FAMILIES
    for system in family.SYSTEMS
)
