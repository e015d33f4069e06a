"""Contracts: which properties a system promises (the last column of the table of systems).

A property that a contract leaves out is not judged: its verdict is null and says so. Best effort
promises safety alone. The intermediary of Baldoni et al. 2002 has clients with one subscription
at a time, so LP2 and LP3 are its own, and it tells each *process* once.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

import msgspec

from tidings.errors import HistoryError
from tidings.history.properties import PROPERTIES

_SAFE: Final = ("legality", "validity", "lp1", "lp4")
_ONCE: Final = (*_SAFE, "minimality")
_COMPLETE: Final = (*_ONCE, "liveness", "completeness")


class Contract(msgspec.Struct, frozen=True):
    system: str
    properties: frozenset[str]
    hearer: str = "subscription"  # who is told each event once: each subscription, or each process


def _contract(system: str, *properties: str, hearer: str = "subscription") -> Contract:
    unknown = set(properties) - PROPERTIES.keys()
    assert not unknown, unknown
    return Contract(system, frozenset(properties), hearer)


CONTRACTS: Final[dict[str, Contract]] = {
    contract.system: contract
    for contract in (
        _contract("Tidings", *_COMPLETE, "fifo", "gap_freedom"),
        _contract("Intermediary", *_COMPLETE, "lp2", "lp3", hearer="process"),
        _contract("Network of servers", *_COMPLETE),
        _contract("Network of servers, FIFO", *_COMPLETE, "fifo"),
        _contract("TIB/RV", *_SAFE),
        _contract("Scribe", *_SAFE),
        _contract("Gryphon", *_COMPLETE, "fifo", "gap_freedom"),
        _contract("SIENA", *_SAFE),
        _contract("SIENA hierarchical", *_SAFE),
        _contract("Subscription forwarding", *_SAFE),
        _contract("All brokers", *_SAFE),
        _contract("Partitioned", *_SAFE),
        _contract("Hermes", *_SAFE),
        _contract("SOCBR", *_COMPLETE),
        _contract("pbSOCBR", *_COMPLETE),
        _contract("Epidemic", *_ONCE),
        _contract("UARC, gap", *_ONCE, "fifo", "view_agreement"),
        _contract("UARC", *_ONCE, "fifo", "gap_freedom", "view_agreement"),
        _contract("daMulticast", *_ONCE, "no_parasites"),
        _contract("Gossip broadcast", *_ONCE),
        _contract("Gossip multicast", *_ONCE, "no_parasites"),
        _contract("Hierarchical gossip", *_ONCE),
        _contract("PMcast", *_ONCE),
        _contract("QNS", *_SAFE),
        _contract("everything", *PROPERTIES),
    )
}


def contract_of(name: str) -> Contract:
    """The contract of that system; case, spaces and signs do not matter (network-of-servers)."""
    known = {_letters(each): each for each in CONTRACTS}
    if _letters(name) in known:
        return CONTRACTS[known[_letters(name)]]
    near = get_close_matches(_letters(name), known, n=1)
    hint = f"did you mean {known[near[0]]}?" if near else f"one of: {', '.join(CONTRACTS)}"
    raise HistoryError(f"no contract is called {name!r}", hint=hint)


def _letters(name: str) -> str:
    return "".join(ch for ch in name.lower() if ch.isalnum())
