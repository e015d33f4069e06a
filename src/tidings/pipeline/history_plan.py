"""Plan of the passes over a history for a check: tables as a graph, cut where records must move.

Records meet in *buckets*: all records with equal values in the columns of a *home* are in one
bucket. A table has a home when its groups can be made there; facts, and what is made of them
record by record, float: they can be read into any home. A table that another home asks for
travels there, which is a shuffle. So a check of everything is three passes: operations by
process, everything about an event by event, and each publisher's notifications by receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tidings.history.facts import Notice, Operation, PublishAttempt
from tidings.history.relations import Columns

Home = Columns
TAGS: Final = 1 << 12  # tables of one check at most; tags of what travels to a stage begin above
NOWHERE: Final[Home] = ()  # a table that was stored, or floats: any part of it is a bucket


@dataclass(eq=False)
class PlanNode:
    """A table that can be made; `make` and `prepare` are the property's own functions."""

    id: int
    output: type[Any]
    how: str  # facts, each, group, probe
    make: Callable[..., Any] | None = None
    inputs: tuple[tuple[PlanNode, Columns], ...] = ()
    apart: bool = False
    prepare: Callable[[Iterable[Any]], Any] | None = None
    stored: bool = False  # made by an earlier pass

    @property
    def broadcast(self) -> tuple[PlanNode, ...]:
        """The inputs that are everywhere: of a probe its table, of a group apart its rights."""
        rights = tuple(node for node, _ in self.inputs[1:])
        if self.how == "probe":
            return rights
        return rights if self.how == "group" and self.apart and all(map(is_small, rights)) else ()

    @property
    def moving(self) -> tuple[PlanNode, ...]:
        """The inputs with records that must be in the same bucket as this node's."""
        stored = set(self.broadcast)
        return tuple(node for node, _ in self.inputs if node not in stored)


def is_small(node: PlanNode) -> bool:
    """Made of subscribers' operations alone: few beside the notifications, so kept everywhere."""
    if node.how == "facts":
        return node.output is Operation
    return all(is_small(each) for each, _ in node.inputs)


def is_of_streams(node: PlanNode) -> bool:
    """Made of notifications or publications: what a sieve can set aside."""
    if node.how == "facts":
        return node.output in (Notice, PublishAttempt)
    return any(is_of_streams(each) for each, _ in node.inputs)


class PlanPlaces:
    """Stage that makes each table."""

    def __init__(self, homes: Iterable[Home]) -> None:
        self._homes = tuple(homes)

    def home(self, node: PlanNode) -> Home:
        if node.stored or node.how == "facts":
            return NOWHERE
        if node.how == "group" and not node.broadcast:
            return self.home_of(node.inputs[0][1])
        return self.home(node.inputs[0][0])

    def home_of(self, key: Columns) -> Home:
        """The first of our homes that keeps the records of such a key together, or one of its own."""
        return next((home for home in self._homes if set(home) <= set(key)), key)

    def level(self, node: PlanNode) -> int:
        """Number of moves behind it."""
        if node.stored:
            return 0
        home = self.home(node)
        return max(
            (self.level(each) + (self.home(each) not in (home, NOWHERE)) for each in node.moving), default=0
        )


@dataclass(eq=False)
class PlanStage:
    """One pass: records come into the buckets of a home, tables are made, some leave."""

    home: Home
    level: int
    number: int
    answers: list[PlanNode] = field(default_factory=list)  # violations: only their number and the first leave
    leaving: list[tuple[int, PlanNode, Home]] = field(default_factory=list)  # tag, what, to which home
    kept: list[PlanNode] = field(default_factory=list)  # stored for a later question
    largest: list[tuple[PlanNode, Callable[[Any], float | None]]] = field(default_factory=list)
    arriving: dict[int, tuple[PlanNode, PlanStage]] = field(
        default_factory=dict
    )  # tag -> what, and from where

    def wanted(self) -> list[PlanNode]:
        roots = [*self.answers, *self.kept, *(node for _, node, _ in self.leaving)]
        return roots + [node for node, _ in self.largest]

    def made_here(self) -> Iterator[PlanNode]:
        """Every table that this stage makes or reads, held ones left out."""
        seen: set[PlanNode] = set()
        came = self.came()
        open_nodes = self.wanted()
        while open_nodes:
            node = open_nodes.pop()
            if node not in seen:
                seen.add(node)
                yield node
                if node not in came and not node.stored:
                    open_nodes.extend(node.moving)

    def came(self) -> set[PlanNode]:
        return {node for node, _ in self.arriving.values()}

    def origins(self) -> list[PlanStage]:
        return sorted({origin for _, origin in self.arriving.values()}, key=lambda stage: stage.number)

    def facts(self) -> list[type[Any]]:
        here = [node for node in self.made_here() if node.how == "facts" and not node.stored]
        return sorted({node.output for node in here}, key=lambda kind: kind.__name__)

    def broadcast(self) -> list[PlanNode]:
        made = [node for node in self.made_here() if node not in self.came() and not node.stored]
        found = {each for node in made for each in node.broadcast}
        return sorted(found, key=lambda node: node.id)


@dataclass
class PlanRequest:
    """Questions for one run over the history."""

    answers: list[PlanNode] = field(default_factory=list)
    kept: list[PlanNode] = field(default_factory=list)
    largest: list[tuple[PlanNode, Callable[[Any], float | None]]] = field(default_factory=list)

    def roots(self) -> list[PlanNode]:
        return [*self.answers, *self.kept, *(node for node, _ in self.largest)]

    def without(self, these: Callable[[PlanNode], bool]) -> PlanRequest:
        return PlanRequest(
            [node for node in self.answers if not these(node)],
            [node for node in self.kept if not these(node)],
            [(node, value) for node, value in self.largest if not these(node)],
        )


def stages_for(wanted: PlanRequest, placement: PlanPlaces) -> list[PlanStage]:
    """The passes, earlier ones first. Answers are found in the last pass of their home."""
    stages: dict[tuple[Home, int], PlanStage] = {}
    roots = wanted.roots()
    for node in roots:
        _stage_of(node, placement, stages)
    last = {home: max(level for h, level in stages if h == home) for home, _ in stages}
    for node in roots:
        stage = stages[placement.home(node), last[placement.home(node)]]
        _need(node, stage, placement, stages)
    for node in wanted.answers:
        stages[placement.home(node), last[placement.home(node)]].answers.append(node)
    for node in wanted.kept:
        stages[placement.home(node), last[placement.home(node)]].kept.append(node)
    for node, value in wanted.largest:
        stages[placement.home(node), last[placement.home(node)]].largest.append((node, value))
    used = [stage for stage in stages.values() if stage.wanted()]
    return sorted(used, key=lambda stage: stage.level)


def _stage_of(node: PlanNode, placement: PlanPlaces, stages: dict[tuple[Home, int], PlanStage]) -> PlanStage:
    at = placement.home(node), placement.level(node)
    return stages.setdefault(at, PlanStage(*at, number=len(stages)))


def _need(
    node: PlanNode, stage: PlanStage, placement: PlanPlaces, stages: dict[tuple[Home, int], PlanStage]
) -> None:
    """See to it that all that the node is made of is in this stage, or arrives there."""
    for each in node.moving if not node.stored else ():
        home = placement.home(each)
        if home in (stage.home, NOWHERE):
            _need(each, stage, placement, stages)
        elif each not in stage.came():
            origin = _stage_of(each, placement, stages)
            tag = each.id + TAGS * (stage.number + 1)
            stage.arriving[tag] = (each, origin)
            origin.leaving.append((tag, each, stage.home))
            _need(each, origin, placement, stages)
