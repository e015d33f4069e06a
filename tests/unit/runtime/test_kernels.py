"""Brokers never wait for a compiler: kernels are prepared beside the event loop, when they are wanted."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import tidings
from tidings.matching.columnar.warm import BACKGROUND, HERE
from tidings.matching.engine import MatchingEngine
from tidings.runtime.broker import EmbeddedBroker
from tidings.runtime.server import Server

SMALL = """
import asyncio, sys, tidings

async def main():
    async with tidings.connect() as bus:
        news = [await bus.subscribe(f"x > {n}") for n in range(100)]
        await bus.publish({"x": 1000})
        assert (await news[7].get()).attributes["x"] == 1000

asyncio.run(main())
assert "numba" not in sys.modules, "a small broker imports no compiler"
"""


def _engines(node: object) -> list[MatchingEngine]:
    slots = getattr(node, "slots").values()  # noqa: B009
    return [m for strategy in slots for m in strategy.matchers() if isinstance(m, MatchingEngine)]


def test_an_embedded_broker_prepares_them_beside_its_loop() -> None:
    async def main() -> None:
        async with tidings.connect() as bus:
            assert isinstance(bus._broker, EmbeddedBroker)
            assert [engine.kernels for engine in _engines(bus._broker._node)] == [BACKGROUND] * 2

    asyncio.run(main())


def test_so_does_a_broker_on_a_socket_for_interest_and_for_holds() -> None:
    async def main() -> None:
        server = Server("b0")
        await server.start()
        assert [engine.kernels for engine in _engines(server.node)] == [BACKGROUND] * 2
        await server.close()

    asyncio.run(main())


def test_whoever_drives_no_loop_uses_them_here_and_now() -> None:
    assert MatchingEngine().kernels is HERE


def test_a_small_embedded_broker_imports_no_compiler() -> None:
    environment = {"PYTHONPATH": ":".join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", SMALL], check=True, env=environment)
