"""Cells: grids, hashes, the rest, and Figure 2.4 of the thesis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from tidings.algebra import Axis, Cells, GridCells, HashCells, stable_hash
from tidings.errors import FilterError
from tidings.language import parse_filter
from tidings.model.event import Event, make_event


def event(**attributes: object) -> Event:
    return make_event(attributes, source="s", id="1")


def test_vir2_5_figure_2_4_a_rectangle_goes_to_the_broker_of_its_zone() -> None:
    """A plane cut into four zones, one broker each: X falls into that of B1 and is hosted there."""
    grid = GridCells.regular({"x": (0, 10, 2), "y": (0, 10, 2)})
    brokers = {
        grid.number((0, 0)): "B0",
        grid.number((1, 0)): "B1",
        grid.number((0, 1)): "B2",
        grid.number((1, 1)): "B3",
    }
    x = parse_filter("x BETWEEN 6 AND 8 AND y BETWEEN 1 AND 3")
    assert [brokers[cell] for cell in grid.assign(x)] == ["B1"]
    assert [brokers[cell] for cell in grid.resolve(event(x=7, y=2))] == ["B1"]
    wide = parse_filter("x BETWEEN 4 AND 8 AND y BETWEEN 1 AND 3")
    assert [brokers[cell] for cell in grid.assign(wide)] == ["B0", "B1"]


def test_vir2_5_every_policy_has_the_same_door() -> None:
    policies: list[Cells] = [GridCells.regular({"x": (0, 1, 2)}), HashCells("x", 3)]
    for cells in policies:
        assert set(cells.resolve(event(x=1))) <= set(cells.assign(parse_filter("x >= 1")))


def test_cuts_belong_to_the_cell_above() -> None:
    grid = GridCells.regular({"x": (0, 4, 4)})
    assert [grid.resolve(event(x=x)) for x in (-9, 0.99, 1, 3.99, 99)] == [(0,), (0,), (1,), (3,), (3,)]
    assert grid.assign(parse_filter("x < 1")) == (0,)
    assert grid.assign(parse_filter("x <= 1")) == (0, 1)


def test_the_rest_has_its_own_place() -> None:
    grid = GridCells.regular({"x": (0, 4, 4)})
    rest = grid.axes[0].rest
    assert grid.resolve(event()) == grid.resolve(event(x="1")) == grid.resolve(event(x=True)) == (rest,)
    assert grid.assign(parse_filter("x = 'a'")) == (rest,)
    assert grid.assign(parse_filter("x IS NULL")) == (rest,)
    assert grid.assign(parse_filter("y = 1")) == tuple(range(grid.count))
    assert grid.assign(parse_filter("EXISTS x")) == tuple(range(grid.count))


def test_a_filter_that_is_never_true_has_no_cell() -> None:
    never = parse_filter("x > 3 AND x < 1")
    assert GridCells.regular({"x": (0, 4, 4)}).assign(never) == ()
    assert HashCells("x", 4).assign(never) == ()


def test_numbers_and_places_of_cells_agree() -> None:
    grid = GridCells.regular({"x": (0, 3, 3), "y": (0, 2, 2)})
    assert grid.count == 4 * 3
    assert [grid.number(grid.places(cell)) for cell in range(grid.count)] == list(range(grid.count))


def test_quantiles_even_out_a_skewed_attribute() -> None:
    prices = [float(n * n) for n in range(100)]
    grid = GridCells.quantiles({"price": prices}, 4)
    load = [sum(grid.resolve_view({"price": price}) == cell for price in prices) for cell in range(4)]
    assert load == [25, 25, 25, 25]
    assert GridCells.quantiles({"price": [1, 1, 1, 2]}, 4).axes[0].cuts == (1, 2)


def test_strings_and_times_can_be_cut_too() -> None:
    names = GridCells((Axis("name", ("h", "p")),))
    assert names.assign(parse_filter("name LIKE 'M%' OR name LIKE 'k%'")) == (0, 1)
    assert names.assign(parse_filter("name LIKE '%z'")) == (0, 1, 2)
    days = GridCells((Axis("at", (datetime(2026, 1, 1, tzinfo=UTC),)),))
    assert days.assign(parse_filter("at >= TIMESTAMP '2026-06-01T00:00:00Z'")) == (1,)


def test_a_hash_follows_equality() -> None:
    cells = HashCells("name", 16)
    one, other = (
        cells.assign(parse_filter("name = 'IBM'")),
        cells.assign(parse_filter("name IN ('IBM', 'HP') AND x > 3")),
    )
    assert one == cells.resolve(event(name="IBM"))
    assert set(one) < set(other)
    assert len(other) == 2
    assert cells.assign(parse_filter("name LIKE 'I%'")) == tuple(range(16))
    assert cells.assign(parse_filter("x = 1")) == tuple(range(17))
    assert cells.resolve(event()) == cells.assign(parse_filter("name IS NULL")) == (cells.rest,)


def test_the_hash_is_the_same_everywhere_and_for_equal_values() -> None:
    assert stable_hash("IBM") == 10378560307292350905
    assert stable_hash(1) == stable_hash(1.0) != stable_hash(True)
    assert stable_hash(0) == stable_hash(-0.0)
    assert stable_hash(1) == stable_hash(Decimal("1.00"))
    assert stable_hash(0.1) == stable_hash(Decimal.from_float(0.1)) != stable_hash(Decimal("0.1"))
    assert stable_hash(2**70 + 1) == stable_hash(Decimal(2**70 + 1)) != stable_hash(2.0**70)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert stable_hash(noon) == stable_hash(noon.astimezone(timezone(timedelta(hours=2))))


@pytest.mark.parametrize("value", [["a"], [], b"a", timedelta(1)])
def test_a_value_that_compares_with_nothing_is_in_the_rest(value: object) -> None:
    cells = HashCells("x", 4)
    assert cells.resolve(event(x=value)) == (cells.rest,)
    assert cells.rest in cells.assign(parse_filter("EXISTS x"))


@pytest.mark.parametrize("cuts", [(), (1, 1), (2, 1), (1, "a"), (float("nan"),)])
def test_cuts_that_make_no_cells_are_refused(cuts: tuple[object, ...]) -> None:
    with pytest.raises(FilterError, match="cuts"):
        Axis("x", cuts)


def test_other_mistakes_are_told() -> None:
    with pytest.raises(FilterError, match="at least 2 parts"):
        GridCells.regular({"x": (0, 1, 1)})
    with pytest.raises(FilterError, match="samples"):
        GridCells.quantiles({"x": []}, 4)
    with pytest.raises(FilterError, match="hash cells"):
        HashCells("x", 0)
