"""Dead letters: events that a subscription gave back too often.

Rules
- They are kept for their subscription until somebody who subscribed to them commits them, or
  until the box is full: then the oldest is dropped and counted.
- Whoever subscribes to dead letters hears those that are there, oldest first, then new ones.
"""

from __future__ import annotations

from tidings.availability.records import Delete, Loaded, Record
from tidings.model.subscription import Position, SubscriptionId
from tidings.protocol.delivery import rows
from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.rows import DeadRow


class DeadLetters:
    def __init__(self, most: int) -> None:
        self._most = most
        self._boxes: dict[SubscriptionId, dict[int, DeadRow]] = {}  # by number, ascending
        self._last_number = 0
        self.dropped = 0

    def load(self, state: Loaded) -> None:
        letters = sorted(rows.decoded(state.tables, rows.DEAD, DeadRow), key=lambda letter: letter.number)
        for letter in letters:
            self._boxes.setdefault(letter.subscription, {})[letter.number] = letter
            self._last_number = max(self._last_number, letter.number)

    def add(self, id: SubscriptionId, item: Item, now: float) -> tuple[DeadRow, list[Record]]:
        """Keep a letter; it, and the records to persist."""
        self._last_number += 1
        letter = DeadRow(id, self._last_number, item.event, item.position, item.attempt, now)
        box = self._boxes.setdefault(id, {})
        box[letter.number] = letter
        records: list[Record] = [rows.put(rows.DEAD, _key(letter), letter)]
        if len(box) > self._most:
            records += self.remove(id, next(iter(box)))
            self.dropped += 1
        return letter, records

    def remove(self, id: SubscriptionId, number: int) -> list[Record]:
        """Somebody took care of it; the records to persist."""
        box = self._boxes.get(id, {})
        letter = box.pop(number, None)
        if not box:
            self._boxes.pop(id, None)
        return [] if letter is None else [Delete(rows.DEAD, _key(letter))]

    def letters(self, id: SubscriptionId) -> list[DeadRow]:
        return list(self._boxes.get(id, {}).values())

    def __len__(self) -> int:
        return sum(len(box) for box in self._boxes.values())

    def check(self) -> None:
        assert all(0 < len(box) <= self._most for box in self._boxes.values()), "boxes are bounded"


def item_of(letter: DeadRow) -> Item:
    """The letter as an item of whoever hears dead letters."""
    position: Position | None = letter.position
    item = Item(letter.event, position, letter.died, None)
    item.letter = letter.number
    return item


def _key(letter: DeadRow) -> str:
    return f"{letter.number:020}"
