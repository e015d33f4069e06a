"""The commands of `tidings quality` that work on data: evaluate, query, rate, demo."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.output import Exit, console, print_json, say
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import InputError, SettingsError, TidingsError

if TYPE_CHECKING:
    from tidings_quality.querying import QueryResult
    from tidings_quality.spark.factory import Factory, FactoryStep
    from tidings_quality.spark.settings import FactoryPlan

STOPS = (signal.SIGINT, signal.SIGTERM)
POLL_SECONDS = 0.1  # between two looks at whether to stop

Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
Rating = Annotated[
    str | None,
    typer.Option("--rating", metavar="URL", help="The rating service: it weighs, and receives the results."),
]


def add_commands(group: typer.Typer) -> None:
    shown = examples(
        "tidings quality evaluate inps/factory.toml",
        "tidings quality evaluate inps/factory.toml --continuous --tell http://127.0.0.1:8801",
        "tidings quality evaluate inps/factory.toml --whole --json",
    )
    group.command("evaluate", epilog=shown)(evaluate)
    shown = examples(
        "tidings quality query \"ON Enterprise/Holder WHERE FiscalCode = 'MCLMSM73H17H501F'\" */factory.toml",
        "tidings quality query 'ON Enterprise/Holder WHERE name.accuracy >= high' */factory.toml "
        "--most 10 --take-offer",
        "tidings quality query 'ON Enterprise/Holder' */factory.toml --rating http://127.0.0.1:8810 --adopt",
    )
    group.command("query", epilog=shown)(query)
    shown = examples(
        "tidings quality rate http://127.0.0.1:8810",
        "tidings quality rate --serve 127.0.0.1:8810 --file ratings.jsonl",
    )
    group.command("rate", epilog=shown)(rate)
    group.command(
        "demo", epilog=examples("tidings quality demo", "tidings quality demo --people 20000 --keep run")
    )(demo)


# evaluate


def evaluate(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What is measured: see quality/docs/quality.md.")
    ],
    continuous: Annotated[
        bool, typer.Option("--continuous", help="Go on with what comes, until stopped.")
    ] = False,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="The table is replaced in place: compare all of it with last time."),
    ] = False,
    tell: Annotated[
        str | None,
        typer.Option("--tell", metavar="URL", help="Report the changes to the organisation's service."),
    ] = None,
    every: Annotated[str | None, typer.Option("--every", help='Time between steps, as "10 seconds".')] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", metavar="DIR", help="Write all qualities there, as a Parquet table."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure the quality of an organisation's table, and tell what changed.

    Only what is new or otherwise is measured; a change is told once, also when this is killed and run again.
    """
    from tidings.pipeline.session import session
    from tidings_quality.spark.factory import Factory, quality_rows
    from tidings_quality.spark.settings import read_plan

    if whole and continuous:
        raise SettingsError(
            "--whole and --continuous exclude one another", hint="a stream takes files as they come"
        )
    plan = read_plan(file)
    if not plan.table:
        raise SettingsError(f"{file}: no table", hint='table = "a folder of Parquet files"')
    with ExitStack() as stack:
        on_step = _step_handler(plan, tell, as_json, stack)
        spark = session(quick=not continuous)
        factory = Factory(spark, plan)
        if whole:
            factory.snapshot(spark.read.parquet(plan.table), on_step)
        else:
            _stream(factory, on_step, continuous=continuous, every=every)
        if write is not None:
            quality_rows(factory.state.current(), plan).write.mode("overwrite").parquet(str(write))
        _summary(factory, as_json)


def _step_handler(
    plan: FactoryPlan, url: str | None, as_json: bool, stack: ExitStack
) -> Callable[[FactoryStep], None]:
    from tidings_quality.change_reporting import changes_of, teller

    delivered: Callable[[FactoryStep], int] | None = None
    if url is not None:
        from tidings_quality.client import OrganisationClient, local_token

        delivered = teller(stack.enter_context(OrganisationClient(url, token=local_token())), plan)

    def on_step(step: FactoryStep) -> None:
        changes = step.changes().count()
        new = delivered(step) if delivered is not None else None
        if as_json:
            if delivered is None:
                for change in changes_of(step, plan):
                    print_json(
                        {"change": change.as_event().id, "value": change.value, "before": change.before}
                    )
            line = {
                "step": step.number,
                "version": step.version,
                "objects": step.objects.count(),
                "changes": changes,
            }
            print_json({**line, "new": new, "replayed": step.replayed, "seconds": round(step.seconds, 3)})
        else:
            text = "" if new is None else f", {new:,} new to the service"
            console().print(
                f"step {step.number}: {step.objects.count():,} objects, {changes:,} changes{text}"
            )
        sys.stdout.flush()

    return on_step


