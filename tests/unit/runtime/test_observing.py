"""What a broker says of itself: HTTP, metrics, logs, OpenTelemetry's context, the trace ring."""

from __future__ import annotations

import asyncio
import json
import logging
from http import HTTPStatus
from random import Random
from typing import Any

import pytest

import tidings
from tidings.model.event import Event, make_event
from tidings.model.subscription import SubscriptionId
from tidings.protocol import messages as msg
from tidings.protocol.compositions import intermediary
from tidings.protocol.inputs import LinkUp, Received
from tidings.protocol.messages import Envelope
from tidings.protocol.recovery.messages import RangeReply, ReplayReply
from tidings.protocol.routing.duplicates import Forward, ForwardAll
from tidings.runtime import logs
from tidings.runtime.http import OperatorHttp, OperatorPage
from tidings.runtime.metrics import exposition, metrics_of
from tidings.runtime.observing import WHOLE, ObservedScope
from tidings.runtime.settings import LogSettings
from tidings.runtime.telemetry import context_of
from tidings.runtime.trace import HEAVY, MOST_STEPS, TraceRing

# -- HTTP ------------------------------------------------------------------------------------------


def asked(*requests: bytes) -> list[bytes]:
    """The answers of a small server to raw requests."""

    async def run() -> list[bytes]:
        pages = {
            "/ok": lambda: OperatorPage(b"{}"),
            "/bad": lambda: OperatorPage(b"no", status=HTTPStatus.SERVICE_UNAVAILABLE),
        }
        http = OperatorHttp(pages)
        await http.start("127.0.0.1", 0)
        port = int(http.address.rpartition(":")[2])
        answers = []
        async with asyncio.timeout(120):
            for request in requests:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                if writer.can_write_eof():
                    writer.write_eof()
                answers.append(await reader.read())
                writer.close()
        await http.close()
        return answers

    return asyncio.run(run())


def test_pages_are_served_and_nothing_else() -> None:
    ok, head, bad, other, post, long, cut = asked(
        b"GET /ok?x=1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"HEAD /ok HTTP/1.1\r\n\r\n",
        b"GET /bad HTTP/1.1\r\n\r\n",
        b"GET /../etc/passwd HTTP/1.1\r\n\r\n",
        b"POST /ok HTTP/1.1\r\n\r\n",
        b"GET /ok HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n",
        b"GET /ok",
    )
    assert ok.startswith(b"HTTP/1.1 200 OK")
    assert ok.endswith(b"\r\n\r\n{}")
    assert head.endswith(b"\r\n\r\n")
    assert b" 503 " in bad
    assert b" 404 " in other
    assert b" 405 " in post
    assert b" 431 " in long
    assert cut == b""


# -- metrics ---------------------------------------------------------------------------------------


def test_every_number_among_the_figures_is_a_metric() -> None:
    figures = {
        "published": 5,
        "brand new": 2.5,
        "links": ["a", "b"],
        "problems": {},
        "broker": "b1",
        "up": True,
    }
    page = exposition(lambda: figures, "b1")().decode()
    assert 'tidings_events_published_total{broker="b1"} 5.0' in page
    assert 'tidings_brand_new{broker="b1"} 2.5' in page
    assert 'tidings_links{broker="b1"} 2.0' in page
    assert "process_resident_memory_bytes" in page
    assert {metric.name for metric, _ in metrics_of(figures)} == {
        "events_published",
        "brand_new",
        "links",
        "problems",
    }


def test_metrics_follow_the_figures() -> None:
    figures = {"published": 1}
    page = exposition(lambda: figures, "b1")
    page()
    figures["published"] = 2
    assert b'published_total{broker="b1"} 2.0' in page()


# -- logs ------------------------------------------------------------------------------------------


