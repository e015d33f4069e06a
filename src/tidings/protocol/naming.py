"""Names of logs. A broker has one log at a time; a broker that begins on an empty disk names a new one.

Rules
- Two names of one broker are only ever compared for equality. Only that broker can say which of them is the
  present log (`recovery/acknowledged.py`), since its clock may be behind that of its earlier life.
- The time in a name is for people, and for earlier versions, which took the greater name for the later log.
"""

from __future__ import annotations

from random import Random

UNKNOWN = (
    "?"  # among `LinkNeighbours.peers`: a neighbour that we do not know by name; no broker has this name
)


def log_name(broker: str, begun: float, rng: Random) -> str:
    """The name of a log that begins now; no other log has it."""
    return f"{broker}#{max(0, int(begun * 1e6)):016x}{rng.getrandbits(32):08x}"


def broker_of(log: str) -> str:
    return log.rpartition("#")[0]
