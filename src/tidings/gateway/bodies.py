"""Requests to events, and events to answers: CloudEvents in its three modes, and plain JSON.

- `application/cloudevents+json`: one event; `application/cloudevents-batch+json`: a list of them.
- Headers that begin with `ce-`: one event in binary mode, its data the body.
- `application/json` without such headers: the body's members are the attributes; topic, type, id, source,
  lifetime, key and expires stand in the query. Without an id the gateway gives one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from tidings.errors import EventError
from tidings.gateway.problems import Problem
from tidings.model.cloudevents import STRUCTURED_TYPE, from_binary, from_mapping, from_structured
from tidings.model.decoding import MOST_JSON_TOKENS, UNREADABLE, is_crowded
from tidings.model.event import FOREVER, MAX_ATTRIBUTES, Event

BATCH_TYPE = "application/cloudevents-batch+json"
MOST_BYTES = 4 * 2**20
MOST_EVENTS = 10_000  # in one batch
ATTRIBUTE_TOKENS = (
    16 * MAX_ATTRIBUTES
)  # in a body without lists: a name, a value, and the signs around them, twice
_SECONDS = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?")
OPTIONS = ("topic", "type", "id", "source", "lifetime", "key", "expires")


class RequestedEvent(msgspec.Struct):
    """A publish request: an event, or attributes with options as `Bus.publish` takes them."""

    what: Any
    options: dict[str, Any] = {}


def read_requested(headers: Mapping[str, str], query: Mapping[str, str], body: bytes) -> list[RequestedEvent]:
    """The publishes that a request asks for. Raises `EventError` or `Problem`."""
    content_type = headers.get("content-type", "")
    media = content_type.partition(";")[0].strip().lower()
    if media.endswith("json"):
        _check_charset(content_type)
    if media == STRUCTURED_TYPE:
        _check_count(body)
        return [RequestedEvent(from_structured(body))]
    if media == BATCH_TYPE:
        return [RequestedEvent(event) for event in _batch(body)]
    if any(name.startswith("ce-") for name in headers):
        return [RequestedEvent(from_binary(headers, body))]
    if media in ("application/json", ""):
        return [RequestedEvent(_attributes(body), _options(query))]
    raise Problem(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        f"events are not read from {media!r}",
        hint=f"send {STRUCTURED_TYPE}, {BATCH_TYPE}, application/json, or headers that begin with ce-",
    )


def _check_charset(content_type: str) -> None:
    """JSON is read as UTF-8 (RFC 8259). Raises `Problem` for another charset."""
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        charset = value.strip().strip('"').lower()
        if name.strip().lower() == "charset" and charset not in ("utf-8", "utf8", "us-ascii"):
            raise Problem(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                f"JSON is not read in the charset {charset[:40]!r}",
                hint="send it in UTF-8",
            )


def _batch(body: bytes) -> list[Event]:
    listed = _json(body)
    if not isinstance(listed, list):
        raise EventError("a batch is a list of CloudEvents")
    if len(listed) > MOST_EVENTS:
        raise EventError(f"a batch of {len(listed)} events; {MOST_EVENTS} at most")
    events = []
    for number, one in enumerate(listed):
        if not isinstance(one, dict):
            raise EventError(f"event {number} of the batch is no object")
        try:
            events.append(from_mapping(one))
        except EventError as error:
            raise EventError(f"event {number} of the batch: {error.message}", hint=error.hint) from None
    return events


def _attributes(body: bytes) -> dict[str, Any]:
    if b"[" not in body and is_crowded(body, ATTRIBUTE_TOKENS):
        raise EventError(f"an event of more attributes than {MAX_ATTRIBUTES}, the most that one may have")
    attributes = _json(body)
    if not isinstance(attributes, dict):
        raise EventError("the body is no JSON object", hint="its members are the event's attributes")
    return attributes


def _check_count(body: bytes) -> None:
    """Before it is decoded."""
    if is_crowded(body):
        raise EventError(
            f"the body has more than {MOST_JSON_TOKENS} names, values and signs (limit `json_tokens`)",
            hint="send fewer events at once, or large data as text",
        )


def _json(body: bytes) -> Any:
    _check_count(body)
    try:
        return msgspec.json.decode(body)
    except UNREADABLE as error:
        raise EventError(f"the body is no JSON: {error}") from None


def _options(query: Mapping[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name, text in query.items():
        if name not in OPTIONS:
            raise EventError(f"the query has an unknown {name!r}", hint=f"it may hold {', '.join(OPTIONS)}")
        options[name] = _seconds(name, text) if name in ("lifetime", "expires") else text
    return options


def _seconds(name: str, text: str) -> float:
    if text == "forever":
        return FOREVER
    if not _SECONDS.fullmatch(text):
        raise EventError(f"{name} is {text[:40]!r}", hint="seconds in decimal digits, or forever")
    return float(text)
