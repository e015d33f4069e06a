"""The commands that this package adds to `tidings`; offered as `tidings.commands`."""

from __future__ import annotations

from tidings.cli import Command

QUALITY = Command(
    "Evaluate the quality of shared data, and receive its changes.",
    "tidings_quality.cli.quality",
)
