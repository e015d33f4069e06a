"""Bounds on client messages: every field of every message that a client can send has one, and a broker keeps
it."""

from __future__ import annotations

import asyncio
import inspect
import tracemalloc
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from tidings.errors import RefusedError
from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import DeliveryOptions, Policy
from tidings.protocol import client_bounds as cb
from tidings.protocol import messages as msg
from tidings.protocol.client_bounds import FIELDS, check_message
from tidings.protocol.limits import ClientLimits
from tidings.runtime.messages import (
    HANDSHAKE,
    AuthChallenge,
    AuthResponse,
    InquiryRequest,
    Keepalive,
    KeepaliveAck,
    OpenSession,
    SessionDenied,
    SessionOpened,
)
from tidings.testing.network import RawClient, played, serving

SENT: tuple[type[msgspec.Struct], ...] = (
    *msg.CLIENT_MESSAGES,
    OpenSession,
    AuthResponse,
    InquiryRequest,
    Keepalive,
    KeepaliveAck,
)
LIMITS = ClientLimits()
EVERYTHING = parse_filter("n > 1")
OPTIONS = DeliveryOptions(policy=Policy.DROP_OLDEST)
EVENT = Event("raw", "1", {"n": 1})
VALID: dict[type[msgspec.Struct], msg.Message] = {
    msg.Hello: msg.Hello("raw", "i"),
    msg.ClientJoined: msg.ClientJoined(1, {"raw": {"b1": 1}}),
    msg.Publish: msg.Publish(1, EVENT, 1),
    msg.Subscribe: msg.Subscribe(1, 1, "s", EVERYTHING, OPTIONS, after={"b1": 0}),
    msg.Home: msg.Home(1, "b1"),
    msg.MemberHoldings: msg.MemberHoldings(1, {"b1": (2,)}, {"b1": (1,)}),
    msg.Unsubscribe: msg.Unsubscribe(1, 1),
    msg.Credit: msg.Credit(1, 1),
    msg.Ack: msg.Ack(1, (1,)),
    msg.AckAll: msg.AckAll(1, 1, 1),
    msg.AckCredit: msg.AckCredit(1, (1,), 1),
    msg.Nack: msg.Nack(1, (1,)),
    msg.Fence: msg.Fence(1, 1),
    msg.Advertise: msg.Advertise(1, "a", EVERYTHING),
    msg.Unadvertise: msg.Unadvertise(1, "a"),
    msg.ReadLog: msg.ReadLog(1, EVERYTHING),
    msg.StageEvents: msg.StageEvents(1, "q", 0, 0, (EVENT,)),
    msg.CommitStaged: msg.CommitStaged(1, "q", 0, 1),
    msg.CommitParts: msg.CommitParts(1, "q", 0, (0,)),
    msg.HoldLog: msg.HoldLog(1, "h", EVERYTHING, seconds=60.0),
    msg.EndHold: msg.EndHold(1, "h"),
    msg.AskCommitted: msg.AskCommitted(1, "q"),
    InquiryRequest: InquiryRequest(1, "figures", {"limit": 1}),
}
LEAST, MOST = -(1 << 63), (1 << 64) - 1  # the extreme numbers that MessagePack carries


def plain(hint: Any) -> list[Any]:
    """The types of a field, without None."""
    is_union = get_origin(hint) in (Union, UnionType)
    return [one for one in (get_args(hint) if is_union else (hint,)) if one is not type(None)]


def structures() -> list[type[msgspec.Struct]]:
    """Every structure that a client's message is made of."""
    found: dict[type[msgspec.Struct], None] = {}
    waiting: list[Any] = list(SENT)
    while waiting:
        kind = waiting.pop()
        if kind in found or kind is cb.CheckedBound:
            continue
        if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
            found[kind] = None
            bounds = FIELDS.get(kind, {})
            hints = get_type_hints(kind)
            waiting += [
                one
                for name in kind.__struct_fields__
                if not isinstance(bounds.get(name), cb.CheckedBound)
                for one in plain(hints[name])
            ]
        else:
            waiting += get_args(kind)
    return list(found)


