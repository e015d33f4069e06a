"""The archive is filled once, and a late subscriber receives it and then live events: nothing twice, nothing
missed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
from tests.meeting._brokers import Brokers, leave_hole

from tidings.archive.reading import events
from tidings.archive.state import Archive
from tidings.errors import CorruptionError, InputError
from tidings.model.event import FOREVER
from tidings.model.filter import EVERYTHING
from tidings.pipeline.broker import options
from tidings.pipeline.broker.archiving import Archiver
from tidings.pipeline.broker.reading import state_of


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path, 2) as brokers:
        for server in brokers.servers:
            server.serve_archive(tmp_path / "archive")
        yield brokers


def archived(path: Path) -> list[int]:
    archive = Archive(path)
    return sorted(found.event["n"] for found in events(archive, archive.checked(), EVERYTHING))


def take(listener: Any, count: int) -> list[int]:
    return [listener.get(timeout=120)["n"] for _ in range(count)]


def wait_for_release(two: Brokers) -> None:
    for where in options.reading({"brokers": two.all}).brokers:
        while (state := state_of(where)).begin <= state.end:
            pass


def test_an_archive_is_filled_step_by_step_and_again_changes_nothing(two: Brokers, tmp_path: Path) -> None:
    ann, bob = two.bus(0, "ann"), two.bus(1, "bob")
    archiver = Archiver(tmp_path / "archive", two.all, policy="n = 3", step=2)
    assert archiver.run_once() == 0  # from now on the logs are held
    for n in range(6):
        (ann if n % 2 else bob).publish({"n": n}, lifetime=FOREVER if n != 3 else 0)
    ann.publish({"n": 7})
    delivered: list[Any] = []
    assert archiver.run_once(delivered.append) == 6
    assert sum(step.archived for step in delivered) == 6
    assert archiver.run_once() == 0
    assert archived(tmp_path / "archive") == [0, 1, 2, 3, 4, 5]
    assert archiver.compact() > 0
    assert archived(tmp_path / "archive") == [0, 1, 2, 3, 4, 5]


def test_a_lost_hold_of_a_policy_is_told(two: Brokers, tmp_path: Path) -> None:
    ann = two.bus(0, "ann")
    archiver = Archiver(tmp_path / "archive", two.all, policy="n = 3")
    archiver.run_once()
    ann.publish({"n": 3})
    archiver.run_once()
    two.bus(0, "spark").end_hold("archive")
    for _ in range(2):
        with pytest.raises(InputError, match="what the policy names and came after offset 1 may be gone"):
            archiver.run_once()


@pytest.mark.parametrize("release", [True, False], ids=["released", "kept"])
@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
def test_a_late_subscriber_hears_the_archive_and_then_the_rest_once(
    two: Brokers, tmp_path: Path, release: bool, durable: bool
) -> None:
    ann, bob = two.bus(0, "ann"), two.bus(1, "bob")
    for n in range(10):
        (ann if n % 2 else bob).publish({"n": n}, lifetime=FOREVER)
    archiver = Archiver(tmp_path / "archive", two.all, release=release)
    archiver.run_once()
    if release:
        wait_for_release(two)
    for n in range(10, 14):
        (ann if n % 2 else bob).publish({"n": n}, lifetime=FOREVER)
    late = two.bus(1, "late")
    with late.subscribe("n >= 3", name="all", durable=durable, since="forever") as news:
        assert sorted(take(news, 11)) == list(range(3, 14))
        ann.publish({"n": 99})
        assert take(news, 1) == [99]
        with pytest.raises(TimeoutError):
            news.get(timeout=0.3)


def test_without_since_forever_what_was_released_is_not_heard(two: Brokers, tmp_path: Path) -> None:
    two.bus(0, "ann").publish({"n": 1}, lifetime=FOREVER)
    Archiver(tmp_path / "archive", two.all, release=True).run_once()
    wait_for_release(two)
    with two.bus(0, "late").subscribe("n > 0") as news, pytest.raises(TimeoutError):
        news.get(timeout=0.3)


def test_a_durable_subscriber_goes_on_in_the_archive_where_it_was(two: Brokers, tmp_path: Path) -> None:
    ann = two.bus(0, "ann")
    for n in range(6):
        ann.publish({"n": n}, lifetime=FOREVER)
    Archiver(tmp_path / "archive", two.all, release=True).run_once()
    wait_for_release(two)
    for n in range(6, 8):
        ann.publish({"n": n}, lifetime=FOREVER)
    received = []
    for _ in range(8):
        with two.bus(0, "late").subscribe("n >= 0", name="all", durable=True, since="forever") as news:
            received += take(news, 1)
        Archiver(tmp_path / "archive", two.all, release=True).run_once()  # its seam stays where it was
    assert received == list(range(8))


def test_an_event_of_the_archive_that_is_given_back_comes_again(two: Brokers, tmp_path: Path) -> None:
    ann = two.bus(0, "ann")
    for n in range(2):
        ann.publish({"n": n}, lifetime=FOREVER)
    Archiver(tmp_path / "archive", two.all).run_once()
    with two.bus(0, "late").subscribe("n >= 0", since="forever") as news:
        assert take(news, 1) == [0]
        news.nack()
        assert take(news, 2) == [0, 1]


def test_without_an_archive_it_is_an_ordinary_subscription(tmp_path: Path) -> None:
    with Brokers(tmp_path, 1) as one:
        one.bus(0, "ann").publish({"n": 1}, lifetime=FOREVER)
        with one.bus(0, "late").subscribe("n > 0", since="forever") as news:
            assert take(news, 1) == [1]


def test_a_damaged_archive_is_told_to_the_subscriber(two: Brokers, tmp_path: Path) -> None:
    two.bus(0, "ann").publish({"n": 1}, lifetime=FOREVER)
    Archiver(tmp_path / "archive", two.all).run_once()
    (file,) = (tmp_path / "archive").glob("log=*/**/*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    late = two.bus(0, "late").subscribe("n > 0", since="forever")
    with late as news, pytest.raises(CorruptionError, match="it is torn or was changed"):
        news.get(timeout=120)


def test_an_archiver_passes_the_hole_of_a_restored_log_in_one_step(two: Brokers, tmp_path: Path) -> None:
    """Found by an attack from outside: a change of the archive for each 200,000 offsets of the hole."""
    two.bus(0, "ann").publish({"n": 1}, lifetime=FOREVER)
    archiver = Archiver(tmp_path / "archive", two.addresses[0], step=2)
    archiver.run_once()
    leave_hole(two, tmp_path)
    for n in (2, 3, 4):
        two.bus(0, "bob").publish({"n": n}, lifetime=FOREVER)
    steps: list[Any] = []
    assert archiver.run_once(steps.append) == 3
    assert [step.read for step in steps] == [2, 1]
    assert archived(tmp_path / "archive") == [1, 2, 3, 4]


def forever(two: Brokers, name: str, count: int) -> list[int]:
    with two.bus(0, name).subscribe("n > 0", since="forever") as news:
        return take(news, count)


@pytest.mark.parametrize("how", ["missing", "empty", "older", "not served"])
def test_an_archive_that_lacks_released_events_is_an_error(two: Brokers, tmp_path: Path, how: str) -> None:
    """Found by an attack from outside: a volume that was not mounted was a gap of which no word was said, and
    the archiver sealed it."""
    archive, ann = tmp_path / "archive", two.bus(0, "ann")
    archiver = Archiver(archive, two.addresses[0], release=True)
    for n in (1, 2):
        ann.publish({"n": n}, lifetime=FOREVER)
        archiver.run_once()
        if n == 1:
            shutil.copytree(archive, tmp_path / "older")
    assert forever(two, "before", 2) == [1, 2]
    wait_for_release(two)
    archive.rename(tmp_path / "real")
    if how == "empty":
        archive.mkdir()
    if how == "older":
        shutil.copytree(tmp_path / "older", archive)
    two.stop(0)
    two.start(0)  # the disk remembers
    if how != "not served":
        two.servers[0].serve_archive(archive)
    with pytest.raises(CorruptionError, match="let go of events up to offset 2 because they are archived"):
        forever(two, "after", 1)
    bob = two.bus(0, "bob")
    bob.publish({"n": 3}, lifetime=FOREVER)
    with pytest.raises(InputError, match="let go of events up to offset 2 because they are archived"):
        archiver.run_once()
    go_on = Archiver(archive, {"brokers": two.addresses[0], "onTrimmed": "go on"})
    assert go_on.run_once() == 1
    shutil.rmtree(archive)
    (tmp_path / "real").rename(archive)
    two.servers[0].serve_archive(archive)
    assert forever(two, "again", 3) == [1, 2, 3]
