"""`tidings schema`: schemas of events by type and topic, in a file that brokers read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tidings.cli.output import Exit, json_line, say
from tidings.cli.usage import JSON_HELP, examples

DEFAULT_FILE = "schemas.json"

File = Annotated[str, typer.Option("--file", "-f", help="The file of schemas.")]
Json = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
Type = Annotated[str | None, typer.Option("--type", help="The type that the schema is for.")]
Topic = Annotated[str | None, typer.Option("--topic", help="The topic, or pattern, that the schema is for.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Show, attach and check the schemas of events.", no_args_is_help=True, rich_markup_mode="rich"
    )
    group.command("show", epilog=examples("tidings schema show", "tidings schema show --type Order"))(show)
    group.command("of", epilog=examples("tidings schema of shop.events:Order"))(of)
    group.command(
        "attach",
        epilog=examples(
            "tidings schema attach shop.events:Order", "tidings schema attach order.json --topic 'shop/#'"
        ),
    )(attach)
    group.command("detach", epilog=examples("tidings schema detach --type Order"))(detach)
    group.command("check", epilog=examples("tidings schema check --events orders.jsonl"))(check)
    app.add_typer(group, name="schema")


def show(file: File = DEFAULT_FILE, type: Type = None, topic: Topic = None, as_json: Json = False) -> None:
    """Print the schemas in force: all of them, or that of one type or topic."""
    from tidings.model.schemas import SchemaRegistry

    rows = [
        row
        for row in SchemaRegistry(file).rows()
        if (type is None and topic is None) or (row["for"], row["name"]) in (("type", type), ("topic", topic))
    ]
    for row in rows:
        if as_json:
            sys.stdout.write(json_line(row))
        else:
            print(f"{row['for']} {row['name']}, version {row['version']}")
            print(_pretty(row["schema"]))
    if not rows:
        say(f"{file} holds no such schema")
        raise typer.Exit(Exit.NO)


def of(
    source: Annotated[str, typer.Argument(help="MODULE:CLASS, or a file of JSON Schema.")],
    as_json: Json = False,
) -> None:
    """Print the JSON Schema of a class."""
    from tidings.model.schemas import schema_of

    read = _read(source)
    schema = read if isinstance(read, dict) else schema_of(read)
    sys.stdout.write(json_line(schema) if as_json else _pretty(schema) + "\n")


def attach(
    source: Annotated[str, typer.Argument(help="MODULE:CLASS, or a file of JSON Schema.")],
    file: File = DEFAULT_FILE,
    type: Type = None,
    topic: Topic = None,
    force: Annotated[
        bool, typer.Option("--force", help="Attach it although it breaks the last one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put a schema in force for a type (the class's own by default) or a topic.

    A breaking change is refused unless it is forced.
    """
    from tidings.model.schemas import SchemaRegistry

    attached = SchemaRegistry(file).attach(_read(source), type=type, topic=topic, force=force)
    if as_json:
        sys.stdout.write(json_line({"file": file, "version": attached.version}))
    say(f"version {attached.version} is in force in {file}")


def detach(file: File = DEFAULT_FILE, type: Type = None, topic: Topic = None, as_json: Json = False) -> None:
    """Take the schema of a type or topic out of force."""
    from tidings.model.schemas import SchemaRegistry

    is_detached = SchemaRegistry(file).detach(type=type, topic=topic)
    if as_json:
        sys.stdout.write(json_line({"file": file, "detached": is_detached}))
    if not is_detached:
        say(f"{file} holds no such schema")
        raise typer.Exit(Exit.NO)


def check(
    events: Annotated[str, typer.Option("--events", "-e", help="JSON lines; - is standard input.")],
    file: File = DEFAULT_FILE,
    as_json: Json = False,
) -> None:
    """Check events, one a line, by the schemas in force; each that does not fit is named."""
    from tidings.cli.events import lines, to_publish
    from tidings.errors import SchemaError
    from tidings.model.schemas import SchemaRegistry

    registry, wrong = SchemaRegistry(file), 0
    for number, text in lines(events):
        if text.strip():
            try:
                registry.check(to_publish(text, f"line {number + 1}")[1])
            except SchemaError as error:
                wrong += 1
                if as_json:
                    sys.stdout.write(json_line({"line": number + 1, "problem": error.message}))
                say(f"line {number + 1}: {error.message}")
    if wrong:
        raise typer.Exit(Exit.NO)


def _pretty(schema: Any) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()


def _read(source: str) -> Any:
    """A class by MODULE:CLASS, or a schema from a file."""
    import json
    from importlib import import_module

    from tidings.errors import InputError

    module, colon, name = source.partition(":")
    if not colon or Path(source).exists():
        try:
            read = json.loads(Path(source).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{source} is no JSON Schema: {error}", hint="or give MODULE:CLASS") from None
        if not isinstance(read, dict):
            raise InputError(f"{source} holds no JSON object")
        return read
    sys.path.insert(0, "")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{source} cannot be imported: {error}") from None
    finally:
        sys.path.remove("")