def fits(kind: Any, bound: cb.FieldBound) -> bool:
    """Is the bound one for values of this type?"""
    if isinstance(bound, cb.CheckedBound):  # by its type, or by a check that the entry names
        return bound.by != cb.FLAG.by or kind is bool or issubclass(kind, Enum)
    if kind is str:
        return isinstance(bound, cb.TextBound)
    if kind in (int, float):
        return isinstance(bound, cb.NumberBound | cb.EndlessBound)
    if inspect.isclass(kind) and issubclass(kind, msgspec.Struct):
        return isinstance(bound, cb.StructBound)
    if get_origin(kind) is tuple:
        return isinstance(bound, cb.SequenceBound) and fits(get_args(kind)[0], bound.item)
    if get_origin(kind) is dict:
        key, value = get_args(kind)
        if isinstance(bound, cb.HeadersBound):
            return value is bytes
        is_any = isinstance(bound, cb.ValuesBound) and value is Any
        return is_any or (
            isinstance(bound, cb.TableBound) and fits(key, bound.key) and fits(value, bound.value)
        )
    return kind is datetime


@pytest.mark.parametrize("kind", structures(), ids=lambda kind: kind.__name__)
def test_every_field_of_every_client_message_has_a_bound(kind: type[msgspec.Struct]) -> None:
    hints = get_type_hints(kind)
    assert set(FIELDS[kind]) == set(kind.__struct_fields__), "each field, and nothing else"
    for name in kind.__struct_fields__:
        for one in plain(hints[name]):
            assert fits(one, FIELDS[kind][name]), f"{kind.__name__}.{name}"


def test_only_what_a_broker_says_in_a_handshake_has_no_bounds() -> None:
    assert set(HANDSHAKE) - set(FIELDS) == {AuthChallenge, SessionOpened, SessionDenied}