def _stream(
    factory: Factory, on_step: Callable[[FactoryStep], None], *, continuous: bool, every: str | None
) -> None:
    from tidings_quality.spark.factory import files_of

    frame = files_of(factory.spark, factory.plan)
    query = factory.stream(frame, tell=on_step, once=not continuous, every=every)
    if continuous:
        say(f"{factory.plan.organisation} is evaluated as files come to {factory.plan.table}; Ctrl-C ends it")
    stopping = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in STOPS}
    try:
        while query.isActive and not stopping.wait(POLL_SECONDS):
            pass
        query.stop()
        if query.exception() is not None:
            raise _query_error(query.exception())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _query_error(error: Any) -> TidingsError:
    """Cause of a stream's end, in a line: the error of Tidings, if it was one."""
    lines = [line.strip() for line in str(error).splitlines()]
    ours = [line.partition(": ")[2] for line in lines if line.startswith("tidings.errors.")]
    return InputError(
        f"the evaluation stopped: {ours[-1] if ours else lines[0]}", hint="run it again to go on"
    )


def _summary(factory: Factory, as_json: bool) -> None:
    """The mean of each quality over all objects."""
    from pyspark.sql import functions as sql

    from tidings_quality.spark.factory import quality_rows

    rows = quality_rows(factory.state.current(), factory.plan).groupBy("property", "dimension")
    found = rows.agg(
        sql.avg("value").alias("mean"), sql.min("value").alias("lowest"), sql.count("*").alias("objects")
    )
    means = [row.asDict() for row in found.orderBy("property", "dimension").collect()]
    if as_json:
        print_json({"organisation": factory.plan.organisation, "qualities": means})
        return
    table = [
        (
            f"{row['property'].lower()}.{row['dimension']}",
            f"{row['mean']:.3f}",
            f"{row['lowest']:.3f}",
            f"{row['objects']:,}",
        )
        for row in means
    ]
    _print_table(("quality", "mean", "lowest", "objects"), table)


def _print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    shown = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    console().print(shown)


# query


def query(
    wanted: Annotated[
        str, typer.Argument(metavar="REQUEST", help="ON class [FROM sources] [WHERE condition]")
    ],
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The factories' files of the organisations.")
    ],
    rating: Rating = None,
    take_offer: Annotated[
        bool, typer.Option("--take-offer", help="Weaken what cannot be met as far as is needed.")
    ] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Write better values to the organisations' tables.")
    ] = False,
    most: Annotated[int | None, typer.Option("--most", min=1, help="At most so many objects.")] = None,
    as_json: Json = False,
) -> None:
    """Ask all organisations for objects, and take the best value of each property.

    Copies are found by comparing them. The rating service weighs the declared quality, when there is one, and
    it is told how far the copies bear one another out. Ends with 1 when a requirement is not met.
    """
    from tidings.language import print_expression
    from tidings.pipeline.session import session
    from tidings_quality.broker import give_up, required, take_the_offer
    from tidings_quality.client import local_token
    from tidings_quality.querying import adopt as take_over
    from tidings_quality.querying import ask
    from tidings_quality.rating_service import RatingClient
    from tidings_quality.spark.settings import read_plan
    from tidings_quality.subscription import parse_subscription

    requested = parse_subscription(wanted)
    plans = [plan for plan in map(read_plan, files) if _is_asked(plan, requested)]
    if not plans:
        raise InputError(
            f"none of the files is of {requested.data_class}", hint="name the files of those who hold it"
        )
    properties = list(dict.fromkeys(name for plan in plans for name in plan.properties))
    requirements = required(requested.quality, properties)
    service = None if rating is None else RatingClient(rating, token=local_token())
    spark = session(quick=True)
    found = ask(
        spark,
        plans,
        where="" if requested.data is None else print_expression(requested.data),
        require=requirements,
        trust=None if service is None else service.trust(),
        haggle=take_the_offer if take_offer else give_up,
        most=most,
    )
    if service is not None and found.observations:
        service.report(found.observations)
    adopted = {plan.organisation: take_over(spark, plan, found.proposals) for plan in plans} if adopt else {}
    _show_found(found, adopted, as_json)
    if not found.deal.agreed:
        raise typer.Exit(Exit.NO)


def _is_asked(plan: FactoryPlan, requested: Any) -> bool:
    from tidings_quality.model import is_within

    named = requested.sources is None or plan.organisation in requested.sources
    return named and is_within(plan.data_class, requested.data_class)


