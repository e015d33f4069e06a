"""A broker behind the gates of its clients: principals with rights, in the simulator.

`GuardedNode` is a machine like the node that it holds. Messages of clients pass the gate of their session,
inward and outward, as in the runtime; the gate itself is the runtime's and is handed in, because drivers do
not import one another. Messages of brokers pass untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from resource import RUSAGE_SELF, getrusage
from typing import Any, Protocol

from tidings.errors import RefusedError, WireError
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.protocol.client_failover import KeepaliveRequest
from tidings.protocol.messages import Message, tag_of
from tidings.protocol.node import Node
from tidings.security.audit import Audit
from tidings.security.authorization import Authorizer as Guard
from tidings.security.principal import Principal, ProofMethod
from tidings.security.users import Users

MOST_GROWTH = 32 << 10  # KiB of memory for one message of a hostile client


class SessionGuard(Protocol):
    """One client's session, as the runtime guards it."""

    def inward(self, messages: list[Message]) -> list[Message]: ...
    def outlet(self, answered: Callable[[], None]) -> Callable[[Message], None]: ...
    def close(self) -> None: ...


class GuardRules:
    """The users file of all brokers, as it is now."""

    def __init__(self, users: Users, brokers: tuple[str, ...], build: Callable[..., SessionGuard]) -> None:
        self.users = users
        self.brokers = frozenset(brokers)
        self.build = build  # a gate: client, principal, guard, say, hand_in, held
        self.sent: Callable[[Principal, Message], None] = lambda principal, message: None
        self.hostile: frozenset[str] = frozenset()  # clients with messages that must cost little
        self._guards: dict[str, Guard] = {}

    def guard(self, broker: str, clock: Callable[[], float]) -> Guard:
        """The guard of a broker that starts."""
        guard = Guard(self.users, clock=clock, audit=Audit(lambda entry: None, clock))
        self._guards[broker] = guard
        return guard

    def replace(self, users: Users) -> None:
        """The file was edited, and every broker has read it."""
        self.users = users
        for guard in self._guards.values():
            guard.replace(users)

    def principal(self, client: str) -> Principal | None:
        """The principal of a client; None: it is not admitted."""
        try:
            return self.users.complete(Principal(client, ProofMethod.SCRAM))
        except RefusedError:
            return None


def _largest() -> int:
    """The largest resident size of this process so far, in KiB."""
    return getrusage(RUSAGE_SELF).ru_maxrss


class _GuardedSession:
    __slots__ = ("ingress", "out", "outlet", "principal")

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.out: list[Message] = []
        self.ingress: SessionGuard
        self.outlet: Callable[[Message], None]


class GuardedNode:
    """Machine: a node and the gates in front of it."""

    def __init__(self, node: Node, rules: GuardRules) -> None:
        self.node = node
        self.slots = node.slots
        self._rules = rules
        self._now = 0.0
        self._guard = rules.guard(node.name, lambda: self._now)
        self._sessions: dict[str, _GuardedSession] = {}
        self._own: list[ins.Received] = []  # what gates say in a client's place

    def next_deadline(self) -> float | None:
        return self.node.next_deadline()

    def check(self) -> None:
        self.node.check()

    def handle(self, input: Any, now: float) -> list[Any]:
        self._now = now
        effects = self._handle(input, now)
        while self._own:
            effects += self._outward(self.node.handle(self._own.pop(0), now))
        return effects

    def _handle(self, input: Any, now: float) -> list[Any]:
        kind = type(input)
        if kind is ins.LinkUp and input.peer not in self._rules.brokers:
            if not self._admit(input.peer):
                return [fx.CloseLink(input.peer, "not let in")]
        elif kind is ins.LinkDown:
            self._leave(input.peer)
        elif kind is ins.Received and input.sender not in self._rules.brokers:
            return self._receive(input, now)
        elif kind is ins.ReceivedAll and input.sender not in self._rules.brokers:  # a gate looks at each
            each = [self._receive(ins.Received(input.sender, message), now) for message in input.messages]
            return list(chain.from_iterable(each))
        return self._outward(self.node.handle(input, now))

    # -- sessions ----------------------------------------------------------------------------------

    def _admit(self, client: str) -> bool:
        self._leave(client)
        principal = self._rules.principal(client)
        if principal is None:
            return False
        session = _GuardedSession(principal)
        session.ingress = self._rules.build(
            client, principal, self._guard,
            say=session.out.append,
            hand_in=lambda message: self._own.append(ins.Received(client, message)),
            beside=lambda message: self._beside(client, message),
            registered=self.node.subscription,
        )  # fmt: skip
        session.outlet = session.ingress.outlet(lambda: None)
        self._sessions[client] = session
        return True

    def _leave(self, client: str) -> None:
        session = self._sessions.pop(client, None)
        if session is not None:
            session.ingress.close()

    # -- messages ----------------------------------------------------------------------------------

    def _beside(self, client: str, message: Message) -> bool:
        if type(message) is KeepaliveRequest:
            self._own.append(ins.Received(client, message))
            return True
        return False

    def _receive(self, input: ins.Received, now: float) -> list[Any]:
        session = self._sessions.get(input.sender)
        if session is None:
            return []
        before = _largest() if input.sender in self._rules.hostile else 0
        effects = self._let_in(session, input, now)
        if before and (grown := _largest() - before) > MOST_GROWTH:
            kind = tag_of(type(input.message))
            raise AssertionError(
                f"{self.node.name} grew by {grown >> 10} MiB at one {kind} of {input.sender}"
            )
        return effects

    def _let_in(self, session: _GuardedSession, input: ins.Received, now: float) -> list[Any]:
        try:
            allowed = session.ingress.inward([input.message])
        except WireError as error:
            return [fx.CloseLink(input.sender, str(error))]
        effects = self._said(input.sender, session)
        for message in allowed:
            effects += self._outward(self.node.handle(ins.Received(input.sender, message), now))
        return effects

    def _outward(self, effects: list[Any]) -> list[Any]:
        passed: list[Any] = []
        for effect in effects:
            if type(effect) is not fx.Send or effect.to in self._rules.brokers:
                passed.append(effect)
                continue
            session = self._sessions.get(effect.to)
            if session is not None:
                session.outlet(effect.message)
                passed += self._said(effect.to, session)
        return passed

    def _said(self, client: str, session: _GuardedSession) -> list[Any]:
        out, session.out[:] = list(session.out), []
        for message in out:
            self._rules.sent(session.principal, message)
        return [fx.Send(client, message) for message in out]
