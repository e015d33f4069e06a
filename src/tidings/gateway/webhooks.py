"""Sending events to a sink, one after the other, until each is taken.

Rules
- 2xx takes the event. 410 ends the sending: the sink wants no more, and the subscription waits there.
- Another 4xx (but 408, 425 and 429) gives the event back: after `max_deliveries` it is a dead letter.
- Anything else, no answer too, is tried again for ever, with pauses that double up to five minutes
  (or as long as `Retry-After` says). Later events wait behind it, so the order stays.
- In binary mode an event whose attributes do not fit `MOST_HEADERS` goes in structured mode: the content type
  says which mode a request has.
- A request that no sink can ever receive (a header that HTTP cannot carry) nacks the event at
  once, until it is a dead letter.
- Of an answer only the head counts. Its body is read up to `answer_bytes`, as it came; beyond that, or when
  it lasts longer than the timeout, the connection is closed.
- It sends as long as its principal stands. When that session ends (the user is disabled, its token has
  expired) it stops at once, tries to open another one every second, and goes on where it was. It does not
  while it is held: then another worker may take its place.
- With a secret each request is signed: `Tidings-Signature: t=SECONDS,v1=HEX` where HEX is the
  HMAC-SHA256 of `SECONDS.` and the body. The id of the event tells a sink what it had before.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import random
import time
from collections.abc import Callable
from typing import Any

import msgspec

from tidings.errors import EventError, InputError, TidingsError
from tidings.model.cloudevents import STRUCTURED_TYPE, to_binary, to_structured
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.runtime.bus import Bus

log = logging.getLogger("tidings.gateway")

TIMEOUT_SECONDS = 30.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 300.0
AGAIN_SECONDS = 1.0  # between two tries to open a session for a principal that does not stand
PATIENT = frozenset({408, 425, 429})  # 4xx that mean: later
UNSENDABLE = -1  # in place of a status
USER_AGENT = "tidings-webhook/1"
MOST_HEADERS = 4096  # bytes of an event in headers; many servers take 8 KiB of headers in all


class Credential(msgspec.Struct, frozen=True):
    """Credentials that a sink sees."""

    header: str = ""

    @staticmethod
    def read(given: dict[str, Any]) -> Credential:
        """From `sinkcredential` as CloudEvents writes it. Raises `InputError`."""
        if not given:
            return Credential()
        kind = str(given.get("credentialtype", "")).upper()
        token, scheme = given.get("accesstoken"), str(given.get("accesstokentype", "bearer"))
        if (
            kind != "ACCESSTOKEN"
            or not isinstance(token, str)
            or not token.isascii()
            or not token.isprintable()
        ):
            raise InputError("sinkcredential cannot be used", hint="ACCESSTOKEN with accesstoken is offered")
        if scheme.lower() != "bearer":
            raise InputError(f"accesstokentype {scheme!r} is not offered", hint="bearer")
        return Credential(f"Bearer {token}")


class Sink(msgspec.Struct, frozen=True, kw_only=True):
    """Address of a sink, and how to send to it."""

    address: str
    mode: str = "binary"
    secret: str = ""
    headers: dict[str, str] = {}
    credential: Credential = Credential()

    def request(self, event: Event, now: int) -> tuple[dict[str, str], bytes]:
        """The headers and the body that carry an event."""
        headers, body = ({}, b"") if self.mode == "structured" else to_binary(event)
        if not headers or sum(map(len, headers.values())) > MOST_HEADERS:
            headers, body = {"content-type": STRUCTURED_TYPE}, to_structured(event)
        headers = {**self.headers, "user-agent": USER_AGENT, "accept-encoding": "identity", **headers}
        if self.credential.header:
            headers["authorization"] = self.credential.header
        if self.secret:
            headers["tidings-signature"] = f"t={now},v1={signature(self.secret, now, body)}"
        return headers, body


def signature(secret: str, now: int, body: bytes) -> str:
    """Signature that a sink recomputes to authenticate the broker."""
    return hmac.new(secret.encode(), f"{now}.".encode() + body, hashlib.sha256).hexdigest()


class WebhookWorker:
    """The worker of one subscription. `client` makes a bus for its principal, or raises."""

    def __init__(
        self, name: str, client: Callable[[], Bus], filter: Filter, sink: Sink, *, max_deliveries: int = 5,
        answer_bytes: int = DEFAULT_LIMITS.answer_bytes,
    ) -> None:  # fmt: skip
        self._answer_bytes = answer_bytes
        self._name = name
        self._client = client
        self._filter = filter
        self._max_deliveries = max_deliveries
        self._sink = sink
        self._bus: Bus | None = None
        self._task: asyncio.Task[None] | None = None
        self._sending: asyncio.Task[bool] | None = None
        self._sent = 0
        self._refused = 0
        self._tries = 0  # of the event that waits
        self._problem = ""
        self._may_open = asyncio.Event()
        self._may_open.set()

    async def start(self) -> None:
        """Subscribe, and begin to send. Raises when the principal may not."""
        await self._open()
        self.begin()

    def begin(self) -> None:
        """Begin to send as soon as the principal stands."""
        self._task = asyncio.create_task(self._run(), name=f"webhook {self._name}")

    def hold(self) -> None:
        """Open no other session until `release`: another worker subscribes in its place, or is refused."""
        self._may_open.clear()

    def release(self) -> None:
        """Go on; no other worker took its place."""
        self._may_open.set()

    async def close(self) -> None:
        """Stop sending; what was not taken waits."""
        await self._stop()
        await self._close_bus()

    async def end(self) -> None:
        """Stop, and end the subscription."""
        await self._stop()
        if self._bus is None:
            await self._open()
        await self._listener.unsubscribe()
        await self._close_bus()

    async def _stop(self) -> None:
        for task in (self._task, self._sending):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _open(self) -> None:
        bus = await self._client().open()
        try:
            self._listener = await bus.subscribe(
                self._filter, name="webhook", durable=True, max_deliveries=self._max_deliveries,
                takes_over=True,
            )  # fmt: skip
        except BaseException:
            await bus.close()
            raise
        self._bus = bus
        bus.watch(self._watch)

    def _watch(self, state: str) -> None:
        if state == "refused" and self._sending is not None:
            self._sending.cancel()

    async def _close_bus(self) -> None:
        bus, self._bus = self._bus, None
        if bus is not None:
            await bus.close(commit=False)

    async def _run(self) -> None:
        """Send in one session after the other."""
        while True:
            try:
                if self._bus is None:
                    await self._open()
                self._sending = asyncio.create_task(self._send_all(), name=f"webhook {self._name}")
                (answer,) = await asyncio.gather(self._sending, return_exceptions=True)
                if answer is False:
                    return
                self._problem = "the session of its principal has ended"
            except TidingsError as error:
                self._problem = str(error)
            await self._close_bus()
            await asyncio.sleep(AGAIN_SECONDS)
            await self._may_open.wait()

    def status(self) -> dict[str, Any]:
        """For people."""
        return {
            "sent": self._sent,
            "given back": self._refused,
            "tries": self._tries,
            **({"problem": self._problem} if self._problem else {}),
        }

    async def _send_all(self) -> bool:
        """False: the sink wants no more. Raises when the session has ended."""
        import httpx

        async with httpx.AsyncClient(
            timeout=TIMEOUT_SECONDS, follow_redirects=False, trust_env=False
        ) as http:
            self._problem = ""
            while await self._send(http, await self._listener.get()):
                pass
            return False

    async def _send(self, http: Any, event: Event) -> bool:
        """Until it is taken or given back. False: the sink is gone."""
        pause = FIRST_PAUSE
        self._tries = 0
        while True:
            self._tries += 1
            status, wait = await self._try(http, event)
            if 200 <= status < 300:
                await self._listener.ack()
                self._sent += 1
                self._tries, self._problem = 0, ""
                return True
            if status == 410:
                self._problem = "the sink answered 410: it wants no more"
                log.warning("webhook %s: %s", self._name, self._problem)
                return False
            if status == UNSENDABLE or (400 <= status < 500 and status not in PATIENT):
                self._refused += 1
                await self._listener.nack()
                return True
            await asyncio.sleep(wait if wait is not None else pause * random.uniform(0.5, 1.5))  # noqa: S311 - a pause
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _try(self, http: Any, event: Event) -> tuple[int, float | None]:
        """The status of the answer (0: there was none), and how long it asks us to wait."""
        import httpx

        try:
            headers, body = self._sink.request(event, int(time.time()))
            async with http.stream("POST", self._sink.address, content=body, headers=headers) as answer:
                await self._read_some(answer)
        except (httpx.LocalProtocolError, UnicodeError, EventError) as error:
            self._problem = f"event {event.identity} cannot be sent: {error}"
            if self._listener.last is None or self._listener.last.attempt == 1:
                log.warning("webhook %s: %s; it becomes a dead letter", self._name, self._problem)
            return UNSENDABLE, None
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            self._problem = f"{type(error).__name__}: {error}"
            return 0, None
        if not answer.is_success:
            self._problem = f"the sink answered {answer.status_code}"
        requested = answer.headers.get("retry-after", "")
        wait = min(float(requested), LONGEST_PAUSE) if requested.isdecimal() else None
        return answer.status_code, wait

    async def _read_some(self, answer: Any) -> None:
        """Read a body of the expected size, so that the connection serves the next event; leave any other."""
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                async for part in answer.aiter_raw():
                    size += len(part)
                    if size > self._answer_bytes:
                        return
