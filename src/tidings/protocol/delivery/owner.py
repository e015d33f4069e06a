"""The memory of one principal's subscriptions: bytes of events that wait for them, or are unacknowledged.

Rules
- Each event counts for each subscription that it waits for, though the broker holds it once.
- At the bound a subscription whose queue is not empty is full, and follows its policy or spills to the log;
  and a member gets few bytes ahead of its acknowledgements. So one event at a time still gets through to each
  of them.
- A queue's bytes are counted when an event comes and when it goes to a member; an event that leaves a queue
  in another way counts until the queue is empty.
"""

from __future__ import annotations


class OwnerMemory:
    """Bytes that the subscriptions of one principal hold in memory at one broker."""

    __slots__ = ("most", "used")

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0

    @property
    def is_full(self) -> bool:
        return self.used >= self.most


UNCOUNTED = OwnerMemory(1 << 62)  # of clients of the embedded broker, and of principals without a quota
