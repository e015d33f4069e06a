"""The attributes of the workloads, and random constraints and values over them.

Everything is drawn in blocks of `BLOCK` rows, each block from its own seed, so that the
first 10,000 subscriptions of a workload are also the first of its 100,000 and of its 1,000,000.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tidings.model.constraint import Constraint, Equals, Exists, OneOf, Prefix, Range

SEED = 20261115
BLOCK = 10_000
Numbers: TypeAlias = NDArray[np.float64]
Indexes: TypeAlias = NDArray[np.int64]


class Words(NamedTuple):
    """A string attribute: `size` words, drawn with Zipf's law."""

    name: str
    size: int


class Integers(NamedTuple):
    name: str
    low: int
    high: int


class Decimals(NamedTuple):
    name: str
    low: float
    high: float
    places: int


Spec: TypeAlias = Words | Integers | Decimals

MARKET: tuple[Spec, ...] = (  # most used first: attributes are drawn with Zipf's law too
    Words("symbol", 2000), Decimals("price", 0, 1000, 2), Integers("volume", 0, 1_000_000),
    Words("sector", 100), Decimals("change", -50, 50, 2), Words("exchange", 30),
    Integers("qty", 0, 10_000), Words("issuer", 1000), Integers("rating", 0, 10),
    Decimals("yield", 0, 20, 2), Integers("level", 0, 100), Words("tag", 200),
    Decimals("bid", 0, 1000, 2), Decimals("ask", 0, 1000, 2), Integers("count", 0, 1000),
    Words("currency", 20), Integers("tod", 0, 86_400), Decimals("spread", 0, 5, 2),
    Integers("age", 0, 120), Decimals("score", 0, 1, 4),
)  # fmt: skip


def generator(*parts: int | str) -> np.random.Generator:
    """A generator that depends on its name alone."""
    return np.random.default_rng([SEED, *(crc32(p.encode()) if isinstance(p, str) else p for p in parts)])


@lru_cache(maxsize=256)
def zipf(size: int, exponent: float) -> Numbers:
    weights = 1.0 / np.arange(1, size + 1) ** exponent
    return np.asarray(weights / weights.sum())


