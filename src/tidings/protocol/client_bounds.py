"""Bounds on client messages: for each field of each message that a client can send, what is at most accepted.

A broker checks a client's message here before it acts on it, so that no number in it decides how much is
allocated or how long a step takes. Rules
- One table (`FIELDS`) names every field of every message of a client, and of the structures inside; a test
  fails when a field has no entry.
- A bound is a name and a value of `ClientLimits`; the refusal names both. Identifiers (calls, refs, tags,
  offsets) are bounded by their width: their size allocates no memory.
- A payload needs no entry of its own: a frame bounds it (`frame_bytes`), and no broker decodes it. The
  headers of an event are decoded by gateways, so they have one.
- A message that has a `call` is refused by it. One without is a breach of the protocol, since no client of
  ours sends it, and ends the connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from math import isnan
from typing import Any

import msgspec

from tidings.errors import RefusedError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import DeliveryOptions
from tidings.model.topic import CONTROL
from tidings.protocol import messages as msg
from tidings.protocol.limits import DEFAULT_LIMITS, ClientLimits

WIDEST = (1 << 63) - 1  # of a number that identifies a call, an event or a position


class FieldBound(ABC):
    """Bound of one field. `limit` names the field of `ClientLimits` that it takes its value from."""

    def __init__(self, limit: str = "", *, low: float = 0) -> None:
        self.limit = limit
        self.low = low

    def most(self, limits: ClientLimits) -> Any:
        return getattr(limits, self.limit) if self.limit else WIDEST

    @abstractmethod
    def check(self, value: Any, limits: ClientLimits) -> None:
        """Raise `RefusedError` when the value is beyond the bound."""

    def _refuse(self, what: str, limits: ClientLimits) -> RefusedError:
        named = f" (limit `{self.limit}`)" if self.limit else ""
        return RefusedError(f"{what}; at most {self.most(limits)}{named}", hint="ask for less")


class NumberBound(FieldBound):
    """A whole number or seconds, between `low` and the limit; None is allowed where the field allows it."""

    def check(self, value: Any, limits: ClientLimits) -> None:
        if value is None:
            return
        if value < self.low:
            raise RefusedError(f"is {value}; at least {self.low:g}", hint="ask for more")
        if value > self.most(limits) or isnan(value):
            raise self._refuse(f"is {value}", limits)


class EitherBound(NumberBound):
    """A number that may be negative, within the limit both ways."""

    def check(self, value: Any, limits: ClientLimits) -> None:
        super().check(abs(value), limits)


class EndlessBound(FieldBound):
    """Seconds of a lifetime, up to forever: any number but a negative one. It allocates no memory; the bytes
    that it keeps are in a quota."""

    def check(self, value: Any, limits: ClientLimits) -> None:
        if value is not None and not value >= 0:
            raise RefusedError(f"is {value}", hint="give seconds, 0, or infinity")


class TextBound(FieldBound):
    """Characters of a text."""

    def check(self, value: Any, limits: ClientLimits) -> None:
        if value is not None and len(value) > self.most(limits):
            raise self._refuse(f"has {len(value)} characters", limits)


class Utf8Bound(TextBound):
    """Bytes of a text in UTF-8, where another protocol counts so."""

    def check(self, value: Any, limits: ClientLimits) -> None:
        most = self.most(limits)
        if value is not None and len(value) * 4 > most and (size := len(value.encode())) > most:
            raise self._refuse(f"has {size} bytes", limits)


class PlainBound(TextBound):
    """Characters of a text that other protocols write into a header: no control characters."""

    def check(self, value: Any, limits: ClientLimits) -> None:
        super().check(value, limits)
        if value is not None and not CONTROL.isdisjoint(value):
            raise RefusedError("holds a control character", hint="leave it out")


class EncodedBound(FieldBound):
    """Bytes of a value as JSON: a list or a table of any values."""

    def check(self, value: Any, limits: ClientLimits) -> None:
        if value and (size := len(msgspec.json.encode(value))) > self.most(limits):
            raise self._refuse(f"has {size} bytes as JSON", limits)


class SequenceBound(FieldBound):
    """Items of a list, each with a bound of its own."""

    def __init__(self, limit: str, item: FieldBound) -> None:
        super().__init__(limit)
        self.item = item

    def check(self, value: Any, limits: ClientLimits) -> None:
        if len(value) > self.most(limits):
            raise self._refuse(f"has {len(value)} entries", limits)
        if type(self.item) is NumberBound:  # thousands of tags: look at the extremes alone
            for one in (min(value), max(value)) if value else ():
                self.item.check(one, limits)
            return
        for one in value:
            self.item.check(one, limits)


class TableBound(FieldBound):
    """Entries of a table, keys and values with bounds of their own."""

    def __init__(self, limit: str, key: FieldBound, value: FieldBound) -> None:
        super().__init__(limit)
        self.key, self.value = key, value

    def check(self, value: Any, limits: ClientLimits) -> None:
        if len(value) > self.most(limits):
            raise self._refuse(f"has {len(value)} entries", limits)
        for key, one in value.items():
            self.key.check(key, limits)
            self.value.check(one, limits)


class HeadersBound(FieldBound):
    """Headers of an event: their number, and the bytes of all names and values together."""

    def check(self, value: Any, limits: ClientLimits) -> None:
        if not value:
            return
        if len(value) > limits.headers:
            raise self._refuse(f"has {len(value)} entries", limits)
        size = sum(len(name.encode()) + len(data) for name, data in value.items())
        if size > limits.header_bytes:
            reason = f"has {size} bytes; at most {limits.header_bytes} (limit `header_bytes`)"
            raise RefusedError(reason, hint="write what is larger into the payload")


class StructBound(FieldBound):
    """A structure whose fields have entries of their own."""

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        super().__init__()
        self.kind = kind

    def check(self, value: Any, limits: ClientLimits) -> None:
        if value is not None:
            _check_fields(value, limits)


class ValuesBound(FieldBound):
    """A table of any values, nested: their number in all, and the characters of each text."""

    def check(self, value: Any, limits: ClientLimits) -> None:
        waiting, seen = [value], 0
        while waiting:
            one = waiting.pop()
            seen += 1
            if seen > limits.about:
                raise RefusedError(f"holds more than {limits.about} values (limit `about`)")
            if isinstance(one, Mapping):
                inner: Iterable[Any] = [part for item in one.items() for part in item]
            elif isinstance(one, list | tuple):
                inner = one
            else:
                if isinstance(one, str | bytes) and len(one) > limits.filter:
                    raise RefusedError(f"holds a text of {len(one)} characters; at most {limits.filter}")
                continue
            if len(one) > limits.about:
                raise RefusedError(f"has {len(one)} entries; at most {limits.about} (limit `about`)")
            waiting += inner


class CheckedBound(FieldBound):
    """A field that the rules of events or of filters bound when they are checked (`by` says where)."""

    def __init__(self, by: str) -> None:
        super().__init__()
        self.by = by

    def check(self, value: Any, limits: ClientLimits) -> None:
        """No check of its own."""


NAME, ID = TextBound("name"), NumberBound()
CALL = NumberBound(
    low=-WIDEST - 1
)  # a client numbers its own requests, those that the application made not, below 0
OFFSET = NumberBound(low=-1)  # before the first entry
PLACES = TableBound("logs", NAME, OFFSET)
OFFSETS = TableBound("logs", NAME, SequenceBound("holdings", OFFSET))  # by log
EVENT, FILTER, OPTIONS = StructBound(Event), StructBound(Filter), StructBound(DeliveryOptions)
FLAG = CheckedBound("its type")  # a boolean or a word of an enumeration

FIELDS: dict[type[msgspec.Struct], dict[str, FieldBound]] = {
    Event: {
        "source": NAME, "id": NAME, "key": NAME, "content_type": PlainBound("name"),
        "type": SequenceBound("lineage", NAME),
        "body": CheckedBound("model.body.packed_body: MAX_ATTRIBUTES, MAX_NESTING, MAX_ITEMS"),
        "rich": CheckedBound("model.body.packed_body"),
        "topic": Utf8Bound("topic"), "time": CheckedBound("model.value.checked_time"),
        "payload": CheckedBound("frame_bytes"), "lifetime": EndlessBound(), "expires": EndlessBound(),
        "headers": HeadersBound("headers"),
    },
    Filter: {
        "text": TextBound("filter"),
        "conjunctions": CheckedBound("parsing: a client's normal form is not used"),
        "dialect": NAME,
    },
    DeliveryOptions: {
        "durable": FLAG, "queue": NumberBound("queue", low=1), "policy": FLAG, "group": NAME,
        "max_deliveries": NumberBound("deliveries", low=1), "keep_seconds": NumberBound("seconds"),
        "keep_events": ID, "replay": FLAG, "dead_letters_of": NAME, "until_live": FLAG, "superseding": FLAG,
        "takes_over": FLAG,
    },
    msg.Hello: {"client": NAME, "incarnation": NAME, "version": ID, "owner": NAME, "memory": ID},
    msg.ClientJoined: {"stay": ID, "places": TableBound("sources", NAME, PLACES)},
    msg.Publish: {"call": CALL, "event": EVENT, "sequence": ID, "mode": FLAG},
    msg.Subscribe: {
        "call": CALL, "ref": ID, "name": NAME, "filter": FILTER, "options": OPTIONS, "named": FLAG,
        "after": PLACES,
        "credit": NumberBound("credit"),
    },
    msg.Home: {"ref": ID, "log": NAME},
    msg.MemberHoldings: {"ref": ID, "taken": OFFSETS, "committed": OFFSETS},
    msg.Unsubscribe: {"call": CALL, "ref": ID, "end": FLAG, "takes_rest": FLAG},
    msg.Credit: {"ref": ID, "amount": EitherBound("credit")},
    msg.Ack: {"ref": ID, "tags": SequenceBound("tags", ID)},
    msg.AckCredit: {"ref": ID, "tags": SequenceBound("tags", ID), "amount": EitherBound("credit")},
    msg.AckAll: {"ref": ID, "tag": ID, "count": NumberBound("tag_range")},
    msg.Nack: {"ref": ID, "tags": SequenceBound("tags", ID), "counted": FLAG, "reason": NAME},
    msg.Fence: {"ref": ID, "number": ID},
    msg.Advertise: {"call": CALL, "name": NAME, "filter": FILTER},
    msg.Unadvertise: {"call": CALL, "name": NAME},
    msg.ReadLog: {
        "call": CALL, "filter": FILTER, "after": OFFSET, "limit": NumberBound("page"), "log": NAME,
        "superseded": FLAG,
    },
    msg.StageEvents: {
        "call": CALL, "query": NAME, "batch": ID, "part": ID, "events": SequenceBound("events", EVENT),
        "log": NAME,
    },
    msg.CommitStaged: {"call": CALL, "query": NAME, "batch": ID, "parts": NumberBound("parts"), "log": NAME},
    msg.CommitParts: {"call": CALL, "query": NAME, "batch": ID, "numbers": SequenceBound("parts", ID),
        "log": NAME},
    msg.HoldLog: {
        "call": CALL, "name": NAME, "filter": FILTER, "upto": OFFSET, "seconds": NumberBound("hold_seconds"),
        "releases": FLAG, "log": NAME, "most_bytes": ID, "superseding": FLAG,
    },
    msg.EndHold: {"call": CALL, "name": NAME},
    msg.AskCommitted: {"call": CALL, "query": NAME},
}  # fmt: skip


def check_message(message: msgspec.Struct, limits: ClientLimits = DEFAULT_LIMITS.client) -> None:
    """Refuse a client's message that asks for more than a bound: raises `RefusedError`, which names the
    field."""
    try:
        _check_fields(message, limits)
    except RefusedError as error:
        raise RefusedError(msg.tag_of(type(message)) + error.message, hint=error.hint) from None


def _check_fields(value: msgspec.Struct, limits: ClientLimits) -> None:
    for name, check in _CHECKS[type(value)]:
        try:
            check(getattr(value, name), limits)
        except RefusedError as error:  # the path to the field is made up only when it is needed
            below = error.message if error.message.startswith(".") else f" {error.message}"
            raise RefusedError(f".{name}{below}", hint=error.hint) from None


def _checks(fields: dict[str, FieldBound]) -> list[tuple[str, Callable[[Any, ClientLimits], None]]]:
    return [(name, bound.check) for name, bound in fields.items() if type(bound) is not CheckedBound]


_CHECKS = {kind: _checks(fields) for kind, fields in FIELDS.items()}


def declare(kind: type[msgspec.Struct], fields: dict[str, FieldBound]) -> None:
    """Bound a message that another package declares (handshake and inquiries, `runtime.words`)."""
    FIELDS[kind] = fields
    _CHECKS[kind] = _checks(fields)
