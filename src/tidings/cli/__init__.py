"""The command line: `tidings COMMAND`.

One file per command, each with `register(app)`. A command's module is imported only when it
is called, so that `tidings --help` answers at once; until then its name and one line of help
stand in for it (a test compares them with the command's own). Other distributions add commands through the
entry-point group `tidings.commands`: a Typer application, or a `Command` that imports it when it is called.

Exit codes: 0 fine; 1 the answer is no; 2 bad input or usage; 3 the environment; 70 a defect of
ours; 130 interrupted.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from tidings.errors import ExtensionError, InputError, MissingDependencyError, install_command
from tidings.extensions import BROUGHT_BY, blaming, load, offered, pass_over

if TYPE_CHECKING:
    import typer.core

# name -> the first line of its help. The module is tidings.cli.<name>.
COMMANDS = {
    "demo": "Show what Tidings does for you, on one screen, in one to two minutes.",
    "filter": "Check, evaluate, explain and compare filters.",
    "match": "Find the events that a filter, or a file of subscriptions, accepts.",
    "broker": "Run a broker.",
    "peer": "Run a peer: gossip over topics, without brokers.",
    "pub": "Publish events.",
    "sub": "Subscribe, and print each event as it comes.",
    "top": "Watch the brokers of a network at work.",
    "trace": "Show the path of an event, broker by broker, and why a subscription did not receive it.",
    "schema": "Show, attach and check the schemas of events.",
    "bridge": "Carry events between a broker and NATS, Redis or MQTT.",
    "cluster": "Run a network of brokers on this machine, for development.",
    "settings": "Print the settings of a broker, with their documentation.",
    "store": "Back up, restore, verify, compact and export the store of a broker.",
    "admin": "List, inspect and end what others own at a broker, and purge its log.",
    "doctor": "Check what a broker needs, and say what to do.",
    "users": "Make and check entries of a users file.",
    "certs": "Make certificates for brokers and clients.",
    "archive": "Keep events that live forever as Parquet files, and read them.",
    "check": "Check a recorded history by the formal properties.",
    "simulate": "Run a system on a simulated network, with faults, and check its promises.",
    "systems": "List the systems with their composition and promises.",
    "pipeline": "Run, check and explain flows on Spark: TOML files of sources, matches and sinks.",
    "version": "Print the versions of Tidings and its environment.",
}


GROUP = "tidings.commands"


class Command(NamedTuple):
    """A command of another distribution; its module is imported when the command is called."""

    summary: str  # the first line of its help
    module: str  # that has `register(app)`

    def register(self, app: typer.Typer) -> None:
        import_module(self.module).register(app)


MEANT = {  # words of other tools
    "serve": "broker", "server": "broker", "start": "broker", "run": "broker", "publish": "pub",
    "subscribe": "sub", "topics": "top", "status": "top",
}  # fmt: skip
SUMMARY = "Content-based publish/subscribe: each matching event, once, to everyone who asked for it."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is returned, never raised."""
    from tidings.cli.output import guarded, one_line_warnings

    words = list(sys.argv[1:] if arguments is None else arguments)
    with one_line_warnings():
        return guarded(lambda: _run(words))


def _run(words: list[str]) -> None:
    import typer.main

    first = next((word for word in words if not word.startswith("-")), "")
    completing = "_TIDINGS_COMPLETE" in os.environ
    known = command_names()
    if first in BROUGHT_BY and first not in known:
        raise MissingDependencyError(
            f"`tidings {first}` comes with {BROUGHT_BY[first]}, which is not installed",
            hint=install_command(BROUGHT_BY[first]),
        )
    if first in MEANT and first not in known:
        raise InputError(f"there is no command {first!r}", hint=f"did you mean `tidings {MEANT[first]}`?")
    listed = completing or first not in known or words[0].startswith("-")
    app = build(known if completing else {first} & set(known), listed=listed)
    typer.main.get_command(app)(args=words, prog_name="tidings")


def command_names() -> list[str]:
    """Every command: the product's own, then those of installed distributions."""
    return [*COMMANDS, *offered(GROUP, COMMANDS)]


def build(loaded: Collection[str], *, listed: bool = True) -> typer.Typer:
    """The application with the named commands whole and a stand-in for each of the others.

    Extensions that are neither named nor `listed` are not imported: a broken one concerns its own name alone.
    """
    import typer

    app = typer.Typer(
        name="tidings",
        cls=_group(),
        help=SUMMARY,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Exit codes: 0 fine, 1 the answer is no, 2 bad input, 3 the environment, 70 a defect of ours.",
    )
    app.callback()(_root())
    for name, summary in COMMANDS.items():
        if name in loaded:
            import_module(f"tidings.cli.{name}").register(app)
        else:
            app.command(name, help=summary)(_stand_in())
    for name in offered(GROUP, COMMANDS):
        if listed or name in loaded:
            try:
                _add(app, name, whole=name in loaded)
            except ExtensionError as error:
                if set(loaded) == {name}:  # it was asked for
                    raise
                pass_over(error)
    _keep_brackets(app)
    return app


_MARKUP = re.compile(r"(?<!\\)\[(?=[a-z#/@][^\[]*?\])")  # as Rich knows it


def _keep_brackets(app: typer.Typer) -> None:
    """Words in brackets in the help of a command are words, no markup, which would be left out."""
    for command in app.registered_commands:
        text = command.help or inspect.getdoc(command.callback) or ""
        if "[" in text:
            command.help = _MARKUP.sub(r"\\[", text)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _keep_brackets(group.typer_instance)


def _add(app: typer.Typer, name: str, *, whole: bool) -> None:
    """Add the command of an extension."""
    import typer.main

    command = load(GROUP, name)
    with blaming(GROUP, name):
        if not isinstance(command, Command):
            typer.main.get_group(
                command
            )  # a parameter that Typer refuses is reported here, not with all commands
            app.add_typer(command, name=name)
        elif whole:
            command.register(app)
        else:
            app.command(name, help=str(command.summary))(_stand_in())


def _stand_in() -> Callable[[], None]:
    def stand_in() -> None:
        raise AssertionError("a stand-in is listed, never run")

    return stand_in


def _group() -> type[typer.core.TyperGroup]:
    """The root's class: a reader that goes away ends the command before Typer makes it an error."""
    from typer.core import TyperGroup

    from tidings.cli.output import ReaderGone

    class Root(TyperGroup):
        def invoke(self, ctx: Any) -> Any:
            try:
                result = super().invoke(ctx)
                sys.stdout.flush()
            except BrokenPipeError:
                raise ReaderGone from None
            return result

    return Root


def _root() -> Callable[..., None]:
    """Options of `tidings` itself."""
    import typer

    def show(wanted: bool) -> None:
        if wanted:
            from tidings._version import __version__

            print(f"tidings {__version__}")
            raise typer.Exit

    option = typer.Option(False, "--version", callback=show, is_eager=True, help="Print the version and end.")

    def root(version: bool = option) -> None:
        del version  # its callback did the work

    return root
