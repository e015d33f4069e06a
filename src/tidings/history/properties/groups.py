"""View agreement: the members of a group see one sequence of views (Mathur et al. 1995, 3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from tidings.history.facts import ViewFact
from tidings.history.properties.property import Property
from tidings.history.relations import Table, Violation
from tidings.history.story import seconds, violation
from tidings.history.tables import Tables


def going_back(of_one_process: Sequence[ViewFact]) -> Iterator[Violation]:
    """The order on views, rule 1 as corrected (E-U1): each view of a process is above its last."""
    in_time = sorted(of_one_process, key=attrgetter("time", "view", "members"))
    for old, new in pairwise(in_time):
        if new.view > old.view or (new.view, new.members) == (old.view, old.members):
            continue
        story = (
            f"At {seconds(new.time)} {new.process} installed view {new.view} after view {old.view} "
            f"(at {seconds(old.time)})."
        )
        yield violation(new, new.time, story, view=new.view, after=old.view)


def at_odds(of_one_number: Sequence[ViewFact]) -> Iterator[Violation]:
    """Views of one number are incomparable: they are the same, or they share no member (E-U1)."""
    in_time = sorted(of_one_number, key=attrgetter("time", "process", "members"))
    known: list[ViewFact] = []
    for each in in_time:
        other = next(
            (k for k in known if k.members != each.members and set(k.members) & set(each.members)), None
        )
        if other is not None:
            story = (
                f"At {seconds(each.time)} {each.process} installed view {each.view} as "
                f"{_set(each.members)}, but {other.process} had it as {_set(other.members)}."
            )
            yield violation(each, each.time, story, view=each.view, other=other.process)
        if all(k.members != each.members for k in known):
            known.append(each)


def _set(members: tuple[str, ...]) -> str:
    return "{" + ", ".join(members) + "}"


def _disagreements(tables: Tables) -> Sequence[Table]:
    group, installs = tables.engine.group, tables.installs
    return (
        group(going_back, (installs, ("run", "group", "process")), output=Violation),
        group(at_odds, (installs, ("run", "group", "view")), output=Violation),
    )


def _no_views(tables: Tables) -> str | None:
    return "the history has no view rows" if tables.engine.is_empty(tables.installs) else None


VIEW_AGREEMENT = Property(
    "view_agreement",
    "Every process installs rising views; views of one number are the same or share no member.",
    "Mathur et al. 1995, 3.1, with its order corrected",
    _disagreements,
    _no_views,
)
