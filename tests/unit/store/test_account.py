"""The account and its set of offsets, against dumb oracles; the audit refuses what does not add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store._kit import append

from tidings.availability.records import Forget, Put
from tidings.errors import CorruptionError
from tidings.store.account import OffsetSet, StoreAccount, StoreIndex
from tidings.store.engine import Change
from tidings.store.guard import ACCOUNT_KEY, ENTRY, entry_key, guarded, opened, row_key
from tidings.store.memory import MemoryDisk, MemoryStore

offsets = st.one_of(st.integers(1, 40), st.integers(1000, 1100), st.integers(10**9, 10**9 + 5))


@given(st.lists(st.tuples(st.booleans(), offsets)))
def test_the_set_of_offsets_is_a_set(steps: list[tuple[bool, int]]) -> None:
    mine, oracle = OffsetSet(), set[int]()
    for is_added, offset in steps:
        (mine.add if is_added else mine.discard)(offset)
        (oracle.add if is_added else oracle.discard)(offset)
        assert mine.first() == min(oracle, default=None)
    assert all((offset in mine) == (offset in oracle) for _, offset in steps)


def test_a_plan_changes_nothing_until_applied() -> None:
    ledger = StoreIndex()
    plan = ledger.plan([append(1), Put("t", "k", b"v")])
    assert ledger.account == StoreAccount()
    assert plan.grows
    ledger.apply(plan)
    assert (ledger.account.commit, ledger.account.entries, ledger.account.rows) == (1, 1, 1)
    assert not ledger.plan([Forget(1)]).grows
    assert not ledger.plan([append(2), Forget(2)]).grows


def test_everything_gone_leaves_a_sum_of_nothing() -> None:
    store = MemoryStore()
    store.commit([append(1), append(2), Put("t", "k", b"v"), Put("t", "k", b"w")])
    store.commit([Forget(1), Forget(2), Forget(2)])
    account = store._index.account
    assert (account.entries, account.entries_sum, account.rows) == (0, 0, 1)


CHANGES: dict[str, list[Change]] = {
    "an entry is gone": [(entry_key(2), None)],
    "an entry came back": [(entry_key(1), guarded(entry_key(1), b""))],
    "an entry for another": [(entry_key(2), None), (entry_key(9), guarded(entry_key(9), b""))],
    "a row is gone": [(row_key("t", "k"), None)],
    "a row is old": [(row_key("t", "k"), guarded(row_key("t", "k"), b"old"))],
    "a row was added": [(row_key("t", "z"), guarded(row_key("t", "z"), b""))],
    "the account is gone": [(ACCOUNT_KEY, None)],
    "the account is unreadable": [(ACCOUNT_KEY, guarded(ACCOUNT_KEY, b"\xc1"))],
    "a payload is unreadable": [(entry_key(2), guarded(entry_key(2), b"\xc1"))],
    "a value is too short": [(entry_key(2), b"ab")],
}


@pytest.mark.parametrize("what", CHANGES)
def test_the_audit_refuses(what: str) -> None:
    disk = MemoryDisk()
    store = MemoryStore(disk)
    store.commit([append(1), append(2), Put("t", "k", b"v")])
    store.commit([Forget(1)])
    disk.write(CHANGES[what])
    for look in (lambda: MemoryStore(disk), store.verify):
        with pytest.raises(CorruptionError, match="damaged"):
            look()


def test_a_wrong_account_is_found_by_verify() -> None:
    disk = MemoryDisk()
    store = MemoryStore(disk)
    store.commit([append(1)])
    account = StoreAccount.decode(opened(ACCOUNT_KEY, disk.read(ACCOUNT_KEY) or b"", "x"))
    later = StoreAccount(
        account.commit + 1, *[getattr(account, name) for name in StoreAccount.__struct_fields__[1:]]
    )
    disk.write([(ACCOUNT_KEY, guarded(ACCOUNT_KEY, later.encode()))])
    with pytest.raises(CorruptionError, match="not the one that was written"):
        store.verify()


@given(st.binary(max_size=40), st.data())
def test_a_guarded_value_opens_only_as_it_was(payload: bytes, data: st.DataObject) -> None:
    key = ENTRY + b"12345678"
    value = guarded(key, payload)
    assert opened(key, value, "x") == payload
    position = data.draw(st.integers(0, len(value) - 1))
    flipped = bytearray(value)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptionError):
        opened(key, bytes(flipped), "x")
    with pytest.raises(CorruptionError):
        opened(ENTRY + b"12345679", value, "x")
