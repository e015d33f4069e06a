"""The judges can fail: each defect that is put in on purpose is caught by the random runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.papers import test_bal_5_intermediary as bal
from tests.properties import test_embedded_crashes as crashes

from tidings.history.check import check
from tidings.protocol.delivery.delivery_memory import DeliveryMemory
from tidings.protocol.delivery.dispatcher import Dispatcher
from tidings.protocol.delivery.flow import PublishFlow
from tidings.protocol.delivery.sources import OwnLog
from tidings.protocol.messages import AckMode

SEEDS = 300


def crash(seed: int) -> bool:
    """Does the judge of crashes complain?"""
    try:
        crashes.judge(crashes.run(seed), seed)
    except AssertionError:
        return True
    return False


def interleave(seed: int) -> bool:
    """Do the judges of interleavings complain?"""
    try:
        stage, strict = bal.interleaving(seed)
    except AssertionError:
        return True
    return bool(bal.violations(stage, strict=strict)) or check(stage.rows)["fifo"].holds is False


def acknowledge_early(persist: Any) -> Any:
    def persist_and_answer(self: PublishFlow, kept: Any, records: Any) -> None:
        for pending in kept:
            pending.mode = AckMode.BEST_EFFORT
        persist(self, kept, records)

    return persist_and_answer


def know_nobody(answer_again: Any) -> Any:
    return lambda self, session, message, is_own, now: False


def forget_what_was_told(look: Any) -> Any:
    return lambda self, id: None


def overtake_the_replay(enqueue: Any) -> Any:
    def enqueue_at_once(self: Dispatcher, stored: Any, item: Any) -> None:
        stored.queue.append(item)
        self._note(stored, item)

    return enqueue_at_once


def forget_under_a_replay(is_pinned: Any) -> Any:
    return lambda self, offset: False


DEFECTS: list[tuple[type, str, Callable[[Any], Any], Callable[[int], bool]]] = [
    (PublishFlow, "_persist", acknowledge_early, crash),
    (PublishFlow, "_answer_again", know_nobody, crash),
    (DeliveryMemory, "look", forget_what_was_told, interleave),
    (Dispatcher, "enqueue", overtake_the_replay, interleave),
    (OwnLog, "is_pinned", forget_under_a_replay, crash),
    (OwnLog, "is_pinned", forget_under_a_replay, interleave),
]


@pytest.mark.parametrize(
    ("owner", "method", "defect", "judge"),
    DEFECTS,
    ids=[f"{d.__name__}, {j.__name__}" for _, _, d, j in DEFECTS],
)
def test_a_defect_is_caught(
    owner: type,
    method: str,
    defect: Callable[[Any], Any],
    judge: Callable[[int], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, method, defect(getattr(owner, method)))
    assert any(judge(seed) for seed in range(SEEDS)), "no run noticed"
