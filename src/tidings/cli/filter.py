"""`tidings filter check | eval | explain | covers`: everything one can ask of a filter.

`eval` and `covers --json` are contracts (see ARCHITECTURE.md, contracts for outside judges).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tidings.cli.events import STDIN, event_of, json_object, lines, whole_object
from tidings.cli.output import Exit, console, json_line, print_json, say, say_error, show_error
from tidings.cli.usage import JSON_HELP, Dialect, examples
from tidings.errors import FilterError, FilterLimitError, FilterSyntaxError, TidingsError

if TYPE_CHECKING:
    from tidings.language.doubts import Doubt
    from tidings.model.filter import Filter

Expression = Annotated[str, typer.Argument(metavar="FILTER", help="The filter's text.", show_default=False)]
Meaning = Annotated[Dialect, typer.Option("--dialect", "-d", help="Dialect of the text: tidings or cesql.")]
Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]
STOCK = "\"StockName = 'IBM' AND change < -3\""


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True)
    group.command("check", epilog=examples(f"tidings filter check {STOCK}"))(check)
    group.command(
        "eval",
        epilog=examples(
            f'echo \'{{"StockName": "IBM", "change": -4}}\' | tidings filter eval {STOCK} --event -',
            "tidings filter eval < cases.jsonl",
        ),
    )(evaluate)
    group.command("explain", epilog=examples(f"tidings filter explain {STOCK} --event quote.json"))(explain)
    group.command(
        "covers",
        epilog=examples(
            "tidings filter covers 'price > 5' 'price > 10' --json",
            "tidings filter covers --subscriptions subscriptions.jsonl",
        ),
    )(covers)
    app.add_typer(group, name="filter", help="Check, evaluate, explain and compare filters.")


def check(
    text: Expression,
    dialect: Meaning = Dialect.TIDINGS,
    strict: Strict = False,
    event: Annotated[
        str | None,
        typer.Option("--event", metavar="FILE", help="An example: names that it lacks are doubtful."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a filter and show its normal form.

    Warns of conditions that can never be true or are surely unintended, such as time > '2026-01-01'.
    Ends with 2 when it does not parse and with 1 when it parses but can never be true: no event ever
    matches it, as tidings.algebra.can_match says. With --strict a warning ends with 1, too. With --json a
    filter that does not parse is described on standard output too.
    """
    from tidings.algebra import can_match
    from tidings.language import parse_filter, print_filter
    from tidings.language.doubts import doubts_of

    try:
        filter = parse_filter(text, dialect=dialect.value)
    except FilterError as error:
        if as_json:
            print_json({"ok": False, "error": _described(error)})
        raise
    matches = can_match(filter)
    known = None if event is None else event_of(whole_object(event)).view.keys()
    warnings = doubts_of(filter, known=known, can_match=matches)
    constraints = sum(len(c.constraints) for c in filter.conjunctions)
    residuals = sum(len(c.residuals) for c in filter.conjunctions)
    if as_json:
        print_json(
            {
                "ok": True,
                "dialect": filter.dialect,
                "normal_form": print_filter(filter),
                "conjunctions": len(filter.conjunctions),
                "constraints": constraints,
                "residuals": residuals,
                "never_true": matches is False,
                "can_match": "unknown" if matches is None else matches,
                "always_true": filter.is_always_true,
                "digest": filter.digest,
                "warnings": [_doubt(text, warning) for warning in warnings],
            }
        )
    else:
        print(print_filter(filter))
        note = (
            "can never be true"
            if matches is False
            else "accepts every event"
            if filter.is_always_true
            else ""
        )
        count = f"{_count(len(filter.conjunctions), 'conjunction')}, {_count(constraints, 'constraint')}"
        say(f"{note or 'fine'}: {count}, {_count(residuals, 'residual')}")
        warn_of(warning for warning in warnings if warning.code != "never")  # the verdict says that
    if matches is False or (strict and warnings):
        raise typer.Exit(Exit.NO)


