"""Outlet of a link: the filters that had to be sent, and those that others stand for.

An outlet is given every filter that concerns its link and decides which of them the far end has to
know. `IdenticalOutlet` tells each once (subscription forwarding). `CoveringOutlet` tells only filters that no
other one covers, and brings the covered ones out again when their cover goes. `MergingOutlet` tells
perfect unions of them. `UnionOutlet` leaves out what all the others together cover. Changes add up until
`changes()` takes them: what came and went is not sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tidings.algebra import covered_by_union, covers, overlaps
from tidings.algebra.merge import perfect_merge
from tidings.model.filter import Filter

KNOWN_PAIRS = 200_000  # answers kept; more costs memory, fewer costs time when many links are told the same
UNION_BUDGET = 2_000  # steps of one search, about a millisecond; more hides more
KNOWN_UNIONS = 20_000
_known: dict[tuple[str, str], bool] = {}


_known_unions: dict[tuple[str, frozenset[str]], bool] = {}
_known_overlaps: dict[tuple[str, str], bool] = {}


def _overlaps(one: Filter, other: Filter) -> bool:
    """`overlaps`, remembered."""
    pair = (one.digest, other.digest)
    answer = _known_overlaps.get(pair)
    if answer is None:
        if len(_known_overlaps) >= KNOWN_PAIRS:
            _known_overlaps.clear()
        answer = _known_overlaps[pair] = overlaps(one, other)
    return answer


def _covers(one: Filter, other: Filter) -> bool:
    """`covers`, remembered: every link of every broker asks about the same pairs."""
    pair = (one.digest, other.digest)
    answer = _known.get(pair)
    if answer is None:
        if len(_known) >= KNOWN_PAIRS:
            _known.clear()
        answer = _known[pair] = covers(one, other)
    return answer


def _covers_together(others: dict[str, Filter], filter: Filter) -> bool:
    """`covered_by_union`, remembered for the same reason."""
    key = (filter.digest, frozenset(others))
    answer = _known_unions.get(key)
    if answer is None:
        if len(_known_unions) >= KNOWN_UNIONS:
            _known_unions.clear()
        verdict = covered_by_union(filter, tuple(others.values()), budget=UNION_BUDGET)
        answer = _known_unions[key] = verdict.covered
    return answer


def forget_pairs() -> None:
    """Begin as a new process does; for measurements that must not profit from earlier ones."""
    _known.clear()
    _known_unions.clear()
    _known_overlaps.clear()


class Changes(NamedTuple):
    add: tuple[Filter, ...]
    remove: tuple[str, ...]  # digests

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)


class FilterOutlet(Protocol):
    """One link's side of a diffusion."""

    announced: dict[str, Filter]  # by digest: what the far end knows, or will after `changes()`

    def __contains__(self, digest: str) -> bool:
        """Does this filter concern the link, told or not?"""

    def add(self, filter: Filter) -> None: ...
    def remove(self, digest: str) -> None: ...

    def changes(self) -> Changes:
        """Changes to send since the last call."""

    def forget(self) -> None:
        """Forget what the far end knows: every filter sent before counts as new."""


class IdenticalOutlet:
    """Every filter is told, each once."""

    def __init__(self) -> None:
        self.announced: dict[str, Filter] = {}
        self._known: dict[str, Filter] = {}  # what the far end has

    def __contains__(self, digest: str) -> bool:
        return digest in self.announced

    def add(self, filter: Filter) -> None:
        self.announced[filter.digest] = filter

    def remove(self, digest: str) -> None:
        del self.announced[digest]

    def changes(self) -> Changes:
        add = tuple(f for digest, f in self.announced.items() if digest not in self._known)
        remove = tuple(digest for digest in self._known if digest not in self.announced)
        if add or remove:
            self._known = dict(self.announced)
        return Changes(add, remove)

    def forget(self) -> None:
        self._known = {}


