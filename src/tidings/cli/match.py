"""`tidings match`: a grep for events.

Two modes: `--where FILTER` prints the accepted lines unchanged
and ends like grep (1 when there was none), and `--subscriptions FILE` lists for
each event the subscriptions that accept it. The second with `--json` is a contract (see
ARCHITECTURE.md, contracts for outside judges).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from tidings.cli.events import STDIN, batches, event_id, event_of, json_object, lines
from tidings.cli.filter import Strict, in_words
from tidings.cli.output import Exit, json_line, progress, say, say_error, show_error
from tidings.cli.usage import JSON_HELP, Dialect, examples
from tidings.errors import FilterError, FilterSyntaxError, ImpossibleFilterError, InputError, TidingsError
from tidings.matching.matcher import Matcher
from tidings.model.event import Event
from tidings.model.filter import Filter

COMPILE_FROM = 2_000  # subscriptions; a first run above this waits for the kernels to be compiled
SHOWN_DOUBTS = 10  # of all filters together; a file may have very many subscriptions
UPKEEP = 1 << 20  # steps of the matcher's upkeep at once, when all subscriptions are in


class MatchRequest(NamedTuple):
    """Loaded subscriptions: a matcher, and the id of the subscription behind each handle."""

    matcher: Matcher
    ids: dict[int, Any]


class InputLine(NamedTuple):
    """One event as it was read."""

    text: str
    id: str
    event: Event


def register(app: typer.Typer) -> None:
    shown = examples(
        "tidings match --where \"StockName LIKE 'M%' AND change >= 1\" quotes.jsonl",
        "tail -f quotes.jsonl | tidings match --where 'change < -3'",
        "tidings match --subscriptions subs.jsonl --events quotes.jsonl --json",
    )
    app.command("match", epilog=shown)(match)


def match(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="Events as JSON lines; - or none is standard input."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", "-w", metavar="FILTER", help="Print events that it accepts; repeatable: any of them."
        ),
    ] = None,
    subscriptions: Annotated[
        str | None, typer.Option("--subscriptions", "-s", metavar="FILE", help='Lines {"id", "filter"}.')
    ] = None,
    events: Annotated[
        list[str] | None, typer.Option("--events", "-e", metavar="FILE", help="The same as FILES.")
    ] = None,
    count: Annotated[
        bool, typer.Option("--count", "-c", help="Print only how many events are accepted.")
    ] = False,
    invert: Annotated[
        bool, typer.Option("--invert", "-v", help="With --where: the events that are not accepted.")
    ] = False,
    dialect: Annotated[
        Dialect, typer.Option("--dialect", "-d", help="Dialect of the filters: tidings or cesql.")
    ] = Dialect.TIDINGS,
    strict: Strict = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Find the events that a filter, or a file of subscriptions, accepts.

    Events are JSON lines: plain objects of attributes, or CloudEvents. With --json prints
    {"event", "subscriptions"} for each event that matches, ids in the order of the file.

    Warns on standard error of filters that can never be true or were surely not meant so, as
    tidings filter check does; --strict refuses them before anything is matched, with exit code 2.

    With --where the exit code is that of grep: 0 when an event was printed, 1 when none was.
    With --subscriptions it is 0. It is 2 when a line was no event; the others are still matched.
    """
    if bool(where) == bool(subscriptions):
        raise typer.BadParameter("give --where FILTER or --subscriptions FILE")
    if invert and not where:
        raise typer.BadParameter("--invert goes with --where")
    doubts = _Doubts(strict=strict)
    if where:
        wanted = _where(where, dialect.value, doubts)
    else:
        wanted = _subscriptions(str(subscriptions), dialect.value, doubts)
    doubts.warn()
    sources = [*(files or []), *(events or [])] or [STDIN]
    run = _MatchRun(wanted, as_json=as_json, count=count, invert=invert, plain=bool(where))
    for name in sources:
        run.file(name)
    run.finish()


