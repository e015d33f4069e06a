"""Seeds: a run with at least ten faults, judged by what its system promises under such faults.

A profile is a system, the faults that may be drawn, and the contract that has to hold through
them. Best effort promises safety through everything. The network of servers is complete while no
broker goes down and no link is cut or loses; it delivers no event twice while brokers keep their
memory. The intermediary owes a durable subscriber everything through crashes.
If faults only delay, an event is due when the faults of that run allow no more delay
(`ExperimentOutcome.longest_delay`): the largest delay seen is too short, since a slower event may have come
after its subscriber had left. In these systems a subscription stays at its broker: it is known at once.
Seed k is run k // profiles of profile k % profiles; `run_seed(k)` is all it takes to see it again.
"""

from __future__ import annotations

from math import inf, isfinite

import msgspec

from tidings.history.check import check
from tidings.history.report import CheckReport
from tidings.history.schema import AVAIL, NTFY, OK, PUB, SUB, USUB, Row
from tidings.language import accepts, parse_filter
from tidings.model.event import make_event
from tidings.model.filter import Filter
from tidings.simulation import faults as fault
from tidings.simulation.experiment import Experiment, ExperimentOutcome, run_experiment
from tidings.simulation.workloads import Plan
from tidings.systems import system_names

EVERYTHING = fault.RATES + fault.INCIDENTS
HARMLESS = (fault.DUPLICATION, fault.REORDERING, fault.SLOW_LINK, fault.CLOCK_SKEW)
NO_CRASH = tuple(kind for kind in EVERYTHING if kind not in (fault.CRASH, fault.DISK_LOSS))
LEAST = 10  # faults a seed


class Profile(msgspec.Struct, frozen=True):
    system: str
    kinds: tuple[str, ...]
    contract: str
    durable: float = 0.0
    incidents: int = LEAST + 4  # drawn; some hit a broker that is down already


BEST_EFFORT = ("siena", "siena-hierarchical", "subscription-forwarding", "all-brokers", "partitioned")
PROFILES = (
    *(Profile(system, EVERYTHING, "SIENA") for system in BEST_EFFORT),
    Profile("network-of-servers", HARMLESS, "Network of servers"),
    Profile("network-of-servers", NO_CRASH, "Epidemic"),  # once, not complete
    Profile("network-of-servers", EVERYTHING, "SIENA"),  # safe
    Profile("intermediary", (fault.CRASH, fault.STOP, fault.CLOCK_SKEW), "Intermediary", 1.0, 30),
    Profile("intermediary", (fault.CRASH, fault.DISK_LOSS, fault.STOP), "SIENA", 0.5, 30),
)
# have their own seeds, in test_tidings_*.py, test_epidemic.py, test_gossip_seeds.py, test_swaps.py,
ELSEWHERE = {
    # test_rendezvous*.py, test_surveyed.py, test_gryphon.py, test_qns.py
    "tidings",
    "gryphon",
    "tib-rv",
    "elvin",
    "notification-service",
    "multicast-groups",
    "subscription-replication",
    *(name for name in system_names() if name.startswith("epidemic")),
    "damulticast",
    "gossip-broadcast",
    "publisher-groups",
    "subscriber-groups",
    "hierarchical-gossip",
    "pmcast",
    "hpcast",
    "socbr",
    "pbsocbr",
    "fewer-hops",
    "qns",
    "uarc",  # test_uarc.py
    "tidings-group",  # test_group.py
    "scribe",
    "hermes",
    "hermes-path",
    "partitioned-elastic",
}


def missing_systems() -> set[str]:
    """Systems that no profile judges."""
    return set(system_names()) - {profile.system for profile in PROFILES} - ELSEWHERE


class SeedResult(msgspec.Struct):
    profile: Profile
    outcome: ExperimentOutcome
    report: CheckReport


def experiment_of(seed: int) -> tuple[Profile, Experiment]:
    profile = PROFILES[seed % len(PROFILES)]
    return profile, experiment_for(profile, seed)


def experiment_for(profile: Profile, seed: int) -> Experiment:
    plan = Plan(
        subscriptions=7,
        events=50,
        rate=2.5,
        churn=0.15,
        publishers=3,
        durable=profile.durable,
        leave=True,
    )
    return Experiment(
        system=profile.system,
        seed=seed,
        brokers=6,
        fan_out=3,
        workload="rectangles",
        plan=plan,
        incidents=profile.incidents,
        kinds=profile.kinds,
        check=True,
        bytes=True,
    )


def run_seed(seed: int) -> SeedResult:
    profile, experiment = experiment_of(seed)
    outcome = run_experiment(experiment, judge=False)
    return SeedResult(profile, outcome, judged(profile, outcome.rows, outcome.longest_delay))


def judged(profile: Profile, rows: list[Row], longest_delay: float) -> CheckReport:
    if not isfinite(longest_delay):
        return check(rows, contract=profile.contract)
    return check(rows, t_sub=0.0, t_diff=longest_delay, contract=profile.contract)


# -- a dumb oracle for events without lifetime ------------------------------------------------


Claimed = tuple[str, str, str]  # subscription, source, event


def claimed(rows: list[Row], t_sub: float, t_diff: float) -> set[Claimed]:
    """What was due: the subscription stood for T_sub before the publish, and for T_diff after it (and
    after the event reached its broker)."""
    available = {(str(row.process), row.source, row.event): row.time for row in rows if row.op == AVAIL}
    stood = _stood(rows)
    return {
        (subscription, str(row.source), str(row.event))
        for row in rows
        if row.op == PUB and row.outcome == OK
        for subscription, broker, wanted, start, end in stood
        if start < row.time and start + t_sub <= row.time
        if max(row.time, available.get((str(broker), row.source, row.event), row.time)) + t_diff <= end
        if accepts(wanted, make_event(row.attributes or {}, source="-", id="-"))
    }


def unpaid(rows: list[Row], t_sub: float, t_diff: float) -> list[Claimed]:
    delivered = {(row.subscription, row.source, row.event) for row in rows if row.op == NTFY}
    return sorted(claimed(rows, t_sub, t_diff) - delivered)


def _stood(rows: list[Row]) -> list[tuple[str, str | None, Filter, float, float]]:
    """From each `sub` to the next `usub` of that subscription, in the order of time."""
    found: list[tuple[str, str | None, Filter, float, float]] = []
    begun: dict[str, Row] = {}
    for row in sorted((row for row in rows if row.op in (SUB, USUB)), key=lambda row: row.time):
        before = begun.pop(str(row.subscription), None)
        if before is not None:
            found.append(_interval(before, row.time))
        if row.op == SUB:
            begun[str(row.subscription)] = row
    return [*found, *(_interval(row, inf) for row in begun.values())]


def _interval(sub: Row, end: float) -> tuple[str, str | None, Filter, float, float]:
    return str(sub.subscription), sub.broker, parse_filter(sub.filter or ""), sub.time, end
