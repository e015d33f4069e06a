"""An archive: each event once, whatever crashes; pruned without losing any; readable by anyone; damage is
told."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet

from tidings.archive import state as state_module
from tidings.archive import writing
from tidings.archive.reading import batches, events, pieces
from tidings.archive.state import Archive, opened
from tidings.archive.writing import ArchiveEntry, ArchiveWriter
from tidings.errors import CorruptionError, InputError, StoreLockedError
from tidings.language import accepts, parse_filter
from tidings.model.event import FOREVER, make_event
from tidings.model.filter import EVERYTHING

DAY = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
LOG = "b1#00ff"


def entry(offset: int, attributes: dict[str, Any] | None = None, **more: Any) -> ArchiveEntry:
    options = {"lifetime": FOREVER, **more}
    at = options.pop("at", DAY + offset)
    event = make_event(
        {"n": offset} if attributes is None else attributes, source="s", id=f"e{offset}", **options
    )
    return ArchiveEntry(offset, at, event)


def fill(path: Path, *batches_: list[ArchiveEntry], policy: str | None = None, log: str = LOG) -> Archive:
    archive = Archive(path)
    with archive.locked():
        writer = ArchiveWriter(archive, policy=policy)
        for some in batches_:
            writer.append(log, some, max((one.offset for one in some), default=0))
    return archive


def read(archive: Archive, text: str | None = None, **more: Any) -> list[int]:
    filter = EVERYTHING if text is None else parse_filter(text)
    return [found.offset for found in events(archive, archive.state(), filter, **more)]


def test_what_lives_forever_and_what_the_policy_names_is_archived(tmp_path: Path) -> None:
    some = [entry(1), entry(2, lifetime=5.0), entry(3, {"n": 9}, lifetime=0.0), entry(4, lifetime=0.0)]
    archive = fill(tmp_path, some, policy="n = 9")
    assert read(archive) == [1, 3]
    assert archive.state().places == {LOG: 4}
    with pytest.raises(InputError, match="has the policy 'n = 9', not None"), archive.locked():
        ArchiveWriter(archive)


def test_lists_and_decimals_come_back_and_filters_find_them(tmp_path: Path) -> None:
    rich = {"tags": ["red"], "price": Decimal("0.1"), "id": 7, "wide": 2**70, "raw": b"x", "n": 1}
    archive = fill(tmp_path, [entry(1, rich), entry(2, {"n": 2})])
    found = list(events(archive, archive.state(), EVERYTHING))
    assert found[0].event.attributes == rich
    assert [file.odd for file in archive.state().files] == [1]
    for text in ("'red' IN tags", "price = DECIMAL('0.1')", "data.id = 7", "wide > 1e20", "EXISTS raw"):
        assert read(archive, text) == [1]


def test_an_event_comes_back_exactly_as_it_was(tmp_path: Path) -> None:
    at = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)
    whole = entry(
        1, {"i": 2**62, "f": 0.1, "b": True, "s": "ü", "t": at, "deep": {"er": {"x": 1}}},
        topic="a/b", type=("T", "Root"), time=at, payload=b"\x00\xff", content_type="x/y", key="k",
        expires=9.5,
    )  # fmt: skip
    archive = fill(tmp_path, [whole])
    (found,) = events(archive, archive.state(), EVERYTHING)
    assert (found.event, found.log, found.accepted) == (whole.event, LOG, whole.accepted)


def test_appending_again_what_is_there_changes_nothing(tmp_path: Path) -> None:
    archive = fill(tmp_path, [entry(1), entry(2)], [entry(1), entry(2), entry(3)])
    assert read(archive) == [1, 2, 3]


def test_any_tool_reads_it(tmp_path: Path) -> None:
    fill(tmp_path, [entry(1, {"price": 5, "venue": {"city": "Rome"}}, topic="a")], [entry(2, {"price": 7})])
    fill(tmp_path, [entry(1, {"price": 9}, at=DAY + 86_400)], log="b2#1")
    rows = dataset.dataset(tmp_path, partitioning="hive", exclude_invalid_files=True).to_table().to_pylist()
    assert sorted((row["log"], row["_offset"], row["price"]) for row in rows) == [
        (LOG, 1, 5), (LOG, 2, 7), ("b2#1", 1, 9),
    ]  # fmt: skip
    assert {str(row["date"]) for row in rows} == {"2026-01-02", "2026-01-03"}
    import duckdb

    found = duckdb.sql(
        f"select count(*) from read_parquet('{tmp_path}/log=*/*/*.parquet', union_by_name=true)"
    )
    assert found.fetchall() == [(3,)]


def test_columns_are_added_and_integers_give_way_to_floats(tmp_path: Path) -> None:
    archive = fill(
        tmp_path,
        [entry(1, {"price": 5})],
        [entry(2, {"price": 2.5, "word": "w"})],
        [entry(3, {"price": "dear"}), entry(4, {"price": 2**60})],
    )
    state = archive.state()
    assert state.columns == {"price": "float", "word": "str"}
    assert [file.odd for file in state.files] == [0, 0, 2]
    assert read(archive, "price > 2") == [1, 2, 4]
    assert read(archive, "price = 'dear'") == [3]
    assert read(archive, f"price = {2**60}") == [4]
    with archive.locked():
        assert ArchiveWriter(archive).compact() == 3
    (file,) = archive.state().files
    assert (file.rows, file.odd) == (4, 2)
    assert parquet.read_schema(tmp_path / file.path).field("price").type == "double"
    assert read(archive, "price > 2") == [1, 2, 4]
    assert read(archive, "word = 'w'") == [2]


def test_compaction_keeps_every_event_and_leaves_one_file_a_day(tmp_path: Path) -> None:
    days = [[entry(n, at=DAY + n * 40_000)] for n in range(1, 8)]
    archive = fill(tmp_path, *days)
    before = read(archive)
    assert len(archive.state().files) == 7
    with archive.locked():
        assert ArchiveWriter(archive).compact() > 0
    assert read(archive) == before
    folders = [Path(file.path).parent for file in archive.state().files]
    assert len(folders) == len(set(folders)) == 4
    assert len(list(tmp_path.glob("log=*/**/*.parquet"))) == 4
    archive.checked()


def test_a_reader_that_began_before_a_compaction_reads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = fill(tmp_path, [entry(1)], [entry(2)], [entry(3)])
    began = events(archive, archive.state(), EVERYTHING)
    assert next(began).offset == 1
    with archive.locked():
        ArchiveWriter(archive).compact()
    assert [found.offset for found in began] == [2, 3]
    assert read(archive) == [1, 2, 3]
    monkeypatch.setattr(state_module, "GRACE", -1.0)
    fill(tmp_path, [entry(4)])
    assert list((tmp_path / "_gone").iterdir()) == []


# -- crashes and damage ------------------------------------------------------------------------------


class _Crash(Exception):
    pass


@pytest.mark.parametrize("step", ["before the state", "before the move"])
def test_a_crash_leaves_the_old_or_the_new_state(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = fill(tmp_path, [entry(1)])

    def crash(*_: Any) -> None:
        raise _Crash

    with monkeypatch.context() as patched:
        patched.setattr(Archive, "publish" if step == "before the state" else "_finish", crash)
        lock = archive.locked() if step == "before the state" else _unlocked(archive)
        with pytest.raises(_Crash), lock:
            ArchiveWriter(archive).append(LOG, [entry(2)], 2)
    expected = [1] if step == "before the state" else [1, 2]
    assert read(archive) == expected, "a reader sees it whole, though nobody has tidied up yet"
    fill(tmp_path, [entry(2), entry(3)])
    assert read(archive) == [1, 2, 3]
    archive.checked()
    assert list((tmp_path / "_staged").iterdir()) == []


def _unlocked(archive: Archive) -> Any:
    from contextlib import nullcontext

    return nullcontext(archive)


def test_two_writers_are_refused(tmp_path: Path) -> None:
    archive = fill(tmp_path, [entry(1)])
    with archive.locked(), pytest.raises(StoreLockedError), Archive(tmp_path).locked():
        pass


def test_torn_missing_and_foreign_files_are_told(tmp_path: Path) -> None:
    archive = fill(tmp_path, [entry(1)], [entry(2)])
    first = tmp_path / archive.state().files[0].path
    whole = first.read_bytes()
    first.write_bytes(whole[:-10])
    with pytest.raises(CorruptionError, match="it is torn or was changed"):
        read(archive)
    first.write_bytes(whole[:-10] + b"0123456789")
    with pytest.raises(CorruptionError, match="cannot be read"):
        read(archive)
    first.unlink()
    with pytest.raises(CorruptionError, match="is gone, with 1 events of the log"):
        read(archive)
    first.write_bytes(whole)
    shutil.copy(first, first.with_name("mine.parquet"))
    with pytest.raises(CorruptionError, match="is not a file of this archive"):
        archive.checked()


def test_a_torn_or_newer_state_is_told(tmp_path: Path) -> None:
    archive = fill(tmp_path, [entry(1)])
    newest = sorted((tmp_path / "_state").iterdir())[-1]
    text = newest.read_text()
    newest.write_text(text[: len(text) // 2])
    with pytest.raises(CorruptionError, match="is no state of an archive"):
        archive.state()
    newest.write_text(text.replace('"version": 1', '"version": 2'))
    with pytest.raises(InputError, match="archive of version 2"):
        archive.state()


# -- pruning -----------------------------------------------------------------------------------------


def test_files_and_row_groups_that_cannot_match_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "ROW_GROUP", 10)
    archive = fill(tmp_path, *([entry(n) for n in range(k * 100 + 1, k * 100 + 101)] for k in range(5)))
    state = archive.state()
    (piece,) = pieces(archive, state, [parse_filter("n BETWEEN 215 AND 224")])
    assert (piece.rows, len(piece.groups)) == (20, 2)
    assert sum(len(batch) for batch in batches(piece)) == 20
    assert read(archive, "n BETWEEN 215 AND 224") == list(range(215, 225))
    assert len(pieces(archive, state, [parse_filter("n < 5"), parse_filter("n > 495")])) == 2
    assert pieces(archive, state, [parse_filter("absent = 1")]) == []
    assert len(pieces(archive, state, [EVERYTHING], after={LOG: 250})) == 3
    assert read(archive, after={LOG: 490}, upto={LOG: 495}) == [491, 492, 493, 494, 495]


VALUES = st.one_of(
    st.integers(-3, 3), st.sampled_from([-1.5, 0.5, 2.0, float(2**53), 2**53 + 1]),
    st.sampled_from(["a", "ab", "b"]),
    st.booleans(), st.sampled_from([datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)]),
)  # fmt: skip
FILTERS = [
    "x = 2", "x > 1", "x < 0.5 AND y >= 'ab'", "x IN (1, 'a')", "x != 2", "x LIKE 'a%'", "NOT EXISTS x",
    "EXISTS y",
    "y", "NOT y", "x > TIMESTAMP '2026-06-01T00:00:00Z'", "x * 2 > y", "x = 9007199254740993",
    "x BETWEEN -1 AND 'b'",
    "topic = 'a/+'", "x NOT IN (1, 2)", "x < 0 OR y = true", "type IS A 'Root'",
]  # fmt: skip


@settings(max_examples=25)
@given(
    rows=st.lists(
        st.tuples(st.dictionaries(st.sampled_from(["x", "y"]), VALUES), st.sampled_from([None, "a/b", "c"])),
        min_size=1,
        max_size=12,
    )
)
def test_pruning_never_loses_an_event(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    path = tmp_path_factory.mktemp("archive")
    made = [
        entry(n, attributes, topic=topic, type=("T", "Root") if n % 2 else None)
        for n, (attributes, topic) in enumerate(rows, 1)
    ]
    archive = fill(path, *(made[k : k + 3] for k in range(0, len(made), 3)))
    for text in FILTERS:
        filter = parse_filter(text)
        expected = [one.offset for one in made if accepts(filter, one.event)]
        assert read(archive, text) == expected, text
    with archive.locked():
        ArchiveWriter(archive).compact()
    for text in FILTERS:
        filter = parse_filter(text)
        assert read(archive, text) == [one.offset for one in made if accepts(filter, one.event)], text
    shutil.rmtree(path)


STATIONS = ("_staged", "log=b1/date=2026-01-02", "_gone")


@pytest.mark.parametrize(
    ("found_at", "moved_to"), [(a, b) for number, a in enumerate(STATIONS[:2]) for b in STATIONS[number:]]
)
def test_a_file_is_read_wherever_the_writer_moves_it(tmp_path: Path, found_at: str, moved_to: str) -> None:
    """A reader may open a staged file after the next change has replaced it: it is then among the replaced
    ones."""
    archive = tmp_path / "archive"
    (archive / moved_to).mkdir(parents=True)
    (archive / moved_to / "1-2.parquet").write_text("events")
    assert opened(archive / found_at / "1-2.parquet", Path.read_text) == "events"
