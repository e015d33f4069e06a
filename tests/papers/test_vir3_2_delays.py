"""VIR3-2 and VIR3-3: the two delays, and what they leave open (Virgillito 2003, 3.1.3, Figure 3.4)."""

from __future__ import annotations

import random

from tests.unit.history.play import Play

T_SUB, T_DIFF = 2.0, 3.0


def test_vir3_2_t_diff_is_the_largest_of_the_single_delays() -> None:
    """Figure 3.3: three subscribers are told after 1, 2 and 2.5 s; T_diff = 2.5 s is kept, 2.4 s is not
    what the service did, but P3 asks for the notification only, at whatever time."""
    play = Play()
    for who in ("p_j", "p_k", "p_h"):
        play.sub(0, who, "x = 1")
    play.pub(5, "x").told(6, "p_j", "x").told(7, "p_k", "x").told(7.5, "p_h", "x")
    assert play.check(t_sub=1, t_diff=2.5).broken == []
    assert play.check().broken == []  # completeness with the largest delay seen


def schedule(seed: int) -> Play:
    """Figure 3.4: p_k is stable for the whole diffusion of x and y, p_h subscribes just before x.

    The service learns of a subscription within T_sub and reaches a subscriber within T_diff."""
    rng = random.Random(seed)
    play = Play().sub(0, "p_k", "x = 1").sub(9.5, "p_h", "x = 1")
    known = {"p_k": rng.uniform(0, T_SUB), "p_h": 9.5 + rng.uniform(0, T_SUB)}
    for time, id in ((10.0, "x"), (14.0, "y")):
        play.pub(time, id)
        for who in ("p_k", "p_h"):
            arrival = time + rng.uniform(0, T_DIFF)
            until = 20.0 if who == "p_k" else 14.5
            if known[who] <= time and arrival <= until:
                play.told(arrival, who, id)
    return play.usub(14.5, "p_h").usub(20, "p_k")


def test_vir3_3_two_notifications_are_guaranteed_and_one_is_luck() -> None:
    delivered: dict[tuple[str, str | None], int] = {}
    runs = 300
    for seed in range(runs):
        play = schedule(seed)
        report = play.check(t_sub=T_SUB, t_diff=T_DIFF)
        assert report["liveness"].holds is True
        assert report["legality"].holds is True
        for row in play.rows:
            if row.op == "ntfy":
                delivered[row.process, row.event] = delivered.get((row.process, row.event), 0) + 1
    assert delivered["p_k", "x"] == delivered["p_k", "y"] == runs
    assert 0 < delivered["p_h", "x"] < runs


def test_vir3_3_the_guaranteed_ones_are_missed_when_they_are_gone() -> None:
    play = schedule(1)
    position = next(
        n for n, row in enumerate(play.rows) if (row.op, row.process, row.event) == ("ntfy", "p_k", "x")
    )
    assert play.without(position).check(t_sub=T_SUB, t_diff=T_DIFF)["liveness"].holds is False
