"""The HTTP gateway, described for programs: OpenAPI for requests, AsyncAPI for deliveries."""

from __future__ import annotations

from typing import Any

from tidings._version import __version__
from tidings.gateway.bodies import BATCH_TYPE
from tidings.gateway.problems import TYPE as PROBLEM_TYPE
from tidings.model.cloudevents import STRUCTURED_TYPE

Json = dict[str, Any]


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: Json, media: str = "application/json") -> Json:
    return {"content": {media: {"schema": schema}}}


def _answer(text: str, schema: Json | None = None, media: str = "application/json") -> Json:
    return {"description": text, **({} if schema is None else _json(schema, media))}


_PROBLEMS: Json = {
    "400": _answer("The request is malformed.", _ref("Problem"), PROBLEM_TYPE),
    "401": _answer("Authentication is missing or failed.", _ref("Problem"), PROBLEM_TYPE),
    "403": _answer("The rules do not allow it.", _ref("Problem"), PROBLEM_TYPE),
    "503": _answer("The broker cannot do it now.", _ref("Problem"), PROBLEM_TYPE),
}
_NOT_FOUND: Json = {"404": _answer("No such entry is visible to you.", _ref("Problem"), PROBLEM_TYPE)}


def _query(name: str, text: str, schema: Json | None = None) -> Json:
    return {
        "name": name,
        "in": "query",
        "required": False,
        "description": text,
        "schema": schema or {"type": "string", "minLength": 1},
    }


def _operation(id: str, text: str, answers: Json, **more: Any) -> Json:
    return {"operationId": id, "summary": text, "responses": {**answers, **_PROBLEMS}, **more}


_SECONDS: Json = {"type": "string", "pattern": r"^([0-9]{1,9}(\.[0-9]{1,3})?|forever)$"}
_ID: Json = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
}
_NUMBER: Json = {"type": "integer", "minimum": 0}


def _publish() -> Json:
    body = {
        "required": True,
        "content": {
            STRUCTURED_TYPE: {"schema": _ref("CloudEvent")},
            BATCH_TYPE: {"schema": {"type": "array", "items": _ref("CloudEvent")}},
            "application/json": {"schema": {"type": "object", "description": "The attributes of the event."}},
        },
    }
    answers = {
        "200": _answer("Acknowledged.", _ref("Receipts")),
        "207": _answer("Some were acknowledged.", _ref("Receipts")),
        "413": _answer("The body is too long.", _ref("Problem"), PROBLEM_TYPE),
        "415": _answer("The media type is not supported.", _ref("Problem"), PROBLEM_TYPE),
    }
    options = [
        _query("topic", "With application/json: the topic."),
        _query("type", "With application/json: the type."),
        _query("id", "With application/json: the id; without one the broker gives it."),
        _query("source", "With application/json: the source."),
        _query("lifetime", "Seconds to keep it for later subscribers, or forever.", _SECONDS),
        _query("key", "Supersedes older events of this key."),
        _query("expires", "Seconds until it expires for all subscribers.", _SECONDS),
    ]
    return _operation("publish", "Publish events.", answers, requestBody=body, parameters=options)


def _listen() -> Json:
    options = [
        _query("filter", "Events to receive, in the filter language."),
        _query("dialect", "Dialect of the filter.", {"enum": ["tidings", "cesql"]}),
        _query("topic", "A topic pattern with + and #."),
        _query("type", "A type, or one that it descends from."),
        _query("name", "Name of the subscription."),
        _query("durable", "Keep events while disconnected; needs a name.", {"type": "boolean"}),
        _query("replay", "First replay the events that are still available.", {"type": "boolean"}),
        _query("since", "The id of the last event that was handled, as Last-Event-ID says it."),
        _query(
            "ack",
            "manual (the default of durable streams): Last-Event-ID commits. auto: sending the "
            "next event commits.",
            {"enum": ["auto", "manual"]},
        ),
        _query("queue", "Events that may wait.", {"type": "integer", "minimum": 1, "maximum": 100000}),
    ]
    answers = {
        "200": _answer(
            "A stream; a durable one ends so that its client confirms.",
            {"type": "string"},
            "text/event-stream",
        )
    }
    return _operation("listen", "Receive events as server-sent events.", answers, parameters=options)


def _subscriptions() -> Json:
    one, body = _ref("Subscription"), {"required": True, **_json(_ref("SubscriptionRequest"))}
    created = _answer("Made.", one)
    many = {"type": "array", "items": one}
    return {
        "/subscriptions": {
            "post": _operation(
                "create", "Make a subscription with a sink.", {"201": created}, requestBody=body
            ),
            "get": _operation("list", "Your subscriptions.", {"200": _answer("All.", many)}),
        },
        "/subscriptions/{id}": {
            "parameters": [_ID],
            "get": _operation("read", "One subscription.", {"200": _answer("It.", one), **_NOT_FOUND}),
            "put": _operation(
                "update",
                "Change a subscription.",
                {"200": _answer("Changed.", one), **_NOT_FOUND},
                requestBody=body,
            ),
            "delete": _operation("delete", "End it.", {"204": _answer("Ended."), **_NOT_FOUND}),
        },
    }


