"""What is remembered of publishers that move, and that it stays within bounds."""

from __future__ import annotations

import pytest

from tidings.availability.records import Delete, Loaded, Put
from tidings.model.subscription import Position
from tidings.protocol import publisher_positions as places_room
from tidings.protocol.delivery import publisher_migration as moves_room
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.migration_header import STAYED, MigrationHeader, moved_of
from tidings.protocol.delivery.publisher_migration import PublisherStays
from tidings.protocol.messages import Envelope
from tidings.protocol.publisher_positions import PublisherPositions, within_bounds
from tidings.wire.codec import Codec


def test_a_client_remembers_the_last_offset_in_each_log() -> None:
    positions = PublisherPositions()
    for log, offset in (("a", 3), ("b", 1), ("a", 2), ("b", 5)):
        positions.note("press", Position(log, offset))
    assert positions.all() == {"press": {"a": 3, "b": 5}}


def test_the_logs_where_it_was_last_are_remembered() -> None:
    positions = PublisherPositions()
    for number in range(places_room.MOST_LOGS + 3):
        positions.note("press", Position(f"log{number}", 1))
    found = positions.all()["press"]
    assert len(found) == places_room.MOST_LOGS
    assert "log2" not in found
    assert "log3" in found


def test_sources_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places_room, "MOST_SOURCES", 2)
    positions = PublisherPositions()
    for source in ("a", "b", "a", "c"):
        positions.note(source, Position("log", 1))
    assert list(positions.all()) == ["a", "c"]


def test_what_a_client_names_is_cut_to_the_bounds() -> None:
    named = {"press": {f"log{number}": 1 for number in range(1000)}}
    assert list(within_bounds(named)["press"]) == [f"log{number}" for number in range(992, 1000)]


def stays() -> PublisherStays:
    return PublisherStays(LogIndex("b0", 100, lambda offset: False))


def test_an_entry_of_the_log_belongs_to_the_stay_in_which_it_was_appended() -> None:
    first, second = MigrationHeader("i", 1, {"a": 4}), MigrationHeader("i", 3, {"a": 9})
    found = stays()
    assert found.keep("press", STAYED, 1) == [], "who never moved costs nothing"
    records = [
        *found.keep("press", first, 5),
        *found.keep("press", first, 6),
        *found.keep("press", second, 9),
    ]
    found.keep("press", STAYED, 12)
    assert [found.of("press", offset) for offset in (1, 5, 8, 9, 12)] == [None, first, first, second, None]
    assert len(records) == 2
    again = stays()
    last = records[-1]
    assert isinstance(last, Put)
    again.load(Loaded(1, 10, [], {last.table: {last.key: last.value}}))
    assert [again.of("press", offset) for offset in (5, 9)] == [first, second]


def test_stays_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves_room, "MOST_SOURCES", 1)
    found = stays()
    found.keep("one", MigrationHeader("i", 1, {}), 1)
    records = found.keep("two", MigrationHeader("i", 1, {}), 2)
    assert [type(record) for record in records] == [Put, Delete]
    assert found.of("one", 1) is None


def test_the_header_survives_the_wire() -> None:
    from tidings.model.event import make_event
    from tidings.protocol.delivery.migration_header import HEADER
    from tidings.protocol.routing.duplicates import Forward

    moved = MigrationHeader("i", 2, {"a": 4})
    event = make_event({"x": 1}, source="press", id="1")
    codec = Codec([Forward])
    back = codec.decode(codec.encode(Forward(Envelope(event, "b0#1", 1, headers={HEADER: moved}))))
    assert moved_of(back.envelope) == moved
