"""`tidings users`: make and check entries of a users file.

A password is asked for or read from standard input; it is never an argument.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.output import Exit, print_json, say
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
    users.command(
        "add",
        epilog=examples(
            "tidings users add users.toml ann --group traders",
            "tidings users add users.toml ann < password.txt",
            "tidings users add users.toml sensor --by-certificate",
        ),
    )(add)
    users.command("passwd", epilog=examples("tidings users passwd users.toml ann"))(passwd)
    users.command("disable", epilog=examples("tidings users disable users.toml ann"))(disable)
    users.command("enable", epilog=examples("tidings users enable users.toml ann"))(enable)
    users.command("remove", epilog=examples("tidings users remove users.toml ann"))(remove)
    users.command(
        "list", epilog=examples("tidings users list users.toml", "tidings users list users.toml --json")
    )(list_)
    app.add_typer(users, name="users")


def key(as_json: Json = False) -> None:
    """Turn a password into the key that a users file stores.

    The password is read without echo, or from the first line of standard input. The key does not
    reveal the password, except by trying all passwords.
    """
    stored = _asked_key()
    print_json({"password": stored}) if as_json else print(f'password = "{stored}"')


def _asked_key() -> str:
    """The stored key of a password that is typed, or read from standard input."""
    from tidings.security.scram import make_key

    if sys.stdin.isatty():
        password = typer.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise InputError("no password was given", hint="type it, or give it on standard input")
    return str(make_key(password))


FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A users file.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
RELOAD = "running brokers read it on SIGHUP (systemctl reload, or kill -HUP)"


def add(
    file: FileArgument,
    name: NameArgument,
    group: Annotated[
        list[str] | None, typer.Option("--group", "-g", metavar="GROUP", help="A group of it; repeatable.")
    ] = None,
    tenant: Annotated[str, typer.Option("--tenant", help="The tenant that it lives in.")] = "",
    filter: Annotated[str, typer.Option("--filter", help="A mandatory filter over all its rights.")] = "",
    by_certificate: Annotated[
        bool, typer.Option("--by-certificate", help="It comes by certificate or token only.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Add a user to a users file, which is made when it is not there.

    The password is read without echo, or from the first line of standard input; the file gets a salted
    key (SCRAM-SHA-256). Rights are rules of the file: [[allow]], see docs/security.md.
    """
    from tidings.security.users_file import UsersFile

    before = UsersFile.read(file, missing_ok=True)
    if name in before.users:  # before a password is asked for
        before.add(name, None)
    stored = None if by_certificate else _asked_key()
    with UsersFile.editing(file, missing_ok=True) as now:
        now.add(name, stored, groups=list(group or ()), tenant=tenant, filter=filter).write()
    _said(file, name, "added", as_json)


def passwd(file: FileArgument, name: NameArgument, as_json: Json = False) -> None:
    """Give a user another password. Its open sessions end at the next reload."""
    from tidings.security.users_file import UsersFile

    before = UsersFile.read(file)
    if name not in before.users:
        before.remove(name)  # says which users there are
    key = _asked_key()
    with UsersFile.editing(file) as now:
        now.with_password(name, key).write()
    _said(file, name, "changed", as_json)


def remove(file: FileArgument, name: NameArgument, as_json: Json = False) -> None:
    """Remove a user. Rules that name it stay, and its open sessions end at the next reload."""
    from tidings.security.users_file import UsersFile

    with UsersFile.editing(file) as now:
        now.remove(name).write()
    _said(file, name, "removed", as_json)


def disable(file: FileArgument, name: NameArgument, as_json: Json = False) -> None:
    """Keep a user out, with everything that is its own. Its open sessions end at the next reload."""
    _set_disabled(file, name, True, as_json)


def enable(file: FileArgument, name: NameArgument, as_json: Json = False) -> None:
    """Let a user in again that was disabled."""
    _set_disabled(file, name, False, as_json)


def _set_disabled(file: Path, name: str, is_disabled: bool, as_json: bool) -> None:
    from tidings.security.users_file import UsersFile

    with UsersFile.editing(file) as now:
        now.disabled(name, is_disabled).write()
    _said(file, name, "disabled" if is_disabled else "enabled", as_json)


def list_(file: FileArgument, as_json: Json = False) -> None:
    """List the users of a file with their groups; never a key."""
    users = _users(file)
    if as_json:
        print_json(
            {
                "users": [
                    {
                        "name": name,
                        "groups": list(user.groups),
                        "tenant": user.tenant,
                        "filter": user.filter,
                        "password": user.password is not None,
                        "disabled": user.disabled,
                    }
                    for name, user in sorted(users.users.items())
                ]
            }
        )
        return
    for name, user in sorted(users.users.items()):
        notes = [
            f"groups {', '.join(user.groups)}" if user.groups else "",
            f"tenant {user.tenant}" if user.tenant else "",
            "" if user.password else "no password",
            "disabled" if user.disabled else "",
        ]
        print(": ".join(filter(None, [name, "; ".join(filter(None, notes))])))


def _said(file: Path, name: str, what: str, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(file), "user": name, "done": what})
    else:
        print(f"{name}: {what}; {RELOAD}")


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
    action: Annotated[str, typer.Argument(help="publish, subscribe, observe, share or admin.")],
    filter: Annotated[str, typer.Argument(metavar="[FILTER]", help="The filter to check.")] = "TRUE",
    as_json: Json = False,
) -> None:
    """Show the rights of a user: the part of the given filter that the user may use, within its tenant.

    The exit code is 1 when no part is allowed.
    """
    from tidings.errors import RefusedError
    from tidings.language import parse_filter, print_filter
    from tidings.security.principal import Principal, ProofMethod
    from tidings.security.rules import Action

    if action not in tuple(Action):
        raise typer.BadParameter(f"no action is called {action!r}: {', '.join(Action)}")
    users = _users(file)
    if name not in users.users:
        say(f"{file} lists no user {name!r}: only rules for everyone and for its groups count")
    principal = users.complete(Principal(name, ProofMethod.SCRAM))
    try:
        right = users.right(principal, Action(action)).narrowed(parse_filter(filter))
        allowed = print_filter(right)
    except RefusedError as error:
        print_json({"allowed": None, "reason": error.message}) if as_json else print(f"no: {error.message}")
        raise typer.Exit(Exit.NO) from None
    print_json({"allowed": allowed, "reason": None}) if as_json else print(f"yes: {allowed}")


def _users(file: Path) -> Users:
    from tidings.runtime.secured import load_users
    from tidings.runtime.settings import SecuritySettings

    return load_users(SecuritySettings(users=str(file)))
