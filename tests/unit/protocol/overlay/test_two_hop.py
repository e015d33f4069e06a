"""Who is two links away: what is remembered, what is forgotten, and a neighbour that tells nonsense."""

from __future__ import annotations

from tidings.availability.records import Delete, Put
from tidings.protocol.overlay.two_hop import COUSINS, KEPT_COUSINS, TwoHopNeighbours, TwoHopTable


def test_what_was_told_is_written_down_once() -> None:
    two_hop = TwoHopTable()
    delivered = TwoHopNeighbours("b2", ("b2", "b3"), ("at b2", "at b3"))
    (row,) = two_hop.receive(delivered)
    assert isinstance(row, Put)
    assert two_hop.receive(delivered) == []
    assert two_hop.of("b2") == {"b2": "at b2", "b3": "at b3"}
    again = TwoHopTable()
    again.load({row.key: row.value})
    assert again.of("b2") == two_hop.of("b2")


def test_the_oldest_is_forgotten_on_the_disk_too() -> None:
    two_hop = TwoHopTable()
    rows = [
        row
        for n in range(KEPT_COUSINS + 1)
        for row in two_hop.receive(TwoHopNeighbours(f"b{n}", ("x",), ("y",)))
    ]
    assert rows[-1] == Delete(COUSINS, "b0")
    assert two_hop.of("b0") == {}


def test_names_without_places_are_left_out() -> None:
    two_hop = TwoHopTable()
    two_hop.receive(TwoHopNeighbours("b2", ("b2", "b3"), ("at b2",)))
    assert two_hop.of("b2") == {"b2": "at b2"}
