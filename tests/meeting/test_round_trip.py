"""The two ends of the bench's round trip: what is published is heard, and what does not come is not waited
for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from tests.meeting._brokers import Brokers

from tidings_bench.round_trip import BACK, DURABLE, GO, TRANSIENT, End


def test_the_ends_say_what_was_sent_and_what_came_back_in_time(tmp_path: Path) -> None:
    with Brokers(tmp_path, 1) as brokers, brokers.bus(0, "judge") as judge:
        address = brokers.addresses[0]
        with (
            judge.subscribe(f"topic = '{GO}'", queue=1000) as going,
            End("mouth", address, 200, 0.5) as mouth,
        ):
            stated = mouth.answer()
            assert [going.get(timeout=120).topic for _ in range(int(stated["sent"]))] == [GO] * int(
                stated["sent"]
            )
            assert 0 < stated["sent"] <= 100
            assert stated["seconds"] >= 0.5
        with End("ear", address, DURABLE, 0.5) as listener:
            assert listener.answer() == {}
            for _ in range(3):
                judge.publish({"sent": time.time()}, topic=BACK)
            took = listener.answer(4)  # one more than there is
            assert len(took) == 3
            assert all(0 <= delay < 60 for delay in took)
        with End("ear", address, TRANSIENT, 0.5) as other:  # the next kind at the same broker
            assert other.answer() == {}
            assert other.answer(1) == []
