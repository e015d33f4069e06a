"""Pytest fixtures for users of Tidings: `bus` and `clock`. Imports happen at the first use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidings.runtime.blocking import BlockingBus
    from tidings.testing.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that stands still until the test calls `clock.advance(seconds)`."""
    from tidings.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def bus(clock: VirtualClock) -> Iterator[BlockingBus]:
    """A bus with a broker of its own, in memory, on the test's clock."""
    from tidings.runtime.blocking import connect

    with connect(clock=clock) as bus:
        yield bus