def warn_of(warnings: Iterable[Doubt]) -> None:
    """Print doubts about a filter."""
    for warning in warnings:
        say(f"warning: {in_words(warning)}")


def in_words(warning: Doubt) -> str:
    """A doubt on one line, with its column in the filter's text."""
    where = "" if warning.offset is None else f" at column {warning.offset + 1}"
    return f"{warning.message}{where}; {warning.hint}"


def _doubt(text: str, warning: Doubt) -> dict[str, Any]:
    described: dict[str, Any] = {"code": warning.code, "message": warning.message, "hint": warning.hint}
    if warning.offset is not None:
        before = text[: warning.offset]
        described |= {"line": before.count("\n") + 1, "column": warning.offset - (before.rfind("\n") + 1) + 1}
    return described


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _described(error: FilterError) -> dict[str, Any]:
    described: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
    if isinstance(error, FilterSyntaxError):
        described |= {"line": error.line, "column": error.column, "expected": list(error.expected)}
        described["suggestion"] = error.suggestion
    return described


def evaluate(
    text: Annotated[
        str | None, typer.Argument(metavar="FILTER", help="One expression; without it, JSON lines are read.")
    ] = None,
    event: Annotated[
        str | None, typer.Option("--event", metavar="FILE", help="A JSON event for it; - is standard input.")
    ] = None,
    dialect: Meaning = Dialect.TIDINGS,
    as_json: Annotated[bool, typer.Option("--json", help="No effect: the output is always JSON.")] = False,
) -> None:
    """Evaluate expressions on events.

    Without FILTER, reads lines {"expression", "event", "dialect"} from standard input.
    Prints one line {"value", "errors"} for each line read; a parse error is value null (in
    dialect cesql false) and errors \\["parse"], an unknown function \\["missingFunction"]; over the
    work budget, errors \\["budget"] (cesql: generic). A line that is no such JSON gives errors
    \\["input"], and the run goes on
    and ends with 2.
    """
    del as_json
    if text is not None:
        given = {} if event is None else whole_object(event)
        print_json(_evaluated(text, given, dialect.value))
        return
    if event is not None:
        raise typer.BadParameter("--event goes with a FILTER; without one, JSON lines are read")
    broken = sum(not _evaluate_line(number, line, dialect.value) for number, line in lines(STDIN))
    if broken:
        raise typer.Exit(Exit.BAD_INPUT)


def _evaluate_line(number: int, line: str, dialect: str) -> bool:
    """Print the result of one line; False when the line itself is broken."""
    try:
        case = json_object(line, f"line {number + 1}")
        text, given, named = case.get("expression"), case.get("event") or {}, case.get("dialect") or dialect
        if not isinstance(text, str) or not isinstance(given, dict) or named not in [*Dialect]:
            say_error(
                f'line {number + 1}: wanted {{"expression": text, "event": object, "dialect": '
                f"tidings or cesql}}"
            )
            result, fine = {"value": None, "errors": ["input"]}, False
        else:
            result, fine = _evaluated(text, given, named, number), True
    except TidingsError as error:
        show_error(error)
        result, fine = {"value": None, "errors": ["input"]}, False
    sys.stdout.write(json_line(result))
    return fine


def _evaluated(text: str, given: dict[str, Any], dialect: str, number: int = 0) -> dict[str, Any]:
    from tidings.language import cesql, parse
    from tidings.language.evaluate import evaluate_as

    try:
        expression = parse(text, dialect=dialect)
    except FilterError as error:
        if dialect == Dialect.CESQL:
            return {"value": False, "errors": ["parse"]}
        return {"value": None, "errors": [error.code]}
    event = event_of(given, number)  # as `match`, `explain` and the bus see it
    if dialect == Dialect.CESQL:
        value, errors = cesql.evaluate(expression, cesql.event_attributes(event))
        return {"value": value, "errors": list(errors)}
    value, over = evaluate_as(_filter_of(text), expression, event)
    return {"value": value, "errors": ["budget"] if over else []}


