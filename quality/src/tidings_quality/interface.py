"""The Internal Interface Layer: an organisation and its own users (Virgillito 2003, section 5.4.4).

Parts
- `Interpreter`: reads what a user hands in as a subscription. Pluggable: `quality` reads
  `ON ... FROM ... WHERE ...`, `triple` the JSON form; or any callable, as `package.module:name`.
- The local subscription table is in `state`; `LocalMatcher` finds the subscriptions that hear an event.
- `UserDispatcher`: brings notifications to users, at addresses that the organisation allows. Pluggable:
  `inbox` keeps them until they are fetched and acknowledged, `webhook` posts them, `broker` publishes them to
  a broker of Tidings; or any class with `dispatch`, as `package.module:name`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from tidings.errors import InputError, RefusedError, SettingsError, UnreachableError
from tidings.matching.engine import MatchingEngine
from tidings.model.event import Event
from tidings.runtime.environment import credentials, tls_context
from tidings_quality.schema import Schema
from tidings_quality.state import LocalSubscription
from tidings_quality.subscription import QualitySubscription, parse_subscription, subscription_of

Interpreter = Callable[[Any], QualitySubscription]  # what the user handed in, as JSON reads it


def read_words(given: Any) -> QualitySubscription:
    if not isinstance(given, str):
        raise InputError("a subscription is text here", hint="ON Class FROM sources WHERE condition")
    return parse_subscription(given)


def read_triple(given: Any) -> QualitySubscription:
    if not isinstance(given, dict):
        raise InputError("a subscription is a JSON object here", hint="class, sources, data, quality")
    return subscription_of(given)


INTERPRETERS: dict[str, Interpreter] = {"quality": read_words, "triple": read_triple}


def interpreter_of(name: str) -> Interpreter:
    """By its name, or by `package.module:name`."""
    found: Interpreter = INTERPRETERS.get(name) or _imported(name, "interpreter", INTERPRETERS)
    return found


class LocalMatcher:
    """Internal matcher: finds the local subscriptions that hear an event."""

    def __init__(self) -> None:
        self._engine = MatchingEngine()
        self._handles: dict[str, int] = {}
        self._ids: dict[int, str] = {}

    def add(self, id: str, wanted: QualitySubscription) -> None:
        handle = self._handles[id] = self._engine.add(wanted.filter)
        self._ids[handle] = id

    def remove(self, id: str) -> None:
        handle = self._handles.pop(id)
        del self._ids[handle]
        self._engine.remove(handle)

    def match(self, event: Event) -> list[str]:
        """The ids of the subscriptions, in a fixed order."""
        return sorted(self._ids[handle] for handle in self._engine.match(event))


# -- dispatchers --------------------------------------------------------------------------------------


class UserDispatcher(Protocol):
    """Brings events to one subscription's user."""

    async def dispatch(self, event: Event) -> None:
        """Hand an event over; any exception means: again, later. It may come twice after a crash."""

    async def close(self) -> None: ...


class UserWebhook:
    """Posts CloudEvents to the subscription's target, as the gateway's webhooks do."""

    def __init__(self, one: LocalSubscription) -> None:
        import httpx

        from tidings.gateway.webhooks import TIMEOUT_SECONDS, Sink

        if not one.target.startswith(("http://", "https://")):
            raise SettingsError(f"no webhook is at {one.target!r}", hint="give http:// or https://")
        self._sink = Sink(address=one.target, mode="structured")
        secure = one.target.startswith("https")  # loading certificates takes time
        self._client = httpx.AsyncClient(timeout=TIMEOUT_SECONDS, verify=secure)

    async def dispatch(self, event: Event) -> None:
        headers, body = self._sink.request(event, int(time.time()))
        answer = await self._client.post(self._sink.address, headers=headers, content=body)
        if not answer.is_success:
            raise UnreachableError(f"{self._sink.address} answers {answer.status_code}")

    async def close(self) -> None:
        await self._client.aclose()


class BrokerOutlet:
    """Publishes to a broker of Tidings that the organisation runs already.

    The environment proves who we are there (see `runtime.environment`). An event that comes again is the same
    event there, and is delivered once."""

    def __init__(self, one: LocalSubscription) -> None:
        import tidings

        self._bus = tidings.connect(
            one.target, name=f"qns-{one.id}", credentials=credentials(os.environ),
            tls=tls_context(os.environ, one.target),
        )  # fmt: skip
        self._open = False

    async def dispatch(self, event: Event) -> None:
        if not self._open:
            await self._bus.open()
            self._open = True
        await self._bus.publish(event)

    async def close(self) -> None:
        if self._open:
            await self._bus.close()


INBOX = "inbox"  # no dispatcher at all: notifications wait until they are fetched
DISPATCHERS: dict[str, Callable[[LocalSubscription], UserDispatcher]] = {
    "webhook": UserWebhook,
    "broker": BrokerOutlet,
}


def dispatcher_of(one: LocalSubscription) -> UserDispatcher | None:
    """Dispatcher of this subscription's notifications; None: they are fetched."""
    if one.dispatcher == INBOX:
        return None
    make = DISPATCHERS.get(one.dispatcher)
    if make is None:
        make = _imported(one.dispatcher, "dispatcher", {INBOX: 0, **DISPATCHERS})
    made: UserDispatcher = make(one)
    return made


def _imported(name: str, what: str, known: dict[str, Any]) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"no {what} is called {name!r}", hint=f"{', '.join(known)}, or package.module:name"
        ) from error


class UserRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Request of a user."""

    subscription: Any  # as the organisation's interpreter reads it
    user: str
    name: str
    dispatcher: str = INBOX
    target: str = ""


class Allowed(Protocol):
    """Dispatchers that the organisation lets its users choose."""

    @property
    def schema(self) -> Schema: ...
    @property
    def dispatchers(self) -> tuple[str, ...]: ...
    @property
    def targets(self) -> tuple[str, ...]: ...


def checked(request: UserRequest, interpret: Interpreter, allowed: Allowed) -> QualitySubscription:
    """The subscription that is asked for, or what is wrong with it."""
    if not request.user or not request.name:
        raise InputError("a subscription needs a user and a name")
    if request.dispatcher not in allowed.dispatchers:
        raise InputError(f"no dispatcher {request.dispatcher!r} here", hint=", ".join(allowed.dispatchers))
    if request.dispatcher in DISPATCHERS:
        _check_target(request.target, allowed.targets)
    wanted = interpret(request.subscription).check(allowed.schema)
    if wanted.filter.is_never_true:
        raise InputError(f"nothing can ever match {wanted.text}")
    return wanted


def _check_target(target: str, hosts: Sequence[str]) -> None:
    """Refuse an address that the organisation does not send to."""
    try:
        parts = urlsplit(target)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if not host or parts.username or parts.fragment:
        raise InputError(
            f"the target {target!r} is no address", hint="https://host/path or tidings://host:port"
        )
    if not any(fnmatchcase(host, pattern) for pattern in hosts):
        raise RefusedError(
            f"nothing is sent to {host} from here", hint="the organisation allows hosts in `targets`"
        )
