"""`tidings users`: make and check entries of a users file.

A password is asked for or read from standard input; it is never an argument.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.output import Exit, print_json
from tidings.cli.usage import JSON_HELP, examples
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.security.users import Users

Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


def register(app: typer.Typer) -> None:
    users = typer.Typer(
        help="Make and check entries of a users file.\n\n"
        "One TOML file holds users, their rights to publish and subscribe, and quotas: see docs/security.md.",
        no_args_is_help=True,
    )
    users.command("key", epilog=examples("tidings users key", "tidings users key < password.txt"))(key)
    users.command("check", epilog=examples("tidings users check users.toml"))(check)
    users.command(
        "may", epilog=examples("tidings users may users.toml ann subscribe \"topic = 'quotes/#'\"")
    )(may)
    app.add_typer(users, name="users")


def key(as_json: Json = False) -> None:
    """Turn a password into the key that a users file stores.

    The password is read without echo, or from the first line of standard input. The key does not
    reveal the password, except by trying all passwords.
    """
    from tidings.security.scram import make_key

    if sys.stdin.isatty():
        password = typer.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise InputError("no password was given", hint="type it, or give it on standard input")
    stored = str(make_key(password))
    print_json({"password": stored}) if as_json else print(f'password = "{stored}"')


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A users file.")], as_json: Json = False
) -> None:
    """Check a users file as a broker would."""
    users = _users(file)
    counts = {
        "users": len(users.users),
        "with a password": len(users.keys),
        "rules": len(users.permissions.rules),
        "mandatory filters": len(users.permissions.mandatory),
    }
    print_json(counts) if as_json else print(
        f"{file} is fine: " + ", ".join(f"{count} {what}" for what, count in counts.items())
    )


def may(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A users file.")],
    name: Annotated[str, typer.Argument(help="The user's name.")],
    action: Annotated[str, typer.Argument(help="publish, subscribe or observe.")],
    filter: Annotated[str, typer.Argument(metavar="[FILTER]", help="The filter to check.")] = "TRUE",
    as_json: Json = False,
) -> None:
    """Show the rights of a user: the part of the given filter that the user may use.

    The exit code is 1 when no part is allowed.
    """
    from tidings.errors import RefusedError
    from tidings.language import parse_filter, print_filter
    from tidings.security.principal import Principal, ProofMethod
    from tidings.security.rules import Action

    if action not in tuple(Action):
        raise typer.BadParameter(f"no action is called {action!r}: publish, subscribe or observe")
    users = _users(file)
    principal = users.complete(Principal(name, ProofMethod.SCRAM))
    try:
        right = users.permissions.right(principal, Action(action)).narrowed(parse_filter(filter))
        allowed = print_filter(right)
    except RefusedError as error:
        print_json({"allowed": None, "reason": error.message}) if as_json else print(f"no: {error.message}")
        raise typer.Exit(Exit.NO) from None
    print_json({"allowed": allowed, "reason": None}) if as_json else print(f"yes: {allowed}")


def _users(file: Path) -> Users:
    from tidings.runtime.secured import load_users
    from tidings.runtime.settings import SecuritySettings

    return load_users(SecuritySettings(users=str(file)))
