"""From a dirty row to a subscriber in another organisation, once, whatever ends in between.

A row of CoC's Parquet table is made dirty; CoC's factory evaluates the stream and tells CoC's service; that
tells INAIL's; a user there hears. The services are processes. The factory is ended at each of its
steps: in the session of these tests by an error there, in the soak by killing a driver of its own.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("starlette", reason="the web stack is not installed")
pytest.importorskip("pyspark", reason="Spark is not installed")

from pyspark.errors import StreamingQueryException

from tidings_quality.change_reporting import teller
from tidings_quality.cli.act import answers, free_ports, service_text, start
from tidings_quality.client import OrganisationClient
from tidings_quality.generate import (
    Dirt,
    append_rows,
    arrow_of,
    generated_rows,
    plan_text,
    population,
    truth_for,
)
from tidings_quality.running_example import running_example
from tidings_quality.schema import write_schema
from tidings_quality.spark.factory import Factory, FactoryStep, files_of
from tidings_quality.spark.settings import FactoryPlan, read_plan

pytestmark = pytest.mark.spark

NAMES = ("CoC", "INAIL")
WANTED = "ON Enterprise/Holder FROM CoC WHERE name.accuracy <= medium"
PATIENCE = 240.0
SETTLED = 20.0
CHILD = Path(__file__).with_name("_quality_child.py")


class Services:
    """The organisations' services, by name; each may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))
        self._running: dict[str, subprocess.Popen[str]] = {}
        (folder / "schema.json").write_bytes(write_schema(running_example()))
        for name in NAMES:
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "service.toml").write_text(service_text(name, self._ports))

    def start(self, name: str) -> None:
        self._running[name] = start("serve", str(self._folder / name / "service.toml"))
        answers(self._running[name])

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def client(self, name: str) -> OrganisationClient:
        return OrganisationClient(self.url(name))

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._ports[name]}"

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)


@contextmanager
def services(folder: Path) -> Iterator[Services]:
    made = Services(folder)
    try:
        for name in NAMES:
            made.start(name)
        yield made
    finally:
        made.close()


def put_data(folder: Path, people: int) -> tuple[FactoryPlan, list[dict[str, Any]]]:
    """CoC's table, clean; its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    truth = population(people, 3)
    rows = generated_rows("CoC", truth, 3, Dirt(holds=1, typo=0, initial=0, missing=0, stale=0, wrong_town=0))
    position = folder / "CoC"
    (position / "holders").mkdir()
    pq.write_table(arrow_of("CoC", rows), position / "holders" / "0000.parquet")
    pq.write_table(pa.Table.from_pylist(truth_for("CoC", truth)), position / "reference.parquet")
    (position / "factory.toml").write_text(plan_text("CoC"))
    return read_plan(position / "factory.toml"), rows


def dirty(folder: Path, row: dict[str, Any], seconds: int) -> str:
    """A name goes bad; the object's key."""
    append_rows(
        folder, "CoC", [{**row, "Name": "Xxxxx", "updated": row["updated"] + timedelta(seconds=seconds)}]
    )
    return str(row["id"])


def heard(services: Services, owed: int) -> list[str]:
    """The objects that a user at INAIL has heard of, after all that is owed has come."""
    found: list[str] = []
    end = time.monotonic() + PATIENCE
    with services.client("INAIL") as inail:
        while len(found) < owed and time.monotonic() < end:
            found = [str(event["change.object"]) for _, event in inail.notifications("anna.names", wait=1.0)]
    return found


class Ended(Exception):
    """The factory ends here."""


def run(
    spark: Any, plan: FactoryPlan, tell: Callable[[FactoryStep], Any], now: Callable[[], int] | None = None
) -> bool:
    """Evaluate what came; False when it ended in the middle."""
    factory = Factory(spark, plan) if now is None else Factory(spark, plan, now=now)
    query = factory.stream(files_of(spark, plan, files_per_step=1), tell=tell, once=True)
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if "Ended" not in str(error):
            raise
        return False
    return True


def test_a_dirty_row_is_heard_of_once_wherever_the_factory_or_a_service_ends(
    spark: Any, tmp_path: Path
) -> None:
    with services(tmp_path) as running:
        plan, rows = put_data(tmp_path, 40)
        with running.client("INAIL") as inail, running.client("CoC") as coc:
            inail.subscribe(WANTED, user="anna", name="names", wait=SETTLED)
            tell = teller(coc, plan)
            assert run(spark, plan, tell)

            def ends(*_: Any) -> int:
                raise Ended

            def ends_after(step: FactoryStep) -> None:
                tell(step)
                raise Ended

            owed = [dirty(tmp_path, rows[0], 1)]
            assert not run(spark, plan, tell, now=ends)  # before the step is published
            assert not run(spark, plan, ends)  # published and not told
            assert not run(spark, plan, ends_after)  # told, and Spark does not know
            running.kill("INAIL")
            assert run(spark, plan, tell)
            running.start("INAIL")
            owed.append(dirty(tmp_path, rows[1], 1))
            running.kill("CoC")
            impatient = teller(coc, plan, patience_seconds=0.0)
            with pytest.raises(StreamingQueryException, match="no organisation answers"):
                run(spark, plan, impatient)  # nobody to tell
            running.start("CoC")
            assert run(spark, plan, tell)
            assert run(spark, plan, tell)  # nothing more
        assert heard(running, len(owed)) == owed


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twelve_kills_of_drivers_and_services(tmp_path: Path) -> None:
    rng = random.Random(14)
    with services(tmp_path) as running:
        plan, rows = put_data(tmp_path, 40)
        with running.client("INAIL") as inail:
            inail.subscribe(WANTED, user="anna", name="names", wait=SETTLED)
        child(running, plan, None)
        owed = []
        for number in range(12):
            owed.append(dirty(tmp_path, rows[number], 1))
            if number % 3 == 2:
                name = rng.choice(NAMES)
                running.kill(name)
                running.start(name)
            child(running, plan, rng.choice(["started", "published", "told"]))
        child(running, plan, None)
        assert heard(running, len(owed)) == owed


def child(running: Services, plan: FactoryPlan, kill_at: str | None) -> None:
    """A driver of its own, killed with its Java when it says a word; without one it has to end well."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    file = str(Path(plan.table).parent / "factory.toml")
    process = subprocess.Popen(
        [sys.executable, str(CHILD), file, running.url("CoC")],
        stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    words = []
    for line in process.stdout:
        words.append(line.split()[0])
        if words[-1] == kill_at:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.wait(timeout=120)
    if kill_at is None:
        assert words[-1] == "done"
