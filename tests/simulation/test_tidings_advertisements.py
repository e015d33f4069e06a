"""Advertisements in Tidings: they restrict where filters travel, and nobody is the worse for lack of one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.simulation._tidings import SOON, judge, play
from tests.simulation.test_tidings_faults import KINDS, trouble

from tidings.algebra import overlaps
from tidings.protocol.routing import covering
from tidings.protocol.routing.covering import SubscriptionRouting
from tidings.protocol.routing.settled import FilterSet, SettledInterest
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, line, star
from tidings.simulation.workloads import AdvertiseStep, UnadvertiseStep
from tidings.simulation.world import World
from tidings.testing.trial import Trial, drawn_event, drawn_filter, everybody_leaves, overlay_for

Patch = pytest.MonkeyPatch


# -- what they are for ---------------------------------------------------------------------------


def world_of(overlay: OverlayGraph, **knobs: float) -> World:
    options = {"advertising": knobs}
    world = World("tidings", overlay, settings=SimulationSettings(check=True), options=options)
    for broker in overlay.brokers:
        world.add_client(f"c{broker[1:]}", broker)
    world.run(1.0)
    return world


def advertise(world: World, client: str, filter: str, name: str = "a") -> None:
    now = world.simulation.now
    world.do(AdvertiseStep(at=now, client=client, name=name, filter=filter))


def filters_at(world: World) -> dict[str, int]:
    return {name: node.slots["routing"].table_size() for name, node in world.nodes()}


def heard(world: World, client: str) -> list[int]:
    return [notify.event.attributes["x"] for notify in world.applications[client].received]


def test_filters_travel_only_toward_who_may_publish_what_they_want() -> None:
    world = world_of(line(5))
    advertise(world, "c1", "x < 10")
    advertise(world, "c4", "x >= 10")
    world.run(3.0)
    world.subscribe("c2", "n", "x < 5")
    world.run(5.0)
    assert filters_at(world) == {"b0": 0, "b1": 1, "b2": 0, "b3": 0, "b4": 0}
    world.publish("c1", {"x": 3})
    world.run(6.0)
    assert heard(world, "c2") == [3]


def test_a_broker_where_nobody_publishes_is_told_no_filter() -> None:
    world = world_of(star(6))
    world.publish("c1", {"x": 0})
    world.run(3.0)
    for client in ("c2", "c3", "c4"):
        world.subscribe(client, "n", f"x > {client[1:]}")
    world.run(5.0)
    assert filters_at(world) == {"b0": 3, "b1": 1, "b2": 0, "b3": 0, "b4": 0, "b5": 0}  # covered at b1


def test_who_never_advertised_is_heard_at_once_and_then_at_no_more_cost() -> None:
    """The first event goes everywhere; those after it only where they are wanted."""
    world = world_of(line(6))
    world.subscribe("c2", "n", "x > 0")
    world.run(2.0)
    world.publish("c1", {"x": 1})
    world.run(4.0)
    assert (heard(world, "c2"), world.simulation.sent["Forward"]) == ([1], 5)
    world.publish("c1", {"x": 2})
    world.run(6.0)
    assert (heard(world, "c2"), world.simulation.sent["Forward"]) == ([1, 2], 6)


def test_what_is_outside_of_an_advertisement_is_heard_too() -> None:
    world = world_of(line(4))
    advertise(world, "c0", "x < 10")
    world.subscribe("c3", "n", "x > 10")
    world.run(3.0)
    assert filters_at(world)["b0"] == 0, "nothing that was advertised is wanted"
    for x in (7, 12):
        world.publish("c0", {"x": x})
    world.run(6.0)
    assert heard(world, "c3") == [12]


def test_an_advertiser_cannot_suppress_others() -> None:
    """Whatever one client says, changes or takes back, what its neighbours publish is heard, also by those
    who subscribe after; and whoever advertises nothing at all counts as much."""
    world = world_of(line(4), linger_seconds=0.3)
    world.add_client("liar", "b0")
    world.subscribe("c3", "n", "x > 10")
    advertise(world, "liar", "x < 10")
    world.run(3.0)
    world.publish("c0", {"x": 11})
    world.run(4.0)
    advertise(world, "liar", "x > 10")
    world.run(5.0)
    now = world.simulation.now
    world.do(UnadvertiseStep(at=now, client="liar", name="a"))
    world.run(8.0)
    world.publish("c0", {"x": 12})
    world.subscribe("c2", "n", "x > 12")
    world.run(10.0)
    for number in range(50):
        advertise(world, "liar", f"x = {number}", f"a{number}")
    world.simulation.crash("liar")
    world.publish("c0", {"x": 13})
    world.run(14.0)
    assert heard(world, "c3") == [11, 12, 13]
    assert heard(world, "c2") == [13]


def test_advertisements_that_come_and_go_hold_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 60
    monkeypatch.setattr(covering, "MOST_LINGERING", most)
    world = world_of(line(2))
    for number in range(most + 40):
        advertise(world, "c0", f"x = {number}")
    world.run(2.0)
    routing = world.simulation.hosts["b0"].machine.slots["routing"]
    assert len(routing._leaving) == most
    assert len(routing._own_counts) == most + 1
    world.run(60.0)
    assert len(routing._own_counts) == 1


def test_what_two_advertised_stands_until_both_have_gone() -> None:
    """Else the other's events would be taken for unannounced, and every filter would move toward it."""
    world = world_of(line(3), linger_seconds=1.0)
    world.add_client("other", "b0")
    advertise(world, "c0", "x < 10")
    advertise(world, "other", "x < 10")
    world.run(3.0)
    world.subscribe("c2", "n", "x > 20")
    world.do(UnadvertiseStep(at=world.simulation.now, client="other", name="a"))
    world.run(10.0)
    world.publish("c0", {"x": 5})
    world.run(15.0)
    assert filters_at(world) == {"b0": 0, "b1": 0, "b2": 0}


