"""VIR3-3: notifications that are sure and notifications that are luck (Virgillito 2003, Figure 3.4)."""

from __future__ import annotations

from random import Random

from tidings.history.check import check
from tidings.simulation.topology import line
from tidings.testing.trial import Trial

T_SUB = T_DIFF = 0.06  # five links of 10 ms, and the clients' own


def schedule(seed: int) -> tuple[int, int]:
    """One schedule; how often p_k and p_h were notified."""
    rng = Random(seed)
    trial = Trial("siena", line(6), seed=seed)
    for name, broker in (("p_j", "b0"), ("p_k", "b2"), ("p_h", "b5")):
        trial.client(name, broker)
    trial.world.subscribe("p_k", "s1", "x > 0")
    start = trial.world.simulation.now + 2 * T_SUB
    simulation = trial.world.simulation
    simulation.call_at(start + rng.uniform(0, T_SUB), lambda: trial.world.subscribe("p_h", "s2", "x > 0"))
    simulation.call_at(start + T_SUB, lambda: trial.world.publish("p_j", {"x": 1}))
    simulation.call_at(start + T_SUB + 0.055, lambda: trial.world.unsubscribe("p_h", "s2"))
    simulation.call_at(start + T_SUB + 0.05, lambda: trial.world.publish("p_j", {"x": 2}))
    trial.settle()
    report = check(trial.world.rows, contract="Network of servers", t_sub=T_SUB, t_diff=T_DIFF)
    assert report["legality"].holds is True
    assert report["validity"].holds is True
    assert report["liveness"].holds is True, report["liveness"].story
    return len(trial.world.received("p_k")), len(trial.world.received("p_h"))


def test_vir3_3_p_k_is_always_notified_and_p_h_sometimes() -> None:
    found = [schedule(seed) for seed in range(60)]
    assert {k for k, _ in found} == {2}, "P(p_k) = 1, for x and for y"
    lucky = sum(h for _, h in found) / len(found)
    assert {h for _, h in found} == {0, 1}
    assert 0.05 < lucky < 0.95
