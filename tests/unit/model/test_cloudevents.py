"""CloudEvents out and in: nothing is lost either way, and a second reader agrees."""

from __future__ import annotations

import base64
import json
import math
import warnings
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import EventError
from tidings.language.evaluate import evaluate
from tidings.model import cloudevents as ce
from tidings.model.event import FOREVER, Event, make_event
from tidings.model.expression import Attribute

NOON = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
FOREIGN = {
    "specversion": "1.0",
    "id": "1",
    "source": "https://example.com/a?b=1",
    "type": "com.example.thing",
}


def again(event: Event) -> list[Event]:
    """The event through both modes."""
    return [ce.from_structured(ce.to_structured(event)), ce.from_binary(*ce.to_binary(event))]


def exact(event: Event) -> tuple[Event, str]:
    return event, repr(sorted(event.attributes.items()))  # repr tells True from 1 and 1 from 1.0


def compact(event: Event) -> Event:
    """The event as it is when a JSON library has handled its data: white space is gone."""
    try:
        data = json.loads(event.payload or b"")
    except ValueError:
        return event
    return msgspec.structs.replace(event, payload=msgspec.json.encode(data))


OWN = [
    make_event({"price": 1, "ratio": 1.0, "up": True, "name": "é🙂%\"\n"}, source="desk", id="1-1"),
    make_event({"place": {"city": "Rome", "at": NOON}, "at": NOON}, source="desk", id="1-2", time=NOON),
    make_event({"hot": math.inf, "cold": -math.inf, "zero": -0.0, "big": 2**63 - 1}, source="desk", id="1-3"),
    make_event({"a.b": NOON, "a": {"c": NOON}}, source="desk", id="1-4"),
    make_event({}, source="desk", id="1-5"),
    make_event({"x": 1}, source="d", id="1", topic="a/b", type=("Cat", "Animal"), lifetime=FOREVER, key="k",
        expires=2.5),
    make_event({"x": 1}, source="d", id="1", type="Cat", lifetime=60.5, expires=FOREVER),
    make_event({"x": NOON, "y": {"z": 1}}, source="d", id="1", payload=b"\x00\xff", content_type="image/png"),
    make_event({"price": 1.5}, source="d", id="1", payload=b'{"price": 1.5}',
        content_type="application/json"),
    make_event({"x": 1}, source="d", id="1", payload=b' {"x": 1}\n', content_type="application/json"),
    make_event({"X": 1}, source="d", id="1", payload=b"{broken", content_type="application/json"),
    make_event({}, source="d", id="1", payload=b"", content_type="text/plain"),
    make_event({"a": "b"}, source="d", id="1", payload=b""),
    make_event({}, source="d", id="1", payload="grüß".encode(), content_type="text/plain"),
    make_event({}, source="d", id="1", payload=b"\xff", content_type="text/plain"),
    make_event({}, source="d", id="1", payload=b"\xfc", content_type="text/plain; charset=latin-1"),
    make_event({"subject": "a/b", "extension": "x"}, source="d", id="1", payload=b"x"),
    make_event({"x": 1}, source="d", id="1", content_type="text/plain"),
    make_event({"tidings": "x", "data": 1}, source="d", id="1", payload=b"1"),
    make_event({"n": 2**40, "m": 5, "yes": True}, source="d", id="1", payload=b"[1, 2]",
        content_type="application/json"),
    make_event({str(n): n for n in range(1024)}, source="d", id="1",
        payload=json.dumps({str(n): 0 for n in range(2000)}).encode()),
]  # fmt: skip


@pytest.mark.parametrize("event", OWN)
def test_our_events_come_back_whole(event: Event) -> None:
    for read in again(event):
        assert exact(read) == exact(event)
    assert compact(ce.from_mapping(ce.to_mapping(event))) == compact(event)


def test_absent_values_stay_absent() -> None:
    event = make_event({"x": None, "y": math.nan}, source="d", id="1")
    for read in again(event):
        assert read.view == event.view


