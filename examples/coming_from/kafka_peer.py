"""Kafka: the program as its users write it."""

import asyncio
import json
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def main(address: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True)
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=address,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with producer, consumer:
        for number in range(3):
            order = {"number": number, "total": 100 * number}
            await producer.send_and_wait("orders", json.dumps(order).encode(), key=b"shop-1")
        seen = 0
        while seen < 3:
            for batch in (await consumer.getmany(timeout_ms=1000, max_records=100)).values():
                for message in batch:
                    seen += 1
                    order = json.loads(message.value)
                    if order["total"] >= 100:
                        print("billed", order["number"])
            await consumer.commit()


asyncio.run(main(sys.argv[1]))
