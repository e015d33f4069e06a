"""Properties of daMulticast: a promise without a probability is broken by one run."""

from __future__ import annotations

from typing import Any

from tidings_lab.studies._claims import ClaimVerdict
from tidings_lab.studies._topic_properties import property_claims, smaller_claim


def seeds(**figures: float) -> list[dict[str, Any]]:
    return [{"validity": 1.0, "parasites": 0.0, "all": 0.99, **figures} for _ in range(3)]


def test_validity_has_to_hold_in_every_run_at_every_share_of_crashes() -> None:
    calm, broken = seeds(), seeds()
    validity, integrity, agreement = property_claims({0.0: calm, 0.8: calm}, runs=10)
    assert (validity.verdict, integrity.verdict) == (ClaimVerdict.HELD, ClaimVerdict.HELD)
    assert agreement.verdict is ClaimVerdict.HELD
    broken[1]["validity"] = 0.9  # one run of thirty
    validity, *_ = property_claims({0.0: calm, 0.8: broken}, runs=10)
    assert validity.verdict is ClaimVerdict.REFUTED
    assert validity.ours == "0%: 30 of 30, 80%: 29 of 30"


def test_parasites_break_integrity_and_missed_processes_agreement() -> None:
    _, integrity, agreement = property_claims({0.0: seeds(parasites=1.0, all=0.8)}, runs=10)
    assert (integrity.verdict, agreement.verdict) == (ClaimVerdict.REFUTED, ClaimVerdict.REFUTED)


def test_all_receive_less_often_than_with_each_other_algorithm() -> None:
    names = ("gossip broadcast", "publisher groups", "subscriber groups", "hierarchical")
    found = {"daMulticast": seeds(all=0.8), **{name: seeds(all=0.95) for name in names}}
    assert smaller_claim(found).verdict is ClaimVerdict.HELD
    found["hierarchical"] = seeds(all=0.7)
    assert smaller_claim(found).verdict is ClaimVerdict.REFUTED
