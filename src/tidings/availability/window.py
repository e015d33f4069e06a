"""Deduplication window: identities of events that no log holds any more, remembered for a stated time.

Rules
- An identity is known by a digest of 8 bytes. The newest ones have a row each; as soon as there are `OPEN` of
  them they become one row of sorted digests, and `MERGED` such rows become one. So an identity costs 8 bytes,
  in memory and on the disk, and looking it up costs a search in some dozens of sorted rows.
- A row of digests is forgotten as a whole, when the youngest of them is out of the window: an identity is
  remembered for the window at least.
- Two identities share a digest once in 10**12 publishes when ten million are remembered.
- `is_full`: as many are remembered as may be. Then publishes with such ids are refused: forgetting one
  earlier could double an event in silence. An owner with less than an equal share of the table is not
  refused, so the table holds at most twice its bound.
- Rows of digests that were written before owners were counted count for none.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from itertools import islice

import msgspec

from tidings.availability.records import Delete, Put, Record

RECENT = "identity.foreign"  # table: one row for each of the newest identities
SEALED = "identity.sealed"  # table: rows of digests
OPEN = 4096  # identities with a row of their own; more costs memory, fewer makes more rows of digests
MERGED = 16  # rows of digests that become one; more rewrites less and searches more


class SealedRow(msgspec.Struct, array_like=True, frozen=True):
    """Digests, sorted and packed, and when the youngest was remembered."""

    youngest: float
    level: int  # how often it was merged
    digests: bytes
    owners: dict[str, int] = {}  # number of ids per owner


class _Sealed:
    __slots__ = ("digests", "key", "level", "owners", "youngest")

    def __init__(self, key: str, row: SealedRow) -> None:
        self.key, self.youngest, self.level, self.owners = key, row.youngest, row.level, Counter(row.owners)
        self.digests = array("Q", struct.unpack(f">{len(row.digests) // 8}Q", row.digests))

    def has(self, digest: int) -> bool:
        position = bisect_left(self.digests, digest)
        return position < len(self.digests) and self.digests[position] == digest

    def row(self) -> Put:
        packed = struct.pack(f">{len(self.digests)}Q", *self.digests)
        row = SealedRow(self.youngest, self.level, packed, dict(self.owners))
        return Put(SEALED, self.key, msgspec.msgpack.encode(row))


class DedupWindow:
    """Remembered identities, by the text of their keys."""

    def __init__(self, seconds: float, most: int, owner_of: Callable[[str], str] = lambda key: "") -> None:
        self._seconds, self._most, self._owner_of = seconds, most, owner_of
        self._recent: dict[str, tuple[float, str]] = {}  # by key, oldest first: time and owner
        self._owned: Counter[str] = Counter()  # number of ids per owner
        self._sealed: list[_Sealed] = []  # in the order of their youngest
        self._count = 0  # of sealed digests

    def __len__(self) -> int:
        return len(self._recent) + self._count

    def is_full(self, owner: str = "") -> bool:
        """Are as many remembered as may be, and of this owner an equal share of them?"""
        if len(self) < self._most:
            return False
        others = len(self._owned) - (owner in self._owned)
        return self._owned[owner] >= self._most // (others + 1)

    def has(self, key: str, now: float) -> bool:
        since = now - self._seconds
        if key in self._recent and self._recent[key][0] > since:
            return True
        digest = _digest(key)
        return any(sealed.youngest > since and sealed.has(digest) for sealed in self._sealed)

    def add(self, key: str, now: float) -> list[Record]:
        """Remember it from now on; the records to persist."""
        self._forget_recent(key)
        owner = self._owner_of(key)
        self._recent[key] = (now, owner)
        self._owned[owner] += 1
        records: list[Record] = [Put(RECENT, key, msgspec.msgpack.encode(now))]
        if len(self._recent) >= OPEN:
            records += self._seal()
        return records

    def collect(self, now: float, budget: int) -> list[Record]:
        """Forget at most so many rows that are out of the window; the records to persist."""
        since, records = now - self._seconds, list[Record]()
        while len(records) < budget and self._sealed and self._sealed[0].youngest <= since:
            sealed = self._sealed.pop(0)
            self._count -= len(sealed.digests)
            self._disown(sealed.owners)
            records.append(Delete(SEALED, sealed.key))
        while len(records) < budget and self._recent:
            key, (at, _) = next(iter(self._recent.items()))
            if at > since:
                break
            self._forget_recent(key)
            records.append(Delete(RECENT, key))
        return records

    def _forget_recent(self, key: str) -> None:
        known = self._recent.pop(key, None)
        if known is not None:
            self._disown({known[1]: 1})

    def _disown(self, owners: Mapping[str, int]) -> None:
        for owner, count in owners.items():
            self._owned[owner] -= count
            if self._owned[owner] <= 0:
                del self._owned[owner]

    def next_at(self) -> float | None:
        """Time of the next collection."""
        ends = [sealed.youngest for sealed in self._sealed[:1]]
        ends += [at for at, _ in islice(self._recent.values(), 1)]
        return min(ends) + self._seconds if ends else None

    def rows(self) -> list[Put]:
        """All of it, for another broker that is to know the same."""
        recent = [Put(RECENT, key, msgspec.msgpack.encode(at)) for key, (at, _) in self._recent.items()]
        return recent + [sealed.row() for sealed in self._sealed]

    def restore(self, tables: Mapping[str, Mapping[str, bytes]]) -> None:
        """Go on with the rows that were persisted."""
        times = {key: msgspec.msgpack.decode(at, type=float) for key, at in tables.get(RECENT, {}).items()}
        ordered = sorted(times.items(), key=lambda item: (item[1], item[0]))
        self._recent = {key: (at, self._owner_of(key)) for key, at in ordered}
        rows = tables.get(SEALED, {})
        sealed = [_Sealed(key, msgspec.msgpack.decode(rows[key], type=SealedRow)) for key in sorted(rows)]
        self._sealed = sorted(sealed, key=lambda each: each.youngest)
        self._count = sum(len(each.digests) for each in sealed)
        self._owned = sum((each.owners for each in sealed), Counter(own for _, own in self._recent.values()))

    def _seal(self) -> list[Record]:
        youngest = max(at for at, _ in self._recent.values())
        records: list[Record] = [Delete(RECENT, key) for key in self._recent]
        owners = Counter(owner for _, owner in self._recent.values())
        sealed = _sealed(map(_digest, self._recent), youngest, 0, owners)
        self._recent = {}
        self._sealed.append(sealed)
        self._count += len(sealed.digests)
        merged = [each for each in self._sealed if each.level == 0]
        if len(merged) >= MERGED:
            owners = sum((each.owners for each in merged), Counter())
            both = _sealed((digest for each in merged for digest in each.digests), youngest, 1, owners)
            self._sealed = [each for each in self._sealed if each.level] + [both]
            self._count += len(both.digests) - sum(len(each.digests) for each in merged)
            records += [Delete(SEALED, each.key) for each in merged if each is not sealed]
            sealed = both
        return [*records, sealed.row()]


def _sealed(digests: Iterable[int], youngest: float, level: int, owners: Mapping[str, int]) -> _Sealed:
    packed = b"".join(digest.to_bytes(8, "big") for digest in sorted(set(digests)))
    key = blake2b(packed, digest_size=8).hexdigest()
    return _Sealed(key, SealedRow(youngest, level, packed, dict(owners)))


def _digest(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
