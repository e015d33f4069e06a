"""Answers to principals that observe a broker: each sees what its right to observe covers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidings.errors import RefusedError

if TYPE_CHECKING:
    from tidings.runtime.server import Server


def answers_of(server: Server) -> dict[str, Callable[[dict[str, Any], Any], Any]]:
    """The inquiries that every broker answers."""
    return {
        "figures": lambda about, principal: server.figures(),
        "subscriptions": lambda about, principal: server.node.describe(
            limit_of(about, server.resources.described_subscriptions)
        ),
    }


def limit_of(about: dict[str, Any], most: int) -> int:
    """How many subscriptions an inquiry asks for. Raises `RefusedError`."""
    limit = about.get("limit", most)
    if type(limit) is not int or not 0 < limit <= most:
        raise RefusedError(f"a limit is a whole number from 1 to {most}")
    return limit
