"""PendingRequests and replies over publish/subscribe.

Rules
- A request is an event with a header of its own (`model/reply_header.py`): the topic of the reply and a
  random number. A replier knows the numbers of the requests that it received and cannot guess others, so it
  answers no request that it did not receive.
- The content of a request is the user's alone. The MQTT gateway translates the header: a client of MQTT 5
  can ask and answer.
- A bus has one inbox, a topic that no other client can guess, below the topic of its principal: the broker
  delivers events there to that principal alone (`security/inboxes.py`). Its subscription is opened by the
  first request.
- The first reply is the answer. Further ones, and those that come after the timeout or a cancellation, are
  dropped.
- A request expires with its timeout: no broker delivers it to a replier when its requester waits no longer.
- Replies are not kept. A reply that is sent while the requester's connection is down is lost, and its
  request times out; ask again.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

from tidings.errors import EventError, ReplyError, TimedOutError
from tidings.language.build import topic
from tidings.model.event import Event
from tidings.model.reply_header import ReplyHeader, reply_header_of, with_header
from tidings.model.subscription import Notification
from tidings.protocol.effects import CallFailed
from tidings.protocol.inputs import ClientCancel, ClientPublish
from tidings.protocol.limits import DEFAULT_LIMITS
from tidings.protocol.messages import AckMode
from tidings.runtime.broker import Timeout
from tidings.runtime.coercion import event_from
from tidings.runtime.failures import error_of
from tidings.runtime.listener import LATER
from tidings.runtime.middleware import instance_of
from tidings.security.inboxes import INBOX

if TYPE_CHECKING:
    from tidings.runtime.bus import Bus

NUMBER_SIZE = 16  # bytes, random: too many to guess
REQUEST_SECONDS = 30.0  # that a request waits when neither it nor the connection names a timeout


def is_request(event: Event) -> bool:
    """Whether the publisher of an event waits for a reply."""
    header = reply_header_of(event)
    return header is not None and header.topic is not None


def reply_event(request: Event, answer: Any, source: str, error: str | None = None) -> Event:
    """The event that carries an answer (a mapping, a typed instance, an Event or None) back to the
    requester."""
    if isinstance(answer, Event):  # also the request itself, as an echo
        answer = answer.attributes
    elif answer is not None and isinstance(answer, str | int | float | bool):
        raise EventError(
            f"a handler replied with a {type(answer).__name__}",
            hint="reply with a mapping, a dataclass, a msgspec Struct, a Pydantic model, an Event or None",
        )
    header = reply_header_of(request)
    assert header is not None
    event, _ = event_from(answer, {"topic": header.topic}, source)
    return with_header(event, ReplyHeader(correlation=header.correlation, error=error))


def failed_reply(request: Event, error: BaseException, source: str) -> Event:
    """The event that tells the requester that the replier failed."""
    return reply_event(request, None, source, f"{type(error).__name__}: {error}")


class RequestAck:
    """Acknowledgement of a request, among the futures that a bus answers. It passes a refusal, or the end of
    the connection, to the future of the reply."""

    def __init__(self, reply: asyncio.Future[Event]) -> None:
        self.has_come = False
        self._reply = reply

    def done(self) -> bool:
        """Whether the request is over; its acknowledgement does not end it."""
        return self._reply.done()

    def set_result(self, value: Any) -> None:
        self.has_come = True
        if type(value) is CallFailed:
            self.set_exception(error_of(value.code, value.reason, value.id))

    def set_exception(self, error: BaseException) -> None:
        if not self._reply.done():
            self._reply.set_exception(error)


class PendingRequests:
    """The requests of one bus that wait for their replies."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._token = secrets.token_hex(12)
        self._address = ""
        self._waiting: dict[bytes, asyncio.Future[Event]] = {}  # by correlation
        self._opening: asyncio.Task[None] | None = None

    async def ask(self, what: Any, wants: type[Any] | None, timeout: Timeout, options: dict[str, Any]) -> Any:
        """Publish the request and wait for the first reply."""
        bus = self._bus
        seconds = bus._seconds(timeout)
        if seconds is None and timeout is ...:
            seconds = REQUEST_SECONDS
        if seconds is not None:
            options.setdefault("expires", seconds)
        number = secrets.token_bytes(NUMBER_SIZE)
        if not self._address:
            self._address = f"{bus._broker.inbox(bus._address) or INBOX}/{self._token}"
        event, is_numbered = bus._factory.make(what, options)
        event = with_header(event, ReplyHeader(self._address, number))
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._open()
                reply = await self._exchange(event, is_numbered, future)
        except TimeoutError as error:
            if isinstance(error, TimedOutError):
                raise
            if bus.state != "up" and bus.state.reason:
                raise bus._late(None, seconds) from None
            raise TimedOutError(
                f"no reply within {seconds:g} s to the request {event.topic or event.attributes}",
                hint="does a replier's filter accept it? timeout= gives it more time",
            ) from None
        finally:
            del self._waiting[number]
        header = reply_header_of(reply)
        if header is not None and header.error is not None:
            raise ReplyError(f"the replier failed: {header.error}")
        return reply if wants is None else instance_of(wants, reply)

    async def _exchange(self, event: Event, is_numbered: bool, future: asyncio.Future[Event]) -> Event:
        """Publish the request and wait for its reply alone; the acknowledgement matters when it is a refusal.
        A request that was not sent yet is withdrawn when its requester waits no longer."""
        bus = self._bus
        call = bus._last_call = bus._last_call + 1
        answer = bus._submit(call, ClientPublish(call, event, is_numbered, AckMode.AUTO))
        acknowledgement: Any = RequestAck(future)
        bus._waiting[call] = acknowledgement
        if answer is not LATER:
            acknowledgement.set_result(answer)
        try:
            return await future
        finally:
            bus._waiting.pop(call, None)
            if not acknowledgement.has_come:
                bus._input(ClientCancel(call))

    async def _open(self) -> None:
        """Open the inbox once; requests that come meanwhile wait for the same subscription."""
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.create_task(self._subscribe(), name="tidings inbox")
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._opening)

    async def _subscribe(self) -> None:
        inbox = topic(self._address).filter()
        listener = await self._bus.subscribe_callback(inbox, self._receive, replay=False)
        listener.allow(DEFAULT_LIMITS.notifications_ahead)

    def _receive(self, notification: Notification) -> None:
        header = reply_header_of(notification.event)
        future = None if header is None else self._waiting.get(header.correlation or b"")
        if future is not None and not future.done():
            future.set_result(notification.event)
            self._bus._family.has_woken = True
