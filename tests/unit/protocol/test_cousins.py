"""Who is two links away: what is remembered, what is forgotten, and a neighbour that tells nonsense."""

from __future__ import annotations

from tidings.availability.records import Delete, Put
from tidings.protocol.overlay.cousins import COUSINS, KEPT_COUSINS, TwoHopNeighbours, TwoHopTable


def test_what_was_told_is_written_down_once() -> None:
    cousins = TwoHopTable()
    told = TwoHopNeighbours("b2", ("b2", "b3"), ("at b2", "at b3"))
    (row,) = cousins.hear(told)
    assert isinstance(row, Put)
    assert cousins.hear(told) == []
    assert cousins.of("b2") == {"b2": "at b2", "b3": "at b3"}
    again = TwoHopTable()
    again.load({row.key: row.value})
    assert again.of("b2") == cousins.of("b2")


def test_the_oldest_is_forgotten_on_the_disk_too() -> None:
    cousins = TwoHopTable()
    rows = [
        row
        for n in range(KEPT_COUSINS + 1)
        for row in cousins.hear(TwoHopNeighbours(f"b{n}", ("x",), ("y",)))
    ]
    assert rows[-1] == Delete(COUSINS, "b0")
    assert cousins.of("b0") == {}


def test_names_without_places_are_left_out() -> None:
    cousins = TwoHopTable()
    cousins.hear(TwoHopNeighbours("b2", ("b2", "b3"), ("at b2",)))
    assert cousins.of("b2") == {"b2": "at b2"}