@lru_cache(maxsize=64)
def words_of(name: str, size: int) -> tuple[str, ...]:
    """The words of an attribute, most frequent first (in no alphabetical order)."""
    rng = generator("words", name)
    heads, tails = "bcdfghklmnprstvz", "aeiou"
    found: dict[str, None] = {}
    while len(found) < size:
        syllables = 2 if size <= 100 else 3
        picks = rng.integers(0, 80, syllables).tolist()
        digit = str(rng.integers(0, 10)) if size > 400 else ""
        found["".join(heads[p // 5] + tails[p % 5] for p in picks) + digit] = None
    return tuple(found)


def drawn_words(rng: np.random.Generator, spec: Words, count: int) -> list[str]:
    words = words_of(spec.name, spec.size)
    return [words[i] for i in rng.choice(spec.size, count, p=zipf(spec.size, 0.8)).tolist()]


def drawn_values(rng: np.random.Generator, spec: Spec, count: int) -> list[Any]:
    """Values of an attribute as events carry them."""
    if isinstance(spec, Words):
        return drawn_words(rng, spec, count)
    if isinstance(spec, Integers):
        return list(rng.integers(spec.low, spec.high + 1, count).tolist())
    return list(np.round(rng.uniform(spec.low, spec.high, count), spec.places).tolist())


def drawn_attributes(rng: np.random.Generator, rows: int, most: int, weights: Numbers) -> Indexes:
    """`most` different attributes for each row, by weight (Gumbel's trick)."""
    keys = np.log(weights)[None, :] + rng.gumbel(size=(rows, len(weights)))
    return np.asarray(np.argsort(-keys, axis=1)[:, :most])


def drawn_constraints(
    rng: np.random.Generator, specs: tuple[Spec, ...], attributes: Indexes, *, ranges: bool = True
) -> list[Constraint]:
    """One random constraint for each given attribute index."""
    result: list[Any] = [None] * len(attributes)
    choices = rng.random(len(attributes))
    for index, spec in enumerate(specs):
        where = np.nonzero(attributes == index)[0]
        made = (
            _on_words(rng, spec, choices[where])
            if isinstance(spec, Words)
            else _on_numbers(rng, spec, choices[where], ranges=ranges)
        )
        for position, constraint in zip(where.tolist(), made, strict=True):
            result[position] = constraint
    return result


def _on_words(rng: np.random.Generator, spec: Words, choices: Numbers) -> list[Constraint]:
    count = len(choices)
    words = drawn_words(rng, spec, count)
    lengths = rng.integers(2, 5 if spec.size > 100 else 3, count).tolist()
    sizes = rng.integers(2, 7, count)
    more = drawn_words(rng, spec, int(sizes.sum()))
    ends = np.cumsum(sizes).tolist()
    made: list[Constraint] = []
    for u, word, length, end, size in zip(
        choices.tolist(), words, lengths, ends, sizes.tolist(), strict=True
    ):
        if u < 0.45:
            made.append(Equals(spec.name, word))
        elif u < 0.72:
            made.append(one_of(spec.name, more[end - size : end]))
        elif u < 0.92:
            made.append(Prefix(spec.name, word[:length]))
        else:
            made.append(Exists(spec.name))
    return made


def one_of(name: str, values: list[Any]) -> Constraint:
    """A set in normal form: sorted, no value twice, a single one is an equality."""
    distinct = sorted(set(values))
    return Equals(name, distinct[0]) if len(distinct) == 1 else OneOf(name, tuple(distinct))


# thresholds of the random choice: =, IN, <, <=, >, >=, BETWEEN, and EXISTS for the rest
_SMALL = (0.35, 0.50, 0.58, 0.66, 0.74, 0.82, 0.95)
_WIDE = (0.0, 0.0, 0.12, 0.24, 0.36, 0.48, 0.95)
_DISCRETE = (0.55, 0.92, 0.92, 0.92, 0.92, 0.92, 0.92)


def _on_numbers(
    rng: np.random.Generator, spec: Integers | Decimals, choices: Numbers, *, ranges: bool
) -> list[Constraint]:
    count, low, width = len(choices), spec.low, spec.high - spec.low
    small = isinstance(spec, Integers) and spec.high <= 120
    steps = _DISCRETE if not ranges else _SMALL if small else _WIDE
    one_sided = rng.uniform(0.02, 0.45, count)
    centre, half = rng.random(count), rng.uniform(0.0, 0.06, count)
    places = 0 if isinstance(spec, Integers) else spec.places
    bounds = np.round(
        np.stack(
            (
                low + one_sided * width,
                low + width - one_sided * width,
                low + np.clip(centre - half, 0, 1) * width,
                low + np.clip(centre + half, 0, 1) * width,
            )
        ),
        places,
    )
    lists = (bounds.astype(np.int64) if isinstance(spec, Integers) else bounds).tolist()
    equal = drawn_values(rng, spec, count)
    sizes = rng.integers(2, 7, count)
    more = drawn_values(rng, spec, int(sizes.sum()))
    ends = np.cumsum(sizes).tolist()
    kinds = np.searchsorted(np.asarray(steps), choices, side="right").tolist()
    name = spec.name
    made: list[Constraint] = []
    for kind, below, above, left, right, value, end, size in zip(
        kinds, *lists, equal, ends, sizes.tolist(), strict=True
    ):
        if kind == 0:
            made.append(Equals(name, value))
        elif kind == 1:
            made.append(one_of(name, more[end - size : end]))
        elif kind in (2, 3):
            made.append(Range(name, None, below, False, kind == 2))
        elif kind in (4, 5):
            made.append(Range(name, above, None, kind == 4, False))
        elif kind == 6:
            made.append(Equals(name, left) if left == right else Range(name, left, right))
        else:
            made.append(Exists(name))
    return made
