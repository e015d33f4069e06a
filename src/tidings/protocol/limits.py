"""The limits of a broker, of its clients and of the codec between them: one value, injected everywhere.

Rules
- A limit stands here and nowhere else. Nodes, clients, codecs and connections are given one `ResourceLimits`;
  a simulation gives them a smaller one, so that every limit is met in nearly every run.
- Each field says what it bounds and what a larger value costs. Fields that depend on one another say the formula,
  and `__post_init__` refuses values that contradict it.
- Bytes are those of the encoded form. A batch always takes its first item, so that one large event still travels;
  what bounds a single event is `event_bytes`.
"""

from __future__ import annotations

from typing import Self

import msgspec

from tidings.errors import SettingsError


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Every limit, with what it costs to raise it."""

    # -- messages ------------------------------------------------------------------------------
    frame_bytes: int = 16 << 20  # of one frame on a stream; a larger frame holds the link longer
    envelope_bytes: int = 64 << 10  # that a message adds to an event: position, headers, path, age
    batch_bytes: int = 1 << 20  # of the items in one message, at most `event_bytes`; more delays others
    batch_count: int = 256  # items in one message; more makes one step of the receiver longer
    datagram_bytes: int = 60_000  # of one datagram; UDP carries 65,507, and larger ones are lost oftener

    # -- pages of a log ------------------------------------------------------------------------
    page_bytes: int = 1 << 20  # that one read of the disk returns; bounds the memory of each replay
    page_count: int = 256  # entries that one read of the disk returns
    log_page_count: int = 4096  # entries in one answer to `read_log`; its bytes are bounded by `batch_bytes`
    transfer_bytes: int = 4 << 20  # of one page of a whole log or archive, at most `event_bytes`
    transfer_count: int = 16_384  # entries of one page of a whole log
    archive_page_count: int = 2_000  # events of one page of an archive
    archive_page_rows: int = 200_000  # of an archive that are looked at for one page: half a second or so

    # -- windows -------------------------------------------------------------------------------
    window_bytes: int = 8 << 20  # sent to a member of a group and not acknowledged; at most a link's buffer
    window_count: int = 4096  # entries of the same
    window_tries: int = 16  # pauses between two tries at most; more finds a lost batch later
    delivery_bytes: int = 4 << 20  # sent to a subscriber, unacknowledged; at most half its buffer
    publishes_in_flight: int = 1024  # of one client, unacknowledged; more costs memory
    notifications_ahead: int = 256  # sent before they are taken; the queue's policy misses them

    # -- batches of one step -------------------------------------------------------------------
    publishes_together: int = 1024  # that are accepted in one step; the first waits for the last
    deliveries_together: int = 1 << 14  # that one step makes; more makes larger messages for many subscribers
    requests_together: int = 16  # replay requests in one message; each carries its filter
    described_subscriptions: int = 1_000  # in one answer to `subscriptions`; more holds the loop longer
    listen_backlog: int = 1024  # connections that the system holds before they are accepted

    # -- disk ----------------------------------------------------------------------------------
    store_bytes: int = 1 << 50  # of a store's files; at it publishes are refused, and nothing owed is dropped

    # -- tables --------------------------------------------------------------------------------
    remembered_copies: int = 1 << 16  # foreign ids that a client knows from other brokers' logs
    remembered_events: int = 1024  # that no log holds and a client recognises; more recognises older ones

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise SettingsError(f"the limit {name} is {getattr(self, name)}", hint="1 or more")
        if self.event_bytes < 1:
            raise SettingsError(
                f"a frame of {self.frame_bytes} bytes has no room for an event",
                hint=f"frame_bytes is above envelope_bytes ({self.envelope_bytes})",
            )
        if self.batch_bytes > self.event_bytes:
            raise SettingsError(
                f"a batch of {self.batch_bytes} bytes does not fit a frame",
                hint=f"at most frame_bytes - envelope_bytes = {self.event_bytes}",
            )

    @property
    def event_bytes(self) -> int:
        """The largest event that a broker accepts: `frame_bytes - envelope_bytes`, so that every message that
        carries one event fits a frame."""
        return self.frame_bytes - self.envelope_bytes

    @property
    def datagram_event_bytes(self) -> int:
        """The largest event of a system that sends events by datagram."""
        return min(self.event_bytes, max(1, self.datagram_bytes - min(self.envelope_bytes, 4096)))

    def fitted(self, frame_bytes: int) -> Self:
        """The same limits for frames of this size: what depends on the frame shrinks with it."""
        envelope = min(self.envelope_bytes, max(1, frame_bytes // 4))
        most = frame_bytes - envelope
        return msgspec.structs.replace(
            self, frame_bytes=frame_bytes, envelope_bytes=envelope, batch_bytes=min(self.batch_bytes, most),
            transfer_bytes=min(self.transfer_bytes, most),
        )  # fmt: skip


DEFAULT_LIMITS = ResourceLimits()
