"""Bytes that a broker keeps for principals, as its guard counts them: events in the log by publisher and by
the owner of the durable subscriptions that they wait for, dead letters, and records of ended subscriptions.
"""

from __future__ import annotations

from typing import Protocol

from tidings.model.subscription import SubscriptionId


class RetainedBytes(Protocol):
    """Counts of what is kept, by principal."""

    def stored(self, source: str, size: int) -> None:
        """Count bytes of this source's events in the log; below 0: so many fewer."""

    def publisher_of(self, source: str) -> str:
        """The principal that publishes under this source."""

    def owner_of(self, id: SubscriptionId) -> str:
        """The principal that the subscription belongs to."""

    def letters_fit(self, owner: str, size: int) -> bool:
        """May so many bytes more of dead letters be kept for this principal? They are in memory too."""

    def count_letters(self, owner: str, size: int) -> None:
        """Count kept bytes of dead letters; below 0: so many fewer."""

    def records_fit(self, owner: str, size: int) -> bool:
        """May so many bytes more of records of its ended subscriptions be kept? They are in memory too."""

    def count_records(self, owner: str, size: int) -> None:
        """Count kept bytes of those records; below 0: so many fewer."""

    def count_backlog(self, owner: str, size: int) -> None:
        """Count bytes of the log that wait for durable subscriptions of this principal; below 0: so many
        fewer."""

    def is_backlog_over(self, owner: str) -> bool:
        """Do more bytes wait for its durable subscriptions than its quota of stored bytes allows?"""


class UnboundedRetention:
    """Bounds of a broker without a guard: no bytes are counted."""

    def stored(self, source: str, size: int) -> None:
        pass

    def publisher_of(self, source: str) -> str:
        return ""

    def owner_of(self, id: SubscriptionId) -> str:
        return ""

    def letters_fit(self, owner: str, size: int) -> bool:
        return True

    def count_letters(self, owner: str, size: int) -> None:
        pass

    def records_fit(self, owner: str, size: int) -> bool:
        return True

    def count_records(self, owner: str, size: int) -> None:
        pass

    def count_backlog(self, owner: str, size: int) -> None:
        pass

    def is_backlog_over(self, owner: str) -> bool:
        return False


UNBOUNDED = UnboundedRetention()
