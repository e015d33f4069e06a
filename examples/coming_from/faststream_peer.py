"""FastStream: the program as its users write it."""

import asyncio
import sys

from faststream import FastStream
from faststream.nats import NatsBroker
from pydantic import BaseModel

broker = NatsBroker(sys.argv[1], logger=None)
app = FastStream(broker, logger=None)


class Order(BaseModel):
    number: int
    total: float


@broker.subscriber("orders", queue="billing")
@broker.publisher("bills")
async def bill(order: Order) -> str:
    return f"order {order.number}: {order.total:.2f}"


@broker.subscriber("bills")
async def show(text: str) -> None:
    print(text)
    app.exit()


@app.after_startup
async def order() -> None:
    await broker.publish(Order(number=7, total=30), "orders")


asyncio.run(app.run())
