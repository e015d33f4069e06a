"""`tidings study`: the papers' tables and figures, run again and judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.output import Exit, console, errors, print_json
from tidings.cli.sweeps import POINTS_HELP, PROCESSES_HELP, SPARK_HELP, runner_for
from tidings.cli.usage import JSON_HELP, examples

if TYPE_CHECKING:
    from tidings_lab.studies._report import StudyRecord
    from tidings_lab.studies.study import Study, StudyOutcome, StudyTable

app_help = "Run the papers' experiments again and compare."
FRESH_HELP = "The folder of a report on other seeds: its verdicts stand beside these."
SEEDS_HELP = "Seeds for each figure; without it as many as the verdicts need."


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help=app_help)
    shown = examples(
        "tidings study run diffusion --quick",
        "tidings study run policies --json",
        "tidings study run --all --plots report/plots",
        "tidings study run notification-loss --spark",
    )
    group.command("run", epilog=shown)(run)
    shown = examples(
        "tidings study report --quick",
        "tidings study report --spark --to report",
        "tidings study report --only policies,locality --again",
    )
    group.command("report", epilog=shown)(report)
    shown = examples(
        "tidings study sweep self-organisation --set width=0.2,1 --set trigger=printed,overlap --seeds 20",
        "tidings study sweep recovery --set loss=0.05,0.1,0.2 --set style=push,'combined pull' --processes 4",
    )
    group.command("sweep", epilog=shown)(sweep)
    group.command("list", epilog=examples("tidings study list", "tidings study list --json"))(list_)
    app.add_typer(group, name="study", help=app_help)


def list_(as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False) -> None:
    """Name the studies and what they answer."""
    from tidings_lab.studies.study import studies

    found = studies().values()
    if as_json:
        rows = [
            {
                "study": s.name,
                "title": s.title,
                "answers": s.answers,
                "knobs": s.sweep.knobs if s.sweep else {},
            }
            for s in found
        ]
        print_json({"studies": rows})
        return
    for study in found:
        console().print(f"[bold]{study.name:<20}[/] {study.title} ({study.answers})")


def run(
    name: Annotated[str | None, typer.Argument(help="Which one; `tidings study list` names them.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every study, one after the other.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs: seconds instead of minutes.")] = False,
    seed: Annotated[int, typer.Option(help="Moves every random choice: the first seed.")] = 1,
    seeds: Annotated[int | None, typer.Option(min=1, help=SEEDS_HELP)] = None,
    plots: Annotated[
        Path, typer.Option("--plots", "--plot", metavar="DIR", help="The folder for the pictures.")
    ] = Path("artefacts/studies"),
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Draw nothing.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help=SPARK_HELP)] = False,
    processes: Annotated[int | None, typer.Option(min=1, help=PROCESSES_HELP)] = None,
    points: Annotated[Path, typer.Option(help=POINTS_HELP)] = Path("artefacts/sweeps"),
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Run a study: what the paper prints beside ours with its interval, and a verdict on each claim.

    A verdict is held, refuted, undecided, fitted or not comparable. Ends with 1 when a claim is refuted. With
    --spark or
    --processes the points of a study run side by side, and those that are finished are kept and not run
    again.
    """
    from tidings_lab.studies.study import ClaimVerdict, StudySetting, find_study, studies

    if (name is None) is not all_:
        raise typer.BadParameter("give the NAME of a study, or --all", param_hint="NAME")
    failed = False
    for chosen in studies() if all_ else [str(name)]:
        study = find_study(chosen)
        runner = runner_for(points / chosen, spark, processes)
        setting = StudySetting(quick=quick, seed=seed, seeds=seeds, runner=runner)
        outcome, drawn = _run_one(study, setting, None if no_plots else plots)
        failed = failed or any(claim.verdict is ClaimVerdict.REFUTED for claim in outcome.claims)
        _print(study, outcome, drawn, as_json)
    if failed:
        raise typer.Exit(Exit.NO)


