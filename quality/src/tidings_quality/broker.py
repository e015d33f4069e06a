"""The Data Quality Broker: of the copies that organisations hold of an object, the best value of each
property.

Rules
- A copy declares the quality of its properties. The declared quality is weighed by the trust that its source
  has (see `rating.py`).
- The score of a value is the mean of its weighed dimensions. Where the query has requirements, a value
  must meet all of them that name its property; of those that do, the highest score wins. Equal scores:
  the value that more copies hold, then the source that comes first by name.
- A value that is missing is never chosen.
- The chosen value is proposed to each copy that holds another value, or none, with a lower score.
  An organisation adopts it or does not; one that adopts takes the value, not the number that
  declared it: its own factory measures it anew.
- Requirements that cannot be met are negotiated: the offer says for each the best that every object can have.
  The user weakens at least one, or gives up. It ends, because each round lowers a requirement to one that can
  be met, or ends by itself after a few rounds.

Virgillito (2003), section 5.2.2; the rules are our own, since the thesis leaves them open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tidings.errors import InputError
from tidings.language import print_expression
from tidings.model.expression import Attribute, Compare, Expression, Literal
from tidings_quality.levels import without_levels
from tidings_quality.model import Level, dimension_of, quality_value
from tidings_quality.subscription import conjuncts

MOST_ROUNDS = 8  # of a negotiation
_REQUIREMENT = re.compile(r"\s*([A-Za-z_]\w*)\.([A-Za-z]+)\s*>=\s*([\w.]+)\s*")


class Requirement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dimension of a property is to be at least so good."""

    property: str
    dimension: str
    least: float

    def __str__(self) -> str:
        return f"{self.property}.{self.dimension} >= {self.least:g}"


class ObjectCopy(msgspec.Struct, frozen=True):
    """Copy of an object at one organisation, under the global names."""

    source: str
    key: str
    values: dict[str, str | None]
    quality: dict[str, float]  # "Property.dimension"


class ChosenValue(msgspec.Struct, frozen=True):
    """The chosen value of a property, and its source."""

    property: str
    value: str
    source: str
    key: str
    score: float


class Shortfall(msgspec.Struct, frozen=True):
    """A requirement that an object cannot meet, and the best that it can have."""

    requirement: Requirement
    best: float


class ObjectAnswer(msgspec.Struct, frozen=True):
    """One object: its chosen values, and what they fall short of."""

    choices: dict[str, ChosenValue]
    short: tuple[Shortfall, ...] = ()

    @property
    def met(self) -> bool:
        return not self.short


class ValueProposal(msgspec.Struct, frozen=True):
    """A better value for a copy."""

    to: str
    key: str
    property: str
    value: str
    source: str  # the organisation that holds the value
    current: str | None
    score: float
    current_score: float


class PartialOffer(msgspec.Struct, frozen=True):
    """Offer to a user when the requirements cannot be met."""

    round: int
    unmet: tuple[Shortfall, ...]  # each requirement with the best that every object can have
    objects: int
    met: int  # objects that meet everything as it stands

    def weakest(self, requirements: Sequence[Requirement]) -> tuple[Requirement, ...]:
        """The requirements as far as they can be met by every object."""
        lowered = {short.requirement: short.best for short in self.unmet}
        return tuple(
            msgspec.structs.replace(each, least=min(each.least, lowered.get(each, each.least)))
            for each in requirements
        )


class Deal(msgspec.Struct, frozen=True):
    """Result of a negotiation."""

    answers: tuple[ObjectAnswer, ...]
    requirements: tuple[Requirement, ...]  # as they stand in the end
    rounds: int
    agreed: bool  # False: the user gave up, and some objects fall short


Trust = Mapping[str, float]
Haggle = Callable[[PartialOffer, tuple[Requirement, ...]], "tuple[Requirement, ...] | None"]


def parse_requirements(texts: Iterable[str]) -> tuple[Requirement, ...]:
    """From `Name.accuracy >= high`; a level stands for the least value of its band."""
    found = []
    for text in texts:
        parts = _REQUIREMENT.fullmatch(text)
        if parts is None:
            raise InputError(
                f"{text!r} is no requirement", hint="as in 'Name.accuracy >= high' or '... >= 0.9'"
            )
        property, dimension, least = parts.groups()
        found.append(Requirement(property, dimension_of(dimension), least_of(least)))
    return tuple(found)


def required(quality: Expression | None, properties: Iterable[str]) -> tuple[Requirement, ...]:
    """From the condition on quality of `ON class WHERE ...`: what each quality is to be at least."""
    names = {name.lower(): name for name in properties}
    found = []
    for part in conjuncts(without_levels(quality)):
        if not (
            isinstance(part, Compare)
            and part.op == ">="
            and isinstance(part.left, Attribute)
            and isinstance(part.right, Literal)
        ):
            raise InputError(
                f"{print_expression(part)} is no requirement",
                hint="say the least that will do: name.accuracy >= high",
            )
        property, _, dimension = part.left.name.rpartition(".")
        if property not in names:
            raise InputError(
                f"no property is called {property!r}", hint=f"there are {', '.join(names.values())}"
            )
        found.append(Requirement(names[property], dimension_of(dimension), quality_value(part.right.value)))
    return tuple(found)


def least_of(text: str) -> float:
    if text.lower() in list(Level):
        return Level(text.lower()).floor
    try:
        return quality_value(float(text))
    except ValueError:
        raise InputError(f"{text!r} is no level of quality", hint="low, medium, high, or 0 to 1") from None


