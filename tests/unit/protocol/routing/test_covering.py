"""Routing by subscriptions, effect by effect; and its acknowledged exchange through losses."""

from __future__ import annotations

from random import Random

import pytest

from tidings.errors import SettingsError
from tidings.protocol.messages import Message
from tidings.protocol.routing.covering import ADVERTISEMENTS, SUBSCRIPTIONS, SubscriptionRouting
from tidings.protocol.routing.diffusion import Interest, InterestAck
from tidings.protocol.routing.duplicates import NUMBER, Forward
from tidings.testing.ports import AloneStrategy, advertisement, envelope, filter_of

WIDE, NARROW = "x > 0", "x > 5"


def interest(*add: str, remove: tuple[str, ...] = (), what: str = SUBSCRIPTIONS) -> Interest:
    return Interest(what, tuple(filter_of(text) for text in add), tuple(filter_of(t).digest for t in remove))


def told(alone: AloneStrategy) -> dict[str, tuple[list[str], list[str]]]:
    """By link: filters that were told, and those taken back."""
    texts = {filter_of(text).digest: text for text in (WIDE, NARROW)}
    return {
        link: ([f.text for f in message.add], [texts[d] for d in message.remove])
        for link, message in alone.take()
        if isinstance(message, Interest)
    }


def test_a_subscription_goes_to_all_links_and_one_from_a_link_to_the_others() -> None:
    alone = AloneStrategy(SubscriptionRouting())
    alone.subscribe(WIDE)
    assert told(alone) == {link: ([WIDE], []) for link in "abc"}
    alone = AloneStrategy(SubscriptionRouting())
    alone.receive("b", interest(WIDE))
    assert told(alone) == {link: ([WIDE], []) for link in "ac"}
    alone.subscribe(WIDE)
    assert told(alone) == {"b": ([WIDE], [])}, "the other direction only"


def test_covered_filters_stay_and_come_out_when_their_cover_goes() -> None:
    alone = AloneStrategy(SubscriptionRouting())
    alone.subscribe(WIDE)
    told(alone)
    alone.subscribe(NARROW)
    assert told(alone) == {}
    alone.unsubscribe(WIDE)
    assert told(alone) == {link: ([NARROW], [WIDE]) for link in "abc"}
    alone.unsubscribe(NARROW)
    assert told(alone) == {link: ([], [NARROW]) for link in "abc"}
    assert alone.routing.table_size() == 0


def test_events_go_where_they_are_wanted_and_never_back() -> None:
    alone = AloneStrategy(SubscriptionRouting())
    alone.receive("a", interest(WIDE))
    alone.receive("b", interest(NARROW))
    alone.take()
    alone.publish(x=1)
    assert alone.to() == ["a"]
    alone.publish(x=9)
    assert alone.to() == ["a", "b"]
    far = envelope(x=9)
    far.headers[NUMBER] = ("far", 1)
    alone.receive("a", Forward(far))
    assert alone.to() == ["b"]
    alone.receive("c", Forward(far))
    assert alone.to() == [], "it was here before"
    assert alone.routing.wanted_elsewhere(far.event)
    assert not alone.routing.wanted_elsewhere(envelope(x=0).event)


def test_a_link_that_goes_takes_what_was_wanted_behind_it() -> None:
    alone = AloneStrategy(SubscriptionRouting())
    alone.receive("a", interest(WIDE))
    told(alone)
    alone.down("a")
    assert told(alone) == {"b": ([], [WIDE]), "c": ([], [WIDE])}
    alone.publish(x=1)
    assert alone.to() == []


def test_what_is_remembered_of_a_broken_link_is_kept() -> None:
    alone = AloneStrategy(SubscriptionRouting(remember_links=True))
    alone.receive("a", interest(WIDE))
    alone.down("a")
    assert [f.text for f in alone.routing.interest("a")] == [WIDE]


def test_advertisements_open_the_way_for_subscriptions() -> None:
    alone = AloneStrategy(SubscriptionRouting(advertisements=True))
    alone.subscribe(NARROW)
    assert told(alone) == {}
    alone.receive("a", interest("x BETWEEN 6 AND 7", what=ADVERTISEMENTS))
    sent = alone.take()
    assert [(link, m.what) for link, m in sent if isinstance(m, Interest)] == [
        ("b", ADVERTISEMENTS), ("c", ADVERTISEMENTS), ("a", SUBSCRIPTIONS),
    ]  # fmt: skip
    alone.receive("a", interest(remove=("x BETWEEN 6 AND 7",), what=ADVERTISEMENTS))
    assert ("a", SUBSCRIPTIONS) in [(link, m.what) for link, m in alone.take() if isinstance(m, Interest)]
    alone.routing.advertisement_added(advertisement(WIDE), 0.0)
    assert {m.what for _, m in alone.take() if isinstance(m, Interest)} == {ADVERTISEMENTS}
    alone.routing.advertisement_removed(advertisement(WIDE), 0.0)
    assert len(alone.take()) == 3