class _MatchRun:
    """One pass over the events, in batches, printing as it goes."""

    def __init__(
        self, wanted: MatchRequest, *, as_json: bool, count: bool, invert: bool, plain: bool
    ) -> None:
        self.wanted = wanted
        self.as_json = as_json
        self.quiet = count
        self.invert = invert
        self.plain = plain
        self.found = 0
        self.broken = 0

    def file(self, name: str) -> None:
        with progress(f"matching {name}") as advance:
            for batch in batches(name):
                self._match(list(self._read(name, batch)))
                advance(len(batch))

    def _read(self, name: str, batch: Sequence[tuple[int, str]]) -> Iterator[InputLine]:
        for number, text in batch:
            if not text.strip():
                continue
            where = f"{'standard input' if name == STDIN else name}, line {number + 1}"
            try:
                given = json_object(text, where)
                yield InputLine(text, event_id(given, number), event_of(given, number))
            except InputError as error:
                self.broken += 1
                if not error.message.startswith(where):
                    say_error(where)
                show_error(error)

    def _match(self, batch: Sequence[InputLine]) -> None:
        offsets, handles = self.wanted.matcher.match_batch([line.event for line in batch])
        for position, line in enumerate(batch):
            hits = handles[offsets[position] : offsets[position + 1]]
            if bool(len(hits)) is not self.invert:
                self.found += 1
                self._print(line, hits)
        sys.stdout.flush()

    def _print(self, line: InputLine, hits: Sequence[int]) -> None:
        if self.quiet:
            return
        ids = [self.wanted.ids[int(handle)] for handle in hits]
        if self.as_json:
            sys.stdout.write(json_line({"event": line.id, "subscriptions": ids}))
        elif self.plain:
            sys.stdout.write(line.text + "\n")
        else:
            sys.stdout.write(f"{line.id}: {', '.join(map(str, ids))}\n")

    def finish(self) -> None:
        if self.quiet:
            sys.stdout.write(json_line({"count": self.found}) if self.as_json else f"{self.found}\n")
        if self.broken:
            raise typer.Exit(Exit.BAD_INPUT)
        if self.plain and not self.found:
            raise typer.Exit(Exit.NO)


def _matcher() -> Matcher:
    from tidings.matching.engine import MatchingEngine

    return MatchingEngine(threshold=COMPILE_FROM)


class _Doubts:
    """Doubts about the filters of one run: the first are shown, the others counted."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._shown: list[str] = []
        self._more = 0

    def about(self, filter: Filter, where: str) -> None:
        """Take in the doubts about one filter; with --strict the first is an `ImpossibleFilterError`."""
        from tidings.algebra import can_match
        from tidings.language.doubts import doubts_of

        position = f"{where}: " if where else ""
        for warning in doubts_of(filter, can_match=can_match(filter)):
            if self._strict:
                raise ImpossibleFilterError(f"{position}{warning.message}", hint=warning.hint)
            if len(self._shown) < SHOWN_DOUBTS:
                self._shown.append(f"{position}{in_words(warning)}")
            else:
                self._more += 1

    def warn(self) -> None:
        for line in self._shown:
            say(f"warning: {line}")
        if self._more:
            say(f"warning: {self._more} more about these filters; --strict ends at the first")


def _where(filters: Sequence[str], dialect: str, doubts: _Doubts) -> MatchRequest:
    from tidings.language import parse_filter

    matcher = _matcher()
    ids: dict[int, Any] = {}
    for position, text in enumerate(filters):
        filter = parse_filter(text, dialect=dialect)
        if text not in filters[:position]:
            doubts.about(filter, text if len(filters) > 1 else "")
        ids[matcher.add(filter)] = text
    return MatchRequest(matcher, ids)


def _subscriptions(name: str, dialect: str, doubts: _Doubts) -> MatchRequest:
    """All subscriptions of a file; one that is wrong ends the run before anything is matched."""
    matcher = _matcher()
    ids: dict[int, Any] = {}
    with progress(f"reading {name}") as advance:
        for where, id, filter in subscriptions_in(name, dialect):
            doubts.about(filter, where)
            ids[matcher.add(filter)] = id
            advance(1)
        while matcher.maintain(UPKEEP):
            advance(0)
    return MatchRequest(matcher, ids)


def subscriptions_in(name: str, dialect: str) -> Iterator[tuple[str, Any, Filter]]:
    """The place, id and filter of each subscription of a file; the first that is wrong is an error."""
    from tidings.language import parse_filter

    for number, text in lines(name):
        where = f"{name}, line {number + 1}"
        if not text.strip():
            continue
        given = json_object(text, where)
        meaning = given.get("dialect", dialect)
        if "id" not in given or not isinstance(given.get("filter"), str) or meaning not in [*Dialect]:
            raise InputError(f'{where}: wanted {{"id": ..., "filter": text, "dialect": tidings or cesql}}')
        try:
            filter = parse_filter(given["filter"], dialect=meaning)
        except FilterError as error:
            raise _placed(error, where) from None
        yield where, given["id"], filter


def _placed(error: FilterError, where: str) -> TidingsError:
    """The same error, saying in which line of the file the filter stands."""
    if isinstance(error, FilterSyntaxError):
        return FilterSyntaxError(
            f"{where}: {error.problem}",
            text=error.text,
            offset=error.offset,
            expected=error.expected,
            suggestion=error.suggestion,
        )
    return type(error)(f"{where}: {error.message}", hint=error.hint)