def weighed(copy: ObjectCopy, property: str, trust: Trust) -> dict[str, float]:
    """The dimensions of a property as far as they are believed. A source without a rating is believed."""
    share = trust.get(copy.source, 1.0)
    prefix = f"{property}."
    return {
        name.removeprefix(prefix): value * share
        for name, value in copy.quality.items()
        if name.startswith(prefix)
    }


def score(copy: ObjectCopy, property: str, trust: Trust) -> float:
    """Believed quality of a copy's value; 0 when it has none."""
    found = weighed(copy, property, trust)
    return sum(found.values()) / len(found) if found and copy.values.get(property) is not None else 0.0


def choose(
    copies: Sequence[ObjectCopy], requirements: Sequence[Requirement] = (), trust: Trust | None = None
) -> ObjectAnswer:
    """The best value of each property, and what the best falls short of."""
    trust = trust or {}
    properties = list(dict.fromkeys(name for copy in copies for name in copy.values))
    choices: dict[str, ChosenValue] = {}
    short: list[Shortfall] = []
    for property in properties:
        wanted = [each for each in requirements if each.property == property]
        holding = [copy for copy in copies if copy.values.get(property) is not None]
        fit = [copy for copy in holding if _fits(copy, wanted, trust)]
        short += [] if fit else _shortfall(holding, wanted, trust)
        if fit or holding:
            choices[property] = _best(fit or holding, property, trust)
    unknown = [each for each in requirements if each.property not in properties]
    return ObjectAnswer(choices, (*short, *(Shortfall(each, 0.0) for each in unknown)))


def _fits(copy: ObjectCopy, wanted: Sequence[Requirement], trust: Trust) -> bool:
    return all(weighed(copy, each.property, trust).get(each.dimension, 0.0) >= each.least for each in wanted)


def _shortfall(holding: Sequence[ObjectCopy], wanted: Sequence[Requirement], trust: Trust) -> list[Shortfall]:
    """Requirements to lower so that one copy fits: those of the copy that falls short the least."""
    nothing = dict.fromkeys(wanted, 0.0)
    reached = [
        {each: weighed(copy, each.property, trust).get(each.dimension, 0.0) for each in wanted}
        for copy in holding
    ] or [nothing]
    nearest = max(reached, key=lambda found: sum(min(found[each] - each.least, 0.0) for each in wanted))
    return [Shortfall(each, nearest[each]) for each in wanted if nearest[each] < each.least]


def _best(copies: Sequence[ObjectCopy], property: str, trust: Trust) -> ChosenValue:
    stored = Counter(copy.values[property] for copy in copies)
    best = min(
        copies,
        key=lambda copy: (
            -score(copy, property, trust),
            -stored[copy.values[property]],
            copy.source,
            copy.key,
        ),
    )
    value = best.values[property]
    assert value is not None
    return ChosenValue(property, value, best.source, best.key, score(best, property, trust))


def proposals(
    copies: Sequence[ObjectCopy], answer: ObjectAnswer, trust: Trust | None = None
) -> list[ValueProposal]:
    """Proposals that improve each copy."""
    trust = trust or {}
    found = []
    for copy in copies:
        for property, choice in answer.choices.items():
            stored, own = copy.values.get(property), score(copy, property, trust)
            if property in copy.values and stored != choice.value and own < choice.score:
                found.append(
                    ValueProposal(
                        copy.source,
                        copy.key,
                        property,
                        choice.value,
                        choice.source,
                        stored,
                        choice.score,
                        own,
                    )
                )
    return found


def negotiate(
    objects: Sequence[Sequence[ObjectCopy]],
    requirements: tuple[Requirement, ...],
    haggle: Haggle,
    trust: Trust | None = None,
) -> Deal:
    """Answer for all objects, talking with the user as long as requirements cannot be met."""
    requirements = strongest(requirements)
    for number in range(MOST_ROUNDS + 1):
        answers = tuple(choose(copies, requirements, trust) for copies in objects)
        if all(answer.met for answer in answers) or number == MOST_ROUNDS:
            break
        weaker = haggle(_offer(number + 1, answers), requirements)
        if weaker is None:
            break
        _check_weaker(requirements, weaker)
        requirements = weaker
    return Deal(answers, requirements, number, all(answer.met for answer in answers))


def strongest(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """One requirement for each quality: of several the one that asks for most."""
    found: dict[tuple[str, str], Requirement] = {}
    for each in requirements:
        known = found.get((each.property, each.dimension))
        if known is None or known.least < each.least:
            found[each.property, each.dimension] = each
    return tuple(found.values())


def _offer(number: int, answers: Sequence[ObjectAnswer]) -> PartialOffer:
    lowest: dict[Requirement, float] = {}
    for answer in answers:
        for short in answer.short:
            lowest[short.requirement] = min(lowest.get(short.requirement, 1.0), short.best)
    unmet = tuple(Shortfall(each, best) for each, best in lowest.items())
    return PartialOffer(number, unmet, len(answers), sum(answer.met for answer in answers))


def _check_weaker(before: Sequence[Requirement], after: Sequence[Requirement]) -> None:
    least = {(each.property, each.dimension): each.least for each in after}
    if any(least.get((each.property, each.dimension), 0.0) > each.least for each in before) or len(
        after
    ) > len(before):
        raise InputError("a requirement became stronger in a negotiation", hint="weaken one, or give up")
    if tuple(before) == tuple(after):
        raise InputError("no requirement became weaker", hint="weaken one, or give up")


def give_up(offer: PartialOffer, requirements: tuple[Requirement, ...]) -> None:
    """The user who insists."""
    del offer, requirements


def take_the_offer(offer: PartialOffer, requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
    """The user who takes what can be had."""
    return offer.weakest(requirements)


def as_json(answer: ObjectAnswer) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(answer)
    return {**found, "met": answer.met}
