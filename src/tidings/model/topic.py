"""Topics: `/`-separated, at most 32 levels, no empty level; the root is `/`.

In patterns `+` stands for one level and a final `#` for the topic itself and all below.
"""

from __future__ import annotations

from tidings.errors import EventError, FilterError

MAX_LEVELS = 32
ROOT = "/"
CONTROL = frozenset(map(chr, (*range(0x20), 0x7F)))


def check_topic(topic: str) -> str:
    """`topic` itself, or an `EventError` that says what is wrong with it."""
    problem = _problem(topic, wildcards=False)
    if problem:
        raise EventError(f"topic {_shown(topic)} {problem}")
    return topic


def is_topic(text: str) -> bool:
    """Can an event have this topic?"""
    return _problem(text, wildcards=False) is None


def check_pattern(pattern: str) -> str:
    """A topic pattern of a subscription, or a `FilterError`."""
    problem = _problem(pattern, wildcards=True)
    if problem:
        raise FilterError(f"topic pattern {_shown(pattern)} {problem}")
    return pattern


def _shown(topic: str) -> str:
    return repr(topic if len(topic) <= 60 else topic[:57] + "...")


def _problem(topic: str, *, wildcards: bool) -> str | None:
    if topic == ROOT:
        return None
    levels = topic.split("/")
    if len(levels) > MAX_LEVELS:
        return f"has {len(levels)} levels; the most is {MAX_LEVELS}"
    if "" in levels:
        return "has an empty level; write a/b, without a slash at either end"
    if not CONTROL.isdisjoint(topic):
        return "holds a control character"
    for position, level in enumerate(levels):
        if "+" not in level and "#" not in level:
            continue
        if not wildcards:
            return "holds + or #, which only patterns of subscriptions may"
        if level == "#" and position != len(levels) - 1:
            return "has # before its end; # stands for all levels below and must come last"
        if level not in ("+", "#"):
            return f"has the level {level!r}; + and # stand alone in their level"
    return None


def is_pattern(topic: str) -> bool:
    """True when the text holds a wildcard, so that it can be no event's topic."""
    return "+" in topic or "#" in topic


def supertopics(topic: str) -> list[str]:
    """The topic's ancestors, nearest first, the root last."""
    if topic == ROOT:
        return []
    levels = topic.split("/")
    return ["/".join(levels[:n]) for n in range(len(levels) - 1, 0, -1)] + [ROOT]


def topic_matches(pattern: str, topic: str) -> bool:
    """Does `topic` fall under `pattern`?"""
    if pattern == "#":
        return True
    if topic == ROOT or pattern == ROOT:
        return topic == pattern
    wanted = pattern.split("/")
    levels = topic.split("/")
    if wanted[-1] == "#":
        wanted.pop()
        if len(levels) < len(wanted):
            return False
    elif len(levels) != len(wanted):
        return False
    return all(w in ("+", level) for w, level in zip(wanted, levels, strict=False))
