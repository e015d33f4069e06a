"""What subscriptions that have ended were told, for a bounded time."""

from __future__ import annotations

from heapq import heappop, heappush

from tidings.availability.records import Loaded, Record
from tidings.availability.told import Told
from tidings.model.subscription import SubscriptionId
from tidings.protocol.delivery import rows
from tidings.protocol.delivery.rows import MemoryRow

STEP = 256  # memories that one step forgets


class Memory:
    def __init__(self) -> None:
        self._kept: dict[SubscriptionId, MemoryRow] = {}
        self.ends: list[tuple[float, SubscriptionId]] = []  # heap; what is not in `_kept` is stale

    def load(self, state: Loaded) -> None:
        for row in rows.decoded(state.tables, rows.MEMORY, MemoryRow):
            self._kept[row.subscription] = row
            heappush(self.ends, (row.until, row.subscription))

    def keep(self, id: SubscriptionId, told: Told, until: float) -> list[Record]:
        row = self._kept[id] = MemoryRow(id, told.encode(), until)
        heappush(self.ends, (until, id))
        return [rows.put_for(rows.MEMORY, id, row)]

    def look(self, id: SubscriptionId) -> Told | None:
        """As `take`, but keep it: what comes back is not on the disk itself, and may be lost again."""
        row = self._kept.get(id)
        return None if row is None else rows.read_told(row.told)

    def take(self, id: SubscriptionId) -> tuple[Told | None, list[Record]]:
        """The subscription is back: what it was told, and the records to persist."""
        row = self._kept.pop(id, None)
        return (None, []) if row is None else (rows.read_told(row.told), [rows.delete_for(rows.MEMORY, id)])

    def expire(self, now: float) -> list[Record]:
        """One step; the records to persist."""
        records: list[Record] = []
        while self.ends and self.ends[0][0] <= now and len(records) < STEP:
            until, id = heappop(self.ends)
            row = self._kept.get(id)
            if row is not None and row.until == until:
                del self._kept[id]
                records.append(rows.delete_for(rows.MEMORY, id))
        return records

    def __len__(self) -> int:
        return len(self._kept)