def test_logs_are_json_lines_with_what_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(LogSettings(format="json", level="info"), "b1")
    logs.set_up(LogSettings(format="json", level="info"), "b1")  # again, as a reload does: no line twice
    log = logging.getLogger("tidings.broker")
    log.info("client %s came\nin", "ann", extra={"peer": "1.2.3.4"})
    log.debug("not shown")
    try:
        raise ValueError("bad")
    except ValueError:
        log.exception("it failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["message"], first["peer"], first["broker"]) == ("client ann came\nin", "1.2.3.4", "b1")
    assert "ValueError: bad" in second["error"]


def test_logs_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(LogSettings(level="warning"), "b%1")
    logging.getLogger("tidings.broker").warning("careful")
    assert "WARNING b%1: careful" in capsys.readouterr().err


# -- OpenTelemetry ---------------------------------------------------------------------------------


def test_a_publish_inside_a_span_carries_its_context() -> None:
    from opentelemetry import context, trace

    span = trace.NonRecordingSpan(
        trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1))
    )

    async def heard() -> list[Event]:
        async with tidings.connect() as bus, bus.subscribe() as news:
            await bus.publish({"n": 1})
            token = context.attach(trace.set_span_in_context(span))
            await bus.publish({"n": 2})
            await bus.publish({"n": 3, "traceparent": "mine"})
            context.detach(token)
            return [await news.get(timeout=120) for _ in range(3)]

    outside, inside, own = asyncio.run(heard())
    assert outside.get("traceparent") is None
    assert inside["traceparent"] == f"00-{0xABC:032x}-{0xDEF:016x}-01"
    assert own["traceparent"] == "mine"
    assert trace.get_current_span(context_of(inside)).get_span_context().trace_id == 0xABC
    assert not trace.get_current_span(context_of(outside)).get_span_context().is_valid


# -- the trace ring --------------------------------------------------------------------------------


def quote(change: float, id: str = "q1", **options: Any) -> Event:
    return make_event({"change": change}, source="market", id=id, **options)


class Story:
    """A node with one subscriber `ann/alerts`, and a ring that watches it as the driver does."""

    def __init__(self) -> None:
        self.node = intermediary("b1", rng=Random(1))
        self.ring = TraceRing(100)
        self.now = 100.0
        self.node.handle(LinkUp("ann#1"), self.now)
        self.receive("ann#1", msg.Hello("ann", "1"))
        wanted = tidings.parse_filter("change < -3")
        self.receive("ann#1", msg.Subscribe(1, 1, "alerts", wanted, msg.DeliveryOptions(), credit=10))
        self.receive("market#2", msg.Hello("market", "1"))

    def receive(self, sender: str, message: msg.Message) -> None:
        self.now += 1
        self.ring.came(sender, message, self.now)
        for effect in self.node.handle(Received(sender, message), self.now):
            if hasattr(effect, "message"):
                self.ring.went(effect.to, effect.message, self.now)

    def asked(self, id: str, subscription: str = "", view: ObservedScope = WHOLE) -> dict[str, Any]:
        about = {"id": id, "subscription": subscription}
        return self.ring.answer(self.node, about, self.now, view)


def test_the_ring_tells_each_step_and_who_wants_it() -> None:
    story = Story()
    story.receive("market#2", msg.Publish(1, quote(-4), 1))
    answer = story.asked("q1")
    assert [(step["what"], step["peer"], step["subscription"]) for step in answer["steps"]] == [
        ("published", "market#2", None),
        ("delivered", "ann#1", "ann/alerts"),
    ]
    assert answer["wanted"] == {"subscriptions": ["ann/alerts"], "links": {}}


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("ann/alerts", -4, "it was handed over"),
        ("ann/alerts", 1, "its filter does not accept"),
        ("ann/nothing", -4, "this broker does not hold it"),
    ],
)
def test_the_ring_says_why(name: str, change: float, said: str) -> None:
    story = Story()
    story.receive("market#2", msg.Publish(1, quote(change), 1))
    assert said in story.asked("q1", name)["subscription"]["why"]


def test_why_a_late_subscriber_did_not_hear_it_and_why_a_slow_one_did_not() -> None:
    story = Story()
    story.receive("market#2", msg.Publish(1, quote(-4), 1))
    wanted = tidings.parse_filter("change < 0")
    story.receive("ann#1", msg.Subscribe(2, 2, "late", wanted, msg.DeliveryOptions(), credit=0))
    assert "it began after the event" in story.asked("q1", "ann/late")["subscription"]["why"]
    story.receive("market#2", msg.Publish(2, quote(-4, "q2"), 2))
    assert "not handed over yet" in story.asked("q2", "ann/late")["subscription"]["why"]


def test_what_the_rules_withheld_is_told() -> None:
    story = Story()
    story.receive("market#2", msg.Publish(1, quote(-4), 1))
    story.ring.withheld("ann", quote(-4), story.now)
    assert "the rules do not let ann hear it" in story.asked("q1", "ann/alerts")["subscription"]["why"]


