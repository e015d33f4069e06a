"""Seeded defects: each is one wrong line, and the checks of this suite see every one of them.

A check passes on the product as it is and fails with the defect; both are tried, so that a check
that says no to everything, or yes, would be noticed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from tidings.algebra import overlaps
from tidings.history.check import check
from tidings.protocol.client import Client
from tidings.protocol.client_subscription import SubscriptionPhase
from tidings.protocol.delivery.delivery_memory import DeliveryMemory
from tidings.protocol.delivery.dispatcher import Dispatcher
from tidings.protocol.delivery.exactly_once import ExactlyOnce
from tidings.protocol.delivery.flow import PublishFlow
from tidings.protocol.messages import Unsubscribed
from tidings.protocol.routing import outlets
from tidings.protocol.routing.covering import SubscriptionRouting
from tidings.protocol.routing.diffusion import Diffusion
from tidings.protocol.routing.duplicates import Forward, NumberWindow
from tidings.simulation.experiment import run_experiment
from tidings.simulation.play import PlayError, perform
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph, line, ring
from tidings.simulation.world import World
from tidings.systems import find_system
from tidings.testing.seeds import experiment_of, run_seed
from tidings.testing.trial import Trial, drawn_filter, everybody_leaves, random_trial
from tidings.wire import codec
from tidings_lab.routing.flooding import Flooding

Patch = pytest.MonkeyPatch


# -- checks --------------------------------------------------------------------------------------


def oracle(system: str, **options: Any) -> None:
    for seed in range(6):
        random_trial(system, seed, **options).judge()


def siena_oracle() -> None:
    oracle("siena")


def intermediary_oracle() -> None:
    oracle("intermediary")


def tables_empty() -> None:
    for seed in range(3):
        trial = random_trial("siena", seed)
        everybody_leaves(trial)
        assert set(trial.routing_tables().values()) == {0}


def told_once_on_a_cycle() -> None:
    trial = Trial("network-of-servers", ring(5))
    trial.client("press", "b0")
    trial.client("alice", "b2")
    trial.subscribe("alice", "n", "x > 0")
    trial.publish("press", {"x": 1})
    trial.settle()
    trial.judge()
    assert trial.messages()["Forward"] == 6  # four brokers, and the two copies that meet


def hops_are_minimal() -> None:
    trial = Trial("siena", line(5))
    trial.client("alice", "b4")
    trial.client("press", "b0")
    trial.subscribe("alice", "n", drawn_filter(Random(1)) + " OR x >= 0")
    trial.settle()
    trial.publish("press", {"x": 0.5, "y": 0.5})
    trial.settle()
    assert trial.messages()["Forward"] == 4


def reordering_loses_nothing() -> None:
    for seed in (5, 15, 25, 35, 45, 55):  # a network of servers, complete through reordering
        profile, experiment = experiment_of(seed)
        experiment = msgspec.structs.replace(experiment, rates=_reordering())
        outcome = run_experiment(experiment, judge=False)
        report = check(outcome.rows, contract=profile.contract)
        assert report.holds, report.story


def _reordering() -> Any:
    from tidings.simulation.faults import Rates

    return Rates(reordering=0.3)


def acknowledged_means_kept() -> None:
    """The broker goes down right after each publish; what was acknowledged is heard all the same."""
    slow_disk = SimulationSettings(disk_seconds=0.2, check=True)
    world = World("intermediary", OverlayGraph(("b0",), ()), settings=slow_disk)
    world.add_client("alice", "b0")
    world.add_client("press", "b0")
    world.run(1.0)
    world.subscribe("alice", "n", "x > 0", durable=True)
    world.run(3.0)
    for number in range(1, 6):
        world.publish("press", {"x": number})
        world.run(world.simulation.now + 0.1)
        world.simulation.crash("b0")
        world.simulation.restart("b0")
        world.run(world.simulation.now + 3.0)
    kept = {(receipt.source, receipt.id) for receipt in world.applications["press"].receipts}
    assert len(kept) == 5
    assert kept <= set(world.received("alice"))


def damage_is_noticed() -> None:
    for seed in range(0, 30, 10):
        run_seed(seed)


def legal_history() -> None:
    trial = Trial("siena", line(3))
    trial.client("alice", "b0")
    trial.client("press", "b2")
    trial.subscribe("alice", "n", "x > 0")
    trial.settle()
    trial.unsubscribe("alice", "n")
    trial.settle()
    trial.publish("press", {"x": 1})
    trial.settle()
    report = check(trial.world.rows, contract=find_system("siena").contract)
    assert report.holds, report.story


def told_once_across_a_return() -> None:
    perform(
        """
        system intermediary
        client alice at b0
        client press at b0
        publish press x=1 lifetime=100
        settle
        subscribe alice n: x > 0
        settle
        unsubscribe alice n
        settle
        subscribe alice n: x > 0
        settle
        expect minimality holds
        expect alice receives 1
        """
    )


def a_healed_link_is_told_again() -> None:
    perform(
        """
        system siena
        link b0 - b1 - b2
        client alice at b0
        client press at b2
        subscribe alice n: x > 0
        settle
        partition b0 | b1 b2
        settle
        heal
        settle
        publish press x=1
        settle
        expect alice receives 1
        """
    )


# -- defects -------------------------------------------------------------------------------------


def no_duplicate_suppression(patch: Patch) -> None:
    patch.setattr(NumberWindow, "is_new", lambda self, origin, number: True)


def last_number_without_order(patch: Patch) -> None:
    made = Flooding.__init__
    patch.setattr(Flooding, "__init__", lambda self, **given: made(self, **{**given, "fifo": True}))


def no_uncovering(patch: Patch) -> None:
    def remove(self: Any, digest: str) -> None:
        if self._hidden.pop(digest, None) is None:
            self._untell(digest)

    patch.setattr(outlets.CoveringOutlet, "remove", remove)


def covering_says_yes_too_often(patch: Patch) -> None:
    patch.setattr(outlets, "_covers", overlaps)


def events_go_back(patch: Patch) -> None:
    right = SubscriptionRouting.forward

    def forward(self: Any, envelopes: Any, matches: Any, at: Any, came_from: str | None, now: float) -> None:
        right(self, envelopes, matches, at, came_from, now)
        for envelope in envelopes if came_from is not None else ():
            self.ports.send(came_from, Forward(envelope))

    patch.setattr(SubscriptionRouting, "forward", forward)


def unsubscription_stays_at_home(patch: Patch) -> None:
    patch.setattr(Diffusion, "local_removed", lambda self, filter: None)


def delivered_twice(patch: Patch) -> None:
    right = Dispatcher.dispatch

    def dispatch(self: Any, states: Any, batch: Any, now: float) -> None:
        right(self, states, batch, now)
        right(self, states, batch, now)

    patch.setattr(Dispatcher, "dispatch", dispatch)


def delivered_after_the_end(patch: Patch) -> None:
    def stay(self: Any, session: Any, message: Any, now: float) -> None:
        self.ports.send(session.address, Unsubscribed(message.call, message.ref))

    def over(self: Any, subscription: Any, now: float) -> None:
        self._record_leave(subscription, now)
        subscription.phase = SubscriptionPhase.OPEN

    patch.setattr(ExactlyOnce, "_on_unsubscribe", stay)
    patch.setattr(Client, "_over", over)


def acknowledged_before_it_is_kept(patch: Patch) -> None:
    right = PublishFlow._persist

    def persist(self: Any, kept: Any, records: Any) -> None:
        right(self, kept, records)
        for pending in kept:
            self.answer(pending)

    patch.setattr(PublishFlow, "_persist", persist)


def codec_without_checksum(patch: Patch) -> None:
    patch.setattr(codec, "crc32c", lambda body, begun=0: 0)


def told_memory_forgotten(patch: Patch) -> None:
    patch.setattr(DeliveryMemory, "keep", lambda self, id, delivered, until: [])


def link_up_tells_nothing(patch: Patch) -> None:
    def link_down(self: Any, link: str) -> None:
        for digest in [d for d, sources in self.sources.items() if link in sources]:
            self._source_removed(digest, link)

    patch.setattr(Diffusion, "link_down", link_down)
    patch.setattr(outlets.CoveringOutlet, "forget", lambda self: None)


CASES: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (no_duplicate_suppression, told_once_on_a_cycle),
    (last_number_without_order, reordering_loses_nothing),
    (no_uncovering, siena_oracle),
    (covering_says_yes_too_often, siena_oracle),
    (events_go_back, hops_are_minimal),
    (unsubscription_stays_at_home, tables_empty),
    (delivered_twice, intermediary_oracle),
    (delivered_after_the_end, legal_history),
    (acknowledged_before_it_is_kept, acknowledged_means_kept),
    (codec_without_checksum, damage_is_noticed),
    (told_memory_forgotten, told_once_across_a_return),
    (link_up_tells_nothing, a_healed_link_is_told_again),
]


@pytest.mark.parametrize(("defect", "check_of"), CASES, ids=[defect.__name__ for defect, _ in CASES])
def test_a_defect_is_caught(
    defect: Callable[[Patch], None], check_of: Callable[[], None], monkeypatch: Patch
) -> None:
    defect(monkeypatch)
    with pytest.raises((AssertionError, PlayError)) as caught:
        check_of()
    assert str(caught.value)


@pytest.mark.parametrize("check_of", dict.fromkeys(check_of for _, check_of in CASES))
def test_the_check_holds_without_the_defect(check_of: Callable[[], None]) -> None:
    check_of()
