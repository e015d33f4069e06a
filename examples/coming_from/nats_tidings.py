"""NATS: the same program with Tidings."""

import asyncio
import sys

import tidings


async def main(address: str) -> None:
    async with tidings.connect(address) as bus:
        fallen = asyncio.Event()

        @bus.on("change < -3", topic="quotes/+")  # the broker filters
        async def fall(quote):
            print("fell:", quote["name"])
            fallen.set()

        @bus.reply(topic="price", group="pricing")
        async def price(request):
            return {"price": 130.5}

        async with bus.serving():
            for name, change in (("DEC", 1.0), ("IBM", -4.5)):
                await bus.publish({"name": name, "change": change}, topic=f"quotes/{name}")
            reply = await bus.request(topic="price", timeout=60)
            await fallen.wait()
            print("price:", reply["price"])


asyncio.run(main(sys.argv[1]))