def foreign(**members: Any) -> dict[str, Any]:
    return FOREIGN | members


FOREIGNERS = [
    foreign(),
    foreign(time="2026-01-31T12:00:00.123456Z", subject="a/b"),
    foreign(subject="not//a topic", dataschema="https://example.com/schema"),
    foreign(myint=5, mybool=True, mytext="x y", traceparent="00-ab-01"),
    foreign(data={"a": 1, "b": [1, {"c": None}], "id": 7, "type": "t"}, datacontenttype="application/json"),
    foreign(data={"x": 1, "data": 2}, x=1), foreign(data={"x": 1, "data": {"x": 3}}),
    foreign(data={"x": 1}, x="1"),
    foreign(data={"data": {"x": 1}, "x": 2}, x=5), foreign(data={"topic": "t", "extension": 5}, topic="tt"),
    foreign(data=[1, 2, 3]), foreign(data="just text"), foreign(data=17.5), foreign(data=False),
    foreign(data={"big": 123456789012345678901234567890, "deep": {"a.b": 1, "": 2}}),
    foreign(data="<a/>", datacontenttype="application/xml"),
    foreign(data="hello", datacontenttype="text/plain"),
    foreign(data_base64=base64.b64encode(b"\x00\x01\xff").decode(),
        datacontenttype="application/octet-stream"),
    foreign(data_base64=base64.b64encode(b"\x00\x01\xff").decode()),
    foreign(data={"k": "v"}, datacontenttype="application/vnd.example+json; charset=utf-8"),
    foreign(extension="x", data={"extension": 1}), foreign(tidings="not ours"), foreign(tidings=5),
]  # fmt: skip


@pytest.mark.parametrize("document", FOREIGNERS)
def test_foreign_events_go_out_as_they_came_in(document: dict[str, Any]) -> None:
    event = ce.from_mapping(document)
    assert ce.to_mapping(event) == document
    assert ce.to_mapping(ce.from_binary(*ce.to_binary(event))) == document
    assert exact(ce.from_binary(*ce.to_binary(event))) == exact(event)


def test_what_a_filter_sees_of_a_foreign_event() -> None:
    document = foreign(
        subject="a/b",
        lang="en",
        data={"price": 5, "lang": "it", "id": 9, "n": {"x": 1}, "list": [1], "none": None},
    )
    event = ce.from_mapping(document)
    seen = {
        name: evaluate(Attribute(name), event.view)
        for name in ("topic", "lang", "data.lang", "price", "id", "data.id", "n.x")
    }
    assert seen == {
        "topic": "a/b",
        "lang": "en",
        "data.lang": "it",
        "price": 5,
        "id": "1",
        "data.id": 9,
        "n.x": 1,
    }
    assert event.view["list"] == (1,)
    assert event.content_type is None
    assert json.loads(event.payload or b"") == document["data"]


def test_a_time_is_kept_to_the_microsecond_in_utc() -> None:
    event = ce.from_mapping(foreign(time="2026-01-31T14:00:00.123456+02:00"))
    assert event.time == NOON
    assert ce.to_mapping(event)["time"] == "2026-01-31T12:00:00.123456Z"
    east = make_event(source="s", id="1", time=datetime(2026, 1, 31, 14, tzinfo=timezone(timedelta(hours=2))))
    assert ce.to_mapping(east)["time"] == "2026-01-31T12:00:00Z"


def test_headers_are_of_any_case_and_percent_encoded() -> None:
    headers = {
        "CE-SpecVersion": "1.0",
        "Ce-Id": "a%20b",
        "ce-source": "/s",
        "ce-type": "t",
        "Content-Type": "text/plain",
        "Accept": "*",
    }
    event = ce.from_binary(headers, b"hi")
    assert (event.id, event.payload, event.content_type) == ("a b", b"hi", "text/plain")
    written, body = ce.to_binary(make_event(source="/s", id='"é %', payload=b"x"))
    assert written["ce-id"] == "%22%C3%A9%20%25"
    assert body == b"x"
    assert all(value.isascii() and value.isprintable() for value in written.values())


