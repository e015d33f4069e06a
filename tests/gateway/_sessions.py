"""Random sessions of two MQTT clients, played against a broker, and what each client saw at each step.

A session is a list of steps that a seed draws. After each step both clients ping until the broker has nothing
more to say, so that the packets of a step are those that it caused. Two brokers are compared step by step; a
difference belongs to a class, and each class to the sentence of the standard that allows both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from tests.gateway._peer import KEPT, Peer

from tidings.gateway.mqtt import packets as mq
from tidings.gateway.mqtt.packets import V5, V311, PacketKind

STEPS = 14
QUIET_ROUNDS = 3  # of pings without another packet
TOPICS = ("a", "a/b", "a/c", "d")
FILTERS = ("a", "a/b", "a/+", "a/#", "#", "+/b", "d", "+")

# Classes of differences, each with the sentence of the standard (OASIS MQTT 5.0) that allows both.
EXPLAINED = {
    "a copy for each overlapping subscription": (
        "3.3.4: the Server might deliver further copies of the message, one for each additional matching"
        " subscription"
    ),
    "QoS 0 is kept for an absent client": (
        "4.1: OPTIONALLY, QoS 0 messages pending transmission to the Client are part of the session state"
    ),
    "the flag of a copy that two subscriptions want": (
        "3.3.1.3 and 3.3.4: a single copy for overlapping subscriptions follows one of their options"
    ),
}


class Step(NamedTuple):
    client: int
    what: str
    arguments: dict[str, Any]


class Seen(NamedTuple):
    """What one client saw at one step."""

    answers: tuple[str, ...]
    messages: Counter[tuple[str, bytes, int, bool]]  # topic, payload, QoS and RETAIN


def steps_of(seed: int) -> tuple[int, list[Step]]:
    """The version of the protocol, and the steps."""
    rng = Random(seed)
    version = rng.choice((V311, V5))
    connected = [False, False]
    steps: list[Step] = []
    for number in range(STEPS):
        client = rng.randrange(2)
        if not connected[client]:
            steps.append(Step(client, "connect", {"clean": rng.random() < 0.4}))
            connected[client] = True
            continue
        what = rng.choices(("subscribe", "unsubscribe", "publish", "disconnect", "drop"), (35, 8, 40, 9, 8))[
            0
        ]
        arguments: dict[str, Any] = {}
        if what == "subscribe":
            arguments = {"filter": rng.choice(FILTERS), "qos": rng.randrange(3)}
            if version == V5:
                arguments |= {"handling": rng.randrange(3), "as_published": rng.random() < 0.3}
        elif what == "unsubscribe":
            arguments = {"filter": rng.choice(FILTERS)}
        elif what == "publish":
            payload = b"" if rng.random() < 0.1 else str(number).encode()
            arguments = {"topic": rng.choice(TOPICS), "payload": payload, "qos": rng.randrange(3)}
            arguments["retain"] = rng.random() < 0.35
        else:
            connected[client] = False
        steps.append(Step(client, what, arguments))
    return version, steps


async def play(port: int, seed: int) -> list[tuple[Seen, Seen]]:
    """What the two clients saw at each step. The names of the clients are the seed's: sessions are new."""
    version, steps = steps_of(seed)
    peers: list[Peer | None] = [None, None]
    seen: list[tuple[Seen, Seen]] = []
    for step in steps:
        found: tuple[list[Any], list[Any]] = ([], [])
        await _do(port, seed, version, step, peers, found)
        quiet = 0
        while quiet < QUIET_ROUNDS:
            quiet += 1
            for position, peer in enumerate(peers):
                packets = [] if peer is None else await peer.waiting()
                found[position].extend(packets)
                quiet = 0 if packets else quiet
        seen.append((_seen(found[0]), _seen(found[1])))
    for peer in peers:
        if peer is not None:
            peer.close()
    await clear(port, seed)
    return seen


