"""A process that keeps brokers for the conformance suite: fresh ones for each test, on free ports.

Commands come as JSON lines on standard input, answers go out the same way:
`{"start": NAME, "join": [ADDRESS], "path": DIR or null}` -> `{"address": ...}`, `{"links": NAME}` ->
`{"links": [...]}`, `{"agreed": NAME}` -> `{"agreed": true}` when its neighbours know what it wants,
`{"stop": true}` -> `{}`. It ends when its input does.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tidings.runtime.process import run
from tidings.runtime.server import Server


async def main() -> None:
    servers: dict[str, Server] = {}
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await answer(servers, json.loads(line))), flush=True)
    await stop(servers)


async def answer(servers: dict[str, Server], requested: dict[str, Any]) -> dict[str, Any]:
    if "start" in requested:
        server = Server(requested["start"], join=requested["join"], path=requested["path"])
        await server.start()
        servers[server.name] = server
        return {"address": server.address}
    if "links" in requested:
        return {"links": servers[requested["links"]].links}
    if "agreed" in requested:
        return {"agreed": not servers[requested["agreed"]].node.figures()["links syncing"]}
    await stop(servers)
    return {}


async def stop(servers: dict[str, Server]) -> None:
    for server in servers.values():
        await server.close()
    servers.clear()


run(main())
