"""The prefix overlay by itself: halves that could not talk become one again, nearness, cells that move."""

from __future__ import annotations

from functools import cache
from random import Random
from statistics import mean
from typing import Any

import pytest

from tidings.errors import SettingsError
from tidings.systems import Site, find_system
from tidings_lab.simulation.rendezvous import RendezvousNetwork


def parted(ring: RendezvousNetwork, half: set[str]) -> Any:
    """From now on the half and the others do not hear one another; what undoes it."""
    simulation: Any = ring.world.simulation
    send = simulation._send_datagram

    def kept_apart(host: Any, to: Any, message: Any) -> None:
        if (host.name in half) == (to.name in half):
            send(host, to, message)

    simulation._send_datagram = kept_apart
    return lambda: setattr(simulation, "_send_datagram", send)


def test_two_rings_become_one_again() -> None:
    ring = RendezvousNetwork("scribe", 40, calm=False, overlay={"grave_seconds": 5.0, "merge_seconds": 10.0})
    assert ring.routes(300).wrong == 0
    contacts = ring.up()[:3]
    half = {contacts[0], *Random(1).sample(ring.up()[3:], 19)}
    heal = parted(ring, half)
    ring.run(40.0)
    apart = [set(ring.node(name).slots["overlay"].peers()) for name in sorted(half)]
    assert all(known <= half for known in apart), "each half is a ring of its own"
    assert ring.routes(300).wrong > 100
    heal()
    ring.run(60.0)
    assert ring.routes(300).wrong == 0


@cache
def place_of(name: str) -> float:
    return Random(name).random()


def on_a_circle(a: str, b: str) -> float:
    far = abs(place_of(a) - place_of(b))
    return 0.001 + 0.1 * min(far, 1 - far)


def test_the_tables_prefer_near_nodes_where_they_have_a_choice() -> None:
    lengths = {}
    for proximity in (False, True):
        knobs = {"proximity": proximity, "leaves": 4}
        ring = RendezvousNetwork("scribe", 100, calm=False, overlay=knobs, seconds_between=on_a_circle)
        ring.run(20.0)
        lengths[proximity] = mean(
            on_a_circle(name, other)
            for name in ring.up()
            for cell, other in ring.node(name).slots["overlay"].known.table.items()
            if cell < 16  # the first row, where each cell has some six candidates
        )
        assert ring.routes(300).wrong == 0
    assert lengths[True] < 0.75 * lengths[False], lengths


def test_a_newcomer_takes_the_cells_that_fall_to_it_and_moves_no_other() -> None:
    ring = RendezvousNetwork("partitioned-elastic", 20)
    keys = [f"cell:{number}" for number in range(200)]
    before = {key: ring.responsible(key) for key in keys}
    for number in range(5):
        ring.world.add_broker(f"new{number}")
    ring.run(3.0)
    after = {key: ring.responsible(key) for key in keys}
    moved = [key for key in keys if before[key] != after[key]]
    assert moved
    assert all(after[key].startswith("new") for key in moved)
    assert len(moved) < 100
    for key in keys:
        assert {ring.walk(name, key)[1] for name in ring.up()} == {after[key]}, "everybody agrees who has it"


def test_between_processes_datagrams_to_nobody_are_refused() -> None:
    site = Site(name="b1", brokers=("b1",), options={"datagrams": True})
    with pytest.raises(SettingsError, match="nobody is named"):
        find_system("scribe").strategies(site)


@pytest.mark.parametrize("options", [{"overlay": {"leafs": 3}}, {"trees": {"tries": "many"}}], ids=str)
def test_knobs_that_are_wrong_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"overlay has no knob 'leafs'|trees: Expected"):
        find_system("scribe").strategies(Site(name="b1", options=options))


def test_filters_of_hermes_are_at_recipients_or_on_the_path() -> None:
    with pytest.raises(SettingsError, match="filters is 'nowhere'"):
        find_system("hermes").strategies(Site(name="b1", options={"filters": "nowhere"}))
