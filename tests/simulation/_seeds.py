"""Seeds: a run with at least ten faults, judged by what its system promises under such faults.

A profile is a system, the faults that may be drawn, and the contract that has to hold through
them. Best effort promises safety through everything. The network of servers is complete while no
broker goes down and no link is cut or loses; it tells nobody twice while brokers keep their
memory. The intermediary owes a durable subscriber everything through crashes.
Seed k is run k // profiles of profile k % profiles; `run_seed(k)` is all it takes to see it again.
"""

from __future__ import annotations

import msgspec

from tidings.history.check import check
from tidings.history.report import Report
from tidings.simulation import faults as fault
from tidings.simulation.experiment import Experiment, Outcome, run_experiment
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
ELSEWHERE = {"tidings"}  # has its own seeds, in test_tidings_*.py


def missing_systems() -> set[str]:
    """Systems that no profile judges."""
    return set(system_names()) - {profile.system for profile in PROFILES} - ELSEWHERE


class Seen(msgspec.Struct):
    profile: Profile
    outcome: Outcome
    report: Report


def experiment_of(seed: int) -> tuple[Profile, Experiment]:
    profile = PROFILES[seed % len(PROFILES)]
    plan = Plan(
        subscriptions=7,
        events=50,
        rate=2.5,
        churn=0.15,
        publishers=3,
        durable=profile.durable,
        leave=True,
    )
    experiment = Experiment(
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
    return profile, experiment


def run_seed(seed: int) -> Seen:
    profile, experiment = experiment_of(seed)
    outcome = run_experiment(experiment, judge=False)
    return Seen(profile, outcome, check(outcome.rows, contract=profile.contract))
