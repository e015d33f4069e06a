"""Requests: their replies come from those that received them."""

from __future__ import annotations

from itertools import combinations, pairwise

import tidings
from tidings import Event
from tidings.model.reply_header import ReplyHeader, reply_header_of
from tidings.testing.network import played

PATIENCE = 120.0


@played
async def test_a_replier_cannot_guess_the_number_of_another_request() -> None:
    async with tidings.connect() as bus:
        headers: list[ReplyHeader] = []

        @bus.reply(topic="ask")
        async def ask(event: Event) -> dict[str, int]:
            header = reply_header_of(event)
            assert header is not None
            headers.append(header)
            return {"n": event["n"]}

        async with bus.serving():
            for n in range(8):
                assert (await bus.request({"n": n}, topic="ask", timeout=PATIENCE))["n"] == n
        numbers = [int.from_bytes(header.correlation or b"") for header in headers]
        assert all(len(header.correlation or b"") == 16 for header in headers)
        differences = {abs(one - other) for one, other in combinations(numbers, 2)}
        assert min(differences) > 1 << 64  # of 128 random bits: by chance once in 10^17 runs
        assert len({one - other for one, other in pairwise(numbers)}) == len(numbers) - 1