def _filter_of(text: str) -> Filter | None:
    """The filter that a subscription makes of the text; None when its normal form is past the limits."""
    from tidings.language import parse_filter

    try:
        return parse_filter(text)
    except FilterLimitError:
        return None


def explain(
    text: Expression,
    event: Annotated[
        str, typer.Option("--event", metavar="FILE", help="The event, as JSON; - is standard input.")
    ],
    dialect: Meaning = Dialect.TIDINGS,
    as_json: Json = False,
) -> None:
    """Explain why a filter accepts an event or not, constraint by constraint.

    Ends with 1 when the event is not accepted; with --json the verdict is in the JSON alone.
    """
    from tidings.language import parse_filter
    from tidings.matching.explain import explain as explanation

    story = explanation(event_of(whole_object(event)), parse_filter(text, dialect=dialect.value))
    if as_json:
        print_json(msgspec.to_builtins(story))
        return
    console().print(str(story), markup=False, soft_wrap=True)
    if not story.accepted:
        raise typer.Exit(Exit.NO)


def covers(
    wide: Annotated[str | None, typer.Argument(metavar="F", help="The filter that may cover.")] = None,
    narrow: Annotated[str | None, typer.Argument(metavar="G", help="The filter that may be covered.")] = None,
    subscriptions: Annotated[
        str | None,
        typer.Option(
            "--subscriptions", "-s", metavar="FILE", help='In place of F and G: lines {"id", "filter"}.'
        ),
    ] = None,
    dialect: Meaning = Dialect.TIDINGS,
    as_json: Json = False,
) -> None:
    """Does F accept every event that G accepts?

    Prints yes, no or unknown, and ends with 1 unless it is yes.
    With --json prints {"covers": true | false | "unknown"}, and the verdict is in the JSON alone.

    With --subscriptions prints each subscription of the file that another one covers, and that one; all
    of them can be dropped together. Of equal filters the first stays. With --json prints
    {"kept": ids, "redundant": [{"id", "covered_by"}]}, covered_by null for a filter that can never match.
    """
    if subscriptions is not None:
        if wide is not None:
            raise typer.BadParameter("give two filters, or --subscriptions FILE")
        _covered_in(subscriptions, dialect.value, as_json=as_json)
        return
    if wide is None or narrow is None:
        raise typer.BadParameter("give two filters F and G, or --subscriptions FILE")
    from tidings.algebra import decide_covers
    from tidings.language import parse_filter

    answer = decide_covers(
        parse_filter(wide, dialect=dialect.value), parse_filter(narrow, dialect=dialect.value)
    )
    if as_json:
        print_json({"covers": "unknown" if answer is None else answer})
        return
    print({True: "yes", False: "no", None: "unknown"}[answer])
    if not answer:
        raise typer.Exit(Exit.NO)


def _covered_in(name: str, dialect: str, *, as_json: bool) -> None:
    """Print which subscriptions of a file others cover."""
    from tidings.algebra import redundant
    from tidings.cli.match import subscriptions_in

    found = [(id, filter) for _, id, filter in subscriptions_in(name, dialect)]
    dropped = redundant([filter for _, filter in found])
    pairs = [(found[n][0], None if cover is None else found[cover][0]) for n, cover in dropped.items()]
    if as_json:
        kept = [id for n, (id, _) in enumerate(found) if n not in dropped]
        print_json({"kept": kept, "redundant": [{"id": id, "covered_by": cover} for id, cover in pairs]})
        return
    for (id, cover), is_covered in zip(pairs, (cover is not None for cover in dropped.values()), strict=True):
        print(f"{id}: covered by {cover}" if is_covered else f"{id}: can never match")
    say(f"{_count(len(found) - len(dropped), 'filter')} of {len(found)} accept all that the file accepts")