def _show_found(found: QueryResult, adopted: dict[str, int], as_json: bool) -> None:
    from tidings_quality.broker import as_json as answer_json

    deal = found.deal
    if as_json:
        for copies, answer in zip(found.objects, deal.answers, strict=True):
            print_json({"copies": [f"{c.source}/{c.key}" for c in copies], **answer_json(answer)})
        requirements = [str(each) for each in deal.requirements]
        print_json({
            "objects": len(found.objects), "met": sum(answer.met for answer in deal.answers),
            "agreed": deal.agreed,
            "rounds": deal.rounds, "requirements": requirements, "proposals": len(found.proposals),
            "adopted": adopted,
        })  # fmt: skip
        return
    rows = [
        (f"{number}", choice.property, choice.value, choice.source, f"{choice.score:.3f}")
        for number, answer in enumerate(deal.answers[:20], 1)
        for choice in answer.choices.values()
    ]
    _print_table(("object", "property", "best value", "of", "score"), rows)
    if len(deal.answers) > 20:
        say(f"... and {len(deal.answers) - 20:,} more objects; --json prints all")
    _show_deal(found)
    for organisation, count in adopted.items():
        console().print(f"{organisation} adopted better values for {count:,} objects")


def _show_deal(found: QueryResult) -> None:
    deal = found.deal
    met = sum(answer.met for answer in deal.answers)
    console().print(
        f"{len(found.objects):,} objects, {met:,} meet the requirements; {len(found.proposals):,} proposals"
    )
    if deal.rounds:
        weaker = ", ".join(str(each) for each in deal.requirements)
        console().print(f"after {deal.rounds} round of negotiation: {weaker}")
    lowest: dict[Any, float] = {}
    for answer in deal.answers:
        for short in answer.short:
            lowest[short.requirement] = min(short.best, lowest.get(short.requirement, 1.0))
    for requirement, best in lowest.items():
        console().print(f"not met: {requirement}; {best:.3f} could be had for all (--take-offer)")


# rate


def rate(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="A rating service, to print its ratings.")
    ] = None,
    serve: Annotated[
        str | None, typer.Option("--serve", metavar="HOST:PORT", help="Run a rating service.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Where the service keeps its reports.")] = None,
    as_json: Json = False,
) -> None:
    """Print how far each source is trusted, or run the service that learns it."""
    if (url is None) == (serve is None):
        raise SettingsError("say which service, or --serve one", hint="tidings quality rate --help")
    if serve is not None:
        _serve_ratings(serve, file, as_json)
        return
    from tidings_quality.rating_service import RatingClient

    standings = RatingClient(str(url)).standings()
    if as_json:
        print_json({"standings": standings})
        return
    rows = [
        (
            str(each["rank"]),
            each["source"],
            f"{each['trust']:.3f}",
            f"{each['overstated']:.3f}",
            f"{each['observations']:,}",
        )
        for each in standings
    ]
    _print_table(("rank", "source", "trust", "overstates by", "observations"), rows)


def _serve_ratings(listen: str, file: Path | None, as_json: bool) -> None:
    from tidings_quality.client import local_token
    from tidings_quality.rating_service import serve_ratings

    def ready(address: str) -> None:
        print_json({"rating": address}) if as_json else print(f"the rating service answers at {address}")
        sys.stdout.flush()

    async def run() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        try:
            await serve_ratings(listen, file, token=local_token(), ready=ready)
        except asyncio.CancelledError:
            say("the rating service has ended")

    asyncio.run(run())


# demo


def demo(
    people: Annotated[
        int, typer.Option("--people", min=50, help="How many people the data are about.")
    ] = 5000,
    seed: Annotated[int, typer.Option("--seed", help="Draws the data and their errors.")] = 1,
    keep: Annotated[Path | None, typer.Option("--keep", metavar="DIR", help="Keep all files there.")] = None,
    as_json: Json = False,
) -> None:
    """Show three organisations that share dirty data and make one another's better.

    INPS, INAIL and CoC run as processes of their own, and so does the rating service. Ends with 1 if a claim
    fails.
    """
    import tempfile
    import time

    from tidings.cli.demo import finish
    from tidings.cli.stage import Stage
    from tidings_quality.cli.act import whole_play

    began = time.monotonic()
    stage = Stage(console(), silent=as_json)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise InputError(f"{keep} is not empty", hint="name a new directory")
        whole_play(stage, keep, people, seed)
    else:
        with tempfile.TemporaryDirectory(prefix="tidings-quality-") as folder:
            whole_play(stage, Path(folder), people, seed)
    finish(stage, time.monotonic() - began, as_json)
