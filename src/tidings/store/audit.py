"""Reading a whole store and comparing it with its own account and with its watermark.

Rules
- Everything is read and every checksum is tested before the store is used; damage raises `CorruptionError`.
- Found = stated: the counts and the sums of entries and rows are those of the account.
- The account's commit is at least the watermark: else acknowledged commits are gone.
- A store without an account is new; then it must be empty.
"""

from __future__ import annotations

from crc32c import crc32c

from tidings.availability.records import Entry, Loaded
from tidings.errors import StoreError
from tidings.model.decoding import UNREADABLE
from tidings.store.account import StoreAccount, StoreIndex
from tidings.store.engine import StoreReader
from tidings.store.guard import (
    ACCOUNT_KEY,
    CRC_BYTES,
    ENTRY,
    ENTRY_END,
    FORMAT_KEY,
    ROW,
    ROW_END,
    damaged,
    entry_from,
    opened,
    row_of,
)

FORMAT = 1  # raise it when keys or payloads change their meaning; older ones stay readable


def audit(reader: StoreReader) -> tuple[StoreIndex, Loaded]:
    """Read, check and count everything; the index to go on with, and what a node loads."""
    check_format(reader)
    account = read_account(reader)
    index = StoreIndex(account)
    entries, sizes, entries_sum = _read_entries(reader, index)
    tables = _read_rows(reader, index)
    found = StoreAccount(
        commit=account.commit,
        next_offset=account.next_offset,
        entries=len(entries),
        entries_sum=entries_sum,
        rows=len(index.row_sums),
        rows_sum=sum(index.row_sums.values()),
    )
    _compare(reader, account, found)
    first = entries[0].offset if entries else account.next_offset
    return index, Loaded(first, account.next_offset, entries, tables, sizes)


def check_format(reader: StoreReader) -> None:
    """Refuse a store that another version wrote and that this one cannot read."""
    value = reader.read(FORMAT_KEY)
    if value is None:
        return
    number = int.from_bytes(opened(FORMAT_KEY, value, reader.name), "big")
    if number != FORMAT:
        wanted = "newer" if number > FORMAT else "older"
        raise StoreError(
            f"store {reader.name} has format {number}; this version of Tidings reads format {FORMAT}",
            hint=f"open it with the {wanted} version of Tidings that wrote it, or use another directory",
        )


def read_account(reader: StoreReader) -> StoreAccount:
    """The account as stated by the last commit that can be read."""
    value = reader.read(ACCOUNT_KEY)
    if value is None:
        account = StoreAccount()
    else:
        account = _decoded_account(opened(ACCOUNT_KEY, value, reader.name), reader.name)
    if account.commit and reader.read(FORMAT_KEY) is None:
        raise damaged(reader.name, "its format is not stated")
    watermark = reader.watermark()
    if account.commit < watermark:
        raise damaged(
            reader.name,
            f"the commits from {account.commit + 1} to {watermark} were acknowledged and are gone",
        )
    return account


def _decoded_account(payload: bytes, name: str) -> StoreAccount:
    try:
        return StoreAccount.decode(payload)
    except UNREADABLE as error:
        raise damaged(name, f"its account cannot be decoded: {error}") from error


def _read_entries(reader: StoreReader, index: StoreIndex) -> tuple[list[Entry], list[int], int]:
    name = reader.name
    entries: list[Entry] = []
    sizes: list[int] = []
    total = 0
    for key, value in reader.scan(ENTRY, ENTRY_END):
        entry = entry_from(key, value, name)
        entries.append(entry)
        sizes.append(len(value))
        index.offsets.add(entry.offset)
        total += crc32c(key)
    return entries, sizes, total


def _read_rows(reader: StoreReader, index: StoreIndex) -> dict[str, dict[str, bytes]]:
    tables: dict[str, dict[str, bytes]] = {}
    for key, value in reader.scan(ROW, ROW_END):
        table, name = row_of(key)
        tables.setdefault(table, {})[name] = opened(key, value, reader.name)
        index.row_sums[key] = int.from_bytes(value[:CRC_BYTES], "little")
    return tables


def _compare(reader: StoreReader, stated: StoreAccount, found: StoreAccount) -> None:
    if (found.entries, found.entries_sum) != (stated.entries, stated.entries_sum):
        problem = f"its log should hold {stated.entries} entries and holds {found.entries}"
        raise damaged(reader.name, f"{problem}, or others than it should")
    if (found.rows, found.rows_sum) != (stated.rows, stated.rows_sum):
        problem = f"its tables should hold {stated.rows} rows and hold {found.rows}"
        raise damaged(reader.name, f"{problem}, or others than they should")
