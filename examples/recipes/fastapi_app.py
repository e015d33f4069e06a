"""FastAPI: the bus in the lifespan, as a dependency, and events in the browser.

    uvicorn fastapi_app:app
    new EventSource("/orders/events?where=total > 100").onmessage = message => console.log(message.data)

`TIDINGS` names a broker; without it a broker runs in this process.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

import tidings

bus = tidings.connect(os.environ.get("TIDINGS"))
large: list[int] = []


class Order(BaseModel):
    number: int
    total: float


@bus.on(Order, "total > 1000")
async def check_large_order(order: Order) -> None:
    large.append(order.number)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with bus, bus.serving():
        app.state.bus = bus
        yield


def the_bus(request: Request) -> tidings.Bus:
    found: tidings.Bus = request.app.state.bus
    return found


app = FastAPI(lifespan=lifespan)
BusDependency = Annotated[tidings.Bus, Depends(the_bus)]


@app.post("/orders", status_code=202)
async def create(order: Order, bus: BusDependency) -> dict[str, str]:
    receipt = await bus.publish(order, topic="orders")
    return {"id": receipt.id}


@app.get("/orders/events")
async def events(bus: BusDependency, where: str = "number >= 0") -> StreamingResponse:
    try:
        news = await bus.subscribe(where, topic="orders")
    except tidings.FilterError as error:
        raise HTTPException(422, str(error)) from error

    async def stream() -> AsyncIterator[str]:
        async with news_of(news):
            async for event in news:
                yield f"id: {event.id}\ndata: {json.dumps(dict(event.attributes))}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


@asynccontextmanager
async def news_of(news: tidings.Listener[tidings.Event]) -> AsyncIterator[None]:
    """Close the subscription when the browser goes."""
    try:
        yield
    finally:
        await news.close()
