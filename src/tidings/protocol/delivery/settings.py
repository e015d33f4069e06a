"""The knobs of delivery, each with its price."""

from __future__ import annotations

import msgspec

from tidings.availability.identity import IdentityBounds

DAY = 86_400.0


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True):
    chunk: int = 256  # events that a replay reads at once; more is faster and holds more in memory
    flush_seconds: float = 0.05  # progress is persisted so often; a crash repeats at most this much
    collect_budget: int = 512  # expired events that one step forgets; more delays what waits behind it
    maintain_budget: int = 4  # steps of the matcher's upkeep at once, some milliseconds; the same price
    memory_seconds: float = 7 * DAY  # what an ended named subscription was told is remembered so long
    linger_seconds: float = 60.0  # the same for one without a name whose link broke
    remote_subscription_seconds: float = DAY  # one of another broker ends so long after its listener left
    staging_seconds: float = 600.0  # what was staged and not committed is forgotten after so long
    staging_bytes: int = 64 << 20  # that one principal may have staged; they are held in memory too
    staging_principals: int = 4  # that find room for so much at once; more may fill more memory
    dead_letters: int = 1_000  # kept for each subscription; then the oldest is dropped and counted
    dead_letter_bytes: int = 64 << 20  # the same in bytes; they are in memory too
    dead_letter_seconds: float = 3600.0  # they are kept so long after their subscription ended
    identities: IdentityBounds = IdentityBounds()  # how much is remembered of what was published
    dedup_seconds: float = 3600.0  # an id of another's making is known so long after its event; 8 bytes each
    names_log: bool = False  # a log has a name of its own: a new one when it begins on an empty disk
    allow_block: bool = True  # policy `block`; a network has none, there a slow subscriber hurts itself
    shared_log: bool = (
        False  # of a group: a client with a token in the log has a right to what comes after it
    )

    @property
    def remembered(self) -> IdentityBounds:
        """The bounds of what is remembered, with the window that was set."""
        return msgspec.structs.replace(self.identities, foreign_seconds=self.dedup_seconds)
