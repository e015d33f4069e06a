"""NATS: the program as its users write it."""

import asyncio
import json
import sys

import nats


async def main(address: str) -> None:
    connection = await nats.connect(address)
    fallen = asyncio.Event()

    async def fall(message):
        quote = json.loads(message.data)
        if quote["change"] < -3:  # the client filters
            print("fell:", quote["name"])
            fallen.set()

    async def price(message):
        await message.respond(json.dumps({"price": 130.5}).encode())

    await connection.subscribe("quotes.*", cb=fall)
    await connection.subscribe("price", queue="pricing", cb=price)
    for name, change in (("DEC", 1.0), ("IBM", -4.5)):
        await connection.publish(f"quotes.{name}", json.dumps({"name": name, "change": change}).encode())
    reply = await connection.request("price", b"", timeout=60)
    await fallen.wait()
    print("price:", json.loads(reply.data)["price"])
    await connection.drain()


asyncio.run(main(sys.argv[1]))