def test_a_broker_that_advertised_everything_stops_when_it_is_no_longer_true() -> None:
    world = world_of(line(3), implicit_seconds=5.0)
    world.subscribe("c2", "n", "x > 0")
    world.run(2.0)
    world.publish("c0", {"x": 1})
    world.run(4.0)
    assert filters_at(world)["b0"] == 1
    world.run(10.0)
    assert filters_at(world)["b0"] == 0
    world.publish("c0", {"x": 2})
    world.run(12.0)
    assert heard(world, "c2") == [1, 2]


def test_a_publisher_that_comes_back_soon_moves_no_filter() -> None:
    world = world_of(line(3), linger_seconds=5.0)
    advertise(world, "c0", "x > 0")
    world.subscribe("c2", "n", "x > 0")
    world.run(3.0)
    before = world.simulation.sent["Interest"]
    world.do(UnadvertiseStep(at=3.0, client="c0", name="a"))
    world.run(5.0)
    advertise(world, "c0", "x > 0")
    world.run(20.0)
    assert world.simulation.sent["Interest"] == before
    assert filters_at(world)["b0"] == 1


# -- any order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("calm", [True, False], ids=["settled", "crossing"])
def test_deliveries_equal_the_oracle_whatever_is_advertised(calm: bool) -> None:
    """Anybody publishes anything, inside what it advertised or not."""
    delivered = 0
    for seed in range(6):
        rng = Random(f"{seed}")
        trial = Trial("tidings", overlay_for("tidings", rng), seed=seed, **SOON)
        clients = [trial.client(f"c{k}", rng.choice(trial.overlay.brokers)) for k in range(6)]
        for number in range(40):
            _change(trial, rng, clients, number)
            if calm or number % 4 == 3:
                trial.settle()
                for _ in range(3):
                    trial.publish(rng.choice(clients), drawn_event(rng))
                trial.settle()
        trial.judge()
        delivered += sum(trial.expected.values())
        everybody_leaves(trial)
        trial.settle()
        assert set(trial.routing_tables().values()) == {0}, f"seed {seed}"
    assert delivered > 100


def _change(trial: Trial, rng: Random, clients: list[str], number: int) -> None:
    act = rng.random()
    if act < 0.25:
        trial.advertise(rng.choice(clients), f"a{number}", drawn_filter(rng))
    elif act < 0.4 and trial.advertised:
        trial.unadvertise(*rng.choice(sorted(trial.advertised)))
    elif act < 0.6 and trial.active:
        trial.unsubscribe(*rng.choice(sorted(trial.active)))
    else:
        trial.subscribe(rng.choice(clients), f"n{number}", drawn_filter(rng))


