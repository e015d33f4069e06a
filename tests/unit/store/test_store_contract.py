"""What every store promises, whatever it is made of."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store._kit import Opener, append, content, event, rich_event

from tidings.availability.records import Append, Delete, Entry, Forget, Loaded, Put, Record, entry_of
from tidings.errors import ClosedError, StoreError
from tidings.store.memory import MemoryStore
from tidings.store.store import Store


def test_it_is_a_store(opener: Opener) -> None:
    store = opener()
    assert isinstance(store, Store)
    store.close()


def test_a_new_store_is_empty(opener: Opener) -> None:
    store = opener()
    assert store.load() == Loaded.empty()
    assert store.fetch(0, 10, 1000) == []
    assert store.get(1) is None
    assert store.verify() == 0
    store.close()


def test_an_entry_comes_back_as_it_was_after_opening_again(opener: Opener) -> None:
    wanted = Append(7, rich_event(), 12.25, sequence=3, expires_at=17.75)
    store = opener()
    store.commit([wanted])
    assert store.get(7) == wanted
    store.close()
    store = opener()
    assert store.get(7) == wanted
    assert store.fetch(0, 10, 1 << 20) == [wanted]
    store.close()


def unsized(entries: Iterable[Entry]) -> list[Entry]:
    """Without their sizes: a store counts the bytes of a record, a log those of the event."""
    return [msgspec.structs.replace(entry, size=0) for entry in entries]


def test_load_gives_the_index_and_the_tables(opener: Opener) -> None:
    store = opener()
    appends = [append(2), append(5, key="IBM"), append(9, expires=2.0)]
    store.commit([*appends, Put("progress", "ann/news", b"\1"), Put("told", "ann/news", b"\2"), Forget(2)])
    store.close()
    store = opener()
    loaded = store.load()
    assert unsized(loaded.entries) == unsized(entry_of(one) for one in appends[1:])
    assert all(entry.size > 0 for entry in loaded.entries)
    assert loaded.tables == {"progress": {"ann/news": b"\1"}, "told": {"ann/news": b"\2"}}
    assert (loaded.first_offset, loaded.next_offset) == (5, 10)
    assert store.load() == loaded
    store.close()


def test_the_next_offset_is_remembered_when_all_is_forgotten(opener: Opener) -> None:
    store = opener()
    store.commit([append(1), append(41)])
    store.commit([Forget(1), Forget(41)])
    store.close()
    store = opener()
    assert store.load() == Loaded(first_offset=42, next_offset=42, entries=[], tables={})
    with pytest.raises(StoreError, match="only ascend"):
        store.commit([append(41)])
    store.commit([append(42)])
    assert [entry.offset for entry in store.load().entries] == [42]
    store.close()


def test_fetch_ascends_within_its_bounds(opener: Opener) -> None:
    store = opener()
    store.commit([append(offset) for offset in range(1, 301)])
    store.commit([Forget(offset) for offset in range(1, 100)])
    assert [one.offset for one in store.fetch(0, 3, 1 << 20)] == [100, 101, 102]
    assert [one.offset for one in store.fetch(298, 10, 1 << 20)] == [298, 299, 300]
    assert [one.offset for one in store.fetch(255, 3, 1 << 20)] == [255, 256, 257]
    assert [one.offset for one in store.fetch(200, 10, 1)] == [200], "at least one"
    assert store.fetch(301, 10, 1 << 20) == []
    assert store.fetch(0, 0, 1 << 20) == []
    store.close()


def test_the_last_word_in_a_batch_wins(opener: Opener) -> None:
    store = opener()
    store.commit([Put("t", "k", b"1"), Delete("t", "k"), Put("t", "k", b"2"), append(1), Forget(1)])
    assert content(store) == ([], {"t": {"k": b"2"}}, 2)
    store.commit([Delete("t", "k"), Delete("t", "never"), Forget(1), Forget(77)])
    assert content(store) == ([], {}, 2)
    assert store.verify() == 0
    store.close()


def test_a_refused_batch_leaves_nothing(opener: Opener) -> None:
    store = opener()
    store.commit([append(5)])
    with pytest.raises(StoreError):
        store.commit([Put("t", "k", b"1"), append(5)])
    store.commit([append(6)])
    store.close()
    store = opener()
    appends, tables, _ = content(store)
    assert [one.offset for one in appends] == [5, 6]
    assert tables == {}
    store.close()


def test_rows_keep_their_table_and_key_apart(opener: Opener) -> None:
    rows = {("a", "bc"): b"1", ("ab", "c"): b"2", ("a", ""): b"3", ("a", "x\0y"): b"4", ("ä", "π"): b""}
    store = opener()
    store.commit([Put(table, key, value) for (table, key), value in rows.items()])
    store.close()
    store = opener()
    tables = store.load().tables
    assert {(table, key): value for table, of in tables.items() for key, value in of.items()} == rows
    with pytest.raises(StoreError, match="NUL"):
        store.commit([Put("a\0b", "c", b"")])
    store.close()


def test_a_closed_store_says_so(opener: Opener) -> None:
    store = opener()
    store.close()
    store.close()
    for call in (store.load, store.verify, store.sizes, lambda: store.get(1), lambda: store.fetch(0, 1, 1)):
        with pytest.raises(ClosedError):
            call()
    with pytest.raises(ClosedError):
        store.commit([append(1)])


def test_sizes_count(opener: Opener) -> None:
    store = opener()
    store.commit([append(1), append(2), Put("t", "k", b"v")])
    store.commit([Forget(1)])
    sizes = store.sizes()
    assert (sizes["entries"], sizes["rows"], sizes["commits"]) == (1, 1, 2)
    assert sizes["bytes"] > 0
    assert store.verify() == 2
    store.close()


def test_an_empty_commit_is_no_commit(opener: Opener) -> None:
    store = opener()
    store.commit([])
    assert store.sizes()["commits"] == 0
    store.close()


@pytest.mark.parametrize(
    ("lifetime", "expires", "ends_at"),
    [(0, None, 100.0), (60, None, 160.0), (math.inf, None, math.inf), (60, 5, 105.0), (math.inf, 7, 107.0)],
)
def test_an_entry_knows_its_end(lifetime: float, expires: float | None, ends_at: float) -> None:
    store = MemoryStore()
    one = append(1, lifetime=lifetime, expires=expires)
    store.commit([one])
    assert one.ends_at == ends_at
    assert unsized(store.load().entries) == unsized([entry_of(one)])


names = st.sampled_from(["a", "b", "ab"])
batches = st.lists(
    st.lists(
        st.one_of(
            st.integers(0, 3).map(lambda gap: ("append", gap)),
            st.integers(1, 12).map(Forget),
            st.builds(Put, names, names, st.binary(max_size=4)),
            st.builds(Delete, names, names),
        ),
        max_size=6,
    ),
    max_size=8,
)


@given(batches, st.integers(0, 12), st.integers(1, 5))
def test_a_store_is_what_a_dictionary_says(
    plans: list[list[Record | tuple[str, int]]], start: int, limit: int
) -> None:
    store = MemoryStore()
    log: dict[int, Append] = {}
    rows: dict[str, dict[str, bytes]] = {}
    next_offset = 1
    for plan in plans:
        batch: list[Record] = []
        for step in plan:
            if isinstance(step, tuple):
                batch.append(Append(next_offset + step[1], event(next_offset), float(next_offset)))
                next_offset += step[1] + 1
            else:
                batch.append(step)
        for record in batch:
            _obey(record, log, rows)
        store.commit(batch)
        store = MemoryStore(store.disk)  # a restart between any two commits
    assert content(store) == (list(log.values()), {t: of for t, of in rows.items() if of}, next_offset)
    assert store.fetch(start, limit, 1 << 20) == [one for o, one in log.items() if o >= start][:limit]
    assert store.verify() == len(log) + sum(map(len, rows.values()))


def _obey(record: Record, log: dict[int, Append], rows: dict[str, dict[str, bytes]]) -> None:
    match record:
        case Append():
            log[record.offset] = record
        case Forget():
            log.pop(record.offset, None)
        case Put():
            rows.setdefault(record.table, {})[record.key] = record.value
        case Delete():
            rows.get(record.table, {}).pop(record.key, None)