def _asking() -> Json:
    look = [
        _query("filter", "Entries to read, in the filter language."),
        _query("after", "Beyond this offset.", _NUMBER),
        _query("limit", "Largest number of entries.", {**_NUMBER, "maximum": 1000}),
        _query("log", "Refuse when the log has another name."),
    ]
    any_object: Json = {"type": "object"}
    requested = {"required": True, **_json(_ref("Question"))}
    id = {**_ID, "schema": {"type": "string", "minLength": 1}}
    return {
        "/log": {
            "get": _operation("log", "Look back.", {"200": _answer("A page.", _ref("Page"))}, parameters=look)
        },
        "/explain": {
            "post": _operation(
                "explain",
                "Why a filter accepts an event, or not. For principals that may subscribe or observe.",
                {"200": _answer("Why.", any_object)},
                requestBody=requested,
            )
        },
        "/figures": {"get": _operation("figures", "Counters.", {"200": _answer("Counters.", any_object)})},
        "/trace/{id}": {
            "parameters": [id],
            "get": _operation(
                "trace", "The way of an event.", {"200": _answer("Its steps.", any_object), **_NOT_FOUND}
            ),
        },
    }


def _outcome() -> dict[str, Any]:
    """Schema of the answer to one event of a batch."""
    return {"oneOf": [_ref("Receipt"), _ref("PublishFailure")]}


def _schemas() -> Json:
    text: Json = {"type": "string", "minLength": 1}
    index = {"type": "object", "properties": {"log": text, "offset": _NUMBER}}
    position = {"oneOf": [{"type": "null"}, index]}
    some: Json = {"type": "array", "items": _ref("Filter"), "minItems": 1}
    subscription: Json = {
        "source": text,
        "types": {"type": "array", "items": text},
        "config": {"type": "object"},
        "filters": {"type": "array", "items": _ref("Filter")},
        "sink": {"type": "string", "format": "uri"},
        "protocol": {"enum": ["HTTP"]},
        "protocolsettings": {"type": "object"},
    }
    requested = {**subscription, "sinkcredential": {"type": "object"}}
    return {
        "CloudEvent": {
            "type": "object",
            "required": ["specversion", "id", "source", "type"],
            "properties": {"specversion": {"const": "1.0"}, "id": text, "source": text, "type": text,
                           "time": {"type": "string", "format": "date-time"}, "subject": text, "data": {}},
        },
        "Receipts": {
            "type": "object", "required": ["events"],
            "properties": {"events": {"type": "array", "items": _outcome()}},
        },
        "Receipt": {
            "type": "object", "required": ["source", "id", "position"],
            "properties": {"source": text, "id": text, "position": position},
        },
        "PublishFailure": {
            "type": "object", "required": ["code", "detail"], "properties": {"code": text, "detail": text},
        },
        "Problem": {
            "type": "object", "required": ["status", "detail"],
            "properties": {"title": text, "status": {"type": "integer"}, "detail": text, "hint": text,
                "code": text, "id": text},
        },
        "Filter": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {
                **{name: {"type": "object", "additionalProperties": text, "minProperties": 1}
                   for name in ("exact", "prefix", "suffix")},
                "all": some, "any": some,
                "not": _ref("Filter"),
                "sql": text,
            },
            "additionalProperties": False,
        },
        "SubscriptionRequest": {"type": "object", "required": ["sink"], "properties": requested,
            "additionalProperties": False},
        "Subscription": {
            "type": "object", "required": ["id", "sink", "protocol"],
            "properties": {**subscription, "id": text, "status": {"type": "object"},
                "dialect": {"enum": ["tidings", "cesql"]}, "warnings": {"type": "array", "items": text}},
        },
        "Page": {
            "type": "object",
            "required": ["log", "entries", "upto", "begin", "end"],
            "properties": {"log": text, "entries": {"type": "array"}, "upto": _NUMBER, "begin": _NUMBER,
                "end": _NUMBER},
        },
        "Question": {
            "type": "object", "required": ["filter", "event"],
            "properties": {"filter": {"type": "string"}, "event": {"type": "object"},
                "dialect": {"enum": ["tidings", "cesql"]}},
        },
    }  # fmt: skip


def document(server: str) -> Json:
    """The OpenAPI document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tidings", "version": __version__, "description": "Events by filter, over HTTP."},
        "servers": [{"url": server}],
        "security": [{"token": []}, {"password": []}, {}],
        "paths": {"/events": {"post": _publish(), "get": _listen()}, **_subscriptions(), **_asking()},
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
    }


def channels(server: str) -> Json:
    """The AsyncAPI document: channels of delivery, and their messages."""
    event = {"payload": _schemas()["CloudEvent"], "contentType": STRUCTURED_TYPE}
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Tidings", "version": __version__},
        "servers": {"http": {"host": server, "protocol": "http"}},
        "channels": {
            "events": {"address": "/events", "messages": {"event": {"$ref": "#/components/messages/event"}}},
            "socket": {
                "address": "/events/socket",
                "messages": {"event": {"$ref": "#/components/messages/event"}},
            },
        },
        "operations": {
            "publish": {"action": "receive", "channel": {"$ref": "#/channels/events"}},
            "listen": {"action": "send", "channel": {"$ref": "#/channels/events"}},
            "socket": {"action": "send", "channel": {"$ref": "#/channels/socket"}},
        },
        "components": {"messages": {"event": event}},
    }
