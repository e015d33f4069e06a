"""Inclusion of topics: the path of each topic, and further supertopics that were given.

`a/b` is included in `a`, and `a` in the root. A topic may have several direct supertopics (Baehni et al.
2004, section 7): those given beside its path. Scopes of a membership: a topic's own name is its group;
`over(t, s)` are those above `t` on the way of its supertopic `s`; `into(t)` are those that a stranger hands
an event of `t`.

Algorithms that gossip in other groups have other graphs: one group for all peers, one for the publishers of
each topic, all supertopics at once, or clusters that know no topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidings.errors import SettingsError
from tidings.model.constraint import Constraint, Equals, OneOf, TopicIs
from tidings.model.filter import Filter
from tidings.model.topic import ROOT, check_topic, supertopics


class TopicGraph:
    def __init__(self, also: Mapping[str, Iterable[str]] | None = None) -> None:
        self._also = {topic: tuple(given) for topic, given in (also or {}).items()}
        self._above: dict[str, tuple[str, ...]] = {}
        for topic, given in self._also.items():
            for each in (topic, *given):
                check_topic(each)
            if topic in self.above(topic)[1:]:
                raise SettingsError(
                    f"topic {topic!r} would be its own supertopic", hint="leave out one of them"
                )

    def supers(self, topic: str) -> tuple[str, ...]:
        """The direct supertopics, that of the path first."""
        return tuple(dict.fromkeys((*supertopics(topic)[:1], *self._also.get(topic, ()))))

    def above(self, topic: str) -> tuple[str, ...]:
        """The topic itself and all that include it, nearest first."""
        found = self._above.get(topic)
        if found is None:
            line = [topic]
            for each in line:
                line += [up for up in self.supers(each) if up not in line]
            found = tuple(line)
            if len(self._above) < 10_000:
                self._above[topic] = found
        return found

    def includes(self, wide: str, narrow: str) -> bool:
        return wide in self.above(narrow)

    def joins(self, topic: str) -> tuple[str, ...]:
        """The groups to join for everything of this topic and below."""
        return (topic,)

    def events_of(self, group: str) -> str:
        """Events that members of a group receive, as a filter."""
        return "TRUE" if group == ROOT else f"topic MATCHES '{group}/#'"


class OneGroup(TopicGraph):
    """Every peer is of the root's group, and every topic is the root's."""

    def supers(self, topic: str) -> tuple[str, ...]:
        return ()

    def above(self, topic: str) -> tuple[str, ...]:
        return (ROOT,)


class PublisherGroups(OneGroup):
    """A group for the publishers of each topic (Baehni et al. 2004, Figure 1, first pattern). A subscriber of
    a topic is in the groups of all below it, so the topics have to be known; an event of another counts as of
    the nearest above."""

    def __init__(self, topics: Iterable[str], also: Mapping[str, Iterable[str]] | None = None) -> None:
        super().__init__()
        self._plain = TopicGraph(also)
        self._topics = tuple(dict.fromkeys((ROOT, *topics)))

    def above(self, topic: str) -> tuple[str, ...]:
        return (next(each for each in self._plain.above(topic) if each in self._topics),)

    def joins(self, topic: str) -> tuple[str, ...]:
        below = [each for each in self._topics if self._plain.includes(topic, each)]
        return tuple(dict.fromkeys((*self.above(topic), *below)))


class AllAbove(TopicGraph):
    """Every topic above is a direct supertopic (Figure 1, second pattern)."""

    def __init__(self, also: Mapping[str, Iterable[str]] | None = None) -> None:
        self._plain = TopicGraph(also)
        super().__init__()

    def supers(self, topic: str) -> tuple[str, ...]:
        return self._plain.above(topic)[1:]

    def above(self, topic: str) -> tuple[str, ...]:
        return self._plain.above(topic)


class ClusterGroup(OneGroup):
    """Every peer is of one cluster, independent of its interest, and every event is gossiped in it."""

    def __init__(self, own: str) -> None:
        super().__init__()
        self._own = own

    def above(self, topic: str) -> tuple[str, ...]:
        return (self._own,)

    def joins(self, topic: str) -> tuple[str, ...]:
        return (self._own,)

    def events_of(self, group: str) -> str:
        return "TRUE"


def over(topic: str, supertopic: str) -> str:
    return f"{topic}^{supertopic}"


def into(topic: str) -> str:
    return f"^{topic}"


def groups_of(filter: Filter) -> tuple[str, ...]:
    """The topics whose groups bring every event that the filter can accept: for each conjunction the part of
    its topic pattern before the first wildcard; the root where it names no topic."""
    found = [group for conjunction in filter.conjunctions for group in _groups(conjunction.constraints)]
    return tuple(dict.fromkeys(found))


def _groups(constraints: Iterable[Constraint]) -> tuple[str, ...]:
    best: tuple[str, ...] = (ROOT,)
    for constraint in constraints:
        if constraint.attribute != "topic":
            continue
        topics: tuple[str, ...] = ()
        if isinstance(constraint, TopicIs) and not constraint.negated:
            topics = (_before_wildcards(constraint.pattern),)
        elif isinstance(constraint, Equals):
            topics = (str(constraint.value),)
        elif isinstance(constraint, OneOf):
            topics = tuple(str(value) for value in constraint.values)
        if topics and (best == (ROOT,) or (len(topics) == 1 and len(topics[0]) > len(best[0]))):
            best = topics
    return best


def _before_wildcards(pattern: str) -> str:
    levels = []
    for level in pattern.split("/"):
        if level in ("+", "#"):
            break
        levels.append(level)
    return "/".join(levels) or ROOT