def test_whitespace_of_a_binary_body_is_kept() -> None:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "s",
        "ce-type": "t",
        "content-type": "application/json",
    }
    event = ce.from_binary(headers, b'{ "a": 1 }\n')
    assert event.view["a"] == 1
    assert ce.to_binary(event) == (headers, b'{ "a": 1 }\n')
    assert ce.from_structured(ce.to_structured(event)) == event


def test_a_foreign_event_may_be_given_a_lifetime() -> None:
    plain = ce.from_mapping(foreign(data={"a": 1}, ext="x"))
    kept = make_event(
        plain.attributes,
        source=plain.source,
        id=plain.id,
        type=plain.type,
        payload=plain.payload,
        lifetime=60,
    )
    document = ce.to_mapping(kept)
    assert (document["data"], document["ext"]) == ({"a": 1}, "x")  # others still see it as it was
    assert [exact(event) for event in again(kept)] == [exact(kept)] * 2


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "version 1.0"), (foreign(specversion="0.3"), "version 1.0"), (foreign(id=""), "no id"),
        (foreign(type=5), "no type"),
        (foreign(time="yesterday"), "time is 'yesterday'"), (foreign(time="2026-01-01T00:00:00"), "time is"),
        (foreign(time=5), "time is 5"),
        (foreign(data=1, data_base64="AA=="), "both data and data_base64"),
        (foreign(data_base64="%"), "not base64"), (foreign(data_base64=5), "not base64"),
        (foreign(Upper="x"), "'Upper' cannot be the name"), (foreign(ext=[1]), "'ext' is no plain value"),
        (foreign(datacontenttype=5), "datacontenttype"),
        (foreign(topic="t", extension="x"), "cannot stand beside"),
        (foreign(data={str(n): n for n in range(1025)}), "1025 attributes"),
        (foreign(tidings='{"form": "attributes"}', data=5), "no JSON object"),
        (foreign(tidings='{"lifetime": -1}'), "lifetime"),
        (foreign(tidings='{"extensions": {"n": "int"}}', n="x"), "said to be an integer"),
    ],
)  # fmt: skip
def test_what_is_no_cloudevent_says_why(document: dict[str, Any], problem: str) -> None:
    with pytest.raises(EventError, match=problem):
        ce.from_mapping(document)


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"5", b'{"id": "\xff"}'])
def test_what_is_no_json_object_says_so(text: bytes) -> None:
    with pytest.raises(EventError, match="no JSON object"):
        ce.from_structured(text)


def test_other_bad_input() -> None:
    with pytest.raises(EventError, match="is no JSON"):
        ce.from_mapping(foreign(data=object()))
    with pytest.raises(EventError, match="header ce-id"):
        ce.from_binary({"ce-specversion": "1.0", "ce-id": "%ff"}, b"")


# A second reader: the cloudevents package


def second_reader() -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from cloudevents.core.bindings import http
        from cloudevents.core.formats.json import JSONFormat
    return http, JSONFormat()


@pytest.mark.parametrize("event", OWN[:-1])
def test_the_second_reader_takes_what_we_write(event: Event) -> None:
    http, form = second_reader()
    event = msgspec.structs.replace(event, time=NOON)  # it would make up a time of its own
    read = form.read(None, ce.to_structured(event))
    assert (read.get_id(), read.get_source(), read.get_subject()) == (event.id, event.source, event.topic)
    assert read.get_type() == (event.type[0] if event.type else "tidings.event")
    assert read.get_time() == event.time
    if event.payload is None:
        assert read.get_data().keys() == event.attributes.keys()
    assert compact(ce.from_structured(form.write(read))) == compact(event)
    headers, body = ce.to_binary(event)
    message = http.from_binary(http.HTTPMessage(headers, body), form)
    assert (message.get_id(), message.get_source(), message.get_time()) == (
        event.id,
        event.source,
        event.time,
    )


