"""Answers to clients whose publish is refused or cannot be kept: code and reason."""

from __future__ import annotations

from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.slots import Disk

NO_STORE = "mode 'kept' needs a broker with a store; this one keeps events only as long as its process lives"
NO_GROUP = "mode 'replicated' needs a broker in a group (tidings broker --group); 'kept' is on this disk"
MANY_IDS = "this broker remembers no more ids of yours: leave the id out, or publish later"
STALE = "this number was passed long ago; whether it was published is not known any more"
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


def older_copy(log: str, skipped: int, repeated: int) -> str:
    """The warning of a store that was put back to an older copy of itself."""
    lost = f"the log {log} was {skipped} entries longer in an earlier life of this broker"
    shared = f"; {repeated} events of this life may not have reached all neighbours" if repeated else ""
    return f"{lost}: was the store put back to an older copy? Those are lost{shared}"


def ahead_of_log(log: str, after: int, end: int) -> str:
    """The refusal of a job that has read more of a log than there is."""
    return (
        f"the log {log} ends at {end}, and {after} is behind it: its store was put back to an older copy by "
        "other means than `tidings store restore`; read on from where that copy ended"
    )
