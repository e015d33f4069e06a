"""Messages that arrive together do what they do one after the other: told, lost, kept and answered alike."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.protocol._stage import BROKER, Stage

from tidings.language import parse_filter
from tidings.model.subscription import Policy
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.inputs import ClientAsk
from tidings.protocol.messages import AckMode, DeliverAll, HoldLog, PublishedAll

FILTERS = ("TRUE", "n < 4", "n % 2 = 1", "topic MATCHES 'a/#'", "topic = 'b'", "topic = 'b' AND n > 1")
POLICIES = (Policy.BLOCK, Policy.DROP_OLDEST, Policy.DROP_NEWEST, Policy.DISCONNECT)


def _subscribe(stage: Stage, rng: Random) -> list[tuple[str, int]]:
    found = []
    topics_only = rng.random() < 0.3
    for number in range(rng.randint(1, 4)):
        who = stage.client(f"s{number}")
        durable = rng.random() < 0.2
        ref = stage.subscribed(
            who,
            rng.choice(FILTERS[3:5] if topics_only else FILTERS),
            name=f"n{number}",
            durable=durable,
            queue=rng.choice((1, 3, 100)),
            policy=rng.choice(POLICIES),
            window=rng.choice((0, 2, 8, 50)),
            auto=rng.random() < 0.5,
        )
        found.append((who, ref))
    return found


def _hold(stage: Stage, rng: Random) -> None:
    """Somebody reads the log on their own (refused where there is no store)."""
    who, call = stage.client("r"), stage.call()
    wanted = parse_filter(rng.choice(FILTERS[1:]))
    stage.hand(who, ClientAsk(call, HoldLog(call, "reader", wanted, seconds=60.0)))
    stage.settle()


def _publish(stage: Stage, rng: Random) -> list[int]:
    calls = []
    for burst in range(rng.randint(1, 4)):
        for number in range(rng.randint(1, 12)):
            is_odd = rng.random() < 0.1
            options: dict[str, Any] = {"topic": rng.choice(("a/x", "b", "b", None))}
            if is_odd:
                options |= rng.choice(
                    ({"lifetime": 60.0}, {"key": "k"}, {"mode": AckMode.KEPT},
                        {"id": f"own-{burst}-{number}"}, {"expires": 50.0})
                )  # fmt: skip
            calls.append(stage.publish(rng.choice(("p", "p", "p", "q")), {"n": number}, **options))
        stage.settle()
    return calls


def _played(seed: int, *, together: bool, several: bool | None = None) -> dict[str, Any]:
    rng = Random(seed)
    tiny = DeliverySettings(chunk=2, flush_seconds=0.01)
    stage = Stage(stable=rng.random() < 0.5, settings=tiny, together=together, several=several)
    for name in ("p", "q"):
        stage.client(name)
    readers = _subscribe(stage, rng)
    if rng.random() < 0.3:
        _hold(stage, rng)
    calls = _publish(stage, rng)
    for who, ref in readers:
        for _ in range(rng.randint(0, 60)):
            stage.taken(who, ref)
    stage.wait(1.0)
    figures = stage.node.figures()
    return {
        "heard": {
            reader: [(n.event, n.attempt) for n in stage.received.get(reader, [])] for reader in readers
        },
        "answers": [
            (call, stage.answers[call].id, stage.answers[call].position is None)
            for call in calls
            if call in stage.answers
        ],
        "failed": {call: stage.failures[call] for call in calls if call in stage.failures},
        "lost": stage.lost,
        "ended": stage.ended,
        "figures": {name: figures[name] for name in ("published", "kept", "delivered", "lost", "waiting")},
    }


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_together_or_one_after_the_other_is_the_same(seed: int) -> None:
    assert _played(seed, together=True) == _played(seed, together=False)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_publishes_of_one_turn_do_what_those_of_each_client_do_one_after_the_other(seed: int) -> None:
    assert _played(seed, together=True, several=True) == _played(seed, together=True, several=False)


def test_publishes_of_several_clients_are_matched_and_persisted_as_one_batch() -> None:
    stage = Stage(stable=True, together=True, several=True)
    names = [stage.client(f"p{number}") for number in range(8)]
    stage.subscribed(stage.client("s"), name="mine", durable=True)
    for name in names:
        stage.published(name, {"n": 0})
    for _ in range(2):
        for number, name in enumerate(names):
            stage.publish(name, {"n": number})
        stage.move("message", (names[0], BROKER))
        assert len(stage.disk.pending) == 1
        stage.settle()
    assert stage.node.figures()["kept"] == 24
    assert all(len(stage.channels[name, BROKER]) == 0 for name in names)


def test_an_identity_that_two_clients_publish_in_one_turn_is_answered_when_it_is_kept() -> None:
    """The second is known by the first, which is not on the disk yet."""
    stage = Stage(stable=True, together=True, several=True)
    p, q = stage.client("p"), stage.client("q")
    stage.settle()
    calls = [stage.publish(name, {"n": 1}, id="x", source="z", lifetime=60.0) for name in (p, q)]
    stage.move("message", (p, BROKER))
    assert stage.disk.pending
    assert not [message for name in (p, q) for _, message in stage.channels[BROKER, name]]
    stage.settle()
    assert stage.answers[calls[0]] == stage.answers[calls[1]]
    assert stage.node.figures()["duplicate publishes"] == 1


def test_a_burst_is_told_and_answered_in_one_message() -> None:
    stage = Stage()
    stage.client("p")
    stage.client("s")
    stage.subscribed("s", "n >= 0", window=100)
    stage.published("p", {"n": 0})
    for number in range(1, 6):
        stage.publish("p", {"n": number})
    stage.together = True
    stage.move("message", ("p", BROKER))
    delivered = [message for _, message in stage.channels[BROKER, "s"]]
    stated = [message for _, message in stage.channels[BROKER, "p"]]
    assert [type(message) for message in delivered] == [DeliverAll]
    assert [event["n"] for event in delivered[0].events] == [1, 2, 3, 4, 5]
    assert [(type(message), message.count) for message in stated] == [(PublishedAll, 5)]
