"""Events with a key that wait for a subscription, and the order in which a newer one supersedes an older one.

Rules
- An event that waits and was never sent is newer than any that was sent; of two that were sent, the one that
  was sent first is the older, whatever tag either has now.
- An event that a member returns is obsolete when a newer one of its key waits, is with a member, or is in the
  log. It never displaces a newer one.
- Subscriptions that want superseded events, and dead letters, have no keys here.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidings.protocol.delivery.item import Item
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.subscription_state import SubscriptionState

NEVER_SENT = 1 << 62  # above every tag


class KeyedItems:
    def __init__(self, index: LogIndex) -> None:
        self._index = index
        self._waiting: dict[str, dict[SubscriptionState, Item]] = {}  # by key: the newest that waits

    def add(self, state: SubscriptionState, item: Item) -> None:
        """It waits from now on."""
        if (key := _key(state, item)) is not None:
            self._waiting.setdefault(key, {})[state] = item

    def discard(self, state: SubscriptionState, item: Item) -> None:
        """It waits no more."""
        key = item.event.key or ""
        waiting = self._waiting.get(key)
        if waiting is not None and waiting.get(state) is item:
            del waiting[state]
            if not waiting:
                del self._waiting[key]

    def waiting(self, key: str) -> list[tuple[SubscriptionState, Item]]:
        """The events of a key that wait, each with its subscription."""
        return list(self._waiting.get(key, {}).items())

    def sort_out(self, state: SubscriptionState, returned: Sequence[Item]) -> tuple[list[Item], list[Item]]:
        """The returned events that are to be delivered again, and those that are superseded, among them what
        waited and is older than a returned one. The subscription's members have the returned ones no more."""
        newest = self._newest(state, returned)
        again: list[Item] = []
        obsolete: list[Item] = []
        for item in returned:
            key = _key(state, item)
            if key is None:
                again.append(item)
            elif newest[key] is not item:
                obsolete.append(item)
            else:
                again.append(item)
                if (waits := self._waiting.get(key, {}).get(state)) is not None:
                    obsolete.append(waits)
                self.add(state, item)
        return again, obsolete

    def _newest(self, state: SubscriptionState, returned: Sequence[Item]) -> dict[str, Item | None]:
        """By key of the returned events, the newest one; None: the log holds a newer one."""
        newest: dict[str, Item | None] = {}
        numbers: dict[str, int] = {}  # in the order of sending
        for each in returned:
            if (key := _key(state, each)) is not None and each.first_tag > numbers.get(key, -1):
                newest[key], numbers[key] = each, each.first_tag
        if not newest:
            return newest
        for run in state.unacked:
            for tag, each in enumerate(run.own_items, run.first):
                if (key := each.event.key) in numbers and (each.first_tag or tag) > numbers[key]:
                    newest[key], numbers[key] = each, each.first_tag or tag
        for key, item in newest.items():
            waits = self._waiting.get(key, {}).get(state)
            if waits is not None and (waits.first_tag or NEVER_SENT) > numbers[key]:
                newest[key] = waits
            elif item is not None and self._is_outdated(key, item):
                newest[key] = None
        return newest

    def _is_outdated(self, key: str, item: Item) -> bool:
        """Does this broker's log hold a newer event of its key?"""
        position = item.position
        return position is not None and item.log == self._index.log and self._index.has_newer(
            key, position.offset
        )  # fmt: skip


def _key(state: SubscriptionState, item: Item) -> str | None:
    return item.event.key if state.options.superseding and item.dead_letter is None else None
