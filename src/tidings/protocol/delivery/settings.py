"""The knobs of delivery, each with its price."""

from __future__ import annotations

import msgspec

from tidings.availability.identity import IdentityBounds

DAY = 86_400.0


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True):
    chunk: int = 256  # events that a replay reads at once; more is faster and uses more memory
    flush_seconds: float = 0.05  # interval of persisting progress; a crash repeats at most this much
    collect_budget: int = 512  # expired events removed in one step; more delays other work
    maintain_budget: int = 4  # steps of index upkeep at once, some milliseconds; more delays other work
    memory_seconds: float = 7 * DAY  # how long the deliveries of an ended named subscription are remembered
    linger_seconds: float = 60.0  # the same for a subscription without a name whose connection broke
    remote_subscription_seconds: float = DAY  # a subscription of another broker ends so long after it left
    staging_seconds: float = 600.0  # age at which staged events that were not committed are dropped
    staging_bytes: int = 64 << 20  # maximum of one principal's staged events; they are in memory too
    staging_principals: int = 4  # principals that may stage so much at once; more use more memory
    dead_letters: int = 1_000  # maximum per subscription; beyond it the oldest is dropped and counted
    dead_letter_bytes: int = 64 << 20  # maximum bytes per subscription; they are in memory too
    dead_letter_seconds: float = 3600.0  # how long dead letters are kept after the end of their subscription
    identities: IdentityBounds = IdentityBounds()  # bounds of the deduplication window
    dedup_seconds: float = 3600.0  # how long a publisher's own id outlives its event; 8 bytes each
    names_log: bool = False  # gives the log a name of its own, and a new one when its disk is empty
    regroup_seconds: float = 6.0  # wait of a durable group for its members after a restart; 0: none
    allow_block: bool = True  # permits the policy `block`; brokers of a network refuse it
    shared_log: bool = False  # of a group: a client with a token in the log is owed the events after it

    @property
    def remembered(self) -> IdentityBounds:
        """The bounds of what is remembered, with the window that was set."""
        return msgspec.structs.replace(self.identities, foreign_seconds=self.dedup_seconds)
