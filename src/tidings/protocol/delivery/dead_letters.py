"""Dead letters: events that a subscription rejected, or gave back too often.

Rules
- A letter is kept until a subscriber to dead letters commits it. A box is bounded by count and bytes, and the
  letters of a principal by its quota: at a bound its oldest letters are dropped and counted, never an event
  that is owed.
- A new letter goes to the disk with the progress of its subscription (`Registry.keep_letters`): after a kill
  between the two, its event would be delivered again, and might become a second letter.
- The box of a subscription that has ended is kept for a stated time, for a subscriber that comes back.
- A subscriber to dead letters hears those that are there, oldest first, then new ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable

import msgspec

from tidings.availability.records import Delete, Loaded, Record
from tidings.model.dead_letter_header import DeadLetterHeader, encoded
from tidings.model.event import event_size
from tidings.model.subscription import Position, SubscriptionId
from tidings.protocol.delivery import rows
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.rows import DeadRow
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.slots import Ports

OVERHEAD = 512  # of memory and disk beside the event
STEP = 1024  # letters that one step forgets
LINK = "link"  # the subscription of a neighbour's dead letters


class DeadLetterBox:
    """The letters of one subscription."""

    __slots__ = ("ends_at", "letters", "owner", "size")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.letters: dict[int, DeadRow] = {}  # by number, ascending
        self.size = 0
        self.ends_at: float | None = None  # its subscription has ended, and this is when it goes


class DeadLetters:
    def __init__(self, ports: Ports, settings: DeliverySettings) -> None:
        self._ports = ports
        self._most, self._most_bytes = settings.dead_letters, settings.dead_letter_bytes
        self._seconds = settings.dead_letter_seconds
        self._boxes: dict[SubscriptionId, DeadLetterBox] = {}
        self._by_owner: dict[str, dict[int, SubscriptionId]] = {}  # and number, ascending: its box
        self.ending: deque[tuple[float, SubscriptionId]] = deque()  # what the box does not confirm is stale
        self._last_number = 0
        self.unkept: list[Record] = []  # new letters that are on their way to the disk ...
        self.buried: dict[SubscriptionId, None] = {}  # ... and their subscriptions
        self.dropped = 0

    def load(self, state: Loaded) -> None:
        dead_letters = sorted(
            rows.decoded(state.tables, rows.DEAD, DeadRow), key=lambda dead_letter: dead_letter.number
        )
        for dead_letter in dead_letters:
            self._put(dead_letter)
            self._last_number = max(self._last_number, dead_letter.number)

    def add(
        self, id: SubscriptionId, item: Item, now: float, reason: str, *, is_large: bool = False
    ) -> tuple[DeadRow, list[Record]]:
        """Keep a letter, if there is room for it; it, and the records to persist."""
        self._last_number += 1
        dead_letter = DeadRow(
            id, self._last_number, item.event, item.position, item.attempt, now, is_large=is_large,
            reason=reason,
        )  # fmt: skip
        records = self._make_room(dead_letter)
        if not self._ports.kept.letters_fit(self._box(id).owner, _size(dead_letter)):
            self.dropped += 1
            self._drop_empty(id)
            return dead_letter, records
        self._put(dead_letter)
        return dead_letter, [*records, rows.put(rows.DEAD, _key(dead_letter), dead_letter)]

    def keep_later(self, id: SubscriptionId, records: list[Record]) -> None:
        self.unkept += records
        self.buried[id] = None

    def take_unkept(self) -> tuple[list[Record], list[SubscriptionId]]:
        """Records of new letters, and their subscriptions."""
        taken = self.unkept, list(self.buried)
        self.unkept, self.buried = [], {}
        return taken

    def _make_room(self, dead_letter: DeadRow) -> list[Record]:
        """Drop the oldest letters of its box, or of its principal, that are in its way; the records to
        persist."""
        records: list[Record] = []
        id, size, box = dead_letter.subscription, _size(dead_letter), self._box(dead_letter.subscription)
        while box.letters and (len(box.letters) >= self._most or box.size + size > self._most_bytes):
            records += self._drop(id, next(iter(box.letters)))
        while (own := self._by_owner.get(box.owner)) and not self._ports.kept.letters_fit(box.owner, size):
            number, oldest = next(iter(own.items()))
            records += self._drop(oldest, number)
        return records

    def _box(self, id: SubscriptionId) -> DeadLetterBox:
        box = self._boxes.get(id)
        if box is None:
            box = self._boxes[id] = DeadLetterBox(self._ports.kept.owner_of(id))
        return box

    def _put(self, dead_letter: DeadRow) -> None:
        box, size = self._box(dead_letter.subscription), _size(dead_letter)
        box.letters[dead_letter.number] = dead_letter
        box.size += size
        self._by_owner.setdefault(box.owner, {})[dead_letter.number] = dead_letter.subscription
        self._ports.kept.count_letters(box.owner, size)

    def _drop(self, id: SubscriptionId, number: int) -> list[Record]:
        self.dropped += 1
        return self.remove(id, number)

    def remove(self, id: SubscriptionId, number: int) -> list[Record]:
        """A subscriber to dead letters took care of it; the records to persist."""
        box = self._boxes.get(id)
        dead_letter = None if box is None else box.letters.pop(number, None)
        if box is None or dead_letter is None:
            return []
        box.size -= _size(dead_letter)
        self._ports.kept.count_letters(box.owner, -_size(dead_letter))
        own = self._by_owner[box.owner]
        del own[number]
        if not own:
            del self._by_owner[box.owner]
        self._drop_empty(id)
        return [Delete(rows.DEAD, _key(dead_letter))]

    def redelivered(self, dead_letters: Iterable[DeadRow]) -> list[Record]:
        """Operators have these sent again, also after a restart; the records to persist."""
        marked = [msgspec.structs.replace(each, is_redelivered=True) for each in dead_letters]
        for each in marked:
            self._boxes[each.subscription].letters[each.number] = each
        return [rows.put(rows.DEAD, _key(each), each) for each in marked]

    def _drop_empty(self, id: SubscriptionId) -> None:
        if not self._boxes[id].letters:
            del self._boxes[id]

    def letters(self, id: SubscriptionId) -> list[DeadRow]:
        box = self._boxes.get(id)
        return [] if box is None else list(box.letters.values())

    def counts(self) -> list[tuple[SubscriptionId, int, int]]:
        """Subscription, letters and bytes of each box."""
        return [(id, len(box.letters), box.size) for id, box in self._boxes.items()]

    # -- the end of a box --------------------------------------------------------------------

    def ended(self, id: SubscriptionId, now: float) -> None:
        """The subscription of a box has ended: the box is kept for a while."""
        box = self._boxes.get(id)
        if box is not None:
            box.ends_at = now + self._seconds
            self.ending.append((box.ends_at, id))

    def resumed(self, id: SubscriptionId) -> None:
        """The subscription of a box is there again."""
        box = self._boxes.get(id)
        if box is not None:
            box.ends_at = None

    def end_others(self, stored: Container[SubscriptionId], now: float) -> None:
        """After a restart: end the boxes of subscriptions that are held no longer; links have none."""
        for id in self._boxes:
            if id not in stored and id.name != LINK:
                self.ended(id, now)

    def expire(self, now: float) -> list[Record]:
        """One step: drop letters of boxes whose time is over; the records to persist."""
        records: list[Record] = []
        while self.ending and self.ending[0][0] <= now and len(records) < STEP:
            ends_at, id = self.ending[0]
            box = self._boxes.get(id)
            if box is None or box.ends_at != ends_at:
                self.ending.popleft()
            else:
                for number in list(box.letters)[:STEP]:
                    records += self._drop(id, number)
        return records

    def __len__(self) -> int:
        return sum(len(box.letters) for box in self._boxes.values())

    def check(self) -> None:
        for box in self._boxes.values():
            assert 0 < len(box.letters) <= self._most, "boxes are bounded, and none is empty"
            assert box.size == sum(map(_size, box.letters.values())), "their bytes are counted"


def item_of(dead_letter: DeadRow) -> Item:
    """The letter as an item of a subscription to dead letters: its event says why it died."""
    position: Position | None = dead_letter.position
    why = DeadLetterHeader(dead_letter.reason, dead_letter.attempts, dead_letter.died)
    event = msgspec.structs.replace(dead_letter.event, headers=dead_letter.event.headers | encoded(why))
    item = Item(event, event_size(event), position, dead_letter.died, None)
    item.dead_letter = dead_letter.number
    return item


def _size(dead_letter: DeadRow) -> int:
    return event_size(dead_letter.event) + OVERHEAD


def _key(dead_letter: DeadRow) -> str:
    return f"{dead_letter.number:020}"