def report(
    to: Annotated[Path, typer.Option(help="The folder for the page and what it is made of.")] = Path(
        "report"
    ),
    only: Annotated[
        str | None, typer.Option(help="Some studies, with commas; the others stay as kept.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs: minutes in all.")] = False,
    seed: Annotated[int, typer.Option(help="Moves every random choice: the first seed.")] = 1,
    seeds: Annotated[int | None, typer.Option(min=1, help=SEEDS_HELP)] = None,
    again: Annotated[bool, typer.Option("--again", help="Also those that were run before.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help=SPARK_HELP)] = False,
    processes: Annotated[int | None, typer.Option(min=1, help=PROCESSES_HELP)] = None,
    soak: Annotated[Path, typer.Option(help="What the long campaign held.")] = Path(
        "artefacts/soak/soak.json"
    ),
    fresh: Annotated[Path | None, typer.Option("--held-back", metavar="DIR", help=FRESH_HELP)] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Also report.pdf, printed by Chromium.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Run every study and write one page: each claim, the paper's value, ours, the verdict, the plots.

    Finished studies are kept in the folder and not run again. Benchmarks that lie in its `benches/`
    (as `tidings bench NAME --json` prints them) are on the page too. Ends with 1 when a claim is refuted.
    """
    from tidings.errors import SettingsError
    from tidings_lab.studies._claims import ClaimVerdict, by_kind
    from tidings_lab.studies._printing import print_to_pdf
    from tidings_lab.studies._report import read_records, sentence, write
    from tidings_lab.studies.study import StudySetting, find_study, studies, study_names

    wanted = list(studies()) if only is None else [name.strip() for name in only.split(",")]
    for name in wanted:
        find_study(name)
    found = []
    for number, name in enumerate(study_names(), 1):
        kept = _kept(to, name)
        usable = (
            kept is not None and (kept.quick, kept.seed, kept.seeds) == (quick, seed, seeds) and not again
        )
        if name in wanted and not usable:
            errors().print(f"{number} of {len(study_names())}: {name} ...")
            setting = StudySetting(
                quick=quick, seed=seed, seeds=seeds, runner=runner_for(to / "sweeps" / name, spark, processes)
            )
            kept = _keep(to, name, setting)
        if kept is not None:
            found.append(kept)
    if not found:
        raise SettingsError("there is nothing to report", hint="run it without --only")
    others = read_records(fresh / "studies") if fresh is not None else []
    page = write(to, found, soak=soak, fresh=others)
    claims = [claim for each in found for claim in each.claims]
    stored = sum(claim.reproduced for claim in claims)
    printed = print_to_pdf(page) if pdf else None
    if as_json:
        counts_of = {each.study: [sum(c.reproduced for c in each.claims), len(each.claims)] for each in found}
        kinds = {
            str(kind): {str(verdict): count for verdict, count in counts.items()}
            for kind, counts in by_kind(claims).items()
        }
        print_json({"page": str(page), "pdf": printed and str(printed), "claims": len(claims),
            "reproduced": stored,
                    "studies": counts_of, "kinds": kinds})  # fmt: skip
    else:
        console().print(f"{sentence(claims)} {page}" + (f" {printed}" if printed else ""))
    if any(claim.verdict is ClaimVerdict.REFUTED for claim in claims):
        raise typer.Exit(Exit.NO)


def sweep(
    name: Annotated[str, typer.Argument(help="A study with knobs; `tidings study list --json` has them.")],
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KNOB=A,B,C", help="Values of a knob; may be repeated.")
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Seeds for each combination.")] = 5,
    seed: Annotated[int, typer.Option(help="The first of them.")] = 1,
    figure: Annotated[
        list[str] | None, typer.Option("--figure", help="Draw this figure; may be repeated. Without it: all.")
    ] = None,
    to: Annotated[Path, typer.Option(help="The folder for the table and the pictures.")] = Path(
        "artefacts/study-sweeps"
    ),
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Draw nothing.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help=SPARK_HELP)] = False,
    processes: Annotated[int | None, typer.Option(min=1, help=PROCESSES_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Run one point of a study for every combination of knobs and every seed.

    The table is Parquet, a row for each point; means have 95% intervals, drawn as error bars. Finished points
    are kept in the folder: the same command goes on where it was stopped.
    """
    from tidings_lab.studies._sweeps import (
        SweepPlan,
        checked,
        pictures_of,
        read_values,
        run_sweep,
        table_of,
        write_parquet,
    )
    from tidings_lab.studies.draw import draw

    plan = checked(SweepPlan(study=name, values=read_values(set_), seeds=seeds, seed=seed))
    folder = to / name
    run_here = runner_for(folder / "points", spark, processes if processes is not None or spark else 1)
    assert run_here is not None
    result = run_sweep(plan, run_here)
    kept = write_parquet(result, folder / "sweep.parquet")
    drawn = [] if no_plots else draw(pictures_of(result, figure or ()), folder)
    table = table_of(result)
    if as_json:
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        print_json({"study": name, "seeds": seeds, "table": str(kept), "rows": rows,
                    "plots": [str(path) for path in drawn]})  # fmt: skip
        return
    _print_tables([table])
    console().print(f"table: {kept}")
    for path in drawn:
        if path.suffix == ".svg":
            console().print(f"picture: {path}")


def _kept(folder: Path, name: str) -> StudyRecord | None:
    import msgspec

    from tidings_lab.studies._report import StudyRecord

    file = folder / "studies" / f"{name}.json"
    if not file.exists():
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=StudyRecord)
    except msgspec.ValidationError:  # kept by a version without verdicts
        errors().print(f"{file} is of an earlier version: the study is run again")
        return None


def _keep(folder: Path, name: str, setting: Any) -> StudyRecord:
    import time
    from datetime import UTC, datetime

    import msgspec

    from tidings_lab._version import __version__
    from tidings_lab.studies._report import StudyRecord
    from tidings_lab.studies.study import find_study

    study, began = find_study(name), time.monotonic()
    outcome, drawn = _run_one(study, setting, folder / "plots")
    kept = StudyRecord(
        study=study.name, title=study.title, answers=study.answers, quick=setting.quick, seed=setting.seed,
        seeds=setting.seeds,
        version=__version__, date=datetime.now(UTC).date().isoformat(),
        seconds=round(time.monotonic() - began, 1), claims=outcome.claims,
        tables=outcome.tables, plots=[path.name for path in drawn],
    )  # fmt: skip
    (folder / "studies").mkdir(parents=True, exist_ok=True)
    (folder / "studies" / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(kept)))
    return kept


def _run_one(study: Study, setting: Any, plots: Path | None) -> tuple[StudyOutcome, list[Path]]:
    import msgspec

    if not errors().is_terminal or setting.runner is not None:  # a runner shows its own progress
        outcome = study.run(setting)
    else:
        with errors().status(f"study {study.name} ...") as status:
            delivered = msgspec.structs.replace(
                setting, progress=lambda words: status.update(f"study {study.name}: {words}")
            )
            outcome = study.run(delivered)
    if plots is None:
        return outcome, []
    from tidings_lab.studies.draw import draw

    return outcome, draw(outcome.pictures, plots)


def _print(study: Study, outcome: StudyOutcome, drawn: list[Path], as_json: bool) -> None:
    if as_json:
        import msgspec

        claims = [msgspec.to_builtins(claim) for claim in outcome.claims]
        print_json({"study": study.name, "claims": claims, "plots": [str(path) for path in drawn]})
        return
    from rich.table import Table

    console().print(f"[bold]{study.title}[/] ({study.answers})")
    _print_tables(outcome.tables)
    table = Table(title="claims", title_justify="left", box=None, pad_edge=False)
    for column in ("id", "claim", "kind", "paper", "our reference", "ours", "rule", "verdict"):
        table.add_column(column, overflow="fold")
    colours = {"held": "green", "refuted": "red"}
    for claim in outcome.claims:
        erratum = "" if claim.erratum is None else f" ({claim.erratum})"
        colour = colours.get(claim.verdict, "yellow")
        table.add_row(
            claim.id, claim.claim, claim.kind, _cell(claim.paper), _cell(claim.expected) + erratum,
            _cell(claim.ours), _cell(claim.tolerance), f"[{colour}]{claim.verdict}[/]",
        )  # fmt: skip
    console().print(table)
    for path in drawn:
        if path.suffix == ".png":
            console().print(f"picture: {path}")


def _print_tables(tables: list[StudyTable]) -> None:
    from rich.table import Table

    for data in tables:
        table = Table(title=data.title, title_justify="left", box=None, pad_edge=False)
        for column in data.columns:
            table.add_column(column)
        for row in data.rows:
            table.add_row(*(_cell(value) for value in row))
        console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
