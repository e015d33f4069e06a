"""The limits of a broker, of its clients and of the codec between them: one value, injected everywhere.

Rules
- A limit stands here and nowhere else. Nodes, clients, codecs and connections are given one `ResourceLimits`;
  a simulation gives them a smaller one, so that every limit is met in nearly every run.
- Each field says what it bounds and what a larger value costs. Fields that depend on one another say the
  formula, and `__post_init__` refuses values that contradict it.
- Bytes are those of the encoded form. A batch always takes its first item, so that one large event still
  travels; what bounds a single event is `event_bytes`.
"""

from __future__ import annotations

from typing import Self

import msgspec

from tidings.errors import SettingsError


class ClientLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The most that one message of a client may ask for; each field says what a larger value costs."""

    name: int = 1024  # characters of a name, source, id or key; they are stored on disk and in memory
    topic: int = 65_535  # bytes of a topic in UTF-8; MQTT carries no longer one
    filter: int = 1 << 20  # characters of a filter's text; the limits of a filter bound it further
    queue: int = 1_000_000  # notifications that may wait for one subscription; a quota bounds their bytes
    credit: int = 1_000_000  # notifications granted at once, and in all, to one consumer
    deliveries: int = 1_000_000  # attempts before an event becomes a dead letter
    seconds: float = 10 * 366 * 86_400.0  # `keep_seconds` of a durable subscription
    hold_seconds: float = 31 * 86_400.0  # time that a hold lasts without renewal; it pins the log so long
    tags: int = 1 << 16  # deliveries in one `Ack` or `Nack`; each is looked up
    holdings: int = 1024  # events that a member of a group says it holds, or committed; each is looked up
    tag_range: int = 1 << 32  # deliveries named by one `AckAll`; only those in flight are looked up
    page: int = 1 << 31  # entries requested in one page; a page has at most `log_page_count`
    parts: int = 1 << 16  # parts of one staged batch; each is looked up at the commit
    events: int = 1 << 16  # events staged by one message
    holds: int = 1_000  # holds of one principal on a log, beside its quota; each has an index
    queries: int = 1_000  # queries of one principal whose last batch is remembered; each is a row on disk
    logs: int = 1 << 14  # logs named in a resume token
    sources: int = 10_000  # publishers named by a client that comes from another broker
    ahead: int = 1 << 32  # offsets that tokens may be ahead of the log; each is skipped
    lineage: int = 64  # names in the type of an event
    headers: int = 64  # headers of an event, each of another protocol
    header_bytes: int = 256 << 10  # names and values of all its headers; decoded they take 30 times as much
    topic_filters: int = 256  # topic filters of one MQTT SUBSCRIBE; each opens a subscription
    session_bytes: int = 1 << 20  # filters of one MQTT session; all sessions are written together
    sink: int = 2048  # characters of a webhook's address
    config: int = 16 << 10  # bytes of JSON of each table of a webhook; stored on disk and in memory
    about: int = 1024  # values in one inquiry, nested ones included

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise SettingsError(f"the limit client.{name} is {getattr(self, name)}", hint="more than 0")


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Every limit, with what it costs to raise it."""

    # -- messages ------------------------------------------------------------------------------
    frame_bytes: int = 16 << 20  # frame on a stream; a larger one occupies the link longer
    link_frame_bytes: int = 64 << 20  # frame between brokers, the same in all; larger ones delay others
    envelope_bytes: int = 64 << 10  # overhead of an event in a message: position, headers, path, age
    batch_bytes: int = 1 << 20  # items in one message, at most `event_bytes`; more delays other messages
    batch_count: int = 256  # items in one message; more makes one step of the receiver longer
    datagram_bytes: int = 60_000  # datagram; UDP carries 65,507, and larger ones are lost more often

    # -- pages of a log ------------------------------------------------------------------------
    page_bytes: int = 1 << 20  # one read of the disk; bounds the memory of each replay
    page_count: int = 256  # entries of one read of the disk
    log_page_count: int = 4096  # entries in one answer to `read_log`; `batch_bytes` bounds its size
    transfer_bytes: int = 4 << 20  # one page of a whole log or archive, at most `event_bytes`
    transfer_count: int = 16_384  # entries in one page of a whole log
    archive_page_count: int = 2_000  # events in one page of an archive
    archive_page_rows: int = 200_000  # archive rows examined for one page: about half a second

    # -- windows -------------------------------------------------------------------------------
    window_bytes: int = 8 << 20  # sent to a group member, unacknowledged; at most a link's buffer
    window_count: int = 4096  # entries sent to a group member, unacknowledged
    window_tries: int = 16  # longest pause between two tries, in ticks; more finds losses later
    delivery_bytes: int = 4 << 20  # sent to a subscriber, unacknowledged; at most half its buffer
    publishes_in_flight: int = 1024  # unacknowledged publishes of one client; more uses more memory
    pending_publishes: int = 65_536  # calls of `publish_nowait` before a flush; more uses more memory
    unconfirmed_count: int = 1000  # unconfirmed events of one HTTP subscription; all are in memory
    token_logs: int = 64  # logs named in the id of an event of an HTTP stream; a header carries it
    notifications_ahead: int = 256  # notifications sent before they are taken; no queue policy applies

    # -- batches of one step -------------------------------------------------------------------
    publish_frame_bytes: int = 12 << 10  # publishes of a client in one frame; every broker takes 16 KiB
    publishes_together: int = 1024  # publishes accepted in one step; the first waits for the last
    deliveries_together: int = 1 << 14  # deliveries made in one step; more makes larger messages
    waiting_deliveries: int = 4096  # pending deliveries at which reading of publishers pauses
    waiting_turns: int = 256  # turns after which a paused publisher is read anyway
    requests_together: int = 64  # replay requests in one message; each carries its filter
    described_subscriptions: int = 1_000  # entries in one answer to `subscriptions`; more delays others
    encoded_bytes: int = 256 << 10  # encoded frames waiting for a client; further deliveries stay unencoded
    turn_bytes: int = 1 << 20  # frames encoded for one client in a turn of the loop
    listen_backlog: int = 1024  # connections that the system queues before they are accepted

    # -- disk ----------------------------------------------------------------------------------
    store_bytes: int = 1 << 50  # size of a store; at it publishes are refused, and no owed event is dropped

    # -- tables --------------------------------------------------------------------------------
    remembered_copies: int = 1 << 16  # foreign ids, and commits in a group, that a client recognises
    matched_topics: int = 4096  # topics whose match is cached; more uses more memory
    matched_topic: int = 256  # characters of a cached topic; a longer one is matched each time
    remembered_events: int = 1024  # events outside any log that a client recognises as duplicates
    group_members: int = 256  # members of a group whose return after a restart is awaited; stored with it
    group_claims: int = 1 << 16  # events of a group that returning members name and that are still to be read
    remembered_losses: int = 4096  # subscriptions whose counts of losses go on when their clients are back
    recounted_changes: int = 32  # subscriptions with another filter that one recount of the log looks at

    # -- matching ------------------------------------------------------------------------------
    owner_work: int = 1 << 25  # cost of all filters of a principal for one event: 50 to 100 ms of matching

    # -- trials of filters ---------------------------------------------------------------------
    trial_bytes: int = 1 << 20  # a filter and an event that are tried by HTTP; decoding is work

    # -- webhooks ------------------------------------------------------------------------------
    answer_bytes: int = 64 << 10  # bytes read of a webhook's answer

    client: ClientLimits = ClientLimits()  # see `[resources.client]`

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if name != "client" and getattr(self, name) < 1:
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
    def taken_bytes(self) -> int:
        """The largest frame that this broker takes from another one: an event that a broker with a larger
        `frame_bytes` accepted passes here too."""
        return max(self.frame_bytes, self.link_frame_bytes)

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