def test_who_may_not_observe_an_event_learns_nothing_of_it() -> None:
    story = Story()
    story.receive("market#2", msg.Publish(1, quote(-4), 1))
    nothing = ObservedScope(False, lambda event: False, lambda id: False)
    answer = story.asked("q1", "ann/alerts", nothing)
    assert (answer["steps"], answer["event"], answer["wanted"], answer["sources"]) == ([], None, None, [])
    assert answer["ring"] == {"events": None, "seconds": None}  # figures over all principals
    assert story.asked("q1")["ring"] == {"events": 1, "seconds": 0.0}
    assert answer["subscription"] == story.asked("q1", "no/such", nothing)["subscription"] | {
        "id": "ann/alerts"
    }
    assert "-4" not in json.dumps(answer)
    assert "change" not in json.dumps(answer)


def test_who_sees_an_event_does_not_see_to_whom_else_it_went() -> None:
    story = Story()
    story.receive("market#2", msg.Publish(1, quote(-4), 1))
    story.ring.withheld("bob", quote(-4), story.now)
    answer = story.asked("q1", "ann/alerts", ObservedScope(False, lambda event: True, lambda id: False))
    assert [step["what"] for step in answer["steps"]] == ["published"]
    assert answer["wanted"]["subscriptions"] == []
    assert "ann#1" not in json.dumps(answer)


def test_the_ring_is_bounded_and_drops_large_payloads() -> None:
    ring = TraceRing(2)
    for number in range(100):
        event = quote(1, str(number), payload=b"x" * (HEAVY + 1))
        ring.came("b2", Forward(Envelope(event, "b2")), float(number))
    assert len(ring) == 2
    assert ring.steps("99")[0].event.payload is None
    assert not ring.steps("0")


def test_a_batch_that_goes_on_is_noted_for_each_of_its_events() -> None:
    ring = TraceRing(10)
    events = tuple(quote(1, str(number)) for number in range(3))
    ring.went("ann#1", msg.DeliverAll(1, 1, events[:2], "log", (1, 2)), 0.0)
    ring.went("b3", ForwardAll(tuple([Envelope(event, "b2") for event in events])), 0.0)
    ring.went("b4", ForwardAll(tuple([Envelope(event, "b2") for event in events[1:]])), 0.0)
    assert [[(step.what, step.peer) for step in ring.steps(event.id)] for event in events] == [
        [("delivered", "ann#1"), ("sent", "b3")],
        [("delivered", "ann#1"), ("sent", "b3"), ("sent", "b4")],
        [("sent", "b3"), ("sent", "b4")],
    ]


def test_names_of_subscriptions_go_with_their_client() -> None:
    ring = TraceRing(10)
    ring.went("ann#1", msg.Subscribed(1, 1, "ann", "s"), 0.0)
    ring.went("ann#1", msg.Deliver(1, 1, quote(1)), 0.0)
    ring.gone("ann#1")
    ring.went("ann#1", msg.Deliver(1, 2, quote(1)), 0.0)
    assert [step.subscription for step in ring.steps("q1")] == [SubscriptionId("ann", "s"), None]


@pytest.mark.parametrize("about", [{}, {"id": 5}, {"id": "x" * 2_000}, {"id": "a", "subscription": ["x"]}])
def test_strange_questions_are_refused(about: dict[str, Any]) -> None:
    with pytest.raises(tidings.errors.InputError):
        TraceRing(1).answer(intermediary("b", rng=Random(1)), about, 0.0, WHOLE)


def test_replay_and_recovery_are_told_from_live() -> None:
    ring = TraceRing(10)
    envelope = Envelope(quote(1), "b2")
    ring.came("b2", Forward(envelope), 0.0)
    ring.went("b3", ReplayReply("log", 1, (envelope,), 1, ()), 0.0)
    ring.came("b2", RangeReply("log", 0, 1, (envelope,), ()), 0.0)
    assert [(step.what, step.how) for step in ring.steps("q1")] == [
        ("received", ""),
        ("sent", "replay"),
        ("received", "recovery"),
    ]


def test_an_event_for_very_many_is_counted_beyond_a_bound() -> None:
    ring = TraceRing(10)
    event = quote(-4)
    for number in range(MOST_STEPS + 5):
        ring.went(f"c{number}", msg.Deliver(1, 1, event), 0.0)
    assert len(ring.steps("q1")) == MOST_STEPS
    answer = ring.answer(intermediary("b", rng=Random(1)), {"id": "q1"}, 0.0, WHOLE)
    assert answer["more"] == 5
