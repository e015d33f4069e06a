"""`tidings store`: back up, restore, verify, compact and export the store of a broker, while it runs or is
stopped."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.output import print_json, timestamp
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import SettingsError

if TYPE_CHECKING:
    from tidings.runtime.backups import Restored
    from tidings.store.backup import Backup

SPANS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}  # seconds
SINCE_HELP = "Only events that were accepted then or later: a time (ISO 8601), or 24h, 30m, 7d before now."
UNTIL_HELP = "Only events that were accepted before then."
POSITIONS_HELP = "Print offset, accepted (when the broker took it) and event for each."

Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="Directory of the broker's store.")]
BackupArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the backups.")]
Number = Annotated[
    int | None, typer.Option("--number", metavar="N", help="Number of the backup; the latest by default.")
]


def register(app: typer.Typer) -> None:
    store = typer.Typer(
        help="Back up, restore, verify, compact and export the store of a broker.\n\n"
        "The broker may run: publishing goes on meanwhile. See docs/how-to/backup.md.",
        no_args_is_help=True,
    )
    store.command(
        "backup",
        epilog=examples(
            "tidings store backup data /backups/b1", "tidings store backup data /backups/b1 --keep 14 --json"
        ),
    )(backup)
    store.command(
        "list", epilog=examples("tidings store list /backups/b1", "tidings store list /backups/b1 --json")
    )(list_)
    store.command(
        "restore",
        epilog=examples(
            "tidings store restore /backups/b1 data", "tidings store restore /backups/b1 data --number 3"
        ),
    )(restore)
    store.command(
        "verify", epilog=examples("tidings store verify data", "tidings store verify /backups/b1 --number 3")
    )(verify)
    store.command(
        "compact", epilog=examples("tidings store compact data", "tidings store compact data --json")
    )(compact)
    store.command(
        "export",
        epilog=examples(
            "tidings store export data > events.jsonl",
            "tidings store export d1 | tidings pub --mode kept",
            "tidings store export data --filter \"tenant = 'acme'\" --since 24h --positions",
        ),
    )(export)
    app.add_typer(store, name="store")


def backup(
    store: StoreArgument,
    into: BackupArgument,
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=0, help="Remove all but the latest N backups; 0: none.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Back up a store: a consistent copy of one moment, checked as a whole.

    A running broker makes a checkpoint of hard links and goes on; this command copies what no earlier
    backup in DIR holds. Run it as the user that owns the store.
    """
    from tidings.runtime.backups import back_up_all, backup_set

    shown = []
    for path, taken, copied in back_up_all(store, into):
        removed = backup_set(path).prune(keep) if keep else 0
        shown.append(_shown(taken) | {"copied_bytes": copied, "removed": removed})
        if not as_json:
            print(
                f"backup {taken.number} of {taken.broker or store}: {_content(taken)}; "
                f"{_size(copied)} copied of {_size(taken.size)}"
                + (f"; {removed} earlier removed" if removed else "")
            )
    if as_json:
        _print_all(shown)


def list_(into: BackupArgument, as_json: Json = False) -> None:
    """List the backups in a directory, the oldest first."""
    from tidings.runtime.backups import backup_set, members

    sets = [backup_set(path) for path in members(into)]
    found = [each for one in sets for each in one.backups()]
    damaged = [str(error) for one in sets for error in one.damaged()]
    if as_json:
        print_json({"backups": [_shown(each) for each in found], "damaged": damaged})
        return
    for each in found:
        print(f"{each.number}  {each.time}  {each.broker}  {_content(each)}, {_size(each.size)}")
    for text in damaged:
        print(f"damaged: {text}")


def restore(into: BackupArgument, store: StoreArgument, number: Number = None, as_json: Json = False) -> None:
    """Put a backup into an empty place, as the store of the same broker.

    Events after the backup are lost at this broker. Its log goes on behind every offset that it may have
    given since, so none is used twice. A member of a group gets the rest from the other members.
    """
    from tidings.runtime import backups

    _warn_of_missing(into)
    done = backups.restore_all(into, store, number)
    if as_json:
        _print_all([_shown(one.backup) | {"store": str(at), "skipped_offsets": one.gap} for at, one in done])
    else:
        for at, one in done:
            _print_restored(at, one)
        if len(done) > 1:
            print(f"start the unit with the same --name and --processes {len(done)}")
        elif not done[0][1].backup.group:
            print(f"start the broker with --name {done[0][1].backup.broker}, and let its neighbours run")
    if not all(one.is_remembered for _, one in done):
        typer.echo(
            f"warning: {into} cannot be written, so it does not know of this restore: restore from it again "
            "only with a clock that is not behind this one",
            err=True,
        )


def _warn_of_missing(path: Path) -> None:
    """Say which backups have no record any more: a restore takes the latest that is there."""
    from tidings.runtime.backups import backup_set, members
    from tidings.store.backup import BackupSet

    for each in (each for each in members(path) if BackupSet.is_at(each)):
        for number in backup_set(each).missing():
            typer.echo(
                f"warning: backup {number} is gone from {each}: {number:06}.json is not there", err=True
            )


