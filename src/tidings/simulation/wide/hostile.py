"""A hostile client: sends well-formed messages with extreme values and foreign names, and never reads.

Every message that a client may send is built field by field from its declared type. Only the observer looks
at the answers: a hostile client never acknowledges and gives credit without end.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from enum import StrEnum
from random import Random
from typing import Any, Union, get_args, get_origin

import msgspec

from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import DeliveryOptions
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.protocol import messages as msg

PAUSE_SECONDS = 0.4  # between two bursts
NUMBERS = (0, 1, 2, 7, 255, 10_000, 1 << 21, (1 << 31) - 1, 1 << 40, 1 << 62, -1, -(1 << 40))
COUNTS = ("parts", "count", "batch", "numbers")
MOST_COUNTED = 1 << 21  # a broker that allocates so much for one message is found out, and this process lives
SECONDS = (0.0, 1.0, -1.0, 1e12, float("inf"), float("nan"))
FILTERS = ("TRUE", "EXISTS x", "x >= 0", "k = 0", "x IN (" + ", ".join(map(str, range(200))) + ")")
KINDS = tuple(kind for kind in msg.CLIENT_MESSAGES if kind is not msg.Hello)


class HostileClient:
    """A machine of the simulator. `seen` is called with each event that it was sent."""

    def __init__(
        self, name: str, broker: str, *, rng: Random, names: tuple[str, ...], seen: Callable[[Event], None]
    ) -> None:
        self.name = name
        self.broker = broker
        self.incarnation = f"{rng.getrandbits(48):012x}"
        self._rng = rng
        self._names = names  # of others: clients, subscriptions, groups, logs
        self._seen = seen
        self._is_up = False
        self._at: float | None = None
        self._call = 0
        self.sent = 0

    def handle(self, input: Any, now: float) -> list[Any]:
        out: list[Any] = []
        if type(input) is ins.LinkUp:
            out.append(fx.Send(input.peer, msg.Hello(self.name, self.incarnation)))
            self.broker, self._is_up, self._at = input.peer, True, now + PAUSE_SECONDS
        elif type(input) is ins.LinkDown:
            self._is_up, self._at = False, None
        elif type(input) is ins.Received:
            self._look(input.message)
        elif type(input) is ins.TimerFired and self._is_up:
            count = self._rng.choice((1, 2, 5))
            out += [fx.Send(self.broker, self._message()) for _ in range(count)]
            self.sent += count
            self._at = now + PAUSE_SECONDS
        return out

    def next_deadline(self) -> float | None:
        return self._at

    def check(self) -> None:
        """A hostile client makes no promise."""

    def _look(self, message: Any) -> None:
        if type(message) is msg.Deliver:
            self._seen(message.event)
        elif type(message) is msg.DeliverAll:
            for event in message.events:
                self._seen(event)
        elif type(message) is msg.LogRead:
            for entry in message.entries:
                self._seen(entry.event)

    # -- messages ----------------------------------------------------------------------------------

    def _message(self) -> msg.Message:
        kind = self._rng.choice(KINDS)
        built: msg.Message = self._struct(kind)
        return built

    def _struct(self, kind: Any) -> Any:
        fields = msgspec.structs.fields(kind)
        return kind(**{field.name: self._value(field.type, field.name) for field in fields})

    def _value(self, kind: Any, name: str) -> Any:
        rng = self._rng
        if name == "call":
            self._call += 1
            return self._call
        if name == "ref":
            return rng.choice((1, 2, 3, 1 << 40, -1))
        if kind is int:
            number = rng.choice(NUMBERS)
            return min(number, MOST_COUNTED) if name in COUNTS else number
        if kind is float:
            return rng.choice(SECONDS)
        if kind is bool:
            return rng.random() < 0.5
        if kind is str:
            return self._text()
        if kind is bytes:
            return bytes(rng.choice((0, 1, 300)))
        return self._compound(kind, name)

    def _compound(self, kind: Any, name: str) -> Any:
        rng, origin = self._rng, get_origin(kind)
        if kind is Filter:
            return parse_filter(rng.choice(FILTERS))
        if kind is Event:
            return self._event()
        if origin in (Union, types.UnionType):
            given = [each for each in get_args(kind) if each is not type(None)]
            return None if rng.random() < 0.4 else self._value(given[0], name)
        if origin is tuple:
            return tuple(self._value(get_args(kind)[0], name) for _ in range(rng.choice((0, 1, 3, 40))))
        if origin is dict:
            key, value = get_args(kind)
            return {self._value(key, name): self._value(value, name) for _ in range(rng.choice((0, 1, 3)))}
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return rng.choice(list(kind))
        if kind is DeliveryOptions or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            return self._struct(kind)
        return None

    def _text(self) -> str:
        rng = self._rng
        return rng.choice((*self._names, self.name, "", "#", "a\nb", "x" * 300))

    def _event(self) -> Event:
        rng = self._rng
        return Event(
            source=rng.choice((self.name, self.name, *self._names)),
            id=rng.choice((self._text(), str(rng.randrange(50)))),
            body={"x": rng.choice(NUMBERS), "k": rng.choice((0, 9, 9))},
            topic=rng.choice((None, None, "a/b", "a/#")),
            payload=rng.choice((None, bytes(200))),
            lifetime=rng.choice(SECONDS),
            key=rng.choice((None, "key")),
            expires=rng.choice((None, 1.0)),
        )
