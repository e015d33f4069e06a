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

    name: int = 1024  # characters of a name, a source, an id, a key; names are kept on disk and in memory
    topic: int = 65_535  # bytes of a topic in UTF-8; above that MQTT cannot carry it to a subscriber
    filter: int = 1 << 20  # characters of a filter's text; `language.limits` bounds it further
    queue: int = 1_000_000  # notifications that may wait for one subscription; their bytes are in a quota
    credit: int = 1_000_000  # notifications granted at once, and in all, to one member of a subscription
    deliveries: int = 1_000_000  # attempts before an event becomes a dead letter
    seconds: float = 10 * 366 * 86_400.0  # of an own bound of a durable subscription
    hold_seconds: float = 31 * 86_400.0  # that a hold lasts when it is not renewed; it pins the log so long
    tags: int = 1 << 16  # deliveries in one `Ack` or `Nack`; each is looked up
    tag_range: int = 1 << 32  # deliveries that one `AckAll` names; only those in flight are looked at
    page: int = 1 << 31  # entries asked for in one page; a page holds `log_page_count` at most
    parts: int = 1 << 16  # of one staged batch; each is looked up at the commit
    events: int = 1 << 16  # staged by one message
    holds: int = 1_000  # of one principal on a log, beside its quota; each keeps an index of what it holds
    queries: int = 1_000  # of one principal whose last batch is remembered; each is a row on the disk
    logs: int = 1 << 14  # that a token names
    sources: int = 10_000  # that a client names when it comes from another broker
    ahead: int = 1 << 32  # offsets that tokens of one life may be ahead of our log; each is passed over
    lineage: int = 64  # names in the type of an event
    topic_filters: int = 256  # handled of one MQTT SUBSCRIBE; each is a subscription that is opened
    session_bytes: int = 1 << 20  # filters of one MQTT session; all sessions are written together
    sink: int = 2048  # characters of a webhook's address
    config: int = 16 << 10  # bytes of JSON of each table of a webhook; kept on disk and in memory
    about: int = 1024  # values inside one inquiry, with those inside of them

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise SettingsError(f"the limit client.{name} is {getattr(self, name)}", hint="more than 0")


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Every limit, with what it costs to raise it."""

    # -- messages ------------------------------------------------------------------------------
    frame_bytes: int = 16 << 20  # of one frame on a stream; a larger frame holds the link longer
    link_frame_bytes: int = 64 << 20  # of a frame between brokers, the same in all; more holds a link longer
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
    pending_publishes: int = 65_536  # of `publish_nowait` before a flush; more costs memory
    unconfirmed_count: int = 1000  # of one HTTP subscription; each is in memory and looked at by each ack
    token_logs: int = 64  # that the id of an event in an HTTP stream names; a header has to hold it
    notifications_ahead: int = 256  # sent before they are taken; the queue's policy misses them

    # -- batches of one step -------------------------------------------------------------------
    publishes_together: int = 1024  # that are accepted in one step; the first waits for the last
    deliveries_together: int = 1 << 14  # that one step makes; more makes larger messages for many subscribers
    waiting_deliveries: int = 4096  # since a quiet turn, then publishers are read less; more lets queues grow
    waiting_turns: int = 256  # of publishers, until they are read whatever comes; more lets a flood win
    requests_together: int = 64  # replay requests in one message; each carries its filter
    described_subscriptions: int = 1_000  # in one answer to `subscriptions`; more holds the loop longer
    encoded_bytes: int = 256 << 10  # of frames that wait for a client; more deliveries wait as they are
    turn_bytes: int = 1 << 20  # of those that a turn of the loop encodes for one client; others wait for it
    listen_backlog: int = 1024  # connections that the system holds before they are accepted

    # -- disk ----------------------------------------------------------------------------------
    store_bytes: int = 1 << 50  # of a store's files; at it publishes are refused; no owed event is dropped

    # -- tables --------------------------------------------------------------------------------
    remembered_copies: int = 1 << 16  # foreign ids, and commits in a group, that a client knows again
    matched_topics: int = 4096  # topics whose match is remembered; more cost memory
    matched_topic: int = 256  # characters of such a topic; a longer one is matched each time
    remembered_events: int = 1024  # that no log holds and a client recognises; more recognises older ones

    # -- webhooks ------------------------------------------------------------------------------
    answer_bytes: int = 64 << 10  # of a sink's answer that are read; more keeps connections that talk longer

    client: ClientLimits = ClientLimits()  # the most that one message of a client may ask for

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
