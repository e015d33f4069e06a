"""`tidings systems`: the table, one system whole, and what is said about each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidings.systems import systems
from tidings.testing.commands import tidings
from tidings_lab.simulation.comparing import Comparison, chosen_systems, compare

__all__ = ["tidings"]  # a fixture
ROOT = Path(__file__).parents[2]


def test_every_system_says_when_to_take_it_and_where_more_is_said() -> None:
    for system in systems():
        choice = system.choice
        assert choice.take, system.name
        assert choice.price, system.name
        assert (ROOT / choice.page).is_file(), system.name


def test_one_system_whole(tidings: Callable[..., Any]) -> None:
    ran = tidings("systems", "siena")
    assert ran.code == 0
    for words in ("take it when", "its price", "covering", "tidings simulate siena"):
        assert words in ran.out


def test_one_system_for_programs(tidings: Callable[..., Any]) -> None:
    delivered = json.loads(tidings("systems", "scribe", "--json").out)
    assert delivered["system"] == "scribe"
    assert delivered["for real"] == "TIDINGS_SYSTEM=scribe tidings broker"
    assert {part["slot"]: part["strategy"] for part in delivered["composition"]}["overlay"] == "prefix"


def test_a_slip_of_the_pen_is_answered_with_the_name_that_was_meant(tidings: Callable[..., Any]) -> None:
    ran = tidings("systems", "sienna")
    assert ran.code == 2
    assert "did you mean siena" in ran.err


@pytest.mark.parametrize("system", ["siena", "tidings"])
def test_costs_on_the_pages_are_those_of_this_code(system: str) -> None:
    """Of the two that every page shows; `make docs ARGS=--measure` writes all of them anew."""
    kept = json.loads((ROOT / "lab/docs/systems/costs.json").read_text())[system]
    (found,) = compare(chosen_systems(system), Comparison())
    assert {name: getattr(found, name) for name in kept} == kept
