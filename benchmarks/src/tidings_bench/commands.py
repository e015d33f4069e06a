"""The commands that this package adds to `tidings`; offered as `tidings.commands`."""

from __future__ import annotations

from tidings.cli import Command

BENCH = Command(
    "Run a benchmark beside its peers and print the ratios.",
    "tidings_bench.cli",
)
