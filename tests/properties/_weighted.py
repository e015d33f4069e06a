"""Filters with patterns of many weights, and events whose texts and lists lie at both sides of the work
budget."""

from __future__ import annotations

import random
from typing import Any

from tidings.language import parse_filter
from tidings.language.work import BUDGET, work_of
from tidings.model.event import Event, make_event
from tidings.model.filter import Filter

NAMES = ("a", "b", "n.s")


def like(weight: int, piece: str = "x") -> str:
    """A LIKE pattern of this weight that accepts texts of x."""
    return "%" + f"{piece}%" * ((weight - 1) // 2) + "%" * ((weight - 1) % 2)


def ranging_of(rng: random.Random) -> str:
    """A condition on elements: of texts, of objects, in lists; with texts inside and outside of them."""
    weight, number = rng.choice([3, 16, 64, 301]), rng.randrange(3)
    return rng.choice(
        [
            "'xx' IN l",
            f"{number} IN l AND 'xx' IN l AND NOT ('y' IN l)",
            f"ANY(l LIKE '{like(weight)}')",
            f"ALL(l NOT LIKE '{like(weight, 'y')}') AND k = {number}",
            f"ANY(o.p > {number})",
            f"ANY(o.p = {number} AND o.s LIKE '{like(weight)}')",
            f"ANY(o.p >= {number} AND a LIKE '{like(weight)}')",
            f"ANY(o.p = {number} AND ANY(o.t LIKE '{like(weight)}'))",
            f"ANY(l = 'xx' AND ANY(o.p = {number}))",
            f"ANY(LENGTH(CONCAT(l, a)) > {number})",
            "LENGTH(l) > 2",
        ]
    )


def text_of(rng: random.Random, dialect: str = "tidings") -> str:
    if dialect == "tidings" and rng.random() < 0.4:
        ranging, number = ranging_of(rng), rng.randrange(3)
        other = rng.choice([f"k = {number}", f"a LIKE '{like(64)}'", "b = 'xx'", ranging_of(rng)])
        word = rng.choice(["OR", "AND"])
        return rng.choice([ranging, f"{ranging} {word} {other}", f"{other} {word} {ranging}"])
    name, other = rng.choice(NAMES), rng.choice(NAMES)
    weight = rng.choice([3, 64, 1001, 4000])
    repeated = rng.choice([1, 5, 30])
    return rng.choice(
        [
            f"{name} LIKE '{like(weight)}'",
            f"{name} NOT LIKE '{like(weight, 'y')}'",
            f"{name} REGEXP '(x.*){{{repeated}}}'",
            f"{name} NOT REGEXP 'x.{{0,{repeated}}}y'",
            f"{name} LIKE '{like(weight)}' OR k = {rng.randrange(3)}",
            f"{name} LIKE '{like(weight)}' AND {other} LIKE '{like(64)}' AND k < 2",
            f"LOWER({name}) LIKE '{like(weight)}'",
            f"LENGTH(CONCAT({name}, {other}, {name})) > 10",
            f"LOWER({name}) = 'xx'",
            f"{name} = 'xx'",
            f"{name} LIKE 'x%'",
            f"{name} > 'x' AND k = 1",
            f"({name} LIKE '{like(1001)}' OR {other} REGEXP 'x{{300}}') AND (k = 0 OR k = 2 OR "
            f"{other} = 'xx')",
        ]
    )


def joined(rng: random.Random, dialect: str = "tidings") -> str:
    """Conditions whose normal form has other weights than their text: parts are repeated in it,
    or dropped."""
    one, other = text_of(rng, dialect), text_of(rng, dialect)
    return rng.choice(
        [
            f"NOT (k = {rng.randrange(3)} XOR {one})",
            f"({one}) XOR k = 1",
            f"({one}) OR ({one})",
            f"({one}) AND ({one}) AND NOT ({other})",
            f"k = {rng.randrange(3)} OR (({one}) AND FALSE)",
            f"({one}) AND k = 1 AND k = 2 OR ({other})",
            f"(k = 0 OR ({one})) AND (k = 1 OR ({other}))",
            f"NOT ({one})",
        ]
    )


def filters(rng: random.Random, count: int, dialect: str = "tidings") -> list[Filter]:
    return [parse_filter(text_of(rng, dialect), dialect=dialect) for _ in range(count)]


def lists(rng: random.Random, most: int) -> dict[str, Any]:
    """Lists with about as many elements and characters as some filter allows."""
    count = max(0, rng.choice([0, 1, 3, 30, 300, 2000, most - 1, most, most + 1]))
    texts = rng.choice(["x", "xx", "y", "x" * 40])
    number = rng.choice([1, 3, 40, 500])
    objects = [{"p": at % 4, "s": texts, "t": [texts] * rng.choice([1, 2])} for at in range(number)]
    found: dict[str, Any] = {"l": [texts] * count, "o": objects}
    return {name: value for name, value in found.items() if rng.random() < 0.6}


def events(rng: random.Random, population: list[Filter], count: int) -> list[Event]:
    """Each is about as long as some filter of the population allows."""
    made = []
    for number in range(count):
        weights = [entry[1] for entry in work_of(rng.choice(population))] or [1 << 12]
        edge = min(BUDGET // max(weights), 20_000)
        lengths = [edge - 1, edge, edge + 1, 2, 0]
        texts = {name: "x" * max(0, rng.choice(lengths)) for name in NAMES if rng.random() < 0.8}
        body: dict[str, Any] = {"n": {"s": texts.pop("n.s")}} if "n.s" in texts else {}
        body |= lists(rng, min(BUDGET // max(weights), 5_000)) if rng.random() < 0.5 else {}
        made.append(make_event({**texts, **body, "k": rng.randrange(3)}, source="s", id=str(number)))
    return made
