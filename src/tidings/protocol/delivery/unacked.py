"""Deliveries that members of one subscription have not acknowledged, as runs of tags that follow one another.

A batch that was sent in one message is one run, whatever its size, and an acknowledgement of a range costs a
step for each run that it touches. Rules
- Tags ascend, so runs are in the order of their tags, and a tag is in one run at most.
- The items of a run may be shared with the runs of other subscriptions: a run never changes them. It lets
  go of acknowledged ones when they are more than half of its bytes, so that a member which acknowledges all
  but one of each batch holds at most twice the memory that it is counted for.
- A subscription without unacknowledged deliveries has `NONE_UNACKED`, which refuses to be filled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Self

import msgspec

from tidings.protocol.delivery.item import Item

if TYPE_CHECKING:
    from tidings.protocol.delivery.subscription_state import Member

_first = attrgetter("first")


class SentRun(msgspec.Struct, eq=False):
    """Items under the tags from `first` up to `stop`, which is excluded."""

    first: int
    stop: int
    base: int  # tag of the first of `items`: those below `first`, and from `stop` on, are acknowledged
    items: Sequence[Item]
    member: Member
    size: int  # bytes of the items that are not acknowledged ...
    retained: int  # ... and of all in `items`
    is_plain: bool  # no log holds one of them, and none is a dead letter; an acknowledgement ends them

    def part(self, begin: int, end: int) -> SentRun:
        """The run of the tags from `begin` up to `end`, with no other items."""
        items = self.items[begin - self.base : end - self.base]
        size = sum([item.size for item in items])
        return SentRun(begin, end, begin, items, self.member, size, size, self.is_plain)


class Unacked(list[SentRun]):
    """The unacknowledged deliveries of one subscription. The dispatcher adds runs, and counts their
    deliveries."""

    deliveries = 0

    def take(self, member: Member, tags: Sequence[int]) -> Sequence[SentRun]:
        """Remove the deliveries of a member under these tags, and return them in the order of the tags;
        others are passed over."""
        taken: list[SentRun] = []
        if type(tags) is range:
            ranges: Sequence[tuple[int, int]] = ((tags.start, tags.stop),)
        else:
            ranges = _ranges(tags) if tags[1:] or not tags else ((tags[0], tags[0] + 1),)
        for begin, end in ranges:
            low = 0 if not self or self[0].stop > begin else bisect_right(self, begin, key=_first) - 1
            left: list[SentRun] = []
            high = low  # the runs from `low` to `high` are replaced by what is left of them
            for run in self[low:] if low else self:
                first, stop = run.first, run.stop
                if first >= end:
                    break
                high += 1
                if run.member is not member or stop <= begin:
                    left += (run,)
                    continue
                lower, upper = begin if begin > first else first, end if end < stop else stop
                self.deliveries -= upper - lower
                if lower == first and upper == stop:
                    run.items, run.base = run.items[first - run.base : stop - run.base], first
                    taken += (run,)
                    continue
                if upper - lower == 1:
                    item = run.items[lower - run.base]
                    part = SentRun(lower, upper, lower, (item,), member, item.size, item.size, run.is_plain)
                else:
                    part = run.part(lower, upper)
                taken += (part,)
                run.size -= part.size
                if lower > first and upper < stop:
                    left += (head := run.part(first, lower),)
                    run.size -= head.size
                if upper < stop:
                    run.first = upper
                else:
                    run.stop = lower
                if run.retained > 2 * run.size:
                    run.items, run.base = run.items[run.first - run.base : run.stop - run.base], run.first
                    run.retained = run.size
                left += (run,)
            self[low:high] = left
        return taken

    def tags_of(self, member: Member) -> list[int]:
        """The tags of a member's deliveries, in ascending order."""
        return list(chain.from_iterable(range(run.first, run.stop) for run in self if run.member is member))

    def holds(self, member: Member) -> bool:
        """Has the member an unacknowledged delivery?"""
        return any(run.member is member for run in self)

    def items(self) -> Iterator[Item]:
        """All items, in the order of their tags."""
        return chain.from_iterable([run.items[run.first - run.base : run.stop - run.base] for run in self])


class _NoneUnacked(Unacked):
    def __iadd__(self, runs: Iterable[SentRun]) -> Self:  # type: ignore[misc, override]
        raise AssertionError("this one is shared: make an own one before you add to it")


NONE_UNACKED: Unacked = _NoneUnacked()


def _ranges(tags: Sequence[int]) -> Sequence[tuple[int, int]]:
    """Ranges of neighbouring tags that follow one another, each as its begin and its excluded end."""
    found: list[tuple[int, int]] = []
    begin = end = tags[0] if tags else 0
    for tag in tags:
        if tag != end:
            found += ((begin, end),)
            begin = tag
        end = tag + 1
    return [*found, (begin, end)]
