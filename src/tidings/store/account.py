"""The account: a running statement of everything that the store must hold, written with every commit.

Why. A database can lose a part of itself and open without a word: a flipped length in its last log block
or in its manifest reads as the end of the file. Checksums of single records do not show a record that is
gone, or an old one that came back. So every batch carries the number of the commit, the next offset, and
for entries and rows their count and the sum of their checksums. On opening, everything is counted again.

Rules
- An entry never changes, so its share of the sum is the checksum of its key. A row changes, so its share
  is the checksum of key and value.
- `plan` has no side effect; `apply` takes a plan over after its batch was written. A batch that failed leaves
  the index as it was.
- Memory: one bit for each offset between the first and the last, and one number for each row.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from crc32c import crc32c

from tidings.availability.records import Append, Forget, Put, Record
from tidings.errors import StoreError
from tidings.store.guard import (
    ACCOUNT_KEY,
    CRC_BYTES,
    MAX_OFFSET,
    entry_key,
    guarded,
    row_key,
    stored_entry,
)

_PAGE_BITS = 10  # offsets of one page of the set: 1024, in 128 bytes
_MASK = (1 << _PAGE_BITS) - 1

_encode = msgspec.msgpack.Encoder().encode


class OffsetSet:
    """A set of offsets, one bit each, in pages; made for long runs that grow at the end."""

    def __init__(self) -> None:
        self._pages: dict[int, int] = {}
        self._lowest = 0  # number of the lowest page, as far as known

    def __contains__(self, offset: int) -> bool:
        return self._pages.get(offset >> _PAGE_BITS, 0) >> (offset & _MASK) & 1 == 1

    def add(self, offset: int) -> None:
        number = offset >> _PAGE_BITS
        self._pages[number] = self._pages.get(number, 0) | 1 << (offset & _MASK)
        if number < self._lowest:
            self._lowest = number

    def discard(self, offset: int) -> None:
        number = offset >> _PAGE_BITS
        rest = self._pages.get(number, 0) & ~(1 << (offset & _MASK))
        if rest:
            self._pages[number] = rest
        else:
            self._pages.pop(number, None)

    def first(self) -> int | None:
        """The lowest offset, or None."""
        if not self._pages:
            return None
        if self._lowest not in self._pages:
            self._lowest = min(self._pages)
        page = self._pages[self._lowest]
        return (self._lowest << _PAGE_BITS) + (page & -page).bit_length() - 1


class StoreAccount(msgspec.Struct, array_like=True, frozen=True):
    """Required content of the store after a commit."""

    commit: int = 0  # how many commits there were
    next_offset: int = 1
    entries: int = 0
    entries_sum: int = 0
    rows: int = 0
    rows_sum: int = 0

    def encode(self) -> bytes:
        return _encode(self)

    @classmethod
    def decode(cls, payload: bytes) -> StoreAccount:
        return msgspec.msgpack.decode(payload, type=cls)


class CommitPlan:
    """A batch as changes of keys, with the account as it will be afterwards."""

    def __init__(self, index: StoreIndex) -> None:
        self._index = index
        self.changes: dict[bytes, bytes | None] = {}
        self.live: dict[int, bool] = {}  # offsets that this batch adds or removes
        self.row_sums: dict[bytes, int | None] = {}
        account = index.account
        self.commit = account.commit + 1
        self.next_offset = account.next_offset
        self.entries, self.entries_sum = account.entries, account.entries_sum
        self.rows, self.rows_sum = account.rows, account.rows_sum

    @property
    def grows(self) -> bool:
        """Does the batch add events? A full disk refuses those."""
        return any(self.live.values())

    def account(self) -> StoreAccount:
        return StoreAccount(
            self.commit, self.next_offset, self.entries, self.entries_sum, self.rows, self.rows_sum
        )

    def append(self, record: Append) -> None:
        offset = record.offset
        if not self.next_offset <= offset <= MAX_OFFSET:
            raise StoreError(
                f"offset {offset} cannot be appended: the log has already reached {self.next_offset}",
                hint="offsets only ascend; this is a defect of the node that numbered it",
            )
        key, key_sum, value = stored_entry(record)
        self.changes[key] = value
        self.live[offset] = True
        self.next_offset = offset + 1
        self.entries += 1
        self.entries_sum += key_sum

    def forget(self, offset: int) -> None:
        if not self.live.get(offset, offset in self._index.offsets):
            return
        key = entry_key(offset)
        self.changes[key] = None
        self.live[offset] = False
        self.entries -= 1
        self.entries_sum -= crc32c(key)

    def put(self, key: bytes, payload: bytes) -> None:
        self._drop_row(key)
        value = guarded(key, payload)
        self.changes[key] = value
        share = self.row_sums[key] = int.from_bytes(value[:CRC_BYTES], "little")
        self.rows += 1
        self.rows_sum += share

    def delete(self, key: bytes) -> None:
        if self._drop_row(key):
            self.changes[key] = None
            self.row_sums[key] = None

    def _drop_row(self, key: bytes) -> bool:
        share = self.row_sums[key] if key in self.row_sums else self._index.row_sums.get(key)
        if share is None:
            return False
        self.rows -= 1
        self.rows_sum -= share
        return True


class StoreIndex:
    """Present content of the store: the account, the live offsets, and the checksum of each row."""

    def __init__(self, account: StoreAccount | None = None) -> None:
        self.account = account or StoreAccount()
        self.offsets = OffsetSet()
        self.row_sums: dict[bytes, int] = {}

    def plan(self, records: Sequence[Record], *, skip: int = 0) -> CommitPlan:
        """The changes that these records ask for, in order; the last word on a key wins. `skip`: offsets
        that no event gets."""
        plan = CommitPlan(self)
        plan.next_offset += skip
        for record in records:
            if isinstance(record, Append):
                plan.append(record)
            elif isinstance(record, Forget):
                plan.forget(record.offset)
            elif isinstance(record, Put):
                plan.put(row_key(record.table, record.key), record.value)
            else:
                plan.delete(row_key(record.table, record.key))
        plan.changes[ACCOUNT_KEY] = guarded(ACCOUNT_KEY, plan.account().encode())
        return plan

    def apply(self, plan: CommitPlan) -> None:
        """Take over a plan after its changes were written."""
        self.account = plan.account()
        for offset, is_live in plan.live.items():
            (self.offsets.add if is_live else self.offsets.discard)(offset)
        for key, share in plan.row_sums.items():
            if share is None:
                self.row_sums.pop(key, None)
            else:
                self.row_sums[key] = share