class CoveringOutlet:
    """Only filters that no other told one covers."""

    def __init__(self) -> None:
        self.announced: dict[str, Filter] = {}
        self._hidden: dict[str, tuple[Filter, str]] = {}  # digest -> filter, digest of its cover
        self._added: dict[str, Filter] = {}
        self._removed: dict[str, None] = {}

    def __contains__(self, digest: str) -> bool:
        return digest in self.announced or digest in self._hidden

    def add(self, filter: Filter) -> None:
        digest = filter.digest
        for other, cover in self.announced.items():
            if _covers(cover, filter):
                self._hidden[digest] = (filter, other)
                return
        for other in [d for d, f in self.announced.items() if _covers(filter, f)]:
            self._hidden[other] = (self._untell(other), digest)
        self._announce(filter)
        for hidden, (covered, cover_digest) in self._hidden.items():
            if cover_digest not in self.announced:  # its cover was hidden just now
                self._hidden[hidden] = (covered, digest)

    def remove(self, digest: str) -> None:
        if digest in self._hidden:
            del self._hidden[digest]
            return
        self._untell(digest)
        orphans = [f for f, cover in self._hidden.values() if cover == digest]
        for orphan in orphans:
            del self._hidden[orphan.digest]
        for orphan in orphans:
            self.add(orphan)

    def _announce(self, filter: Filter) -> None:
        self.announced[filter.digest] = filter
        if filter.digest in self._removed:
            del self._removed[filter.digest]
        else:
            self._added[filter.digest] = filter

    def _untell(self, digest: str) -> Filter:
        filter = self.announced.pop(digest)
        if digest in self._added:
            del self._added[digest]
        else:
            self._removed[digest] = None
        return filter

    def changes(self) -> Changes:
        changes = Changes(tuple(self._added.values()), tuple(self._removed))
        self._added, self._removed = {}, {}
        return changes

    def forget(self) -> None:
        self._added, self._removed = dict(self.announced), {}


class MergingOutlet(IdenticalOutlet):
    """Perfect unions of the filters that concern the link; no union exceeds what is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self._members: dict[str, Filter] = {}
        self._stale = False

    def __contains__(self, digest: str) -> bool:
        return digest in self._members

    def add(self, filter: Filter) -> None:
        self._members[filter.digest] = filter
        self._stale = True

    def remove(self, digest: str) -> None:
        del self._members[digest]
        self._stale = True

    def changes(self) -> Changes:
        if self._stale:
            self._stale = False
            cover = CoveringOutlet()
            for filter in self._members.values():
                cover.add(filter)
            self.announced = {filter.digest: filter for filter in _merged(list(cover.announced.values()))}
        return super().changes()


def _merged(filters: list[Filter]) -> list[Filter]:
    """Join pairs whose union one filter says exactly, until there is none."""
    done: list[Filter] = []
    for filter in filters:
        joined = filter
        kept: list[Filter] = []
        for other in done:
            union = perfect_merge(joined, other)
            if union is None:
                kept.append(other)
            else:
                joined = union
        done = [*kept, joined]
    return done


class UnionOutlet(IdenticalOutlet):
    """Only filters that the told ones do not cover, alone or together.

    A hidden filter is noted with all told filters that it overlaps; it is looked at again when one of those
    goes. The search draws no random number: a filter that it does not decide within its budget is told."""

    def __init__(self) -> None:
        super().__init__()
        self._hidden: dict[str, tuple[Filter, frozenset[str]]] = {}

    def __contains__(self, digest: str) -> bool:
        return digest in self.announced or digest in self._hidden

    def add(self, filter: Filter) -> None:
        if self._hide(filter):
            return
        super().add(filter)
        for other in [f for f in self.announced.values() if f is not filter and _overlaps(f, filter)]:
            del self.announced[other.digest]
            if not self._hide(other):
                self.announced[other.digest] = other
            else:
                self._look_again(other.digest)

    def remove(self, digest: str) -> None:
        if self._hidden.pop(digest, None) is None:
            super().remove(digest)
            self._look_again(digest)

    def _hide(self, filter: Filter) -> bool:
        near = {
            digest: announced for digest, announced in self.announced.items() if _overlaps(announced, filter)
        }
        alone = next((digest for digest, announced in near.items() if _covers(announced, filter)), None)
        if alone is not None:
            self._hidden[filter.digest] = (filter, frozenset((alone,)))
        elif len(near) > 1 and _covers_together(near, filter):
            self._hidden[filter.digest] = (filter, frozenset(near))
        else:
            return False
        return True

    def _look_again(self, gone: str) -> None:
        """Withdraw a told filter: those hidden behind it need another cover, or are told."""
        for orphan in [f for f, covers_ in self._hidden.values() if gone in covers_]:
            del self._hidden[orphan.digest]
            if not self._hide(orphan):
                super().add(orphan)  # hiding a filter behind it now would loop


OUTLETS: dict[str, Callable[[], FilterOutlet]] = {
    "identical": IdenticalOutlet,
    "covering": CoveringOutlet,
    "merging": MergingOutlet,
    "union": UnionOutlet,
}