async def _do(
    port: int,
    seed: int,
    version: int,
    step: Step,
    peers: list[Peer | None],
    found: tuple[list[Any], list[Any]],
) -> None:
    client, what, arguments = step
    if what == "connect":
        peer = peers[client] = Peer(port, version)
        properties = {} if arguments["clean"] or version != V5 else {"session_expiry": KEPT}
        name = f"random-{seed}-{client}"
        found[client].append(await peer.connect(name, clean=arguments["clean"], **properties))
        return
    peer = peers[client]
    assert peer is not None
    if what == "subscribe":
        peer.send(mq.SubscribePacket(60_000, [mq.SubscriptionRequest(**arguments)]))
    elif what == "unsubscribe":
        peer.send(mq.UnsubscribePacket(60_001, [arguments["filter"]]))
    elif what == "publish":
        topic, payload, qos = arguments["topic"], arguments["payload"], arguments["qos"]
        peer.send(mq.PublishPacket(topic, payload, qos, arguments["retain"], False, 60_002 if qos else 0))
    elif what == "disconnect":
        peer.disconnect()
        peers[client] = None
    else:
        peer.drop()
        peers[client] = None


async def clear(port: int, seed: int) -> None:
    """Leave neither sessions nor retained messages behind."""
    for client in range(2):
        peer = Peer(port)
        await peer.connect(f"random-{seed}-{client}", clean=True)
        if client:
            for topic in TOPICS:
                await peer.publish(topic, b"", retain=True)
        peer.disconnect()


def _seen(packets: Sequence[Any]) -> Seen:
    answers: list[str] = []
    messages: Counter[tuple[str, bytes, int, bool]] = Counter()
    for packet in packets:
        if isinstance(packet, mq.PublishPacket):
            messages[packet.topic, packet.payload, packet.qos, packet.retain] += 1
        elif isinstance(packet, mq.ConnackPacket):
            answers.append(f"CONNACK {packet.reason} {packet.session_present}")
        elif isinstance(packet, mq.SubackPacket | mq.UnsubackPacket):
            answers.append(f"{type(packet).__name__} {packet.reasons}")
        elif isinstance(packet, mq.AckPacket) and packet.kind is not PacketKind.PUBREL:
            answers.append(f"{packet.kind.name} {'refused' if packet.reason >= 0x80 else 'ok'}")
        elif isinstance(packet, mq.DisconnectPacket):
            answers.append(f"DISCONNECT {packet.reason}")
    return Seen(tuple(sorted(answers)), messages)


def differences(
    seed: int, ours: Sequence[tuple[Seen, Seen]], theirs: Sequence[tuple[Seen, Seen]]
) -> list[str]:
    """The class of each difference; one that has no class is told with its step."""
    _, steps = steps_of(seed)
    return [
        _class_of(mine, other) or f"seed {seed}, step {number} {step}, {client}: ours {mine}, theirs {other}"
        for number, (step, pair, others) in enumerate(zip(steps, ours, theirs, strict=True))
        for client, (mine, other) in enumerate(zip(pair, others, strict=True))
        if mine != other
    ]


def _class_of(mine: Seen, other: Seen) -> str | None:
    if mine.answers != other.answers:
        return None
    more, fewer = mine.messages - other.messages, other.messages - mine.messages
    content = {(topic, payload) for topic, payload, _, _ in other.messages}
    copies = Counter((topic, payload) for topic, payload, _, _ in mine.messages.elements())
    if more and all((topic, payload) in content for topic, payload, _, _ in more):
        if any(copies[topic, payload] > 1 for topic, payload, _, _ in more):
            return "a copy for each overlapping subscription"
        if {key[:3] for key in more} == {key[:3] for key in fewer}:
            return "the flag of a copy that two subscriptions want"
    if more and not fewer and all(qos == 0 and not retain for _, _, qos, retain in more):
        return "QoS 0 is kept for an absent client"
    return None
