"""A stream into Parquet, with its driver, its Java and its workers killed in mid-batch.

The driver runs in a process of its own and says each step; the test kills at a chosen step, by
process id, and starts it again. In the end every event is in the output once, with the answer of the
version that its row names.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Figures

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import pyarrow.dataset as ds  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from tidings.language import parse_filter  # noqa: E402
from tidings.matching.naive import NaiveMatcher  # noqa: E402
from tidings.model.event import make_event  # noqa: E402
from tidings.pipeline import Table  # noqa: E402

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark drivers")]  # no session of this process

CHILD = Path(__file__).with_name("_stream_child.py")
WORDS = ["tin", "zinc", "iron", "gold"]
STEPS = ("pinned", "published")
VICTIMS = ("driver", "java", "worker")


def subscriptions(seed: int, count: int) -> dict[str, str]:
    rng = random.Random(seed)
    made = {}
    for number in range(count):
        low = rng.uniform(0, 90)
        word = f" AND word = '{rng.choice(WORDS)}'" if rng.random() < 0.5 else ""
        made[f"s{seed}-{number}"] = (
            f"x BETWEEN {low:.2f} AND {low + 15:.2f} AND y < {rng.uniform(5, 100):.2f}{word}"
        )
    return made


def publish(folder: Path, made: dict[str, str]) -> None:
    Table(folder / "table").publish(pa.table({"id": list(made), "filter": list(made.values())}))


def put_events(folder: Path, files: int, rows: int) -> dict[str, dict[str, Any]]:
    rng = random.Random(5)
    (folder / "in").mkdir()
    every: dict[str, dict[str, Any]] = {}
    for file in range(files):
        some = [
            {
                "id": f"{file}-{row}",
                "x": rng.uniform(0, 100),
                "y": None if rng.random() < 0.1 else rng.uniform(0, 100),
                "word": rng.choice(WORDS),
            }
            for row in range(rows)
        ]
        pq.write_table(pa.Table.from_pylist(some), folder / "in" / f"f{file:03}.parquet")
        every |= {row["id"]: row for row in some}
    return every


def start(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    with (folder / "stderr").open("a") as errors:
        return subprocess.Popen(
            [sys.executable, str(CHILD), str(folder)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """(process id, command) of every process that a process started; any of them may end meanwhile."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            try:
                command = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            yield child, command
            yield from descendants(child)


def victims(process: subprocess.Popen[str], victim: str) -> list[int]:
    """The processes that go by that name: the driver, its Java, or the workers that are there by now."""
    below = list(descendants(process.pid))
    return {
        "driver": [process.pid],
        "java": [pid for pid, command in below if "java" in command.split(" ")[0]][-1:],
        "worker": [pid for pid, command in below if "pipeline.daemon" in command][-1:],
    }[victim]


def run_until_killed(folder: Path, plan: list[tuple[str, int, str]]) -> int:
    """Run a driver; kill at (step, how often it was seen, victim). How many kills of the plan were done."""
    with start(folder) as process:
        try:
            return kill_by_plan(process, plan)
        finally:
            end(process)


def end(process: subprocess.Popen[str], *first: int) -> None:
    """Kill a driver and all that it started, so that a test which fails leaves no process to the next."""
    if process.poll() is None:
        kill(*first, process.pid, *(pid for pid, _ in descendants(process.pid)))


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_by_plan(process: subprocess.Popen[str], plan: list[tuple[str, int, str]]) -> int:
    seen, done, ended = dict.fromkeys(STEPS, 0), 0, False
    assert process.stdout is not None
    for line in process.stdout:
        step = line.split(" ")[0]
        seen[step] = seen.get(step, 0) + 1
        if ended or done == len(plan) or step != plan[done][0] or seen[step] < plan[done][1]:
            continue
        chosen = victims(process, plan[done][2])
        if chosen and plan[done][2] != "worker":
            ended = True
            end(process, *chosen)  # a machine that dies takes all of it
        else:
            kill(*chosen)
        done += bool(chosen)  # no worker yet: the next step will do
    process.wait(timeout=600)
    return done


def check(folder: Path, events: dict[str, dict[str, Any]], versions: dict[int, dict[str, str]]) -> None:
    """Every event once, with the answer of the version that it names."""
    naive = {}
    for number, made in versions.items():
        naive[number] = (NaiveMatcher(), list(made))
        for text in made.values():
            naive[number][0].add(parse_filter(text))
    found = ds.dataset(folder / "out", partitioning="hive").to_table().to_pylist()
    assert sorted(row["id"] for row in found) == sorted(events)
    for row in found:
        matcher, ids = naive[row["version"]]
        event = {
            name: value for name, value in events[row["id"]].items() if name != "id" and value is not None
        }
        expected = [ids[n] for n in matcher.match(make_event(event, source="s", id=row["id"]))]
        assert row["subscriptions"] == expected, row
    assert {row["version"] for row in found} == set(versions)


def kill_and_check(folder: Path, kills: list[tuple[str, int, str]], *, files: int) -> None:
    versions = {1: subscriptions(1, 40), 2: subscriptions(2, 60)}
    events = put_events(folder, files, 150)
    publish(folder, versions[1])
    waiting = list(kills)
    while waiting:
        done = run_until_killed(folder, waiting)
        assert done, (folder / "stderr").read_text()[-3000:]
        waiting = waiting[done:]
        if len(waiting) <= len(kills) // 2 and len(Table(folder / "table").numbers()) == 1:
            publish(folder, versions[2])
    assert run_until_killed(folder, []) == 0
    check(folder, events, versions)


def test_the_driver_and_a_worker_are_killed_in_mid_stream(tmp_path: Path) -> None:
    """The driver between publishing and committing, then a worker in mid-batch; Java has its turn in the
    soak."""
    kill_and_check(tmp_path, [("published", 2, "driver"), ("pinned", 2, "worker")], files=6)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_kills_in_mid_stream(tmp_path: Path, figures: Figures) -> None:
    rng, count = random.Random(20), int(os.environ.get("TIDINGS_KILLS", "20"))
    kills = [(rng.choice(STEPS), rng.randint(2, 4), rng.choice(VICTIMS)) for _ in range(count)]
    kill_and_check(tmp_path, kills, files=5 * count)
    figures(kills=count, lost=0, doubled=0)
