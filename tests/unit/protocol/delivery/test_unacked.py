"""Unacknowledged deliveries as runs of tags: the same as a table with an entry for each tag."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tidings.model.event import Event
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.unacked import NONE_UNACKED, ItemRun, SentRun, Unacked

ONE: Any = object()
OTHER: Any = object()


def _items(rng: Random, count: int) -> ItemRun:
    return ItemRun(
        Item(Event("s", str(number)), rng.randrange(1, 9), None, 0.0, None) for number in range(count)
    )


def _tags(rng: Random, last: int) -> range | list[int]:
    begin = rng.randrange(last + 3)
    if rng.random() < 0.5:
        return range(begin, begin + rng.randrange(12))
    return [rng.randrange(last + 3) for _ in range(rng.randrange(8))]


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_same_as_a_table_of_tags(seed: int) -> None:
    rng, unacked, last = Random(seed), Unacked(), 0
    table: dict[int, tuple[Item, Any]] = {}
    for _ in range(300):
        member = rng.choice((ONE, OTHER))
        if rng.random() < 0.5:
            items = _items(rng, rng.choice((1, 1, 2, 7, 30)))
            size = sum(item.size for item in items)
            run = SentRun(last + 1, last + 1 + len(items), last + 1, items, member, size, size, True)
            unacked += (run,)
            unacked.deliveries += len(items)
            table.update((last + 1 + place, (item, member)) for place, item in enumerate(items))
            last += len(items)
        else:
            tags = _tags(rng, last)
            unique = list(dict.fromkeys(tags))
            wanted = [table.pop(tag)[0] for tag in unique if tag in table and table[tag][1] is member]
            runs = unacked.take(member, tags)
            assert [id(item) for run in runs for item in run.own_items] == [*map(id, wanted)]
            assert sum(run.size for run in runs) == sum(item.size for item in wanted)
        assert unacked.deliveries == len(table)
        left = sum(item.size for item, _ in table.values())
        assert sum(run.size for run in unacked) == left
        assert sum(item.size for run in unacked for item in run.items) <= 2 * left
        assert bool(unacked) == bool(table)
        assert [*map(id, unacked.items())] == [id(item) for item, _ in table.values()]
        assert unacked.tags_of(ONE) == [tag for tag, (_, holder) in table.items() if holder is ONE]
        assert unacked.holds(OTHER) == any(holder is OTHER for _, holder in table.values())


def test_the_empty_one_is_not_filled() -> None:
    unacked = NONE_UNACKED
    with pytest.raises(AssertionError, match="shared"):
        unacked += (SentRun(1, 2, 1, _items(Random(1), 1), ONE, 1, 1, True),)
    assert NONE_UNACKED.take(ONE, (1, 2)) == []
