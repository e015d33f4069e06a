"""Shared parts of all commands: exit codes, errors without a traceback, JSON lines, progress.

Rules
- Results go to standard output, everything else to standard error.
- A terminal gets colour unless NO_COLOR is set; a pipe gets plain text.
- Names, filters and bodies are texts of other principals. Signs in them that a terminal would act upon, or
  that reverse the direction of writing, are shown as escapes (`visible`).
- Every deliberate error of Tidings becomes a message and a hint, and so does an optional package that is not
  installed; any other error is a defect of Tidings, and says how to report it. `TIDINGS_TRACEBACK=1` shows
  the traceback.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from functools import cache
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

from tidings.errors import FilterSyntaxError, TidingsError, missing_dependency
from tidings.extensions import ExtensionWarning, error_of_extension

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)  # acted upon, or unseen
PLAIN_WIDTH = 100  # columns where there is no terminal to ask ...
TABLE_WIDTH = 100_000  # ... and of a table there: no value is broken for a program that reads lines
KINDS = "kinds"  # the member of a line of JSON that names its infinities


class Exit(IntEnum):
    FINE = 0
    NO = 1  # the answer to the question is no
    BAD_INPUT = 2  # what was handed over is wrong: arguments, files, filters, events
    ENVIRONMENT = 3  # a disk, a package, a permission
    DEFECT = 70  # ours
    INTERRUPTED = 130


EXIT_OF_BLAME = {
    "input": Exit.BAD_INPUT,
    "caller": Exit.BAD_INPUT,
    "environment": Exit.ENVIRONMENT,
    "tidings": Exit.DEFECT,
}


class ReaderGone(Exception):
    """The reader of standard output has closed it (`| head`); this is no error."""


def guarded(run: Callable[[], None]) -> int:
    """Run a command; errors become a message on standard error and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # no text is a reason to fail
    try:
        run()
    except SystemExit as end:
        return _flushed(end.code if isinstance(end.code, int) else Exit.FINE)
    except (BrokenPipeError, ReaderGone):
        return _silenced()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except Exception as error:  # the last line of defence: no traceback in a user's face
        if os.environ.get("TIDINGS_TRACEBACK"):
            traceback.print_exc()
        expected = _expected(error)
        return _defect(error) if expected is None else show_error(expected)
    return _flushed(Exit.FINE)


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Extensions that are passed over are one line each on standard error, without the source of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", ExtensionWarning)
        others = warnings.showwarning

        def show(message: Any, category: type[Warning], *position: Any, **more: Any) -> None:
            if issubclass(category, ExtensionWarning):
                say(f"warning: {message}")
            else:
                others(message, category, *position, **more)

        warnings.showwarning = show
        yield


def _expected(error: Exception) -> TidingsError | OSError | None:
    """The error as it is shown; None for a defect of ours."""
    if isinstance(error, TidingsError | OSError):
        return error
    return missing_dependency(error, "this command") if isinstance(error, ImportError) else None


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _silenced()
    return code


def _silenced() -> int:
    """The reader went away (`| head`): stop writing, without an error."""
    # The interpreter flushes standard output once more at exit; that must not fail again.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return Exit.FINE


def show_error(error: TidingsError | OSError) -> int:
    """Message, caret and hint on standard error; the exit code to end with."""
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        say_error(f"{name}{error.strerror or error}")
        missing = isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError)
        return Exit.BAD_INPUT if missing else Exit.ENVIRONMENT
    say_error(error.message)
    if isinstance(error, FilterSyntaxError):
        print(visible(_indented(error.caret())), file=sys.stderr)
    if error.hint:
        print(f"  hint: {visible(error.hint)}", file=sys.stderr)
    return EXIT_OF_BLAME[error.blame]


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))


def say_error(message: str) -> None:
    errors().print(f"[bold red]error:[/] {_escaped(message)}", soft_wrap=True)


def say(message: str) -> None:
    """A remark that is no result."""
    errors().print(_escaped(message), soft_wrap=True)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _defect(error: Exception) -> int:
    of_extension = error_of_extension(error)
    if of_extension is not None:
        return show_error(of_extension)
    summary = traceback.extract_tb(error.__traceback__)[-1]
    say_error(f"a defect in Tidings: {type(error).__name__}: {error}")
    say(f"  at {summary.name}, line {summary.lineno} of {os.path.basename(summary.filename)}")  # noqa: PTH119
    say("  Please report it, with the command and what TIDINGS_TRACEBACK=1 prints.")
    return Exit.DEFECT


# The two consoles


@cache
def console() -> Console:
    """Standard output for people."""
    return _console(stderr=False)


@cache
def errors() -> Console:
    return _console(stderr=True)


def print_table(table: Table) -> None:
    """A table on standard output: as wide as its values, unless a terminal or COLUMNS bounds it."""
    out = console()
    if out.is_terminal or "COLUMNS" in os.environ:
        out.print(table)
        return
    width, out.width = out.width, TABLE_WIDTH
    try:
        out.print(table)
    finally:
        out.width = width


def visible(text: str) -> str:
    """The text with escapes (`\\u001b`) for what a terminal would act upon; line breaks stay."""
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """The same of a name, which may hold line breaks."""
    return visible(text).replace("\n", "\\n")


def show(text: str) -> None:
    """One line for people on standard output."""
    print(one_line(text))


def _console(*, stderr: bool) -> Console:
    from rich.console import Console
    from rich.segment import Segment

    class VisibleConsole(Console):
        def render(self, *given: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*given, **options):
                text, style, control = segment
                yield segment if control else Segment(visible(text), style)

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return VisibleConsole(stderr=stderr, width=width, highlight=False)


# JSON


def print_json(value: Any) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json_line(value))


def json_line(value: Any) -> str:
    """One line of JSON for any value, readable where the stream can show it, escaped where it cannot.

    JSON has no infinity: it is written as null, as in CloudEvents, and the member `kinds` of the line
    tells by dotted name which null is `inf` or `-inf`. NaN is NULL, as in events.
    """
    try:
        text = _json_text(value)
    except ValueError:  # infinity or NaN is rare, so only then is the value walked through
        text = _json_text(_finite_line(value))
    return text + "\n"


def _json_text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=_json_value, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, default=_json_value, allow_nan=False)
    return text


def _finite_line(value: Any) -> Any:
    kinds: dict[str, str] = {}
    finite = _finite(value, "", kinds)
    return {**finite, KINDS: kinds} if kinds and isinstance(finite, dict) and KINDS not in finite else finite


def _finite(value: Any, path: str, kinds: dict[str, str]) -> Any:
    """The value with null in place of infinity and NaN; `kinds` gets the name of each infinity."""
    if isinstance(value, dict):
        return {name: _finite(member, _path(path, name), kinds) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(member, _path(path, position), kinds) for position, member in enumerate(value)]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isinf(value):
        kinds[path] = "inf" if value > 0 else "-inf"
    return None


def _path(prefix: str, name: object) -> str:
    return f"{prefix}.{name}" if prefix else str(name)


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return timestamp(value)
    raise TypeError(f"{type(value).__name__} has no JSON form here")


def timestamp(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


# Progress


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar on standard error while the block runs; call what it yields with the steps done.

    Only a terminal sees it, so scripts and logs stay clean.
    """
    if not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors(), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)
