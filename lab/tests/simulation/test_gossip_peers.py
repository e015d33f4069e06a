"""Peers in the simulator: bootstrapping, maintenance, failures, churn, and what the tables are for."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tidings.history.check import check
from tidings.protocol.inputs import Parted
from tidings.protocol.membership.peer_discovery import PeerDiscoverySettings
from tidings.protocol.topic_graph import over
from tidings.simulation.faults import FaultPlan, Rates
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph
from tidings.simulation.world import World
from tidings_lab.simulation.peers import Peers

THREE = {"/": 6, "a": 25, "a/b": 60}


def membership(peers: Peers, name: str) -> Any:
    return peers.node(name).slots["membership"]


def near(peers: Peers, topic: str, up: str) -> float:
    """The part of a group whose supertopic table holds members of the direct supertopic."""
    group = peers.alive(topic)
    return sum(membership(peers, name).supers[over(topic, up)].is_near for name in group) / len(group)


# -- DAM-4: bootstrapping ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dam_4_every_group_finds_its_supertopic_from_a_few_contacts(seed: int) -> None:
    peers = Peers(THREE, seed=seed, loss=0.15, check=True)
    peers.run(8)
    assert near(peers, "a/b", "a") == near(peers, "a", "/") == 1.0
    for name in peers.alive("a/b"):
        assert len(membership(peers, name).view(over("a/b", "a"))) == 3
    sent = peers.world.simulation.sent["PeerSearch"]
    settings = PeerDiscoverySettings()
    flood = sum(settings.fan_out**step for step in range(1, settings.ttl + 1))
    attempts = sum(membership(peers, name).peer_discovery.number for name in peers.topics)
    assert 0 < sent <= attempts * flood


def test_dam_4_without_a_supertopic_the_next_one_above_is_found_and_given_up_when_it_appears() -> None:
    peers = Peers({"/": 6, "a/b": 40}, seed=4, loss=0.1, check=True)
    peers.run(12)
    tables = [membership(peers, name).supers[over("a/b", "a")] for name in peers.alive("a/b")]
    assert all(table.names and table.rank == 1 for table in tables), "linked to the root"
    received = peers.publish("a/b")
    assert received.reached("/") > 0.8
    peers.sizes["a"] = 0
    for _ in range(4):
        peers.arrive("a")
    peers.run(25)
    assert near(peers, "a/b", "a") == 1.0, "linked to the newcomers"
    assert all(
        membership(peers, contact).topics.keys() == {"a"}
        for name in peers.alive("a/b")
        for contact in membership(peers, name).view(over("a/b", "a"))
    )


def test_dam_4_one_topic_falls_back_to_plain_membership() -> None:
    peers = Peers({"/": 40}, seed=5, loss=0.1, check=True)
    peers.run(10)
    assert all(not membership(peers, name).supers for name in peers.topics)
    searches = peers.world.simulation.sent["PeerSearch"]
    peers.run(20)
    assert peers.world.simulation.sent["PeerSearch"] == searches, "nothing is searched for any more"
    received = peers.publish("/")
    assert received.reached("/") > 0.95
    assert received.handed_up == 0


def test_topics_that_come_later_need_nothing_of_those_above() -> None:
    peers = Peers({"/": 5, "a": 20}, seed=6, check=True, gossip={"named": True})
    peers.run(8)
    known = {name: set(membership(peers, name).supers) for name in peers.topics}
    peers.sizes["a/b/c"] = 0
    for _ in range(12):
        peers.arrive("a/b/c")  # and a/b has nobody
    peers.run(15)
    received = peers.publish("a/b/c")
    assert [received.reached(topic) for topic in ("a/b/c", "a", "/")] == pytest.approx([1.0] * 3, abs=0.1)
    assert {name: set(membership(peers, name).supers) for name in known} == known


def test_several_supertopics_each_have_a_table_and_all_hear() -> None:
    supers = {"a/b": ("c",)}
    peers = Peers(
        {"/": 5, "a": 15, "c": 15, "a/b": 40}, seed=7, supers=supers, check=True, gossip={"named": True}
    )
    peers.run(12)
    assert near(peers, "a/b", "a") == near(peers, "a/b", "c") == 1.0
    received = peers.publish("a/b")
    assert all(received.reached(topic) > 0.9 for topic in ("/", "a", "c", "a/b"))
    aside = peers.publish("a")
    assert aside.reached("c") == aside.reached("a/b") == 0.0
    assert received.parasites == aside.parasites == 0


def test_a_stranger_hands_its_event_to_the_group_and_hears_nothing_of_it() -> None:
    peers = Peers(THREE, seed=8, loss=0.1, check=True)
    peers.run(8)
    root = peers.alive("/")[0]
    received = peers.publish("a/b", at=root, seconds=5.0)  # of a group above, and not of this one
    assert received.reached("a/b") > 0.9
    below = peers.alive("a/b")[0]
    other = peers.publish("x/y", at=below, seconds=8.0)  # nobody is of x/y or x: the root is
    assert other.reached("/") > 0.8
    assert other.reached("a") == 0.0
    assert sum(name in other.times for name in peers.alive("a/b")) == 1, "its publisher alone"


# -- DAM-5: maintenance and failures ---------------------------------------------------------------


def test_dam_5_the_dead_leave_all_tables_and_the_living_stay() -> None:
    peers = Peers(THREE, seed=9, loss=0.15)
    peers.run(10)
    rng = Random(1)
    dead = set(rng.sample(peers.alive("a/b"), 12) + rng.sample(peers.alive("a"), 5))
    peers.crash(sorted(dead))
    peers.run(25)
    left = 0
    for name in (*peers.alive("a/b"), *peers.alive("a"), *peers.alive("/")):
        tables = membership(peers, name)
        left += sum(other in dead for view in tables.views.values() for other in view.names)
        assert tables.prober.graves.keys() <= dead, "nobody who lives was taken for dead"
        assert not any(other in dead for table in tables.supers.values() for other in table.names)
    assert left == 0
    assert near(peers, "a/b", "a") == 1.0


def test_dam_5_loss_lowers_health_and_condemns_nobody() -> None:
    calm, rough = (Peers({"/": 30}, seed=10, loss=loss) for loss in (0.0, 0.35))
    for peers in (calm, rough):
        peers.run(30)
        assert not any(membership(peers, name).prober.graves for name in peers.topics)
    health = [sum(membership(p, name).prober.health for name in p.topics) for p in (calm, rough)]
    assert health[0] == 0 < health[1]
    seen = [sum(membership(p, name).loss() for name in p.topics) / 30 for p in (calm, rough)]
    assert seen == pytest.approx([0.0, 0.35], abs=0.12)


def test_a_peer_that_stood_still_is_not_lost() -> None:
    peers = Peers({"/": 20}, seed=11, check=True)
    peers.run(8)
    still = peers.alive("/")[3]
    peers.world.simulation.stop(still)
    peers.run(2.0)
    peers.world.simulation.resume(still)
    peers.run(20)
    knowing = sum(still in membership(peers, name).view("/") for name in peers.alive("/"))
    assert knowing >= 3


def test_who_leaves_says_so() -> None:
    peers = Peers({"/": 20}, seed=12, check=True)
    peers.run(8)
    gone = peers.alive("/")[4]
    peers.world.simulation.input(gone, Parted(gone))
    peers.run(3)
    knowing = [name for name in peers.alive("/") if gone in membership(peers, name).view("/")]
    assert not [name for name in knowing if name != gone]


@pytest.mark.parametrize("size", [1, 10, 60])
def test_the_size_of_a_group_is_estimated(size: int) -> None:
    peers = Peers({"/": 3, "a": size}, seed=13, loss=0.1)
    peers.run(25)
    found = sorted(membership(peers, name).size("a") for name in peers.alive("a"))
    assert 0.5 * size <= found[len(found) // 2] <= 1.8 * size + 1


def churned(sizes: dict[str, int], rounds: int, seed: int) -> tuple[Peers, list[float]]:
    """One peer of a hundred crashes in each round, and as many newcomers arrive."""
    peers = Peers(sizes, seed=seed, loss=0.15)
    peers.run(15)
    rng, due, sound = Random(seed), 0.0, []
    for _ in range(rounds):
        due += 0.01 * sum(sizes.values())
        while due >= 1:
            due -= 1
            topic = rng.choices(list(sizes), list(sizes.values()))[0]
            if len(peers.alive(topic)) > 2:
                peers.crash([rng.choice(peers.alive(topic))])
                peers.arrive(topic)
        peers.run(1.0)
        sound += [peers.contacts_above(topic) for topic in sizes if topic != "/"]
    return peers, sound


def test_dam_5_under_churn_tables_keep_a_live_contact_above() -> None:
    peers, sound = churned({"/": 8, "a": 20, "a/b": 60}, 16, seed=3)
    assert sum(sound) / len(sound) >= 0.99
    assert peers.publish("a/b").reached("a/b") > 0.85


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dam_5_under_long_churn_tables_keep_a_live_contact_above(seed: int) -> None:
    _, sound = churned({"/": 20, "a": 100, "a/b": 400}, 100, seed=seed)
    assert sum(sound) / len(sound) >= 0.99


# -- DAM-3, DAM-6: dissemination over live tables ----------------------------------------------------


def test_dam_3_what_applications_hear_keeps_the_contract() -> None:
    names = tuple(f"p{n}" for n in range(24))
    world = World("damulticast", OverlayGraph(names, ()), seed=14, settings=SimulationSettings(check=True))
    world.simulation.plan(FaultPlan(Rates(loss=0.1)))
    wants = ("TRUE", "topic MATCHES 'a/#'", "topic MATCHES 'a/b/#' AND x > 1")
    for n, name in enumerate(names):
        world.add_client(f"c{n}", name)
    world.run(1.0)
    for n in range(24):
        world.subscribe(f"c{n}", "s", wants[min(2, n // 4)])
    world.run(10.0)
    for n in range(12):
        world.publish(f"c{2 * n}", {"x": n % 4}, topic=("a/b", "a", "z")[n % 3])
        world.run(world.simulation.now + 0.5)
    world.unsubscribe("c9", "s")
    world.run(20.0)
    world.publish("c0", {"x": 3}, topic="a/b")
    world.run(25.0)
    report = check(world.rows, contract="daMulticast")
    assert report.holds
    assert report["no_parasites"].holds is True
    assert sum(row.op == "ntfy" for row in world.rows) > 60
    assert not any(node.slots["routing"].parasites for _, node in world.nodes())


@pytest.mark.parametrize(
    ("gossip", "most"),
    [({"lazy": True, "named": True}, 1.2), ({"named": True}, 12.0)],
    ids=["lazy", "pushed"],
)
def test_beyond_lazy_push_saves_copies(gossip: dict[str, Any], most: float) -> None:
    peers = Peers({"/": 20, "a": 60, "a/b": 200}, seed=15, loss=0.15, static=True, gossip=gossip)
    found = [peers.publish("a/b", seconds=4.0) for _ in range(8)]
    reached = sum(received.reached(topic) for received in found for topic in peers.sizes) / (3 * len(found))
    assert reached > 0.99
    copies = sum(received.payloads for received in found) / sum(len(received.times) - 1 for received in found)
    assert copies <= most
    assert (copies < 2) == ("lazy" in gossip)


def test_beyond_the_automatic_choice_follows_the_loss_that_is_seen() -> None:
    reached = {}
    for wanted in (0.0, 0.999):
        options = {"wanted": wanted}
        peers = Peers({"/": 5, "a": 12, "a/b": 40}, seed=16, loss=0.25, gossip=options, tables=options)
        peers.run(25)
        found = [peers.publish("a/b", seconds=0.6) for _ in range(10)]
        reached[wanted] = sum(received.reached(topic) for received in found for topic in peers.sizes) / (
            3 * len(found)
        )
    assert reached[0.999] > max(0.985, reached[0.0])


def test_the_same_seed_gives_the_same_run() -> None:
    def counted() -> tuple[Any, ...]:
        peers = Peers(THREE, seed=17, loss=0.15)
        peers.run(6)
        received = peers.publish("a/b")
        return dict(peers.world.simulation.sent), received.times

    assert counted() == counted()
