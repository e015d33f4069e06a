"""Records of deliveries to subscriptions that have ended, for a bounded time and in bounded bytes of each
principal.

Rules
- The records of one principal have the bound of its quota (`RetainedBytes.records_fit`). At the bound its
  oldest records go, and are counted; never those of another principal. A subscription that returns without
  its record receives again what is still available to newcomers: no event is lost.
"""

from __future__ import annotations

from heapq import heappop, heappush

from tidings.availability.delivered_ranges import DeliveredRanges
from tidings.availability.records import Loaded, Record
from tidings.model.subscription import SubscriptionId
from tidings.protocol.delivery import rows
from tidings.protocol.delivery.rows import MemoryRow
from tidings.protocol.slots import Ports

STEP = 256  # memories that one step forgets
OVERHEAD = 512  # of memory and disk beside the deliveries


class DeliveryMemory:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._kept: dict[SubscriptionId, MemoryRow] = {}
        self._owners: dict[SubscriptionId, str] = {}  # whose quota counts the record
        self._by_owner: dict[str, dict[SubscriptionId, None]] = {}  # oldest first
        self.ends: list[tuple[float, SubscriptionId]] = []  # heap; what is not in `_kept` is stale
        self.given_up = 0  # for want of room

    def load(self, state: Loaded) -> None:
        loaded = rows.decoded(state.tables, rows.MEMORY, MemoryRow)
        for row in sorted(loaded, key=lambda row: row.until):
            self._put(row)

    def keep(self, id: SubscriptionId, delivered: DeliveredRanges, until: float) -> list[Record]:
        """Keep a record, if there is room for it; the records to persist."""
        row = MemoryRow(id, delivered.encode(), until)
        records = [*self._drop(id), *self._make_room(row)]
        if not self._ports.kept.records_fit(self._owner(id), _size(row)):
            self.given_up += 1
            return records
        self._put(row)
        return [*records, rows.put_for(rows.MEMORY, id, row)]

    def _make_room(self, row: MemoryRow) -> list[Record]:
        """Drop the oldest records of its owner that are in its way; the records to persist."""
        records: list[Record] = []
        owner, size = self._owner(row.subscription), _size(row)
        while (own := self._by_owner.get(owner)) and not self._ports.kept.records_fit(owner, size):
            self.given_up += 1
            records += self._drop(next(iter(own)))
        return records

    def _owner(self, id: SubscriptionId) -> str:
        return self._ports.kept.owner_of(id)

    def _put(self, row: MemoryRow) -> None:
        id, owner = row.subscription, self._owner(row.subscription)
        self._kept[id], self._owners[id] = row, owner
        self._by_owner.setdefault(owner, {})[id] = None
        heappush(self.ends, (row.until, id))
        self._ports.kept.count_records(owner, _size(row))

    def _drop(self, id: SubscriptionId) -> list[Record]:
        """Forget a record, if there is one; the records to persist."""
        row = self._kept.pop(id, None)
        if row is None:
            return []
        owner = self._owners.pop(id)
        del self._by_owner[owner][id]
        if not self._by_owner[owner]:
            del self._by_owner[owner]
        self._ports.kept.count_records(owner, -_size(row))
        return [rows.delete_for(rows.MEMORY, id)]

    def look(self, id: SubscriptionId) -> DeliveredRanges | None:
        """As `take`, but keep it: what comes back is not on the disk itself, and may be lost again."""
        row = self._kept.get(id)
        return None if row is None else rows.read_delivered(row.delivered)

    def take(self, id: SubscriptionId) -> tuple[DeliveredRanges | None, list[Record]]:
        """The subscription is back: what it was told, and the records to persist."""
        delivered = self.look(id)
        return delivered, self._drop(id)

    def expire(self, now: float) -> list[Record]:
        """One step of forgetting old records; the records to persist."""
        records: list[Record] = []
        while self.ends and self.ends[0][0] <= now and len(records) < STEP:
            until, id = heappop(self.ends)
            row = self._kept.get(id)
            if row is not None and row.until == until:
                records += self._drop(id)
        return records

    def figures(self) -> dict[str, int]:
        return {
            "remembered subscriptions": len(self._kept),
            "remembered subscriptions given up": self.given_up,
        }


def _size(row: MemoryRow) -> int:
    return len(row.delivered) + OVERHEAD
