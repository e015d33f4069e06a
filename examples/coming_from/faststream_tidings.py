"""FastStream: the same program with Tidings."""

import asyncio
import sys

from pydantic import BaseModel

import tidings

bus = tidings.connect(sys.argv[1])


class Order(BaseModel):
    number: int
    total: float


@bus.on(Order, topic="orders", group="billing-orders")
async def bill(order: Order) -> None:
    await bus.publish({"text": f"order {order.number}: {order.total:.2f}"}, topic="bills")


@bus.on(topic="bills")
async def show(event: tidings.Event) -> None:
    print(event["text"])
    bus.stop()


async def main() -> None:
    running = asyncio.create_task(bus.run())
    await bus.started()
    await bus.publish(Order(number=7, total=30), topic="orders")
    await running


asyncio.run(main())
