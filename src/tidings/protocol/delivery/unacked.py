"""Deliveries that members of one subscription have not acknowledged, as runs of tags that follow one another.

A batch that was sent in one message is one run, whatever its size, and an acknowledgement of a range costs a
step for each run that it touches. Rules
- Tags ascend, so runs are in the order of their tags, and a tag is in one run at most.
- The items of a run may be shared with the runs of other subscriptions: a run never changes them.
- A subscription without unacknowledged deliveries has `NONE_UNACKED`, which refuses to be filled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from tidings.protocol.delivery.item import Item

if TYPE_CHECKING:
    from tidings.protocol.delivery.subscription_state import Member

_first = attrgetter("first")


class SentRun(msgspec.Struct, eq=False):
    """Items under the tags from `first` up to `stop`, which is excluded."""

    first: int
    stop: int
    base: int  # tag of the first of `all_items`
    all_items: Sequence[Item]
    member: Member
    size: int  # bytes of the items
    is_plain: (
        bool  # no log holds one of them, and none is a dead letter: they are done with when acknowledged
    )

    @property
    def items(self) -> Sequence[Item]:
        return self.all_items[self.first - self.base : self.stop - self.base]

    def part(self, begin: int, end: int, size: int | None = None) -> SentRun:
        """The run of the tags from `begin` up to `end`; its size, if that is known."""
        run = SentRun(begin, end, self.base, self.all_items, self.member, 0, self.is_plain)
        run.size = sum([item.size for item in run.items]) if size is None else size
        return run


class Unacked:
    """The unacknowledged deliveries of one subscription."""

    __slots__ = ("_count", "_runs")

    def __init__(self) -> None:
        self._runs: list[SentRun] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, first: int, items: Sequence[Item], member: Member, size: int, is_plain: bool) -> None:
        """A member was sent these items under the tags from `first` on, greater than all before."""
        count = len(items)
        self._runs.append(SentRun(first, first + count, first, items, member, size, is_plain))
        self._count += count

    def take(self, member: Member, tags: Sequence[int]) -> list[SentRun]:
        """Remove the deliveries of a member under these tags, and return them in the order of the tags;
        others are passed over."""
        taken: list[SentRun] = []
        for begin, end in ((tags.start, tags.stop),) if type(tags) is range else _ranges(tags):
            runs = self._runs
            low = 0 if not runs or runs[0].stop > begin else bisect_right(runs, begin, key=_first) - 1
            high, left = low, []  # the runs from `low` to `high` are replaced by what is left of them
            while high < len(runs) and (run := runs[high]).first < end:
                high += 1
                first, stop = run.first, run.stop
                if run.member is not member or stop <= begin:
                    left.append(run)
                    continue
                whole = run
                if first < begin or end < stop:
                    run = whole.part(max(first, begin), min(stop, end))
                    rest = whole.size - run.size
                    if first < begin:
                        left.append(whole.part(first, begin, rest if stop <= end else None))
                        rest -= left[-1].size
                    if end < stop:
                        left.append(whole.part(end, stop, rest))
                taken.append(run)
                self._count -= run.stop - run.first
            runs[low:high] = left
        return taken

    def tags_of(self, member: Member) -> list[int]:
        """The tags of a member's deliveries, in ascending order."""
        runs = (range(run.first, run.stop) for run in self._runs if run.member is member)
        return list(chain.from_iterable(runs))

    def holds(self, member: Member) -> bool:
        """Has the member an unacknowledged delivery?"""
        return any(run.member is member for run in self._runs)

    def items(self) -> Iterator[Item]:
        """All items, in the order of their tags."""
        return chain.from_iterable([run.items for run in self._runs])


class _NoneUnacked(Unacked):
    __slots__ = ()

    def add(self, first: int, items: Sequence[Item], member: Member, size: int, is_plain: bool) -> None:
        raise AssertionError("this one is shared: make an own one before you add to it")


NONE_UNACKED: Unacked = _NoneUnacked()


def _ranges(tags: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ranges of neighbouring tags that follow one another, each as its begin and its excluded end."""
    begin = end = -1
    for tag in tags:
        if tag != end:
            if begin < end:
                yield begin, end
            begin = tag
        end = tag + 1
    if begin < end:
        yield begin, end
