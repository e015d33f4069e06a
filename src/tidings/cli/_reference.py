"""The reference page of the command line, made from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tidings.cli import SUMMARY, build, command_names

EXIT_CODES = """\
| exit code | meaning |
|---|---|
| 0 | fine |
| 1 | the answer to the question is no: nothing matched, a property does not hold |
| 2 | bad input or usage: a filter that does not parse, a file that is not there, an unknown option |
| 3 | the environment: a disk, a permission, an optional package that is not installed |
| 70 | a defect of ours; please report it |
| 130 | interrupted |
"""


def reference() -> str:
    """The whole page as Markdown."""
    import typer.main

    root = typer.main.get_command(build(command_names()))
    parts = [
        "# The command line\n",
        f"`tidings COMMAND`. {SUMMARY}\n",
        "Results go to standard output, everything else to standard error. Colour only on a terminal, "
        "and never when `NO_COLOR` is set. `tidings --install-completion` teaches the shell to complete.\n",
        EXIT_CODES,
    ]
    for name in command_names():
        parts += _section(f"tidings {name}", root.commands[name], 2)  # type: ignore[attr-defined]
    return "\n".join(parts)


def _section(path: str, command: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {path}\n"
    yield _prose(command.help or "") + "\n"
    inner = getattr(command, "commands", None)
    if inner:
        for name, subcommand in inner.items():
            yield from _section(f"{path} {name}", subcommand, level + 1)
        return
    yield f"```text\n{path}{_usage(command)}\n```\n"
    rows = [row for param in command.params if (row := _row(param))]
    if rows:
        yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows]) + "\n"
    if command.epilog:
        shown = [line for line in command.epilog.replace("\\[", "[").split("\n") if line.startswith("$ ")]
        yield "\n".join(["```sh", *(line.removeprefix("$ ") for line in shown), "```\n"])


def _prose(text: str) -> str:
    """Help text as Markdown: words in rich markup lose it."""
    return re.sub(r"(?<!\\)\[/?[a-z ]+\]", "", text).replace("\\[", "[")


def _usage(command: Any) -> str:
    arguments = [_argument(param) for param in command.params if param.param_type_name == "argument"]
    return "".join([*(f" {argument}" for argument in arguments), " [OPTIONS]"])


def _argument(param: Any) -> str:
    name = (param.metavar or param.name).upper().strip("[]")
    shown = f"{name}..." if param.nargs == -1 else name
    return shown if param.required else f"[{shown}]"


def _row(param: Any) -> str | None:
    if param.name == "help" or getattr(param, "hidden", False):
        return None
    is_argument = param.param_type_name == "argument"
    names = _argument(param) if is_argument else ", ".join([*param.opts, *param.secondary_opts])
    if not is_argument and not param.is_flag:
        names += f" {(param.metavar or 'VALUE').strip('<>')}"
    default = param.default
    shown = "" if default in (None, False, "", (), []) or callable(default) else f" (default: `{default}`)"
    return f"| `{names}` | {_prose(param.help or '').replace('|', chr(92) + '|')}{shown} |"
