"""`tidings bench` without its peers: the extra that brings them is named before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

from suite.hiding import assert_names, commands_without

from tidings_bench.cli import BENCHES, NEEDS, PEERS

HIDDEN = {module for modules in NEEDS.values() for module in modules}
LISTED = ("bench", "--list", "--json")


def test_a_benchmark_names_the_extra_of_its_peers(tmp_path: Path) -> None:
    requested = [("bench", name, "--quick") for name in ("matching", "simulator", "recovery", "quality")]
    ran = commands_without(HIDDEN, [LISTED, *requested, ("bench", "--all")], tmp_path)
    code, out, _ = ran.pop(LISTED)
    assert (code, len(json.loads(out)["benches"])) == (0, len(BENCHES))
    assert len(ran) == 5
    for ended in ran.values():
        assert_names(PEERS, ended)
