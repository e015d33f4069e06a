"""Contracts: which properties a system promises (the last column of the table of systems).

A property that a contract leaves out is not judged: its verdict is null and says so. Best effort
promises safety alone. The intermediary of Baldoni et al. 2002 has clients with one subscription
at a time, so LP2 and LP3 are its own, and it delivers to each *process* once.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import Final

import msgspec

from tidings.errors import ExtensionError, HistoryError, SettingsError
from tidings.extensions import Collected, collect, package_of, pass_over
from tidings.history.properties import PROPERTIES, known_properties

GROUP: Final = "tidings.contracts"
SAFE: Final = ("legality", "validity", "lp1", "lp4")
ONCE: Final = (*SAFE, "minimality")
COMPLETE: Final = (*ONCE, "liveness", "completeness")


class Contract(msgspec.Struct, frozen=True):
    system: str
    properties: frozenset[str]
    receiver: str = "subscription"  # receiver of each event once: each subscription, or each process


def make_contract(system: str, *properties: str, subscriber: str = "subscription") -> Contract:
    """The contract of a system by the names of its properties, which are looked up when a history is judged:
    a property may stand in the same module, or in an extension that is not loaded yet."""
    return Contract(system, frozenset(properties), subscriber)


CONTRACTS: Final[dict[str, Contract]] = {
    contract.system: contract
    for contract in (
        make_contract("Tidings", *COMPLETE, "fifo", "gap_freedom"),
        make_contract("Intermediary", *COMPLETE, "lp2", "lp3", subscriber="process"),
        make_contract("SIENA", *SAFE),
        make_contract("SOCBR", *COMPLETE),
        make_contract("pbSOCBR", *COMPLETE),
        make_contract("daMulticast", *ONCE, "no_parasites"),
        make_contract("Gossip broadcast", *ONCE),
        make_contract("everything", *PROPERTIES),
    )
}


@cache
def _collected() -> Collected[Contract]:
    """By the letters of their names: the product's own, then those of the entry-point group."""
    return collect(GROUP, _BY_LETTERS, lambda each: _letters(each.system))


@cache
def known_contracts() -> dict[str, Contract]:
    """The product's own contracts, then those of the entry-point group `tidings.contracts`."""
    pass_over(*_collected().errors.values())
    return {each.system: each for each in _collected().objects.values()}


def contract_of(name: str | Contract) -> Contract:
    """The contract of that system; case, spaces and signs do not matter (network-of-servers).

    The product's own are found without loading any extension. Raises `SettingsError`, or `ExtensionError`
    where it is one of an extension, when it names a property that does not exist."""
    if isinstance(name, Contract):
        return _checked(name, "")
    wanted = _letters(name)
    if wanted in _BY_LETTERS:
        return _BY_LETTERS[wanted]
    found = _collected()
    if wanted in found.objects:
        return _checked(found.objects[wanted], package_of(GROUP, found.entries[wanted]))
    for broken, error in found.errors.items():
        if _letters(broken) == wanted:
            raise error
    near = get_close_matches(wanted, found.objects, n=1)
    hint = (
        f"did you mean {found.objects[near[0]].system}?"
        if near
        else f"one of: {', '.join(known_contracts())}"
    )
    raise HistoryError(f"no contract is called {name!r}", hint=hint)


def _checked(contract: Contract, package: str) -> Contract:
    for name in sorted(contract.properties - PROPERTIES.keys()):
        if name not in known_properties():
            near = get_close_matches(name, known_properties(), n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known_properties())}"
            what = f"the contract {contract.system!r} names a property {name!r}, which does not exist"
            if package:
                raise ExtensionError(f"package {package}: {what}", hint=hint)
            raise SettingsError(what, hint=hint)
    return contract


def _letters(name: str) -> str:
    return "".join(ch for ch in name.lower() if ch.isalnum())


_BY_LETTERS: Final = {_letters(each.system): each for each in CONTRACTS.values()}
