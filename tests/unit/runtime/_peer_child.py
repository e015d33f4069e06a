"""Some peers in a process of their own: `python -m tests.unit.runtime._peer_child TOPIC PERIOD FIRST DOOR…`.

Each peer stands behind one door (`host:port`) of the network in the process that started this one, and asks
the first for others. Lines on standard output: {"port"} for each peer when it listens, {"subscribed"} when it
has joined its group, {"heard", "peer"} for each event, {"parasites"} of all at the end. A line on standard
input: `publish N MARK` lets the N-th peer publish, anything else ends it.
"""

from __future__ import annotations

import asyncio
import json
import sys

from tidings.runtime.bus import Bus
from tidings.runtime.peer import PeerBroker


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def main(topic: str, period: float, first: str, gateways: list[str]) -> None:
    options = {"tables": {"period": period, "wanted": 0.99}, "gossip": {"wanted": 0.99, "stagger": 0.2}}
    buses: list[Bus] = []
    brokers: list[PeerBroker] = []
    tasks = []
    for number, gateway in enumerate(gateways):
        broker = PeerBroker(advertise=gateway, join=[first], options=options, seed=number + 1)
        bus = await Bus(broker, f"{topic}-{number}").open()
        assert broker.datagrams is not None
        say(port=broker.datagrams.port, door=gateway)
        buses.append(bus)
        brokers.append(broker)
        tasks.append(asyncio.ensure_future(listen(bus, topic, gateway)))
    commands = asyncio.to_thread(sys.stdin.readline)
    while (line := await commands).startswith("publish"):
        await buses[int(line.split()[1])].publish({"mark": int(line.split()[2])}, topic=topic)
        commands = asyncio.to_thread(sys.stdin.readline)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    say(parasites=sum(broker.figures()["parasites"] for broker in brokers))
    for bus in buses:
        await bus.close()


async def listen(bus: Bus, topic: str, gateway: str) -> None:
    wanted = "TRUE" if topic == "/" else f"topic MATCHES '{topic}/#'"
    async with bus.subscribe(wanted) as listener:
        say(subscribed=gateway)
        async for event in listener:
            say(heard=event.attributes["mark"], peer=gateway)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4:]))