@pytest.mark.parametrize("document", [d for d in FOREIGNERS if d.get("data") is not False])
def test_we_take_what_the_second_writer_writes(document: dict[str, Any]) -> None:
    _, form = second_reader()
    document = {"time": "2026-01-31T12:00:00Z"} | document  # it would make up a time of its own
    theirs = form.write(form.read(None, json.dumps(document)))
    assert ce.to_mapping(ce.from_structured(theirs)) == document


# Anything at all

texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.text(st.characters(codec="utf-8", exclude_characters="."), min_size=1, max_size=4).filter(
    lambda name: name not in ("id", "source", "type", "time", "topic")
)
moments = st.datetimes(timezones=st.just(UTC), min_value=datetime(1000, 1, 1)).map(
    lambda time: time.replace(fold=0)
)
scalars = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), texts,
    moments,
)  # fmt: skip
trees = st.recursive(
    st.dictionaries(names, scalars, max_size=3),
    lambda inner: st.dictionaries(names, scalars | inner, max_size=3),
    max_leaves=4,
)
extension_names = st.text("abcxyz019", min_size=1, max_size=6)


@st.composite
def own_events(draw: st.DrawFn) -> Event:
    kind = st.none() | st.sampled_from(
        ("application/json", "text/plain", "text/xml", "image/png", "application/a+json")
    )
    return make_event(
        draw(trees),
        source=draw(texts.filter(bool)),
        id=draw(texts.filter(bool)),
        topic=draw(st.none() | st.sampled_from(("/", "a/b", "é"))),
        type=draw(st.lists(texts, max_size=2).map(tuple)),
        time=draw(st.none() | moments),
        payload=draw(
            st.none()
            | st.binary(max_size=6)
            | st.sampled_from((b"{}", b"null", b"[1]", b'{"a": 1}', b' "x"', b"1e400"))
        ),
        content_type=draw(kind),
        lifetime=draw(st.sampled_from((0.0, 1.5, FOREVER))),
        key=draw(st.none() | texts),
        expires=draw(st.sampled_from((None, 0.0, 9.0, FOREVER))),
    )


@settings(max_examples=150)
@given(own_events())
def test_any_event_of_ours_comes_back_whole(event: Event) -> None:
    for read in again(event):
        assert exact(read) == exact(event)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
reserved_members = st.sampled_from(("id", "topic", "data", "subject", "x", "extension", "time"))


@st.composite
def foreign_documents(draw: st.DrawFn) -> dict[str, Any]:
    simple = st.booleans() | st.integers(-(2**31), 2**31 - 1) | texts
    taken = {"data", "tidings", "extension"}
    extensions = draw(st.dictionaries(extension_names.filter(lambda n: n not in taken), simple, max_size=3))
    document: dict[str, Any] = FOREIGN | extensions
    if draw(st.booleans()):
        document["subject"] = draw(texts.filter(bool) | st.sampled_from(("a/b", "a+b", "/")))
    if draw(st.booleans()):
        document["time"] = draw(st.datetimes(min_value=datetime(1000, 1, 1))).isoformat() + "Z"
    if draw(st.booleans()):
        document["datacontenttype"] = draw(
            st.sampled_from(("application/json", "text/json", "application/x+json"))
        )
    if draw(st.booleans()):
        data = draw(
            st.dictionaries(texts | reserved_members | extension_names, json_values, max_size=4) | json_values
        )
        if data is not None:
            document["data"] = data
    return document


@settings(max_examples=200)
@given(foreign_documents())
def test_any_foreign_event_goes_out_as_it_came_in(document: dict[str, Any]) -> None:
    event = ce.from_mapping(document)
    assert ce.to_mapping(event) == document
    assert exact(ce.from_binary(*ce.to_binary(event))) == exact(event)


def test_numbers_that_json_lacks_come_back() -> None:
    event = make_event({"n": math.nan, "l": [math.nan, math.inf, None]}, source="s", id="1")
    for read in (ce.from_structured(ce.to_structured(event)), ce.from_binary(*ce.to_binary(event))):
        assert repr(read.attributes) == repr(event.attributes)
