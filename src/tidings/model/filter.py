"""The filter: a condition on events, in normal form.

Normal form is a disjunction of conjunctions; a conjunction holds constraints on single
attributes and, for what no index can hold, residual expressions that are tested only when
all its constraints hold. No conjunction: never true. An empty conjunction: always true.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b

import msgspec

from tidings.model.constraint import Constraint
from tidings.model.expression import Expression

TIDINGS = "tidings"
CESQL = "cesql"


class Conjunction(msgspec.Struct, frozen=True):
    """All constraints and all residuals must hold. Constraints are sorted by attribute."""

    constraints: tuple[Constraint, ...] = ()
    residuals: tuple[Expression, ...] = ()


class Filter(msgspec.Struct, frozen=True, dict=True):
    """A filter: text as written, dialect, and the normal form that matching uses."""

    text: str
    conjunctions: tuple[Conjunction, ...]
    dialect: str = TIDINGS  # gives residuals their meaning

    @property
    def is_never_true(self) -> bool:
        return not self.conjunctions

    @property
    def is_always_true(self) -> bool:
        return Conjunction() in self.conjunctions

    @cached_property
    def digest(self) -> str:
        """A hash of the meaning (normal form and dialect), stable across processes and versions."""
        form = msgspec.msgpack.encode((self.dialect, self.conjunctions))
        return blake2b(form, digest_size=16).hexdigest()

    @cached_property
    def signature(self) -> int:
        """A shorter hash of the same, of 60 bits: for headers, where bytes count."""
        return int(self.digest[:15], 16)

    def __str__(self) -> str:
        return self.text


EVERYTHING = Filter("TRUE", (Conjunction(),))
NOTHING = Filter("FALSE", ())
