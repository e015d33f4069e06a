"""Kafka: the same program with Tidings."""

import asyncio
import sys

import tidings


async def main(address: str) -> None:
    async with (
        tidings.connect(address) as bus,
        bus.subscribe("total >= 100", topic="orders", group="billing-large", durable=True) as orders,
    ):
        await bus.publish_many([{"number": n, "total": 100 * n} for n in range(3)], topic="orders")
        billed = 0
        async for batch in orders.batches(100):  # the next batch commits the one before
            for order in batch:
                billed += 1
                print("billed", order["number"])
            if billed == 2:
                break


asyncio.run(main(sys.argv[1]))
