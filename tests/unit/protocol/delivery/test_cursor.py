"""Cursor: one position of a subscription in a log, and the seam between replay and live."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tidings.availability.progress import LogProgress
from tidings.language import parse_filter
from tidings.model.event import Event
from tidings.model.filter import EVERYTHING
from tidings.model.subscription import DeliveryOptions, Position, Subscription, SubscriptionId
from tidings.protocol.delivery.cursor import (
    LIVE,
    REPLAYING,
    TRANSITIONS,
    Cursor,
    EarlierRange,
    PendingLiveEvent,
)
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.replay import LogReplay
from tidings.protocol.delivery.rows import CursorRow, cursor_row
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.lazy_queues import own
from tidings.protocol.messages import Envelope


class Log:
    """A log that ends where a test says."""

    def __init__(self, end: int) -> None:
        self._end = end

    def end(self, log: str) -> int:
        return self._end


def cursor_at(next: int = 1, *, end: int = 10, start: int | None = 1) -> Cursor:
    log: Any = Log(end)
    return Cursor("b0#1", log, next, start=start)


def item(offset: int, *, is_kept: bool = True) -> Item:
    position = Position("b0#1", offset) if is_kept else None
    return Item(Event(source="p", id=str(offset)), 1, position, 0.0, None, after=offset)


def offsets(items: list[Item]) -> list[tuple[int, bool]]:
    return [(each.after, each.position is not None) for each in items]


def test_an_event_that_arrived_live_and_in_a_page_is_one_item() -> None:
    cursor = cursor_at()
    live = [item(4), item(6), item(9)]
    for each in live:
        own(cursor, "pending").append(each)
    merged = cursor.merged([item(2), item(4), item(5)], 7)
    assert [each.after for each in merged] == [2, 4, 5, 6]
    assert merged[1] is live[0]
    assert list(cursor.pending) == [live[2]], "the page says nothing of what is beyond its end"


def test_an_event_that_no_log_holds_keeps_its_place_between_entries() -> None:
    cursor = cursor_at()
    for offset in (3, 5):
        own(cursor, "pending").append(item(offset, is_kept=False))
    merged = cursor.merged([item(2), item(3), item(4)], 5)
    assert offsets(merged) == [(2, True), (3, False), (3, True), (4, True)]
    assert offsets(list(cursor.go_live())) == [(5, False)]


def test_every_offset_below_next_is_settled_or_owed() -> None:
    cursor = cursor_at()
    cursor.read_to(3)
    assert not cursor.take(3)
    cursor.progress.hand_out(3)
    assert cursor.read_to(6) == []
    assert (cursor.next, cursor.low_water, cursor.handed_out()) == (6, 3, [3])
    cursor.progress.settle(3)
    assert cursor.floor() == 6
    cursor.go_live()
    assert cursor.floor() == 10, "a live cursor was dispatched all that the log holds"


def test_offsets_that_are_owed_and_not_found_are_named_when_the_cursor_passes_them() -> None:
    cursor = cursor_at()
    for offset in (2, 4, 7):
        cursor.owe_later(offset, PendingLiveEvent(0.0))
    assert cursor.read_to(4) == [2]
    assert cursor.take(4)
    assert cursor.skip(7) == [7]
    assert not cursor.later
    assert not cursor.seen
    assert (cursor.next, cursor.keep_from) == (8, 8)


def test_after_a_restart_the_cursor_reads_again_what_was_handed_out_and_not_settled() -> None:
    cursor = cursor_at()
    cursor.resume(LogProgress(received=8, owed=[3, 6]))
    assert (cursor.next, list(cursor.unread), cursor.handed_out()) == (3, [3, 6], [])
    assert not cursor.take(3)
    assert cursor.handed_out() == [3]
    cursor.read_to(8)
    assert cursor.progress.owed == [3], "what the log no longer holds is settled"


def test_a_live_cursor_spills_at_an_offset_and_a_replaying_one_stays_where_it_is() -> None:
    cursor = cursor_at(end=5)
    cursor.read_to(5)
    cursor.go_live()
    cursor.spill(7)
    assert (cursor.state, cursor.next, cursor.seam) == (REPLAYING, 7, 7)
    cursor.spill(9)
    assert (cursor.state, cursor.next) == (REPLAYING, 7)


def test_the_table_of_transitions_is_complete() -> None:
    assert set(TRANSITIONS) == {(REPLAYING, "caught up"), (REPLAYING, "read on"), (LIVE, "read on")}
    live = cursor_at()
    live.go_live()
    with pytest.raises(KeyError):
        live.step("caught up")


def test_what_is_owed_under_an_earlier_filter_is_a_right_until_it_is_settled() -> None:
    """A live cursor in another log let go of it, and a restart before the acknowledgement lost the event: the
    origin was not asked for an entry below `start` whose lifetime was over."""
    cursor = cursor_at(1, start=6)
    right = EarlierRange((parse_filter("x > 0"),), float("inf"), 2, 6)
    cursor.rights = [right]
    cursor.read_to(3)
    cursor.take(3)
    cursor.progress.hand_out(3)
    cursor.read_to(10)
    cursor.go_live()
    assert [span.start for span in cursor_row(cursor).rights] == [2]
    cursor.progress.settle(3)
    assert cursor_row(cursor).rights == []


def test_a_row_holds_all_filters_of_a_range_and_one_of_an_earlier_version_is_read() -> None:
    cursor = cursor_at(4, start=9)
    first, second, third = (parse_filter(text) for text in ("x > 0", "x > 1", "x > 2"))
    cursor.rights = [
        EarlierRange((first, second), float("inf"), 4, 6),
        EarlierRange((third,), 12.5, 6, 9),
    ]
    encoded = msgspec.msgpack.encode(cursor_row(cursor))
    assert msgspec.msgpack.decode(encoded, type=CursorRow).ranges() == cursor.rights
    earlier = msgspec.msgpack.encode(msgspec.msgpack.decode(encoded)[:5])
    ranges = msgspec.msgpack.decode(earlier, type=CursorRow).ranges()
    assert [(each.filters, each.start, each.stop) for each in ranges] == [((first,), 4, 6), ((third,), 6, 9)]
    assert [each.since for each in ranges] == [float("inf"), float("inf")]


def test_a_live_event_from_before_a_durable_subscription_does_not_wait_behind_its_replay() -> None:
    """An origin sends again what a restarted broker had not acknowledged, also what is older than a
    subscription."""
    nothing: Any = None
    log: Any = Log(10)
    replay = LogReplay(nothing, DeliverySettings(), nothing, nothing, nothing, nothing)
    options = DeliveryOptions(durable=True)
    subscription = Subscription(SubscriptionId("s", "n"), EVERYTHING, options)
    state = SubscriptionState(
        subscription, Cursor("b1#1", log, 1, start=1, state=LIVE), named=True, number=1, since=0.0
    )
    cursor = cursor_at(1, start=5)
    cursor.reading = 1
    state.others = {"b0#1": cursor}
    for offset in (3, 4, 5, 6):
        replay.offer((state,), (Envelope(Event(source="p", id=str(offset)), "b0#1", offset),), 0.0)
    assert [each.after for each in cursor.pending] == [5, 6]
    assert not cursor.missed
