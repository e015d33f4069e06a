"""Contracts: which properties a system promises (the last column of the table of systems).

A property that a contract leaves out is not judged: its verdict is null and says so. Best effort
promises safety alone. The intermediary of Baldoni et al. 2002 has clients with one subscription
at a time, so LP2 and LP3 are its own, and it tells each *process* once.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import Final

import msgspec

from tidings.errors import HistoryError
from tidings.extensions import load_all
from tidings.history.properties import PROPERTIES, known_properties

SAFE: Final = ("legality", "validity", "lp1", "lp4")
ONCE: Final = (*SAFE, "minimality")
COMPLETE: Final = (*ONCE, "liveness", "completeness")


class Contract(msgspec.Struct, frozen=True):
    system: str
    properties: frozenset[str]
    hearer: str = "subscription"  # who is told each event once: each subscription, or each process


def make_contract(system: str, *properties: str, hearer: str = "subscription") -> Contract:
    """The contract of a system by the names of its properties."""
    unknown = set(properties) - known_properties().keys()
    assert not unknown, unknown
    return Contract(system, frozenset(properties), hearer)


CONTRACTS: Final[dict[str, Contract]] = {
    contract.system: contract
    for contract in (
        make_contract("Tidings", *COMPLETE, "fifo", "gap_freedom"),
        make_contract("Intermediary", *COMPLETE, "lp2", "lp3", hearer="process"),
        make_contract("SIENA", *SAFE),
        make_contract("SOCBR", *COMPLETE),
        make_contract("pbSOCBR", *COMPLETE),
        make_contract("daMulticast", *ONCE, "no_parasites"),
        make_contract("Gossip broadcast", *ONCE),
        make_contract("everything", *PROPERTIES),
    )
}


@cache
def known_contracts() -> dict[str, Contract]:
    """The product's own contracts, then those of the entry-point group `tidings.contracts`."""
    offered = (each for _, some in load_all("tidings.contracts") for each in some)
    return {**CONTRACTS, **{each.system: each for each in offered if each.system not in CONTRACTS}}


def contract_of(name: str) -> Contract:
    """The contract of that system; case, spaces and signs do not matter (network-of-servers)."""
    known = {_letters(each): each for each in known_contracts()}
    if _letters(name) in known:
        return known_contracts()[known[_letters(name)]]
    near = get_close_matches(_letters(name), known, n=1)
    hint = f"did you mean {known[near[0]]}?" if near else f"one of: {', '.join(known_contracts())}"
    raise HistoryError(f"no contract is called {name!r}", hint=hint)


def _letters(name: str) -> str:
    return "".join(ch for ch in name.lower() if ch.isalnum())