def with_faults(seed: int) -> None:
    absences = seed % 2 == 1
    judge(play(seed, faults=trouble(*KINDS), brokers=3 + seed % 9, absences=absences, advertising=True))


@pytest.mark.parametrize("seed", range(1000, 1024))
def test_tidings_keeps_its_promises_while_advertisements_come_and_go(seed: int) -> None:
    with_faults(seed)


@pytest.mark.soak
@pytest.mark.parametrize("hundred", range(11, 31))
def test_soak_tidings_while_advertisements_come_and_go(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        with_faults(seed)


def test_a_broker_that_begins_again_wants_all_it_wanted_before_it_hears_advertisements() -> None:
    """b2 is back and has heard no advertisement yet; it must not withdraw its filters meanwhile."""
    world = world_of(line(3))
    world.subscribe("c2", "n", "x > 0", durable=True)
    advertise(world, "c0", "x > 0")
    world.run(3.0)
    world.simulation.crash("b2")
    world.simulation.notice("b2")
    world.run(4.0)
    world.simulation.restart("b2")
    published = []
    for number in range(1, 600):  # every millisecond, before the link is up and after
        world.simulation.call_at(4.0 + number / 1000, lambda x=number: world.publish("c0", {"x": x}))
        published.append(number)
    world.run(20.0)
    assert heard(world, "c2") == published


# -- defects -------------------------------------------------------------------------------------


def answers_before_the_others_have(patch: Patch) -> None:
    def is_whole(self: Any, link: str) -> bool:
        return bool(self._subs.is_whole(link) and self._subs.agreed(link))

    patch.setattr(SettledInterest, "_is_whole", is_whole)


def answers_before_its_filters_are_seen(patch: Patch) -> None:
    def is_whole(self: Any, link: str) -> bool:
        others = [other for other in self._ads.peers() if other != link]
        return bool(self._subs.is_whole(link)) and all(self.is_settled(other) for other in others)

    patch.setattr(SettledInterest, "_is_whole", is_whole)


def told_is_settled(patch: Patch) -> None:
    right = SettledInterest.review

    def review(self: Any, links: Any, now: float) -> None:
        right(self, links, now)
        for link, outlet in self._ads.outlets.items():
            for digest, filter in outlet.announced.items():
                self._filters.setdefault(link, {})[digest] = filter
                self._sets.setdefault(link, FilterSet()).add(filter)

    patch.setattr(SettledInterest, "review", review)


def withdrawn_stays_settled(patch: Patch) -> None:
    patch.setattr(SettledInterest, "review", lambda self, links, now: None)
    patch.setattr(SettledInterest, "check", lambda self: None)


def only_what_was_advertised(patch: Patch) -> None:
    patch.setattr(SubscriptionRouting, "_is_open", lambda self, link, event: self._subs.is_unknown(link))


def unheard_advertisements_are_none(patch: Patch) -> None:
    def gate(self: Any, link: str, filter: Any) -> bool:
        return any(overlaps(ad, filter) for ad in self._ads.behind(link))

    patch.setattr(SubscriptionRouting, "_gate", gate)


def seeds(*numbers: int) -> Callable[[], None]:
    def check() -> None:
        for seed in numbers:
            with_faults(seed)

    return check


CASES: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (answers_before_the_others_have, seeds(1005, 1006, 1007)),
    (answers_before_its_filters_are_seen, seeds(1007, 1038)),
    (told_is_settled, seeds(1000, 1003)),
    (withdrawn_stays_settled, seeds(1000, 1003)),
    (only_what_was_advertised, test_what_is_outside_of_an_advertisement_is_heard_too),
    (
        unheard_advertisements_are_none,
        test_a_broker_that_begins_again_wants_all_it_wanted_before_it_hears_advertisements,
    ),
]


@pytest.mark.parametrize(("defect", "check_of"), CASES, ids=[defect.__name__ for defect, _ in CASES])
def test_a_defect_is_caught(
    defect: Callable[[Patch], None], check_of: Callable[[], None], monkeypatch: Patch
) -> None:
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        check_of()
