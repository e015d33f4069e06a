"""Shares of a bounded table: which entry goes when the table is over its bound.

Rules
- Every entry has an owner and a weight. The entry that goes is the one that was left alone for longest among
  those of the heaviest owner: so an owner that has no more than an equal share of the bound never loses an
  entry to others.
- Adding, touching and choosing cost the same however many owners and entries there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

N = TypeVar("N", bound=Hashable)


class _OwnerShare(Generic[N]):
    __slots__ = ("names", "owner", "weight")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.names: OrderedDict[N, int] = OrderedDict()  # with their weights, left alone for longest first
        self.weight = 0


class BoundedShares(Generic[N]):
    """Entries by owner, and how heavy they are."""

    def __init__(self) -> None:
        self._shares: dict[str, _OwnerShare[N]] = {}
        self._share_of: dict[N, _OwnerShare[N]] = {}
        self._by_weight: dict[int, dict[str, _OwnerShare[N]]] = {}
        self._heaviest = 0  # the greatest weight of a share
        self.weight = 0  # of all entries

    def add(self, name: N, owner: str, weight: int) -> None:
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = _OwnerShare(owner)
        self._share_of[name] = share
        share.names[name] = weight
        self._weigh(share, weight)

    def touch(self, name: N) -> None:
        self._share_of[name].names.move_to_end(name)

    def weigh(self, name: N, weight: int) -> None:
        """The entry has this weight from now on."""
        share = self._share_of[name]
        more = weight - share.names[name]
        if more:
            share.names[name] = weight
            self._weigh(share, more)

    def remove(self, name: N) -> None:
        share = self._share_of.pop(name)
        self._weigh(share, -share.names.pop(name))
        if not share.names:
            del self._shares[share.owner]

    def surplus(self, spared: N | None = None) -> N | None:
        """The entry that goes first; None when there is none but the one to spare. Among owners of equal
        weight the owner of the spared one gives."""
        heaviest = self._by_weight.get(self._heaviest, {})
        if spared is not None and (own := self._share_of[spared]).owner in heaviest and len(own.names) > 1:
            return next(name for name in own.names if name != spared)
        for share in heaviest.values():
            first = next(iter(share.names))
            if first != spared:
                return first
        return None

    def _weigh(self, share: _OwnerShare[N], more: int) -> None:
        self._leave(share)
        share.weight += more
        self.weight += more
        if share.weight:
            self._by_weight.setdefault(share.weight, {})[share.owner] = share
            self._heaviest = max(self._heaviest, share.weight)
        while self._heaviest and self._heaviest not in self._by_weight:
            self._heaviest -= 1

    def _leave(self, share: _OwnerShare[N]) -> None:
        """Out of those of its weight, which is about to change."""
        if share.weight:
            alike = self._by_weight[share.weight]
            del alike[share.owner]
            if not alike:
                del self._by_weight[share.weight]
