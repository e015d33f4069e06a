"""MQTT: the same program with Tidings."""

import asyncio
import sys

import tidings


async def main(address: str) -> None:
    async with tidings.connect(address) as bus:
        topic = "rooms/1/temperature"
        await bus.publish({"celsius": 31}, topic=topic, lifetime=tidings.FOREVER, key=topic)  # retained
        async with bus.subscribe("celsius > 30", topic="rooms/+/temperature") as readings:
            async for reading in readings:
                print(reading.topic, reading["celsius"])
                break


asyncio.run(main(sys.argv[1]))
