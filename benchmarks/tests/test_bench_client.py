"""The client's benchmark: the contract of its rows, and that a peer that is missing is named."""

from __future__ import annotations

import pytest

from tidings_bench import client
from tidings_bench.client import ENGINES, WORKS, run


def test_rows_keep_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours does every work; a peer whose package or server is absent has one row that says so."""
    few = {"tidings": ENGINES["tidings"], "nats-py": ("no_such_package", ENGINES["nats-py"][1])}
    monkeypatch.setattr(client, "ENGINES", few)
    monkeypatch.setattr(client, "SIZES", dict.fromkeys(WORKS, 200))
    rows = list(run(quick=True))
    assert {(row["work"], row["engine"]) for row in rows if row["figure"]} == {(w, "tidings") for w in WORKS}
    (missing,) = [row for row in rows if not row["figure"]]
    assert missing["engine"] == "nats-py: left out, the package nats-py is not installed"
    for row in rows:
        assert set(row) == {"work", "size", "engine", "figure", "unit", "ratio_to_best_peer"}
