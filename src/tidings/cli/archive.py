"""`tidings archive`: fill an archive from brokers, look at it, join its small files."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.output import print_json
from tidings.cli.usage import JSON_HELP, examples

if TYPE_CHECKING:
    from tidings.pipeline.broker.archiving import ArchivingProgress

Folder = Annotated[Path, typer.Argument(metavar="ARCHIVE", help="The archive's folder.")]
Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="FILTER", help="Also archive events that this filter accepts, of any lifetime."
    ),
]


def register(app: typer.Typer) -> None:
    archive = typer.Typer(
        help="Keep events that live forever as Parquet files, and read them.\n\n"
        "See docs/meeting.md. A broker serves an archive to late subscribers when its setting "
        "`archive` names it.",
        no_args_is_help=True,
    )
    archive.command(
        "run",
        epilog=examples(
            "tidings archive run archive --brokers 127.0.0.1:7117,127.0.0.1:7118",
            "tidings archive run archive --brokers 127.0.0.1:7117 --release --once",
        ),
    )(run)
    archive.command("show", epilog=examples("tidings archive show archive --json"))(show)
    archive.command("compact", epilog=examples("tidings archive compact archive"))(compact)
    app.add_typer(archive, name="archive")


def run(
    folder: Folder,
    brokers: Annotated[
        str,
        typer.Option("--brokers", envvar="TIDINGS_BROKER", metavar="ADDRESSES", help="Divided by commas."),
    ],
    policy: Policy = None,
    release: Annotated[
        bool, typer.Option("--release", help="Let the brokers drop archived events that live forever.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Archive the present events, then end.")] = False,
    go_on: Annotated[
        bool, typer.Option("--go-on", help="Archive what is there, although events before it are gone.")
    ] = False,
    every: Annotated[float, typer.Option("--every", help="Seconds between two polls.")] = 5.0,
    as_json: Json = False,
) -> None:
    """Fill an archive from the logs of brokers, exactly once, until it is stopped.

    The client's identity comes from the environment, as for `tidings sub`.
    """
    from tidings.pipeline.broker.archiving import Archiver

    def tell(step: ArchivingProgress) -> None:
        if as_json:
            print_json(step._asdict())
        else:
            print(f"{step.log}: {step.archived} of {step.read} events, up to {step.upto}", flush=True)

    named = {"brokers": brokers} | ({"onTrimmed": "go on"} if go_on else {})
    archiver = Archiver(folder, named, policy=policy, release=release)
    if once:
        archiver.run_once(tell)
        return
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    archiver.run(stop, every=every, tell=tell)


def show(folder: Folder, as_json: Json = False) -> None:
    """Check an archive's files and summarise its contents."""
    from tidings.archive.state import Archive
    from tidings.errors import InputError

    archive = Archive(folder)
    if not archive.exists:
        raise InputError(f"{folder} is no archive", hint="tidings archive run makes one")
    state = archive.checked()
    about: dict[str, Any] = {
        "events": sum(file.rows for file in state.files),
        "files": len(state.files),
        "bytes": sum(file.bytes for file in state.files),
        "odd": sum(file.odd for file in state.files),
        "places": state.places,
        "policy": state.policy,
        "columns": state.columns,
    }
    if as_json:
        print_json(about)
        return
    print(f"{about['events']:,} events in {about['files']} files, {about['bytes']:,} bytes")
    for log, position in sorted(state.places.items()):
        print(f"  {log}: up to {position}")
    print("columns: " + ", ".join(f"{name} ({kind})" for name, kind in state.columns.items()))


def compact(folder: Folder, as_json: Json = False) -> None:
    """Join small files that are neighbours."""
    from tidings.archive.state import Archive
    from tidings.archive.writing import ArchiveWriter

    archive = Archive(folder)
    with archive.locked():
        gone = ArchiveWriter(archive, policy=archive.state().policy).compact()
    print_json({"joined": gone}) if as_json else print(f"{gone} files were joined")