def test_in_a_hierarchy_filters_and_events_climb() -> None:
    alone = AloneStrategy(SubscriptionRouting(hierarchical=True, parent="a"))
    alone.subscribe(WIDE)
    assert told(alone) == {"a": ([WIDE], [])}
    alone.receive("b", interest(NARROW))
    told(alone)
    alone.publish(x=1)
    assert alone.to() == ["a"]
    alone.publish(x=9)
    assert alone.to() == ["a", "b"]
    assert alone.routing.wanted_elsewhere(envelope(x=-1).event)


def test_an_unknown_reduction_is_refused() -> None:
    with pytest.raises(SettingsError, match="no reduction is called 'zip'"):
        SubscriptionRouting(reduce="zip")


# -- the acknowledged exchange ---------------------------------------------------------------------


class Pair:
    """Two brokers and a link between them that loses, repeats and reorders as its seed says."""

    def __init__(self, seed: int, loss: float) -> None:
        self.rng, self.loss, self.now = Random(seed), loss, 0.0
        self.ends = {
            "l": AloneStrategy(SubscriptionRouting(acknowledged=True), "r", name="l", seed=seed),
            "r": AloneStrategy(SubscriptionRouting(acknowledged=True), "l", name="r", seed=seed + 1),
        }
        self.flying: list[tuple[str, str, Message]] = []

    def collect(self) -> None:
        for name, end in self.ends.items():
            for to, message in end.take():
                if self.rng.random() >= self.loss:
                    self.flying.append((name, to, message))
                    if self.rng.random() < self.loss:
                        self.flying.append((name, to, message))

    def step(self) -> None:
        self.collect()
        if self.flying:
            position = self.rng.randrange(len(self.flying)) if self.loss else 0
            sender, to, message = self.flying.pop(position)
            self.ends[to].receive(sender, message)
            return
        self.now += 1.1
        for end in self.ends.values():
            if (due := end.routing.next_deadline()) is not None and due <= self.now:
                end.routing.on_timer(self.now)

    def settle(self) -> None:
        for _ in range(400):
            self.step()
        self.loss = 0.0
        for _ in range(60):
            self.step()


@pytest.mark.parametrize("seed", range(25))
def test_acknowledged_tables_agree_after_losses(seed: int) -> None:
    pair = Pair(seed, loss=0.35)
    rng = Random(seed)
    wanted: list[str] = []
    for _ in range(20):
        if wanted and rng.random() < 0.4:
            pair.ends["l"].unsubscribe(wanted.pop(rng.randrange(len(wanted))))
        else:
            wanted.append(f"x BETWEEN {rng.randrange(4)} AND {rng.randrange(4, 8)}")
            pair.ends["l"].subscribe(wanted[-1])
        for _ in range(rng.randrange(4)):
            pair.step()
    pair.settle()
    told_there = pair.ends["l"].routing._subs.outlets["r"].announced
    heard_here = {f.digest for f in pair.ends["r"].routing.interest("l")}
    assert heard_here == told_there.keys()
    assert bool(wanted) == bool(heard_here)
    assert all(end.routing.next_deadline() is None for end in pair.ends.values()), "nothing left to repeat"


def test_a_change_out_of_turn_waits_for_the_whole() -> None:
    alone = AloneStrategy(SubscriptionRouting(acknowledged=True))
    whole = Interest(SUBSCRIPTIONS, (filter_of(WIDE),), (), True, "s1", 1)
    early = Interest(SUBSCRIPTIONS, (filter_of(NARROW),), (), False, "s1", 3)
    alone.receive("a", whole)
    alone.receive("a", early)
    seen = [m.number for _, m in alone.take() if isinstance(m, InterestAck)]
    assert seen == [1, 1], "the second says how far we are"
    assert [f.text for f in alone.routing.interest("a")] == [WIDE]
    alone.receive("a", Interest(SUBSCRIPTIONS, (filter_of(NARROW),), (), True, "s1", 4))
    assert [f.text for f in alone.routing.interest("a")] == [NARROW]
    alone.receive("a", whole)
    assert [f.text for f in alone.routing.interest("a")] == [NARROW], "an old one changes nothing"
