"""All brokers of a network, asked as one visitor: the own broker in this process, the others by a link each.

Rules
- Every broker sees the visitor's own credentials: the console shows only what that broker permits.
- Brokers are found by walking from the own one along the links, and those that were found before are asked
  again, so that one that is down does not hide what is behind it.
- A broker that does not answer in time is in the answers too, with its problem.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from tidings.console.sessions import Visitor
from tidings.errors import InputError, RefusedError, TidingsError, UnreachableError
from tidings.gateway.http_sessions import client_name
from tidings.runtime import tls
from tidings.runtime.bus import Bus
from tidings.runtime.connect import connect
from tidings.runtime.service import Service

PATIENCE_SECONDS = 3.0  # for one broker's answer
SHORT_SECONDS = 0.3  # for one that did not answer the last time: the others are not kept waiting for it
ACT_SECONDS = 60.0  # for an act of administration, such as a purge
FORGET_AFTER = 30  # looks without an answer, after which a broker is no longer asked

Answer = dict[str, Any]
Answers = dict[str, Answer]


class BrokerNetwork:
    """Queries of one visitor to the brokers. `close` ends its links."""

    def __init__(self, service: Service, visitor: Visitor) -> None:
        self._server = service.server
        self._settings = service.settings
        self._visitor = visitor
        self._client = client_name(visitor.principal, f"console-{secrets.token_hex(4)}")
        self._addresses: dict[str, str] = {}  # of the others, by name
        self._silent: dict[str, int] = {}  # looks that a broker did not answer
        self._buses: dict[str, Bus] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def own(self) -> str:
        return self._server.name

    @property
    def brokers(self) -> tuple[str, ...]:
        return (self.own, *self._addresses)

    async def walk(self, what: str, about: Mapping[str, Any] | None = None) -> Answers:
        """Ask all known brokers, and their neighbours in turn; answers without `links` end the walk there."""
        answers: Answers = {}
        wave = {self.own, *self._addresses}
        while wave:
            reported = await asyncio.gather(
                *(self._answer_of(name, what, about or {}) for name in sorted(wave))
            )
            answers |= dict(zip(sorted(wave), reported, strict=True))
            links = {name: at for one in reported for name, at in one.get("links", {}).items() if at}
            self._learn(links)
            wave = links.keys() - answers.keys()
        return answers

    async def ask(self, what: str, about: Callable[[str], Mapping[str, Any]]) -> Answers:
        """Ask those that the last walk found, each about what is its own."""
        names = sorted(self.brokers)
        reported = await asyncio.gather(*(self._answer_of(name, what, about(name)) for name in names))
        return dict(zip(names, reported, strict=True))

    async def one(self, name: str, what: str, about: Mapping[str, Any]) -> Answer:
        """Ask one broker that the last walk found. Raises what the broker answers."""
        if name not in self.brokers:
            raise InputError(f"no broker is called {name!r} here", hint=f"one of {', '.join(self.brokers)}")
        try:
            async with asyncio.timeout(ACT_SECONDS):
                delivered: Answer = await self._inquire(name, what, about)
        except TimeoutError:
            raise UnreachableError(
                f"broker {name} did not answer within {ACT_SECONDS:g} s", hint="look whether it was done"
            ) from None
        return delivered

    def _learn(self, links: dict[str, str]) -> None:
        for name, address in links.items():
            if name != self.own and self._addresses.get(name) != address:
                self._addresses[name] = address
                self._forget_bus(name)

    async def _answer_of(self, name: str, what: str, about: Mapping[str, Any]) -> Answer:
        patience = SHORT_SECONDS if self._silent.get(name) else PATIENCE_SECONDS
        try:
            async with asyncio.timeout(patience):
                delivered = await self._inquire(name, what, about)
        except TidingsError as error:
            return self._missed(name, str(error), is_silent=not isinstance(error, RefusedError))
        except (TimeoutError, OSError) as error:
            return self._missed(name, str(error) or f"no answer within {patience:g} s", is_silent=True)
        self._silent.pop(name, None)
        return delivered if isinstance(delivered, dict) else {"broker": name, "value": delivered}

    async def _inquire(self, name: str, what: str, about: Mapping[str, Any]) -> Any:
        if name == self.own:
            return await self._server.informed(self._visitor.principal, what, dict(about))
        async with self._opening.setdefault(name, asyncio.Lock()):
            bus = self._buses.get(name)
            if bus is None or bus.state in ("refused", "closed"):
                bus = self._buses[name] = await self._connected(self._addresses[name])
        return await bus.inquire(what, **about)

    async def _connected(self, address: str) -> Bus:
        secure = address.startswith("tidings+tls://")
        bus = connect(
            address,
            name=self._client,
            timeout=PATIENCE_SECONDS,
            credentials=self._visitor.secret.credentials(),
            tls=tls.dialling(authority=self._settings.tls.authority) if secure else None,
        )
        try:
            return await bus.open()
        except BaseException:
            await bus.close()
            raise

    def _missed(self, name: str, problem: str, *, is_silent: bool) -> Answer:
        address = self._addresses.get(name, "")
        if is_silent:
            self._silent[name] = self._silent.get(name, 0) + 1
        if self._silent.get(name, 0) > FORGET_AFTER and name != self.own:
            self._addresses.pop(name, None)
            self._silent.pop(name, None)
            self._forget_bus(name)
        return {"broker": name, "address": address, "problem": problem}

    def _forget_bus(self, name: str) -> None:
        bus = self._buses.pop(name, None)
        if bus is not None:
            task = asyncio.create_task(bus.close())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        for name in list(self._buses):
            self._forget_bus(name)
        await asyncio.gather(*self._ending, return_exceptions=True)
