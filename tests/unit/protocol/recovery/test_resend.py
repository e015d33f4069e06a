"""What went over a link last is sent again, all of what is asked for or nothing."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tidings.model.event import FOREVER, make_event
from tidings.protocol.messages import Envelope
from tidings.protocol.recovery.messages import PREVIOUS, RangeReply, RangeRequest
from tidings.protocol.recovery.resend import Resend
from tidings.simulation.faults import FaultPlan, Rates
from tidings.simulation.topology import line
from tidings.simulation.world import World

LOG = "b0#1"


def sent(offset: int, previous: int, log: str = LOG, **times: float) -> Envelope:
    event = make_event({"x": offset}, source="p", id=str(offset))
    return Envelope(event, log, offset, headers={PREVIOUS: previous}, **times)  # type: ignore[arg-type]


def ask(after: int, upto: int) -> RangeRequest:
    return RangeRequest(LOG, after, upto, ("b2",))


def offsets(fill: RangeReply | None) -> list[int | None] | None:
    return None if fill is None else [envelope.offset for envelope in fill.envelopes]


def resend_of(*pairs: tuple[int, int], most: int = 100, chunk: int = 100) -> Resend:
    resend = Resend(most, chunk)
    for offset, previous in pairs:
        resend.note("b2", (sent(offset, previous),), 0.0)
    return resend


def test_what_is_held_is_answered_and_other_logs_are_left_out() -> None:
    resend = resend_of((3, 1), (7, 3))
    resend.note("b2", (sent(8, 0, log="b9#1"),), 0.0)
    resend.note("b2", (sent(9, 7),), 0.0)
    assert offsets(resend.answer("b2", ask(1, 7), 0.0)) == [3, 7]
    assert offsets(resend.answer("b2", ask(3, 7), 0.0)) == [7]
    assert resend.answer("b3", ask(1, 7), 0.0) is None


def test_who_asks_for_what_was_not_sent_or_is_held_no_more_asks_the_log() -> None:
    resend = resend_of((3, 1), (7, 3))
    assert resend.answer("b2", ask(0, 7), 0.0) is None, "something between 0 and 1 may have been sent before"
    assert resend.answer("b2", ask(3, 9), 0.0) is None, "nothing was said of 9"
    few = resend_of((3, 1), (7, 3), (9, 7), most=2)
    assert few.answer("b2", ask(1, 9), 0.0) is None
    assert offsets(few.answer("b2", ask(3, 9), 0.0)) == [7, 9]
    few.forget("b2")
    assert few.answer("b2", ask(3, 9), 0.0) is None


def test_a_long_answer_comes_in_parts() -> None:
    resend = resend_of(*((n, n - 1) for n in range(1, 11)), chunk=4)
    first = resend.answer("b2", ask(0, 10), 0.0)
    assert first is not None
    assert (offsets(first), first.after, first.upto) == ([1, 2, 3, 4], 0, 4)


def test_lifetimes_go_on_while_an_event_is_held() -> None:
    resend = Resend(10, 10)
    resend.note("b2", (sent(1, 0, remaining=5.0, expires=4.0),), 10.0)
    resend.note("b2", (sent(2, 1, remaining=FOREVER),), 10.0)
    fill = resend.answer("b2", ask(0, 2), 13.0)
    assert fill is not None
    assert [(e.remaining, e.expires) for e in fill.envelopes] == [(2.0, 1.0), (FOREVER, None)]
    assert offsets(resend.answer("b2", ask(0, 2), 14.5)) == [2], "its time is over, and that is no gap"


@hypothesis_settings(deadline=None, max_examples=200)
@given(
    stream=st.lists(st.integers(1, 4), min_size=1, max_size=30), most=st.integers(1, 12),
    after=st.integers(0, 60), width=st.integers(1, 60),
)  # fmt: skip
def test_an_answer_is_exactly_what_was_sent(stream: list[int], most: int, after: int, width: int) -> None:
    last, was_sent, resend = 0, [], Resend(most, 1000)
    for step in stream:
        resend.note("b2", (sent(last + step, last),), 0.0)
        last += step
        was_sent.append(last)
    fill = resend.answer("b2", ask(after, after + width), 0.0)
    expected = [offset for offset in was_sent if after < offset <= after + width]
    if fill is not None:
        assert offsets(fill) == expected
        assert after + width <= last
    elif after + width <= last:
        lowest = was_sent[-most:][0] if len(was_sent) > most else 0
        assert after < lowest, "all of it was held"


def test_over_lossy_links_neighbours_answer_and_everything_arrives() -> None:
    world = World("tidings", line(8), seed=2, options={"datagrams": True}, record=False)
    world.add_client("press", "b0")
    world.add_client("reader", "b7")
    world.subscribe("reader", "all", "x > 0")
    world.run(5.0)
    world.simulation.plan(FaultPlan(Rates(loss=0.1)))
    rng = Random(1)
    for number in range(1, 301):
        world.publish("press", {"x": number})
        world.run(world.simulation.now + rng.uniform(0.0, 0.04))
    world.run(world.simulation.now + 30.0)
    assert [n.event.attributes["x"] for n in world.applications["reader"].received] == list(range(1, 301))
    # Seven links that lose a tenth each: about 230 holes, each asked for over one link, some more than once.
    assert 100 < world.simulation.sent["Ask"] < 500
