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
from itertools import accumulate, chain
from operator import attrgetter
from typing import TYPE_CHECKING, Self

import msgspec

from tidings.protocol.delivery.item import Item

if TYPE_CHECKING:
    from tidings.protocol.delivery.subscription_state import Member

_first, _size = attrgetter("first"), attrgetter("size")


class ItemRun(list[Item]):
    """Items that were sent in one message, with the sums of their sizes; shared by all subscriptions that
    were sent the same."""

    sums: Sequence[int] = ()  # worked out when a part of them is sent or acknowledged


def bytes_of(items: Sequence[Item], begin: int, end: int) -> int:
    """Bytes of the items in these places."""
    if type(items) is not ItemRun:
        return sum(map(_size, items[begin:end]))
    if not items.sums:
        items.sums = [0, *accumulate(map(_size, items))]
    return items.sums[end] - items.sums[begin]


class SentRun(msgspec.Struct, eq=False):
    """Items under the tags from `first` up to `stop`, which is excluded."""

    first: int
    stop: int
    base: int  # tag of the first of `items`: those below `first`, and from `stop` on, are of other runs
    items: Sequence[Item]  # an `ItemRun` when they are several
    member: Member
    size: int  # bytes of the items that are not acknowledged ...
    retained: int  # ... and of all in `items`
    is_plain: bool  # no log holds one of them, and none is a dead letter; an acknowledgement ends them

    @property
    def own_items(self) -> Sequence[Item]:
        """The items under its tags."""
        items, begin, end = self.items, self.first - self.base, self.stop - self.base
        return items if end - begin == len(items) else items[begin:end]

    def part(self, begin: int, end: int) -> SentRun:
        """The run of the tags from `begin` up to `end`."""
        items, base = self.items, self.base
        size = bytes_of(items, begin - base, end - base)
        return SentRun(begin, end, base, items, self.member, size, self.retained, self.is_plain)

    def let_go(self) -> None:
        """Hold no items but its own when more than half of the bytes are of others."""
        if self.retained > 2 * self.size:
            items, begin = self.items, self.first - self.base
            self.items, self.base, self.retained = ItemRun(self.own_items), self.first, self.size
            if type(items) is ItemRun:
                self.items.sums = items.sums[begin : begin + len(self.items) + 1]


class Unacked(list[SentRun]):
    """The unacknowledged deliveries of one subscription. The dispatcher adds runs, and counts their
    deliveries."""

    deliveries = 0

    def take(self, member: Member, tags: Sequence[int]) -> Sequence[SentRun]:
        """Remove the deliveries of a member under these tags, and return them in the order of the tags;
        others are passed over."""
        run = self[0] if self and tags and not tags[1:] else None
        if run is not None and run.base == run.first == tags[0] == run.stop - 1:  # one delivery
            if run.member is not member:
                return ()
            del self[0]
            self.deliveries -= 1
            return (run,)
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
                    head.let_go()
                    run.size -= head.size
                if upper < stop:
                    run.first = upper
                else:
                    run.stop = lower
                if run.retained > 2 * run.size:
                    run.let_go()
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
        return chain.from_iterable([run.own_items for run in self])


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
