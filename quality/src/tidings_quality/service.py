"""An organisation's notification service as a process: HTTP and JSON, for its users and for the others.

Rules
- `/edl/notify` and `/edl/changeSub` are for other organisations, each of which shows its name and the token
  that was agreed with it. All else is for local users and the quality factory, who show the organisation's
  own token. Without an agreed token, only this machine is let in.
- An answer leaves when what it promises is on the disk.
- `GET .../notifications` waits up to `wait` seconds; what it gives stays until it is acknowledged, so a
  reader that crashes finds it again, under the same numbers.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tidings.errors import InputError
from tidings.gateway.problems import Problem, answering, unrouted, whole_body
from tidings.gateway.serving import Serving
from tidings.model.decoding import UNREADABLE
from tidings.runtime import tls
from tidings_quality.interface import UserRequest
from tidings_quality.model import QualityChange
from tidings_quality.notifier import Notifier
from tidings_quality.organisation import DISPATCH, ChangeSub, OrganisationService, QualityNotification
from tidings_quality.routing.trees import Branch
from tidings_quality.schema import write_schema
from tidings_quality.sending import BACK, CONFIRMED, WHO, OutgoingWorkers
from tidings_quality.settings import OrganisationSettings
from tidings_quality.state import OrganisationState, unpacked

T = TypeVar("T")

MOST_BYTES = 16 * 2**20  # of a body
MOST_SECONDS = 60.0  # that a reader may wait
MOST_NOTIFICATIONS = 1000  # in one answer


class _ChangeBody(msgspec.Struct):
    event: msgspec.Raw
    below: tuple[Branch, ...] = ()


class _NotifyBody(msgspec.Struct):
    notifications: tuple[_ChangeBody, ...]


class _AckBody(msgspec.Struct):
    upto: int


class OrganisationServer:
    """One organisation, serving."""

    def __init__(self, settings: OrganisationSettings) -> None:
        self.settings = settings.check()
        self._state = OrganisationState(settings.state or None, remember=settings.remember)
        self.organisation = OrganisationService(settings, self._state)
        self._notifier = Notifier()
        self._outgoing = OutgoingWorkers(self.organisation, self._notifier)
        self.app = Starlette(routes=self._routes(), exception_handlers={HTTPException: unrouted})
        self._serving = Serving(self.app, settings.listen, tls.listening(settings.tls))

    def _routes(self) -> list[Route]:
        table = (
            ("/edl/notify", self.notify, "POST"),
            ("/edl/changeSub", self.change_sub, "POST"),
            ("/changes", self.changes, "POST"),
            ("/subscriptions", self.subscribe, "POST"),
            ("/subscriptions", self.subscriptions, "GET"),
            ("/subscriptions/{id}", self.unsubscribe, "DELETE"),
            ("/subscriptions/{id}/notifications", self.notifications, "GET"),
            ("/subscriptions/{id}/ack", self.acknowledge, "POST"),
            ("/tables", self.tables, "GET"),
            ("/schema", self.schema, "GET"),
            ("/health", self.health, "GET"),
        )
        return [Route(path, answering(endpoint), methods=[method]) for path, endpoint, method in table]

    @property
    def address(self) -> str:
        return self._serving.address

    async def start(self) -> None:
        await self._serving.start()
        self._outgoing.start()

    async def close(self) -> None:
        await self._outgoing.close()
        await self._serving.close()
        self._state.close()

    # -- for other organisations ------------------------------------------------------------------

    async def notify(self, request: Request) -> Response:
        sender = self._peer(request)
        delivered = await _body(request, _NotifyBody)
        events = [
            QualityNotification(unpacked(bytes(one.event)), one.below) for one in delivered.notifications
        ]
        return JSONResponse({"new": self.organisation.notified(sender, events)})

    async def change_sub(self, request: Request) -> Response:
        consumer = self._peer(request)
        answer = self.organisation.sub_changed(consumer, await _body(request, ChangeSub))
        status = HTTPStatus.OK if answer.number is None else HTTPStatus.CONFLICT
        return JSONResponse({"number": answer.number, "refused": answer.refused}, status)

    # -- for the quality factory --------------------------------------------------------------------

    async def changes(self, request: Request) -> Response:
        self._local(request)
        delivered = await _body(request, tuple[QualityChange, ...])
        return JSONResponse({"taken": len(delivered), "new": self.organisation.changed(delivered)})

    # -- for local users ----------------------------------------------------------------------------

    async def subscribe(self, request: Request) -> Response:
        self._local(request)
        one, resumed = self.organisation.subscribe(await _body(request, UserRequest))
        pending = await self._settled(one.id, _seconds(request, 5.0))
        status = HTTPStatus.OK if resumed else HTTPStatus.CREATED
        fields = {"resumed": resumed, "pending": pending, "refused": self.organisation.refusals(one.id)}
        return JSONResponse({**_shown(one), **fields}, status)

    async def _settled(self, id: str, seconds: float) -> list[str]:
        """Wait until the producers know of a subscription; those that do not by then."""
        end = asyncio.get_running_loop().time() + seconds
        while pending := self.organisation.unconfirmed(id):
            self._notifier.hush(CONFIRMED, pending[0])
            left = end - asyncio.get_running_loop().time()
            if left <= 0 or not await self._notifier.wait(CONFIRMED, pending[0], left):
                break
        return pending

    async def subscriptions(self, request: Request) -> Response:
        self._local(request)
        return JSONResponse([_shown(one) for one in self.organisation.subscriptions()])

    async def unsubscribe(self, request: Request) -> Response:
        self._local(request)
        self.organisation.unsubscribe(request.path_params["id"])
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def notifications(self, request: Request) -> Response:
        self._local(request)
        one = self.organisation.subscription(request.path_params["id"])
        after = _whole(request, "after", 0)
        limit = min(_whole(request, "limit", 100), MOST_NOTIFICATIONS)
        end = asyncio.get_running_loop().time() + _seconds(request, 0.0)
        while True:
            self._notifier.hush(DISPATCH, one.id)
            found = self._state.notifications(one.id, after, limit)
            left = end - asyncio.get_running_loop().time()
            if found or left <= 0:
                break
            await self._notifier.wait(DISPATCH, one.id, left)
        given = [{"number": number, "event": msgspec.Raw(event)} for number, event in found]
        return Response(msgspec.json.encode({"notifications": given}), media_type="application/json")

    async def acknowledge(self, request: Request) -> Response:
        self._local(request)
        one = self.organisation.subscription(request.path_params["id"])
        self._state.acknowledge(one.id, (await _body(request, _AckBody)).upto)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def tables(self, request: Request) -> Response:
        self._local(request)
        return JSONResponse(self.organisation.tables())

    async def schema(self, request: Request) -> Response:
        self._local(request)
        return Response(write_schema(self.settings.schema), media_type="application/json")

    async def health(self, request: Request) -> Response:
        del request  # open to all callers
        return JSONResponse({"organisation": self.settings.name})

    # -- who ----------------------------------------------------------------------------------------

    def _peer(self, request: Request) -> str:
        """The organisation that asks. Raises `Problem` (401)."""
        name = request.headers.get(WHO, "")
        peer = self.settings.peers.get(name)
        if peer is None or not _shows(request, peer.token):
            raise Problem(
                HTTPStatus.UNAUTHORIZED, f"{name or 'nobody'} is not known here, or shows another token",
                hint=f"{WHO}: NAME and Authorization: Bearer TOKEN, as agreed",
            )  # fmt: skip
        self._notifier.ring(BACK, name)
        return name

    def _local(self, request: Request) -> None:
        if not _shows(request, self.settings.token):
            raise Problem(
                HTTPStatus.UNAUTHORIZED, "only users of this organisation are served",
                hint="Authorization: Bearer TOKEN, or from this machine where no token is set",
            )  # fmt: skip


def _shows(request: Request, token: str) -> bool:
    scheme, _, shown = request.headers.get("authorization", "").partition(" ")
    if token:
        return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), token.encode())
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


async def _body(request: Request, type: type[T]) -> T:
    body = await whole_body(request, MOST_BYTES)
    try:
        return msgspec.json.decode(body, type=type)
    except UNREADABLE as error:
        raise InputError(f"the body cannot be read: {error}") from None


def _whole(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise InputError(f"{name} is {text!r}", hint="a whole number")
    return int(text)


def _seconds(request: Request, default: float) -> float:
    text = request.query_params.get("wait", str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_SECONDS:
        raise InputError(f"wait is {text!r}", hint=f"seconds, at most {MOST_SECONDS:g}")
    return seconds


def _shown(one: Any) -> dict[str, Any]:
    return {"id": one.id, "user": one.user, "subscription": one.text, "dispatcher": one.dispatcher}
