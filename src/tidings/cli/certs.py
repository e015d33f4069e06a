"""`tidings certs`: certificates for brokers and clients, from an authority of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.output import print_json
from tidings.cli.usage import JSON_HELP, examples

if TYPE_CHECKING:
    from tidings.runtime.authority import IssuedCertificate

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The authority's folder.")]
Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


def register(app: typer.Typer) -> None:
    certs = typer.Typer(
        help="Make certificates for brokers and clients.\n\n"
        "An authority of your own, for development and small networks: TLS between brokers is mutual, and "
        "a client can authenticate by a certificate.",
        no_args_is_help=True,
    )
    certs.command("new", epilog=examples("tidings certs new certs"))(new)
    certs.command(
        "broker", epilog=examples("tidings certs broker certs b1 --host 127.0.0.1 --host b1.example")
    )(broker)
    certs.command("client", epilog=examples("tidings certs client certs ann"))(client)
    certs.command("revoke", epilog=examples("tidings certs revoke certs ann"))(revoke)
    app.add_typer(certs, name="certs")


def new(folder: Folder, as_json: Json = False) -> None:
    """Make an authority in a new folder."""
    from tidings.runtime.authority import make_authority

    _say(make_authority(folder), as_json)


def broker(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The broker's name.")],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", help="Host name or address of the broker; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a broker's certificate; with it a broker joins others."""
    from tidings.runtime.authority import issue

    _say(issue(folder, name, hosts=tuple(host or ("localhost", "127.0.0.1", "::1")), broker=True), as_json)


def client(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The client's name: its principal.")],
    as_json: Json = False,
) -> None:
    """Make a client's certificate; it proves a name to brokers."""
    from tidings.runtime.authority import issue

    _say(issue(folder, name), as_json)


def revoke(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The broker's or the client's name.")],
    as_json: Json = False,
) -> None:
    """Take a certificate back: add it to the list that brokers read (`tls.revoked`)."""
    from tidings.runtime.authority import revoke as take_back

    listed = take_back(folder, name)
    if as_json:
        print_json({"revoked": str(listed), "name": name})
        return
    print(f"revoked     {name}, in {listed}")
    print(
        "every broker needs that file: as --certs DIR/revoked.txt, or named in tls.revoked; "
        "send each SIGHUP: open connections are closed"
    )


def _say(made: IssuedCertificate, as_json: bool) -> None:
    if as_json:
        print_json({"certificate": str(made.certificate), "key": str(made.key)})
    else:
        print(f"certificate {made.certificate}\nkey         {made.key} (keep it to yourself)")
