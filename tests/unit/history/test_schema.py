"""The columns of the map, and rows made from the model's values."""

from __future__ import annotations

from datetime import UTC, datetime

from tidings.history import schema
from tidings.model.event import FOREVER, make_event
from tidings.model.filter import CESQL, Conjunction, Filter
from tidings.model.subscription import Position, SubscriptionId

EVENT = make_event({"x": 1}, source="press", id="a-1", topic="t/u", type=("Quote", "Thing"), expires=5)


def test_the_columns_are_those_of_the_map() -> None:
    of_the_map = (
        *("run", "time", "process", "op", "subscription", "filter", "dialect", "event", "source", "sequence"),
        *("attributes", "topic", "type", "lifetime", "key", "expires", "position", "reason", "outcome"),
        *("broker", "view", "members", "from"),
    )
    assert of_the_map == schema.COLUMNS


def test_a_subscription_row_takes_values_or_texts() -> None:
    name = SubscriptionId("alice", "news")
    by_text = schema.sub_row(1.0, "alice", "alice/news", "x = 1")
    assert by_text == schema.sub_row(1.0, "alice", name, Filter("x = 1", (Conjunction(),)))
    assert by_text.dialect == "tidings"
    assert schema.sub_row(1.0, "alice", name, Filter("x = 1", (), CESQL)).dialect == "cesql"


def test_a_publish_row_keeps_what_filters_and_availability_need() -> None:
    row = schema.pub_row(10.0, "press", EVENT, sequence=1)
    assert (row.event, row.source, row.sequence) == ("a-1", "press", 1)
    assert (row.attributes, row.topic, row.type) == ({"x": 1}, "t/u", ("Quote", "Thing"))
    assert (row.lifetime, row.expires, row.outcome) == (0.0, 15.0, "ok")
    forever = make_event({}, source="press", id="a-2", lifetime=FOREVER)
    assert schema.pub_row(10.0, "press", forever).lifetime == float("inf")


def test_an_events_own_time_travels_among_the_attributes() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    event = make_event({"x": 1}, source="press", id="a-3", time=noon)
    assert schema.pub_row(0.0, "press", event).attributes == {"x": 1, "time": noon}


def test_a_notification_row_says_where_it_stood_and_whether_it_came_again() -> None:
    row = schema.ntfy_row(2.0, "alice", "alice/news", EVENT, position=Position("b1", 7), redelivery=True)
    assert (row.position, row.reason) == ("b1:7", "redelivery")
    assert schema.ntfy_row(2.0, "alice", "alice/news", EVENT).reason is None


def test_the_other_rows_name_what_they_speak_of() -> None:
    assert schema.usub_row(3.0, "alice", "alice/news", detach=True).reason == "detach"
    assert schema.drop_row(3.0, "b1", "alice/news", EVENT, "drop oldest").op == "drop"
    assert schema.dead_row(3.0, "b1", "alice/news", EVENT, "5 deliveries").op == "dead"
    assert schema.recv_row(3.0, "b2", EVENT, "b1").from_ == "b1"
    assert schema.avail_row(3.0, "b2", EVENT).event == "a-1"
    assert schema.suspect_row(3.0, "b1", "b2").from_ == "b2"
    assert [schema.crash_row(3.0, "b1").op, schema.restart_row(4.0, "b1").op] == ["crash", "restart"]
    assert schema.view_row(3.0, "b1", 2, ("b1", "b2")).members == ("b1", "b2")
