"""Some peers in a process of their own: `python -m tests.unit.runtime._peer_child TOPIC DOOR…`.

Each peer stands behind one door (`host:port`) of the network in the process that started this one. Lines on
standard output: {"port"} for each peer when it listens, then {"heard", "peer"} for each event, {"ready"} when a
peer's tables are filled. A line on standard input: `publish N` lets the N-th peer publish, anything else ends it.
"""

from __future__ import annotations

import asyncio
import json
import sys

from tidings.runtime.bus import Bus
from tidings.runtime.peer import PeerBroker


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def main(topic: str, first: str, doors: list[str]) -> None:
    quick = {"period": 0.25, "z": 3}
    options = {"tables": {**quick, "wanted": 0.99}, "gossip": {"wanted": 0.99, "stagger": 0.2}}
    buses = []
    tasks = []
    for number, door in enumerate(doors):
        broker = PeerBroker(advertise=door, join=[first], options=options, seed=number + 1)
        bus = await Bus(broker, f"{topic}-{number}").open()
        assert broker.datagrams is not None
        say(port=broker.datagrams.port, door=door)
        buses.append(bus)
        tasks.append(asyncio.ensure_future(listen(bus, broker, topic, door)))
    commands = asyncio.to_thread(sys.stdin.readline)
    while (line := await commands).startswith("publish"):
        await buses[int(line.split()[1])].publish({"mark": int(line.split()[2])}, topic=topic)
        commands = asyncio.to_thread(sys.stdin.readline)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for bus in buses:
        await bus.close()
    say(end=True)


async def listen(bus: Bus, broker: PeerBroker, topic: str, door: str) -> None:
    wanted = "TRUE" if topic == "/" else f"topic MATCHES '{topic}/#'"
    async with bus.subscribe(wanted) as listener:
        say(subscribed=door)
        async for event in listener:
            say(heard=event.attributes["mark"], peer=door, parasites=broker.figures()["parasites"])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
