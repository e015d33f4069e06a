"""Filters with patterns of many weights, and events whose texts lie at both sides of the work budget."""

from __future__ import annotations

import random

from tidings.language import parse_filter
from tidings.language.work import BUDGET, work_of
from tidings.model.event import Event, make_event
from tidings.model.filter import Filter

NAMES = ("a", "b", "n.s")


def like(weight: int, piece: str = "x") -> str:
    """A LIKE pattern of this weight that accepts texts of x."""
    return "%" + f"{piece}%" * ((weight - 1) // 2) + "%" * ((weight - 1) % 2)


def text_of(rng: random.Random) -> str:
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


def joined(rng: random.Random) -> str:
    """Conditions whose normal form has other weights than their text: parts are repeated in it,
    or dropped."""
    one, other = text_of(rng), text_of(rng)
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
    return [parse_filter(text_of(rng), dialect=dialect) for _ in range(count)]


def events(rng: random.Random, population: list[Filter], count: int) -> list[Event]:
    """Each is about as long as some filter of the population allows."""
    made = []
    for number in range(count):
        weights = [weight for _, weight in work_of(rng.choice(population))] or [1 << 12]
        edge = min(BUDGET // max(weights), 20_000)
        lengths = [edge - 1, edge, edge + 1, 2, 0]
        texts = {name: "x" * max(0, rng.choice(lengths)) for name in NAMES if rng.random() < 0.8}
        nested = {"n": {"s": texts.pop("n.s")}} if "n.s" in texts else {}
        made.append(make_event({**texts, **nested, "k": rng.randrange(3)}, source="s", id=str(number)))
    return made
