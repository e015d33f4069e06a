"""Cases of the study of recovery: styles, workloads, and figures seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidings_lab.studies._claims import jackknife
from tidings_lab.studies._recovery import measured as simulated
from tidings_lab.studies.study import StudySetting

PLACE = "Costa et al. 2003"
ALGORITHMS = ("push", "subscriber pull", "publisher pull")
Seeds = list[dict[str, float]]  # the figures of each seed

NONE, ACKNOWLEDGED = "none", "acknowledged"
BURSTS: dict[str, Any] = {"lossy_until": 0.33, "loss": 0.15}
SHIPPED = {"gossip_fan_out": 1, "gossip_forward": 0.5}
REACH = {"fan_out": 4, "forward": 1.0}
WIDE = {"forward": 0.9}
STYLES: dict[str, dict[str, Any]] = {
    NONE: {"system": "subscription-forwarding"},
    "push": {"system": "epidemic-push", "gossip": REACH},
    "subscriber pull": {"system": "epidemic-subscriber-pull", "gossip": WIDE},
    "publisher pull": {"system": "epidemic-publisher-pull", "gossip": WIDE},
    "combined pull": {"system": "epidemic", "gossip": WIDE},
    "random pull": {"system": "epidemic-random-pull", "gossip": WIDE},
    "lazy push": {"system": "epidemic-lazy-push", "gossip": {"announcements": 4}},
    ACKNOWLEDGED: {"system": "tidings", "calm": 60.0, "datagrams": True},
}
COLUMNS = (
    "delivery", "floor", "gossip", "recovery latency", "copies", "highest load", "requests at once",
    "askers of one event", "asked together", "asked on the way",
    "twice",
)  # fmt: skip


class RecoveryBench:
    """Runs points of one setting, seed by seed."""

    def __init__(self, setting: StudySetting) -> None:
        self._setting = setting
        quick = {"brokers": 24, "patterns": 12, "per_event": 2, "events": 260, "rate": 25.0, "calm": 5.0}
        full = {"brokers": 50, "patterns": 35, "per_event": 3, "events": 1000, "rate": 50.0}
        self.base: dict[str, Any] = {"publishers": 3, **(quick if setting.quick else full)}
        self.runs = len(setting.seed_range(2, 20))

    def case(self, style: str, run: int = 0, **knobs: Any) -> dict[str, Any]:
        """Knobs of gossip are written `gossip_x`."""
        chosen = STYLES[style]
        gossip = {**chosen.get("gossip", {})}
        gossip |= {name[7:]: value for name, value in knobs.items() if name.startswith("gossip_")}
        rest = {name: value for name, value in knobs.items() if not name.startswith("gossip_")}
        seed = self._setting.seed * 100 + run
        return {**self.base, **chosen, **rest, "gossip": gossip, "seed": seed}

    def by_seed(self, cases: Sequence[tuple[str, dict[str, Any]]], runs: int | None = None) -> list[Seeds]:
        """Each style with these knobs: the figures of each seed."""
        count = runs or self.runs
        wanted = [self.case(style, run, **knobs) for style, knobs in cases for run in range(count)]
        found = self._setting.measure(simulated, [(case,) for case in wanted])
        return [found[position : position + count] for position in range(0, len(found), count)]


def values(found: Seeds, figure: str) -> list[float]:
    return [float(each.get(figure, 0.0)) for each in found]


def less(more: list[float], fewer: list[float]) -> list[float]:
    return [a - b for a, b in zip(more, fewer, strict=True)]


def over(top: Seeds, bottom: Seeds, figure: str) -> list[float]:
    return jackknife(values(top, figure), values(bottom, figure))


def recovered(found: Seeds) -> list[float]:
    """The share of the losses that came back."""
    return [(each["delivery"] - each["floor"]) / (1 - each["floor"]) for each in found]
