"""MQTT: the program as its users write it."""

import asyncio
import json
import sys

import aiomqtt


async def main(host: str, port: int) -> None:
    async with aiomqtt.Client(host, port) as client:
        await client.publish("rooms/1/temperature", json.dumps({"celsius": 31}), qos=1, retain=True)
        await client.subscribe("rooms/+/temperature", qos=1)
        async for message in client.messages:
            reading = json.loads(message.payload)
            if reading["celsius"] > 30:
                print(message.topic, reading["celsius"])
                break


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