def extremes(bound: cb.FieldBound) -> Iterator[Any]:
    """Values beyond a bound, that can be encoded."""
    most = bound.most(LIMITS)
    match bound:
        case cb.EitherBound():
            yield from (most + 1, -most - 1, MOST)
        case cb.NumberBound(low=low):
            yield from (
                value for value in (most + 1, MOST, low - 1, LEAST) if value > most or LEAST <= value < low
            )
            if bound.limit in ("seconds", "hold_seconds"):
                yield from (float("inf"), float("nan"))
        case cb.EndlessBound():
            yield from (-1.0, float("nan"))
        case cb.TextBound():
            yield "x" * (most + 1)
        case cb.SequenceBound(item=item):
            yield (
                EVENT if isinstance(item, cb.StructBound) else "x" if isinstance(item, cb.TextBound) else 1,
            ) * (most + 1)
            yield from ((one,) for one in extremes(item) if not isinstance(item, cb.StructBound))
        case cb.TableBound(key=key, value=value):
            inner: Any = {} if isinstance(value, cb.TableBound) else 1
            yield {str(number): inner for number in range(most + 1)}
            yield from ({one: inner} for one in extremes(key))
            yield from ({"b1": one} for one in extremes(value))
        case cb.HeadersBound():
            yield {str(number): b"" for number in range(most + 1)}
            yield {"x": b"x" * LIMITS.header_bytes}
            yield {"x" * (LIMITS.header_bytes + 1): b""}
            yield {"é" * (LIMITS.header_bytes // 2): b"x"}
        case cb.ValuesBound():
            yield {"x": [1] * (LIMITS.about + 1)}
            yield {"x": {str(number): 1 for number in range(LIMITS.about + 1)}}
            yield {"x": "x" * (LIMITS.filter + 1)}


def bad_values(kind: type[msgspec.Struct], valid: Any) -> Iterator[tuple[str, Any]]:
    """The same structure with one field beyond its bound, and the field's name."""
    for name, bound in FIELDS[kind].items():
        if isinstance(bound, cb.StructBound):
            stored = getattr(valid, name)
            for path, bad in bad_values(bound.kind, stored):
                yield f"{name}.{path}", msgspec.structs.replace(valid, **{name: bad})
            continue
        for bad in extremes(bound):
            yield name, msgspec.structs.replace(valid, **{name: bad})


def test_the_valid_ones_are_valid() -> None:
    assert set(VALID) == {*msg.CLIENT_MESSAGES, InquiryRequest}
    for message in VALID.values():
        check_message(message)


@pytest.mark.parametrize("kind", VALID, ids=lambda kind: kind.__name__)
def test_a_message_beyond_a_bound_is_refused_by_a_live_broker_before_anything_is_allocated(
    kind: type[msg.Message],
) -> None:
    async def play() -> None:
        async with serving() as server:
            for name, message in bad_values(kind, VALID[kind]):
                with pytest.raises(RefusedError, match=rf"^{msg.tag_of(kind)}\.{name}"):
                    check_message(message)
                raw = await RawClient.greeted(server)
                raw.send(message)
                call = getattr(message, "call", None)
                if call is not None and -cb.WIDEST <= call <= cb.WIDEST:
                    answer = await raw.receive()
                    code = getattr(answer, "code", None)
                    assert code in ("refused", "event", "limit"), (name, answer)
                    raw.close()
                else:
                    assert await raw.is_closed(), name
            assert server.figures()["faults"] == 0

    asyncio.run(play())


@played
async def test_a_commit_of_a_number_of_parts_beyond_reason_allocates_nothing() -> None:
    """Reproduction t01: one frame of 33 bytes made a list of 60 million numbers."""
    async with serving() as server:
        raw = await RawClient.greeted(server)
        tracemalloc.start()
        raw.send(msg.CommitStaged(1, "q", 0, 60_000_000), msg.CommitStaged(2, "q", 0, 2**62))
        answers = [await raw.receive(), await raw.receive()]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert [answer.call for answer in answers] == [1, 2]  # type: ignore[attr-defined]
        assert all(isinstance(answer, msg.Refused) and "parts" in answer.reason for answer in answers)
        assert peak < 1 << 20
        raw.close()


def test_a_filter_or_an_event_inside_a_message_is_bounded_by_its_own_entry() -> None:
    too_long = Filter("n = 1" + " " * LIMITS.filter, ())
    with pytest.raises(RefusedError, match=r"ReadLog\.filter\.text has"):
        check_message(msg.ReadLog(1, too_long))
    with pytest.raises(RefusedError, match=r"Publish\.event\.type has 65 entries; at most 64"):
        check_message(msg.Publish(1, Event("a", "1", type=("t",) * 65), 1))


def test_values_inside_an_inquiry_are_counted_over_all_its_levels() -> None:
    lists = [list(range(100)) for _ in range(20)]
    with pytest.raises(RefusedError, match="more than 1024 values"):
        check_message(InquiryRequest(1, "figures", {"lists": lists}), LIMITS)
    check_message(InquiryRequest(1, "figures", {"lists": lists[:5]}), LIMITS)


@pytest.mark.parametrize(
    "headers",
    [
        {str(number): b"" for number in range(LIMITS.headers + 1)},
        {"x": b"x" * LIMITS.header_bytes},
        {"x" * (LIMITS.header_bytes + 1): b""},
    ],
    ids=["many", "large value", "large name"],
)
def test_an_event_with_more_headers_than_the_limit_is_refused(headers: dict[str, bytes]) -> None:
    event = msgspec.structs.replace(EVENT, headers=headers)
    for message in (msg.Publish(1, event, 1), msg.StageEvents(1, "q", 0, 0, (event,))):
        with pytest.raises(RefusedError):
            check_message(message)


def test_an_event_with_as_many_headers_as_the_limit_passes_and_none_more() -> None:
    headers = {f"{number:03}": b"" for number in range(LIMITS.headers - 1)}
    headers["x"] = b"x" * (LIMITS.header_bytes - 3 * len(headers) - 1)
    shorter = headers | {"x": b""}
    for passing in (headers, shorter):
        check_message(msg.Publish(1, msgspec.structs.replace(EVENT, headers=passing), 1))
    for one_more in (headers | {"x": headers["x"] + b"x"}, shorter | {"y": b""}):
        with pytest.raises(RefusedError, match="headers"):
            check_message(msg.Publish(1, msgspec.structs.replace(EVENT, headers=one_more), 1))


def test_a_number_that_is_too_small_asks_for_more() -> None:
    few = msg.Subscribe(1, 1, "s", EVERYTHING, DeliveryOptions(queue=0))
    with pytest.raises(RefusedError, match=r"queue is 0; at least 1 \(ask for more\)"):
        check_message(few)
