"""The prefix overlay: what a node remembers of others, and what it says to them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import SettingsError
from tidings.protocol.effects import Channel, CloseLink, OpenLink, ProbePeer
from tidings.protocol.inputs import Joined, LinkUp, Parted, Probed, Started
from tidings.protocol.messages import Message
from tidings.protocol.slots import Ports, Routing
from tidings.store.memory import MemoryStore
from tidings_lab.overlay.prefix import PrefixOverlay, PrefixSettings
from tidings_lab.overlay.prefix_messages import (
    CellRequest,
    PrefixHello,
    PrefixJoin,
    PrefixJoinReply,
    PrefixLeave,
    PrefixSuspicion,
)
from tidings_lab.overlay.prefix_state import RING, PrefixTables, between, id_of

NAMES = st.lists(st.integers(0, 500).map(lambda n: f"n{n}"), max_size=60, unique=True)


def known_with(names: list[str], **sizes: int) -> PrefixTables:
    known = PrefixTables("me", **sizes)
    for name in names:
        known.add(name, f"at {name}")
        known.check()
    return known


@settings(deadline=None)
@given(NAMES, st.sampled_from([4, 8, 16]))
def test_the_leaves_are_the_nearest_on_each_side_whatever_the_order(names: list[str], leaves: int) -> None:
    known = known_with(names, leaves=leaves)
    upward = sorted(names, key=lambda name: (id_of(name) - known.me) % RING)
    downward = sorted(names, key=lambda name: (known.me - id_of(name)) % RING)
    assert [name for _, name in known.up] == upward[: leaves // 2]
    assert [name for _, name in known.down] == downward[: leaves // 2]


@settings(deadline=None)
@given(NAMES, st.data())
def test_after_a_loss_the_leaves_are_the_nearest_of_those_still_known(
    names: list[str], data: st.DataObject
) -> None:
    known = known_with(names, leaves=4)
    for gone in data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []:
        known.remove(gone)
        known.check()
        left = sorted(known.everybody(), key=lambda name: (id_of(name) - known.me) % RING)
        assert gone not in left
        assert [name for _, name in known.up] == left[:2]


@settings(deadline=None)
@given(NAMES, st.integers(0, 10_000).map(str), st.sampled_from([1, 2, 4]))
def test_every_hop_shares_a_longer_prefix_with_the_key_or_is_nearer_to_it(
    names: list[str], key: str, bits: int
) -> None:
    known = known_with(names, leaves=4, digit_bits=bits)
    id = id_of(key)
    hop = known.hop(id)
    if hop is None:
        assert all(between(known.me, id) <= between(id_of(leaf), id) for leaf in known.leaves())
        return
    shared = (64 - (id_of(hop) ^ id).bit_length()) // bits
    assert shared > known.row_of(id) or between(id_of(hop), id) < between(known.me, id)


@settings(deadline=None, max_examples=30)
@given(NAMES, st.integers(0, 10_000).map(str))
def test_who_knows_everybody_leads_to_the_nearest(names: list[str], key: str) -> None:
    known = known_with(names, leaves=2 * len(names) + 2)
    nearest = min([*names, "me"], key=lambda name: (between(id_of(name), id_of(key)), id_of(name)))
    assert known.hop(id_of(key)) == (None if nearest == "me" else nearest)


def test_the_neighbourhood_are_the_nearest_that_were_measured() -> None:
    known = PrefixTables("me", near=3)
    for number, seconds in enumerate([5.0, 1.0, 4.0, 2.0, 3.0]):
        known.measured(f"n{number}", "", seconds)
    assert known.near == {"n1": 1.0, "n3": 2.0, "n4": 3.0}
    known.check()


# -- the overlay alone ---------------------------------------------------------------------------


class Changes(Routing):
    changes = 0

    def ways_changed(self, now: float) -> None:
        self.changes += 1


class Alone:
    """One node of the overlay, and what it sends."""

    def __init__(self, *, contacts: tuple[str, ...] = ("a", "b"), linked: bool = False, **knobs: Any) -> None:
        self.sent: list[tuple[str, Message]] = []
        self.effects: list[Any] = []
        ports = Ports()
        ports.name, ports.rng, ports.recording = "me", Random(1), False
        ports.send, ports.emit = self._send, self.effects.append
        self.routing = Changes()
        knobs = {"join_seconds": 0.0, "proximity": False, **knobs}
        self.overlay = PrefixOverlay(contacts, PrefixSettings(**knobs), linked=linked)
        ports.offer(self.overlay, self.routing)
        self.overlay.bind(ports)
        self.overlay.on_input(Started(MemoryStore().load()), 0.0)

    def _send(self, to: str, message: Message, channel: Channel = Channel.LINK) -> None:
        self.sent.append((to, message))

    def take(self) -> list[tuple[str, Message]]:
        sent, self.sent = self.sent, []
        return sent

    def receive(self, sender: str, message: Message, now: float = 1.0) -> list[tuple[str, Message]]:
        self.overlay.on_message(sender, message, now)
        self.overlay.check()
        return self.take()

    def wait(self, now: float) -> list[tuple[str, Message]]:
        while (due := self.overlay.next_deadline()) is not None and due <= now:
            self.overlay.on_timer(due)
        return self.take()


def asked(sent: list[tuple[str, Message]]) -> set[str]:
    return {to for to, message in sent if isinstance(message, PrefixHello) and message.answer}


def test_a_newcomer_asks_its_contacts_in_turn_until_it_is_admitted_and_greets_whom_it_takes_in() -> None:
    alone = Alone()
    assert [to for to, _ in alone.wait(1.2)] == ["b", "a", "b"]
    sent = alone.receive("b", PrefixJoinReply((("b", ""), ("c", ""), ("d", ""))))
    assert asked(sent) == {"b", "c", "d"}
    assert set(alone.overlay.peers()) == {"b", "c", "d"}
    assert alone.routing.changes == 1


def test_a_request_for_a_place_goes_on_to_the_nearest_and_ends_there() -> None:
    alone = Alone()
    alone.receive("a", PrefixHello())
    alone.receive("b", PrefixHello())
    ids = {name: id_of(name) for name in ("a", "b", "me")}
    for number in range(50):
        newcomer = f"x{number}"
        nearest = min(ids, key=lambda name: between(ids[name], id_of(newcomer)))
        fresh = Alone()
        fresh.receive("a", PrefixHello())
        fresh.receive("b", PrefixHello())
        ((to, message),) = fresh.receive("a", PrefixJoin((newcomer, "there")))
        if nearest == "me":
            assert to == newcomer
            assert isinstance(message, PrefixJoinReply)
            assert dict(message.contacts).keys() == {"a", "b", "me"}
        else:
            assert to == nearest
            assert isinstance(message, PrefixJoin)
            assert message.hops == 1
        assert newcomer in fresh.overlay.peers()


def test_who_does_not_answer_is_asked_again_then_forgotten_and_its_leaves_are_told() -> None:
    alone = Alone(tries=3, answer_seconds=0.5)
    alone.receive("a", PrefixHello())
    alone.receive("b", PrefixHello())
    alone.overlay.doubted("a", 1.0)
    assert [to for to, message in alone.take() if isinstance(message, PrefixHello)] == ["a"]
    sent = alone.wait(2.0)
    assert sum(to == "a" and isinstance(message, PrefixHello) for to, message in sent) == 2
    assert "a" in alone.overlay.peers()
    sent = alone.wait(2.6)
    assert ("b", PrefixSuspicion("a")) in sent
    assert "a" not in alone.overlay.peers()
    alone.receive("b", PrefixHello((("a", ""),)), 3.0)
    assert "a" not in alone.overlay.peers(), "hearsay does not bring it back"
    alone.receive("a", PrefixHello(), 3.0)
    assert "a" in alone.overlay.peers(), "its own word does"


def test_an_answer_in_time_is_enough_and_tells_the_leaves() -> None:
    alone = Alone()
    alone.receive("a", PrefixHello())
    alone.overlay.doubted("a", 1.0)
    alone.take()
    alone.receive("a", PrefixHello((("c", ""),)), 1.2)
    assert {"a", "c"} <= set(alone.overlay.peers())
    ((_, answer),) = [each for each in alone.receive("a", PrefixHello(answer=True), 1.3) if each[0] == "a"]
    assert isinstance(answer, PrefixHello)
    assert not answer.answer
    assert dict(answer.contacts).keys() == {"a", "c"}


def test_whoever_says_farewell_is_gone_at_once_and_whoever_is_parted_says_it() -> None:
    alone = Alone()
    alone.receive("a", PrefixHello())
    alone.receive("b", PrefixHello())
    alone.receive("a", PrefixLeave((("c", ""),)))
    assert set(alone.overlay.peers()) == {"b", "c"}
    alone.overlay.on_input(Parted("me"), 2.0)
    assert {to for to, message in alone.take() if isinstance(message, PrefixLeave)} == {"b", "c"}
    assert alone.receive("b", PrefixHello(answer=True)) == []
    assert alone.overlay.next_deadline() is None


def test_a_gap_in_the_table_is_filled_by_asking_another_of_the_row() -> None:
    names = [f"n{number}" for number in range(60)]
    alone = Alone(leaves=2)
    for name in names:
        alone.receive(name, PrefixHello())
    known = alone.overlay.known
    lost = next(
        name
        for name in known.table.values()
        if not known.is_leaf(name) and len(known.row(known.row_of(id_of(name)))) > 1
    )
    row = known.row_of(id_of(lost))
    sent = alone.receive(lost, PrefixLeave())
    ((to, message),) = [each for each in sent if isinstance(each[1], CellRequest)]
    assert isinstance(message, CellRequest)
    assert to in known.row(row)
    assert known.cell_of(message.key) == known.cell_of(id_of(lost))


def test_the_nearer_of_two_takes_a_cell_of_the_table() -> None:
    me = id_of("me")
    far, near = [n for n in (f"x{k}" for k in range(400)) if id_of(n) >> 60 == (me >> 60) ^ 1][:2]
    alone = Alone(proximity=True, leaves=2)
    alone.receive(far, PrefixHello())
    alone.receive(near, PrefixHello())
    assert {effect.peer for effect in alone.effects if isinstance(effect, ProbePeer)} == {far, near}
    alone.overlay.on_input(Probed(far, 0.2), 2.0)
    assert far in alone.overlay.known.table.values()
    alone.overlay.on_input(Probed(near, 0.1), 2.0)
    assert near in alone.overlay.known.table.values()
    assert far not in alone.overlay.known.table.values()
    assert alone.overlay.distance(near) == 0.1
    assert set(alone.overlay.known.near) == {far, near}


def test_over_links_the_first_word_asks_for_a_link_and_waits_for_it() -> None:
    alone = Alone(contacts=(), linked=True)
    alone.overlay.on_input(Joined("a"), 0.0)
    assert alone.effects.pop() == OpenLink("a")
    alone.overlay.on_input(LinkUp("a"), 0.0)
    assert alone.take() == [("a", PrefixJoin(("me", "")))], "a newcomer asks where it is linked"
    alone.receive("a", PrefixJoinReply((("a", ""), ("b", "at b"))))
    assert OpenLink("b", "at b") in alone.effects
    assert "b" not in {to for to, _ in alone.take()}
    alone.overlay.on_input(LinkUp("b"), 1.1)
    assert asked(alone.take()) == {"b"}
    alone.overlay.on_input(LinkUp("a client"), 1.1)
    assert set(alone.overlay.links()) == {"a", "b"}
    alone.wait(30.0)
    assert any(isinstance(effect, CloseLink) and effect.for_good for effect in alone.effects), (
        "nobody answered"
    )


@pytest.mark.parametrize("knobs", [{"leaves": 0}, {"leaves": 5}, {"digit_bits": 3}, {"tries": 0}], ids=str)
def test_settings_that_cannot_work_are_refused(knobs: dict[str, int]) -> None:
    with pytest.raises(SettingsError):
        PrefixSettings(**knobs)  # type: ignore[arg-type]
