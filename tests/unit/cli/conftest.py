"""Fixtures: a command of `tidings`."""

from __future__ import annotations

from tidings.testing.commands import tidings

__all__ = ["tidings"]
