"""The commands that this package adds to `tidings`; offered as `tidings.commands`."""

from __future__ import annotations

from tidings.cli import Command

STUDY = Command(
    "Run the papers' experiments again and compare.",
    "tidings_lab.cli.study",
)
COMPARE = Command(
    "Run the same events and subscriptions through several systems, and compare what they cost.",
    "tidings_lab.cli.compare",
)
