"""A broker as a process: the event loop, the signals, the first and the last line.

    python -m tidings.runtime.process --name b1 --listen 127.0.0.1:0 --join HOST:PORT --store DIR

It prints one line of JSON when it can be reached (`{"broker", "address", "process"}`). SIGTERM and
SIGINT let it drain: what was taken in is answered, then it ends, within `drain_seconds`.
The command `tidings broker` reads settings and security, and ends up here.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from tidings.errors import TidingsError
from tidings.runtime.connection import NetworkSettings
from tidings.runtime.notify import Watchdog, notify
from tidings.runtime.server import Server

DRAIN_SECONDS = 10.0
SWITCH_SECONDS = 0.0005  # for which the loop and the thread of the disk keep each other waiting at most
NEW_OBJECTS = 50_000  # between two looks of the collector at the youngest; more holds more garbage

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run it on uvloop when that is installed, with as many descriptors as this system allows."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def serve(
    server: Server,
    *,
    drain_seconds: float = DRAIN_SECONDS,
    ready: Callable[[Server], None] | None = None,
    reload: Callable[[], Any] | None = None,
    started: Callable[[], Awaitable[None]] | None = None,
    stopping: Callable[[], Awaitable[None]] | None = None,
) -> bool:
    """Serve until a signal comes, then drain. True: every request was answered."""
    await server.start()
    settle_process()
    if started is not None:
        try:
            await started()
        except BaseException:
            await server.close()
            raise
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, reload)
    (ready or print_ready)(server)
    watchdog = Watchdog()
    notify("READY=1")
    watchdog.start()
    await server.serve_forever()
    notify("STOPPING=1")
    watchdog.stop()
    if stopping is not None:
        await stopping()
    return await server.drain(drain_seconds)


def settle_process() -> None:
    """Tune the collector of the whole process. Objects loaded by now live as long as the process: the
    collector need not look at them again. It looks at what is new less often, since a busy broker makes and
    drops thousands of objects in a turn."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 50)
    sys.setswitchinterval(SWITCH_SECONDS)


def print_ready(server: Server) -> None:
    line = {"broker": server.name, "address": server.address, "process": os.getpid()}
    print(json.dumps(line), flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tidings.runtime.process", description="one broker")
    parser.add_argument("--name", required=True)
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--join", action="append", default=[])
    parser.add_argument("--store")
    parser.add_argument("--record")
    parser.add_argument("--system", default="tidings")
    parser.add_argument("--datagrams", action="store_true")
    parser.add_argument("--advertise", default="")
    parser.add_argument("--peer", action="append", default=[], help="name=host:port")
    parser.add_argument("--options", type=json.loads, default={}, help="knobs of the system, as JSON")
    parser.add_argument("--heal-seconds", type=float, default=0.0)
    parser.add_argument("--max-frame", type=int, default=NetworkSettings().max_frame_bytes, help="bytes")
    given = parser.parse_args(argv)

    async def broker() -> bool:
        server = Server(
            given.name, listen=given.listen, join=given.join, path=given.store, record=given.record,
            system=given.system, datagrams=given.datagrams, advertise=given.advertise,
            peers=dict(text.split("=", 1) for text in given.peer),
            options={"heal_seconds": given.heal_seconds, **given.options},
            network=NetworkSettings(max_frame_bytes=given.max_frame),
        )  # fmt: skip
        return await serve(server)

    try:
        return 0 if run(broker()) else 1
    except TidingsError as error:
        print(f"tidings: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
