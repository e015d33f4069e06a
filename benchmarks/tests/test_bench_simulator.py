"""The benchmark of the simulator: rows of the contract, and the same work for every engine."""

from __future__ import annotations

import pytest

from tidings_bench import simulator


def test_rows_and_that_all_engines_do_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "BROKERS", 8)
    world, given = simulator.build(1, 40)
    for at, client, item in given:
        world.simulation.input(client, item, at)
    world.run(given[-1][0] + 5.0)
    assert world.simulation.sent["Forward"] > 40, "subscriptions were accepted, and events travel"
    other, again = simulator.build(1, 40)
    driver = simulator._SimPyDriver(other)
    for at, client, item in again:
        driver.later(at, client, item)
    driver.environment.run(until=again[-1][0] + 5.0)
    assert abs(driver.handled - world.simulation.handled) <= 0.02 * driver.handled
    monkeypatch.setattr(simulator, "_best", lambda measure: 1000.0)
    rows = list(simulator.run(quick=True))
    assert [row["engine"] for row in rows] == [
        "SimPy, bare",
        "tidings, bare",
        "tidings, checked and recorded",
        *(f"tidings, {mode}" for mode in simulator.MODES),
    ]
    assert [row["ratio_to_best_peer"] for row in rows] == [None, 1.0, 1.0, None, None, None, None]


def test_each_mode_does_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "BROKERS", 4)
    handled = set()
    for mode in simulator.MODES:
        world, given = simulator.build(1, 20, mode, system=simulator.ACKNOWLEDGED)
        for at, client, item in given:
            world.simulation.input(client, item, at)
        world.run(given[-1][0] + 5.0)
        settings = world.simulation.settings
        assert (settings.check, settings.codec is not None, bool(world.rows)) == (
            mode == "checked", mode == "with codec", mode == "recorded",
        )  # fmt: skip
        handled.add(world.simulation.handled)
    assert len(handled) == 1
