"""One visitor's watch over a network: polls all brokers each second, while a page is open.

Rules
- Browsers of one visitor share one watch: however many look, brokers are asked once.
- The result of a poll is encoded once and handed to every browser; a browser that reads slowly gets the
  newest result, and no other part waits for it.
- The watch goes on for a minute after the last browser has gone, so that a page that is loaded anew finds
  its plots filled.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import msgspec

from tidings.console import figures
from tidings.console.network import Answers, BrokerNetwork
from tidings.console.sessions import Visitor
from tidings.runtime.service import Service

log = logging.getLogger("tidings.console")

KEPT_TICKS = 600  # of the whole network, for plots: ten minutes at a look a second
MOST_KNOWN = 10_000  # brokers; names that are gone are forgotten with the rest
KEPT_CHANGES = 200
LINGER_SECONDS = 60.0
KNOWN_SECONDS = 5.0  # for which the brokers that a look found are those of a script's requests
MOST_WORDS = 500  # names and topics that are remembered for completion
RECENT = 12  # events that a look names of each broker
RATE_SECONDS = 180.0  # over which the pace of a slow consumer is averaged: credit comes back in batches


class Viewer:
    """One browser that reads a watch."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=2)
        self._is_over = False

    def show(self, part: bytes | None) -> None:
        """The newest part in the place of the oldest, if the browser reads slowly; None ends the stream, and
        no later part takes its place."""
        if self._is_over:
            return
        self._is_over = part is None
        if self._queue.full():
            self._queue.get_nowait()
        self._queue.put_nowait(part)

    def end(self) -> None:
        """End the stream at once: parts that wait are not sent."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self.show(None)

    async def next(self) -> bytes | None:
        return await self._queue.get()


class NetworkWatch:
    def __init__(self, service: Service, visitor: Visitor) -> None:
        self.network = BrokerNetwork(service, visitor)
        self.visitor = visitor
        self._now = service.server.clock.now
        self._every = max(service.settings.console.refresh_seconds, 0.1)
        self._viewers: set[Viewer] = set()
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._before: Answers = {}
        self._known: Answers = {}  # what each broker said when it last answered
        self._before_at = 0.0
        self._delivered_at: dict[str, float] = {}  # by broker: the time of its last activity
        self._left_at = self._now()
        self.delivered: Counter[str] = Counter()  # by subscription: notifications since the watch began
        self.delivery_rates: dict[str, float] = {}
        self._deliveries: deque[tuple[float, float, dict[str, int]]] = deque()  # time, span, by subscription
        self.ways: dict[str, Counter[str]] = {}  # by broker: how events came, since the watch began
        self.totals: deque[dict[str, Any]] = deque(maxlen=KEPT_TICKS)
        self.changes: deque[figures.OverlayChange] = deque(maxlen=KEPT_CHANGES)
        self.attributes: set[str] = set()  # names that events had, for completion
        self.topics: set[str] = set()
        self.last: dict[str, Any] = {}

    # -- watching ---------------------------------------------------------------------------------

    async def stream(self, viewer: Viewer) -> AsyncGenerator[bytes, None]:
        """Server-sent events, from now on; first what was seen so far."""
        self._viewers.add(viewer)
        self._begin()
        try:
            yield sse("past", {"totals": list(self.totals), "changes": list(self.changes)})
            if self.last:
                yield sse("tick", self.last)
            while (frame := await viewer.next()) is not None:
                yield frame
        finally:
            self._viewers.discard(viewer)
            self._left_at = self._now()

    @property
    def is_over(self) -> bool:
        return not self._viewers and self._now() - self._left_at > LINGER_SECONDS

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="tidings console watch")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.is_over:
            began = loop.time()
            try:
                frame = sse("tick", await self.look())
            except Exception as error:  # a defect of ours: the page says so, and the next look may be well
                log.exception("reading the brokers' figures failed")
                frame = sse("problem", {"detail": f"a look at the brokers failed: {error}"})
            self._broadcast(frame)
            await asyncio.sleep(max(0.05, self._every - (loop.time() - began)))
        await self.network.close()  # the next watch opens new links

    def _broadcast(self, frame: bytes | None) -> None:
        for viewer in self._viewers:
            viewer.show(frame)

    def end_streams(self) -> None:
        self._broadcast(None)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self.network.close()

    # -- a look -----------------------------------------------------------------------------------

    async def look(self) -> dict[str, Any]:
        """One after the other: a look is compared with the one before it."""
        async with self._looking:
            return await self._looked()

    async def find_brokers(self) -> None:
        """Look for the brokers, unless an open page does so all the time or a look was made just now: a
        script that asks again and again sees those that joined meanwhile."""
        if not self.last or (not self._viewers and self._now() - self._before_at > KNOWN_SECONDS):
            await self.look()

    async def _looked(self) -> dict[str, Any]:
        answers = await self.network.walk("figures")
        now = self._now()
        seconds = now - self._before_at if self._before_at else 0.0
        activities, spans = await self._activities()
        new = figures.changes(answers, self._before, now, self._known)
        if len(self._known) > MOST_KNOWN:
            self._known = {}
        self._known |= {name: one for name, one in answers.items() if "problem" not in one}
        self.changes.extend(new)
        total = figures.total(answers, self._before, seconds) | {
            "time": now,
            "ways": self._count(activities, spans),
        }
        self.totals.append(total)
        brokers = [
            figures.shown_broker(name, one, self._before.get(name), seconds)
            | {"ways": dict(self.ways.get(name, {}))}
            for name, one in answers.items()
        ]
        self.last = {
            "time": now,
            "own": self.network.own,
            "brokers": brokers,
            "links": figures.link_rates(activities, spans),
            "total": total,
            "changes": new,
            "recent": _recent(activities),
        }
        self._before, self._before_at = answers, now
        self._rate(activities, spans)
        self._learn(self.last["recent"])
        return self.last

    def _learn(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            if len(self.attributes) < MOST_WORDS:
                self.attributes.update(event.pop("names"))
            if event["topic"] and len(self.topics) < MOST_WORDS:
                self.topics.add(event["topic"])

    async def _activities(self) -> tuple[Answers, dict[str, float]]:
        """Work of each broker since its last answer, and the seconds in between; empty at first."""
        delivered_at = self._delivered_at

        def about(name: str) -> dict[str, Any]:
            return {"after": delivered_at.get(name, self._now()), "events": RECENT}

        answers = await self.network.ask("activity", about)
        answered = {name: one for name, one in answers.items() if "problem" not in one}
        spans = {name: one["now"] - delivered_at.get(name, one["now"]) for name, one in answered.items()}
        delivered_at |= {name: one["now"] for name, one in answered.items()}
        return answered, spans

    def _count(self, activities: Answers, spans: dict[str, float]) -> dict[str, float]:
        """Rates of arriving events, in all."""
        rates: dict[str, float] = {}
        for name, one in activities.items():
            for way, count in one["ways"].items():
                rates[way] = round(rates.get(way, 0.0) + count / max(spans[name], 1e-3), 2)
            self.ways.setdefault(name, Counter()).update(one["ways"])
        return rates

    def _rate(self, activities: Answers, spans: dict[str, float]) -> None:
        rates: dict[str, float] = {}
        counts: Counter[str] = Counter()
        for name, one in activities.items():
            found = one["delivered"] if "delivered" in one else one["told"]  # `told`: a broker of 0.1
            counts.update(found)
            for id, count in found.items():
                rates[id] = rates.get(id, 0.0) + round(count / max(spans[name], 1e-3), 2)
        self.delivered.update(counts)
        self.delivery_rates = rates
        now = self._now()
        self._deliveries.append((now, max(spans.values(), default=0.0), dict(counts)))
        while self._deliveries[0][0] < now - RATE_SECONDS:
            self._deliveries.popleft()

    def paces(self) -> dict[str, float]:
        """Deliveries a second to each subscription, over the last minutes of this watch."""
        seconds = sum(span for _, span, _ in self._deliveries)
        counts: Counter[str] = Counter()
        for _, _, some in self._deliveries:
            counts.update(some)
        return {id: round(count / max(seconds, 1e-3), 2) for id, count in counts.items()}


def _recent(activities: Answers) -> list[dict[str, Any]]:
    """The newest events that any broker took in, with the broker; each as it was published, where known."""
    events = [event | {"broker": name} for name, one in activities.items() for event in one["recent"]]
    events.sort(key=lambda event: -event["time"])
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    for event in events:
        position = (event["source"], event["id"])
        if position not in seen or event["what"] == "published":
            seen[position] = event
    return list(seen.values())[: 2 * RECENT]


def sse(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(value, enc_hook=str) + b"\n\n"


class NetworkWatches:
    """The watch of each visitor, made at the first request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._watches: dict[Visitor, NetworkWatch] = {}

    async def of(self, visitor: Visitor) -> NetworkWatch:
        for other, watch in list(self._watches.items()):
            if watch.is_over and other != visitor:
                del self._watches[other]
                await watch.close()
        if visitor not in self._watches:
            self._watches[visitor] = NetworkWatch(self._service, visitor)
        return self._watches[visitor]

    def end_streams(self) -> None:
        for watch in self._watches.values():
            watch.end_streams()

    async def close(self) -> None:
        for watch in self._watches.values():
            await watch.close()
        self._watches.clear()
