"""Trials of filters: whether and why a filter accepts an event that a client made up.

Rules
- A principal may try filters when it may subscribe or observe somewhere. It is asked before the body of its
  request is read.
- Decoding, parsing, evaluating and printing happen one request at a time for each principal, and their time
  is charged to it (`runtime/fairness.py`), as that of other messages is.
- An answer is brief: values and conditions are cut, and their sum is bounded (`matching/explain.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from tidings.runtime.client_connection import owner_of
from tidings.runtime.fairness import Fairness
from tidings.security.interfaces import Guard


class FilterTrials:
    """Answers trials of filters, in the turns of their principals."""

    def __init__(self, guard: Guard[Any] | None, fairness: Fairness) -> None:
        self._guard = guard
        self._fairness = fairness

    def authorize(self, principal: Any, what: str) -> None:
        """Refuse a principal that may not try filters. Raises `RefusedError`."""
        if self._guard is not None:
            self._guard.tries(principal, what)

    async def answer(self, principal: Any, address: str, work: Callable[[], Any]) -> bytes:
        """The result of `work` as JSON. An anonymous principal is charged by its address."""
        fairness = self._fairness
        share = fairness.join(owner_of(principal, address))
        done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def in_turn() -> None:
            if done.done():  # the client has left
                return
            began = fairness.clock()
            try:
                done.set_result(msgspec.json.encode(work(), enc_hook=str))
            except Exception as error:
                done.set_exception(error)
            fairness.charge(share, fairness.clock() - began)

        try:
            fairness.queue(share, in_turn)
            return await done
        finally:
            fairness.leave(share)