def _print_restored(at: Path, one: Restored) -> None:
    backup = one.backup
    print(f"{at} holds backup {backup.number} of {backup.broker or 'a broker'}, {_content(backup)}")
    if backup.group:
        print("it is the disk of a group's member: start it while the others run, and it copies the rest")
    else:
        print(f"events after {backup.time} are lost at this broker; its log goes on at", end=" ")
        print(f"offset {backup.next_offset + one.gap}, behind all that were given")


def verify(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A store, or a directory of backups.")],
    number: Number = None,
    as_json: Json = False,
) -> None:
    """Read and check everything in a store or a backup; of a store also the file of MQTT sessions.

    Of a directory of backups the checksums of all and the records of the latest; with --number all of that
    one. Ends with exit code 3 and names the damage when there is any.
    """
    from tidings.gateway.mqtt.session_sums import check
    from tidings.runtime import backups

    _warn_of_missing(path)
    all_found = [(at, backups.verify(at, number, check)) for at in backups.members(path)]
    if as_json:
        _print_all([{"ok": True, **found} for _, found in all_found])
        return
    for at, found in all_found:
        what = f"backup {found['backup']} in {at}" if "backup" in found else str(at)
        print(
            f"{what} is sound: {found['entries']} events and {found['rows']} rows of "
            f"{found['broker'] or 'a broker'}, "
            f"next offset {found['next_offset']}, {_size(found['bytes'])}"
            + (f"; so are the checksums of all {found['checked']}" if found.get("checked", 1) > 1 else "")
        )


def compact(store: StoreArgument, as_json: Json = False) -> None:
    """Rewrite a store without what was forgotten, and give the room back to the disk.

    Brokers compact in the background by themselves; this does all of it now.
    """
    from tidings.runtime import backups

    done = [(at, backups.compact(at)) for at in backups.members(store)]
    if as_json:
        _print_all([found for _, found in done])
        return
    for at, found in done:
        print(f"{at}: {_size(found['before'])} before, {_size(found['after'])} now")


def _print_all(rows: list[dict[str, Any]]) -> None:
    """One row as itself; those of a unit's processes as a list."""
    print_json(rows[0] if len(rows) == 1 else {"processes": rows})


def export(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A store, or a directory of backups.")],
    filter: Annotated[str | None, typer.Option("--filter", help="Only events that it accepts.")] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help=SINCE_HELP)] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help=UNTIL_HELP)] = None,
    first: Annotated[int, typer.Option("--from-offset", metavar="N", min=1, help="First offset.")] = 1,
    last: Annotated[int | None, typer.Option("--to-offset", metavar="N", min=1, help="Last offset.")] = None,
    positions: Annotated[bool, typer.Option("--positions", help=POSITIONS_HELP)] = False,
    number: Number = None,
    as_json: Json = False,  # noqa: ARG001 - as for every command
) -> None:
    """Print the events of a log as CloudEvents, one JSON document on each line, with --json or without.

    The broker may run; nothing is changed. `tidings pub` publishes the lines elsewhere under their
    identities. This is also the way out when a group has lost the majority of its disks: see
    docs/how-to/backup.md. Cursors of durable subscriptions stay behind.
    """
    from tidings.language import parse_filter
    from tidings.model.cloudevents import to_structured
    from tidings.runtime import backups

    selection = backups.Selection(
        filter=None if filter is None else parse_filter(filter),
        since=-inf if since is None else _moment("--since", since),
        until=inf if until is None else _moment("--until", until),
        first=first,
        last=last,
    )
    for each in backups.members(path):
        for offset, accepted, event in backups.exported(each, selection, number):
            document = to_structured(event).decode()
            if positions:
                at = f'"{timestamp(datetime.fromtimestamp(accepted, UTC))}"' if isfinite(accepted) else "null"
                document = f'{{"offset": {offset}, "accepted": {at}, "event": {document}}}'
            print(document)


def _moment(option: str, text: str) -> float:
    """Seconds since 1970: of a time, or of a span such as 24h before now."""
    if text[:-1].isdecimal() and text[-1] in SPANS:
        return time.time() - int(text[:-1]) * SPANS[text[-1]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(
            f"{option} {text!r} is no time", hint="write 2026-01-31T12:00:00Z, or 24h for the last day"
        ) from None
    return moment.astimezone().timestamp() if moment.tzinfo is None else moment.timestamp()


def _shown(backup: Backup) -> dict[str, Any]:
    return {
        "number": backup.number,
        "time": backup.time,
        "broker": backup.broker,
        "group": backup.group,
        "entries": backup.entries,
        "rows": backup.rows,
        "next_offset": backup.next_offset,
        "commit": backup.commit,
        "bytes": backup.size,
    }


def _content(backup: Backup) -> str:
    return f"{backup.entries} events, {backup.rows} rows, next offset {backup.next_offset}"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
