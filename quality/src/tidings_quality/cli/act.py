"""Data quality at work: three organisations as processes, a dirty row, the best copy, and trust.

The expected results are computed separately, from the truth that the data were made of; the act claims only
what the two agree on.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from tidings.cli.stage import Stage
from tidings.errors import require

WANTED = "ON Enterprise/Holder FROM CoC WHERE name.accuracy <= medium"
BOASTER = "INAIL"  # takes its own table for its reference, so that it finds itself without fault
PEOPLE = 1000  # of the act in `tidings demo`
PATIENCE = 60.0  # seconds to wait for what is owed, on a loaded machine
SETTLED = 20.0  # seconds in which producers know of a subscription


async def quality(stage: Stage, folder: Path, spark: Any) -> None:
    """The act of `tidings demo`."""
    path = folder / "quality"
    path.mkdir()
    await asyncio.to_thread(play, stage, spark, path, PEOPLE, 1)


def whole_play(stage: Stage, folder: Path, people: int, seed: int) -> None:
    """`tidings quality demo`: the same, and then the feedback of the broker."""
    require("pyspark", "`tidings quality demo`", brought_by="tidings-quality[spark]")
    from pyspark import SparkContext

    from tidings.pipeline import session

    was_there = SparkContext._active_spark_context is not None
    spark = session(quick=True, progress=stage.say)
    try:
        play(stage, spark, folder, people, seed, feedback=True)
    finally:
        if not was_there:
            spark.stop()


def play(stage: Stage, spark: Any, folder: Path, count: int, seed: int, *, feedback: bool = False) -> None:
    from tidings_quality.generate import LOCAL, population

    stage.act(
        "The quality of shared data",
        f"INPS, INAIL and CoC hold dirty copies of {count:,} people. A user at INAIL wants to know "
        "when a name "
        "at CoC goes bad.",
        gain="Watch the quality of shared data: a bad row is reported once",
    )
    people = population(count, seed)
    plans = write_data(folder, people, seed)
    with processes(folder, list(LOCAL)) as addresses:
        stage.say("Their factories evaluate their tables ...")
        with ThreadPoolExecutor(len(plans)) as pool:  # what Spark does for each leaves cores idle
            list(pool.map(partial(evaluate, spark), plans))
        received_once(stage, spark, folder, plans, addresses)
        best_copy(stage, spark, plans, people, addresses["rating"])
        if feedback:
            improve(stage, spark, plans, people, addresses["rating"])


# the data and the processes


def write_data(folder: Path, people: Sequence[Any], seed: int) -> list[Any]:
    from tidings_quality.generate import LOCAL, write_organisation
    from tidings_quality.spark.settings import read_plan

    plans = []
    for organisation in LOCAL:
        write_organisation(folder, organisation, people, seed)
        file = folder / organisation / "factory.toml"
        if organisation == BOASTER:
            own = dict(zip(("name", "address", "code"), LOCAL[organisation], strict=True))
            text = file.read_text()
            for right, local in own.items():
                text = text.replace(f'"reference.parquet", key = "id", column = "{right}"',
                                    f'"holders", key = "id", column = "{local}"')  # fmt: skip
            file.write_text(f"adopts = false\n{text}")  # who finds no fault with himself takes no advice
        plans.append(read_plan(file))
    return plans


def free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return ports


@contextmanager
def processes(folder: Path, names: list[str]) -> Iterator[dict[str, str]]:
    """Each organisation and the rating service as a process of its own; where each answers."""
    from tidings_quality.running_example import running_example
    from tidings_quality.schema import write_schema

    (folder / "schema.json").write_bytes(write_schema(running_example()))
    ports = dict(zip([*names, "rating"], free_ports(len(names) + 1), strict=True))
    started = []
    try:
        for name in names:
            file = folder / name / "service.toml"
            file.write_text(service_text(name, ports))
            started.append(start("serve", str(file)))
        started.append(
            start("rate", "--serve", f"127.0.0.1:{ports['rating']}", "--file", str(folder / "ratings.jsonl"))
        )
        for process in started:
            answers(process)
        yield {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def service_text(name: str, ports: dict[str, int]) -> str:
    peers = "".join(
        f'\n[peers.{other}]\nurl = "http://127.0.0.1:{port}"\n'
        for other, port in ports.items()
        if other not in (name, "rating")
    )
    return (
        f'name = "{name}"\nschema = "../schema.json"\nlisten = "127.0.0.1:{ports[name]}"\nstate = '
        f'"service.db"\n{peers}'
    )


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tidings", "quality", *words, "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command


def answers(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"a process of the demonstration ended with {process.wait()}")
    json.loads(line)


def evaluate(spark: Any, plan: Any, tell: Any = None) -> list[Any]:
    """Evaluate the rows that came to a table; the steps that it took."""
    from tidings_quality.spark.factory import Factory, files_of

    steps: list[Any] = []

    def on_step(step: Any) -> None:
        steps.append(step)
        if tell is not None:
            tell(step)

    Factory(spark, plan).stream(files_of(spark, plan), tell=on_step, once=True).awaitTermination()
    return steps


# what is shown


def received_once(
    stage: Stage, spark: Any, folder: Path, plans: list[Any], addresses: dict[str, str]
) -> None:
    """A row is made dirty at CoC; the user at INAIL is notified, once."""
    from tidings_quality.change_reporting import changes_of, teller
    from tidings_quality.client import OrganisationClient
    from tidings_quality.generate import append_rows
    from tidings_quality.model import change_of

    plan = next(each for each in plans if each.organisation == "CoC")
    with OrganisationClient(addresses["INAIL"]) as inail, OrganisationClient(addresses["CoC"]) as coc:
        id = inail.subscribe(WANTED, user="anna", name="names", wait=SETTLED)["id"]
        row = clean_row(spark, plan)
        append_rows(folder, "CoC", [{**row, "Name": "Xxxxx", "updated": later(row["updated"])}])
        (step,) = evaluate(spark, plan, teller(coc, plan))
        again = teller(coc, plan)(step)  # as a factory does that was killed before it could note that it told
        changes = list(changes_of(step, plan))
        stage.table(
            ("quality at CoC", "before", "after"),
            [
                (each.attribute(), f"{each.before:.3f}", f"{each.value:.3f}")
                for each in changes
                if each.object == row["id"]
            ],
        )
        received = received_by(inail, id)
    owed = [
        each.as_event().id for each in changes if each.attribute() == "name.accuracy" and each.value < 0.8
    ]
    stage.claim(
        f"one dirty row at CoC: {len(changes)} qualities changed, and the user at INAIL received "
        f"{len(received)} of them, once",
        [event.id for event in received] == owed and len(owed) == 1 and again == 0
        and change_of(received[0]).object == row["id"],
        short="a dirty row at CoC was reported at INAIL once",
    )  # fmt: skip


def clean_row(spark: Any, plan: Any) -> dict[str, Any]:
    from tidings_quality.spark.factory import FactoryState

    rows = FactoryState(spark, plan).current()
    good = rows.where("_quality['Name.accuracy'] = 1.0 AND Name IS NOT NULL").orderBy("_object").limit(1)
    (row,) = (
        good.select("id", "Name", "Address", "FiscalCode", "town", "postcode", "updated")
        .toArrow()
        .to_pylist()
    )
    return dict(row)


def later(moment: Any) -> Any:
    from datetime import timedelta

    return moment + timedelta(seconds=1)


def received_by(client: Any, id: str) -> list[Any]:
    """Waiting notifications, and those that come within a moment after the first."""
    received: list[Any] = []
    after, end = 0, time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = client.notifications(id, after=after, wait=1.0)
        if received and not found:
            break
        for number, event in found:
            received.append(event)
            after = number
    return received


def best_copy(stage: Stage, spark: Any, plans: list[Any], people: Sequence[Any], rating: str) -> None:
    """The broker asks all three and takes the best; the rating service finds out who boasts."""
    from tidings_quality.querying import ask
    from tidings_quality.rating_service import RatingClient

    service = RatingClient(rating)
    found = ask(spark, plans)
    service.report(found.observations, "first")
    standings = service.standings()
    stage.table(
        ("rank", "source", "trust"), [(str(s["rank"]), s["source"], f"{s['trust']:.3f}") for s in standings]
    )
    declared = {
        plan.organisation: mean(
            copy.quality["Name.accuracy"] for copies in found.objects for copy in copies
            if copy.source == plan.organisation and "Name.accuracy" in copy.quality
        )
        for plan in plans
    }  # fmt: skip
    stage.claim(
        f"{BOASTER}, which declares the best names ({declared[BOASTER]:.3f}), is trusted least",
        standings[-1]["source"] == BOASTER and declared[BOASTER] == max(declared.values()),
        short=f"a source that overstates is trusted least of {len(standings)}",
    )
    linked = [
        (copies, answer)
        for copies, answer in zip(found.objects, found.deal.answers, strict=True)
        if len(copies) > 1
    ]
    chosen = mean(right(answer, copies, people) for copies, answer in linked)
    single = {
        plan.organisation: mean(
            truth_of([copy], people)
            for copies, _ in linked
            for copy in copies
            if copy.source == plan.organisation
        )
        for plan in plans
    }
    stage.claim(
        f"the best of {len(linked):,} objects' copies is nearer to the truth ({chosen:.3f}) than any one "
        f"organisation ({max(single.values()):.3f} at most)",
        chosen > max(single.values()),
        short=f"the best of {len(linked):,} sets of copies beats every single source",
    )


def truth(copy: Any, people: Sequence[Any]) -> dict[str, str]:
    from tidings_quality.generate import number_of

    person = people[number_of(copy.key)]
    return {"Name": person.name, "Address": person.street, "FiscalCode": person.code}


def truth_of(copies: Sequence[Any], people: Sequence[Any]) -> float:
    """The mean likeness of what copies hold to what is true."""
    from tidings_quality.spark.measures import similarity

    return mean(
        0.0 if value is None else similarity(value, truth(copy, people)[name])
        for copy in copies
        for name, value in copy.values.items()
    )


def right(answer: Any, copies: Sequence[Any], people: Sequence[Any]) -> float:
    from tidings_quality.spark.measures import similarity

    true = truth(copies[0], people)
    return mean(
        similarity(answer.choices[name].value, true[name]) if name in answer.choices else 0.0 for name in true
    )


def improve(stage: Stage, spark: Any, plans: list[Any], people: Sequence[Any], rating: str) -> None:
    """Propose the chosen values, adopt them and measure again."""
    from tidings_quality.querying import adopt, ask
    from tidings_quality.rating_service import RatingClient

    stage.act(
        "The broker's feedback",
        "Better values are proposed to each organisation; those that find them better adopt.",
        gain="Improve shared data: better copies are proposed and adopted",
    )
    service = RatingClient(rating)
    delivered = []
    for number in range(3):
        found = ask(spark, plans, trust=service.trust())
        delivered.append({
            plan.organisation: truth_of(
                [copy for copies in found.objects for copy in copies if copy.source == plan.organisation],
                people
            )
            for plan in plans
        })  # fmt: skip
        if number == 2:
            break
        stage.say(
            f"Round {number + 1}: {len(found.proposals):,} proposals for {len(found.objects):,} objects ..."
        )
        service.report(found.observations, f"round {number}")
        for plan in plans:
            if adopt(spark, plan, found.proposals):
                evaluate(spark, plan)
    stage.table(
        ("round", *delivered[0]),
        [(str(n), *(f"{value:.4f}" for value in row.values())) for n, row in enumerate(delivered)],
    )
    means, lows = [mean(row.values()) for row in delivered], [min(row.values()) for row in delivered]
    stage.claim(
        f"after {len(delivered) - 1} rounds the mean likeness to the truth rose from {means[0]:.4f} to "
        f"{means[-1]:.4f}, "
        "and no organisation's lowest fell",
        means[-1] > means[0] and all(after >= before for before, after in pairwise(lows)),
        short=f"mean quality rose from {means[0]:.3f} to {means[-1]:.3f}",
    )
