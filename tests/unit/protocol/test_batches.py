"""Batches: cut by bytes and by count, in order, and never taken for the end of anything."""

from __future__ import annotations

import pytest

from tidings.availability.records import Append
from tidings.errors import SettingsError
from tidings.model.event import Event, event_size
from tidings.protocol.batches import Divider, PageBuilder, cut, read_upto, size_of
from tidings.protocol.limits import ResourceLimits
from tidings.protocol.messages import DeliverAll, Envelope
from tidings.protocol.recovery.messages import Knowledge, LogKnowledge, RangeReply
from tidings.protocol.recovery.window import SendWindow

LIMITS = ResourceLimits(frame_bytes=4096, envelope_bytes=1024, batch_bytes=1000, batch_count=4)


def event(size: int, number: int = 1) -> Event:
    return Event("p", f"i-{number}", payload=b"x" * size)


def envelope(offset: int, size: int) -> Envelope:
    return Envelope(event(size, offset), "b0", offset)


def test_items_are_cut_by_bytes_and_by_count_and_keep_their_order() -> None:
    items = [event(size, number) for number, size in enumerate((10, 10, 10, 10, 10, 900, 900, 3000, 10))]
    slices = cut(items, LIMITS)
    assert [each for part, _ in slices for each in part] == items
    assert [len(part) for part, _ in slices] == [4, 2, 1, 1, 1]
    for part, size in slices:
        assert len(part) == 1 or size <= LIMITS.batch_bytes
        assert len(part) <= LIMITS.batch_count


def test_a_page_always_takes_one_item_and_says_when_it_is_full() -> None:
    page = PageBuilder[Event](LIMITS)
    assert page.add(event(3000))
    assert page.is_full
    assert not page.add(event(1))
    other = PageBuilder[Event](LIMITS, 100)
    assert other.add(event(600))
    assert not other.is_full
    assert not other.add(event(600)), "it belongs to the next page"
    assert other.is_full
    assert other.size == size_of(event(600))


def test_a_short_read_of_the_disk_is_not_the_end_of_the_log() -> None:
    records = [Append(offset, event(1), 0.0) for offset in (3, 4)]
    assert read_upto(records, 90) == 4
    assert read_upto(records, 4) == 4
    assert read_upto(records, 2) == 2, "what lies beyond the end was not committed when it was asked for"
    assert read_upto([], 90) == 90


def test_deliveries_are_divided_with_the_tags_that_they_have() -> None:
    events = tuple(event(300, number) for number in range(7))
    parts = list(Divider(LIMITS).divide(DeliverAll(1, 10, events)))
    delivered = [deliver for part in parts for deliver in part.one_by_one()]  # type: ignore[attr-defined]
    assert [(deliver.tag, deliver.event) for deliver in delivered] == list(enumerate(events, 10))
    assert len(parts) > 1
    assert list(Divider(LIMITS).divide(DeliverAll(1, 10, events[:1]))) == [DeliverAll(1, 10, events[:1])]


def test_parts_of_a_fill_follow_one_another() -> None:
    found = tuple(envelope(offset, 500) for offset in (4, 7, 9))
    parts = list(Divider(LIMITS).divide(RangeReply("b0", 3, 20, found, ("b1",))))
    assert [(part.after, part.upto) for part in parts] == [(3, 4), (4, 7), (7, 20)]  # type: ignore[attr-defined]


def test_knowledge_is_divided_by_count() -> None:
    news = tuple(LogKnowledge(f"b{number}", 1, 2, 3) for number in range(9))
    parts = list(Divider(LIMITS).divide(Knowledge(news)))
    assert [len(part.news) for part in parts] == [4, 4, 1]  # type: ignore[attr-defined]


def test_an_event_is_measured_as_it_is_encoded() -> None:
    one = event(1000)
    assert event_size(one) == size_of(one) == event_size(one)


def test_limits_that_contradict_one_another_are_refused() -> None:
    with pytest.raises(SettingsError, match="has no room for an event"):
        ResourceLimits(frame_bytes=1000, envelope_bytes=1000, batch_bytes=1)
    with pytest.raises(SettingsError, match="does not fit a frame"):
        ResourceLimits(frame_bytes=4096, envelope_bytes=1024, batch_bytes=4000)
    with pytest.raises(SettingsError, match="1 or more"):
        ResourceLimits(batch_count=0)
    small = ResourceLimits().fitted(64 << 10)
    assert small.batch_bytes <= small.event_bytes < small.frame_bytes == 64 << 10


def test_a_window_bounds_what_is_on_its_way() -> None:
    window = SendWindow(ResourceLimits(window_count=10, window_bytes=1000))
    while window.has_room:
        window.send(window.sent + 2, 300)
    assert window.sent == 8, "1,200 bytes are the first that are too many"
    window.acknowledge(4)
    assert window.has_room
    window.acknowledge(8)
    assert not window.is_waiting


def test_what_is_not_acknowledged_is_sent_again_one_batch_at_a_time_with_longer_pauses() -> None:
    window = SendWindow(ResourceLimits(window_count=10, window_tries=8))
    window.send(5, 10)
    again = []
    for tick in range(30):
        if window.tick():
            again.append(tick)
            assert (window.sent, window.has_room) == (0, True)
            window.send(5, 10)
            assert not window.has_room, "one batch, until something is acknowledged"
    assert again == [0, 2, 6, 14, 22]
    window.acknowledge(5)
    assert window.has_room
