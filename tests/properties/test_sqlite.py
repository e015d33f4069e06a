"""SQLite as an outside judge: each filter accepts the events that the same condition selects there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.properties._sqlite_judge import EDGE_SHARE, Drawing, Judge

from tidings.errors import FilterLimitError
from tidings.language import read_filter
from tidings.matching.columnar.matcher import ColumnarMatcher
from tidings.matching.columnar.numpy_matcher import NumpyMatcher
from tidings.matching.engine import MatchingEngine
from tidings.matching.small import SmallMatcher
from tidings_lab.matching.counting import CountingMatcher

SUBSCRIPTIONS = 2_102  # past the threshold of the engine, and its backstop


def differences(kind: Callable[[], Any], seed: int, subscriptions: int, events: int) -> list[str]:
    """The pairs on which the matcher and SQLite differ, of subscriptions times events."""
    drawing = Drawing(seed)
    drawn = [drawing.event(number) for number in range(events)]
    stated, matcher = [], kind()
    while len(stated) < subscriptions:
        one = drawing.filter()
        try:
            filter = read_filter(one.ours)
        except FilterLimitError:
            continue
        assert matcher.add(filter) == len(stated)
        stated.append(one)
    while matcher.maintain(1 << 20):
        pass
    if hasattr(matcher, "freeze"):
        matcher.freeze()  # few filters stay in the delta, which has no cells of its own
    judge = Judge([row for _, row in drawn])
    expected = [judge.accepted(one) for one in stated]
    judge.close()
    matches = matcher.match_batch([event for event, _ in drawn])
    wrong = []
    for number, (event, row) in enumerate(drawn):
        together = set(matches.handles[matches.offsets[number] : matches.offsets[number + 1]])
        alone = set(map(int, matcher.match(event)))
        wanted = {handle for handle, accepted in enumerate(expected) if number in accepted}
        differing = (alone ^ wanted) | (together ^ wanted)
        wrong += [f"{stated[handle].ours} on {row}: SQLite says {handle in wanted}" for handle in differing]
    pairs, true = subscriptions * events, sum(map(len, expected))
    print(
        f"seed {seed}: {len(wrong)} pairs differ of {pairs:,} ({true:,} true, {EDGE_SHARE:.0%} of "
        "values are edges)"
    )
    return wrong


@pytest.mark.parametrize(
    ("kind", "seed"), [(ColumnarMatcher, 7), (NumpyMatcher, 7), (SmallMatcher, 7), (CountingMatcher, 3)]
)
def test_random_filters_accept_what_sqlite_selects(kind: Callable[[], Any], seed: int) -> None:
    """60,000 pairs; before the mend of bounds 26 of them differed with seed 7, and 5 with seed 3."""
    assert differences(kind, seed, 300, 200) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_million_pairs_against_sqlite() -> None:
    assert differences(MatchingEngine, 2026, SUBSCRIPTIONS, 4_800) == []
