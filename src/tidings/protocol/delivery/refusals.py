"""Answers to clients whose request the disk cannot keep: code and reason."""

from __future__ import annotations

from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.slots import Disk

DISK = "the broker's disk is full"
GROUP = "the disks of the broker's group are full"


def kept_out(reason: str | None, full: str = DISK) -> tuple[str, str]:
    """The refusal of what a full disk does not take; it was not kept, and will not be."""
    return ("full", f"not kept, since {full} ({reason}); publish it again when there is room")


def unsure(reason: str | None, full: str = DISK) -> tuple[str, str]:
    """The answer to what was handed to the disk before the disk was full."""
    return ("unknown", f"{full} ({reason}); it is kept when there is room, or never")


def not_known(reason: str) -> tuple[str, str]:
    """The answer to an identity that is known in memory, when the disk has failed: it may be on the disk or
    not."""
    return ("unknown", f"the broker's disk has failed ({reason}); the event is kept, or it is not")


def disk_refusal(disk: Disk, state: SubscriptionState | None) -> tuple[str, str] | None:
    """The refusal of a durable subscription; `state` is the one that goes on, if there is one."""
    if disk.failed is not None:
        return ("store", f"the broker's disk has failed: {disk.failed.reason}")
    return None if disk.full is None or (state is not None and state.stored.is_kept) else kept_out(disk.full)
