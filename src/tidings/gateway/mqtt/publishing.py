"""Publishes of one MQTT session: packets to events, batches to the broker, and the outcome of each as a
reason code.

Rules
- Packets that came together are published together; the broker answers a batch of QoS 1 once.
- A publish with an unknown outcome (None instead of a reason code) has to be sent again by the client; the
  resend is published under the identity of the first copy (`unconfirmed.py`).
- A message with QoS 2 is published once: its packet id is remembered until PUBREL (`exchanges.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tidings.errors import (
    RefusedError,
    SchemaError,
    StoreFullError,
    TidingsError,
    TooLargeError,
    UnknownOutcomeError,
)
from tidings.gateway.mqtt.events import event_of_packet
from tidings.gateway.mqtt.exchanges import Exchanges
from tidings.gateway.mqtt.packets import Malformed, PublishPacket, Reason, Will
from tidings.gateway.mqtt.unconfirmed import UnconfirmedPublishes
from tidings.model.event import Event
from tidings.protocol.messages import AckMode
from tidings.runtime.bus import Bus
from tidings.runtime.failures import error_of
from tidings.runtime.local_channel import Results
from tidings.runtime.local_clients import publish_batch

log = logging.getLogger("tidings.gateway")


Outcome = int | None  # a reason code; None: unknown, and the client is to send it again


class SessionPublisher:
    """The publishes of one session. `key` names the client in `undecided`."""

    def __init__(
        self,
        bus: Bus,
        client_id: str,
        key: tuple[str, ...],
        undecided: UnconfirmedPublishes,
        exchanges: Exchanges,
    ) -> None:
        self._bus = bus
        self._client_id = client_id
        self._key = key
        self._undecided = undecided  # of all sessions of the listener
        self._exchanges = exchanges
        self._received: set[int] = set()  # packet ids of QoS 2 that wait for PUBREL

    # -- batches -----------------------------------------------------------------------------------

    def publish_soon(self, packets: Sequence[PublishPacket]) -> None:
        """Publish packets of QoS 0: no answer tells whether the broker accepted them."""
        events: list[Event] = []
        now = datetime.now(UTC)
        for packet in packets:
            try:
                events.append(event_of_packet(packet, self._bus.name, None, now))
            except (Malformed, TidingsError) as error:
                log.info("mqtt %s: %s", self._client_id, error)
        if events:
            try:
                publish_batch(self._bus, events, [True] * len(events), AckMode.BEST_EFFORT, None)
            except TidingsError as error:
                log.info("mqtt %s: %s", self._client_id, error)

    def publish_all(self, packets: Sequence[PublishPacket], then: Callable[[list[Outcome]], None]) -> None:
        """Publish packets of QoS 1; `then` is called with their outcomes when the broker has answered, maybe
        at once."""
        outcomes: list[Outcome] = [Reason.SUCCESS] * len(packets)
        positions, events, numbered = [], [], []
        source, now = self._bus.name, datetime.now(UTC)
        for position, packet in enumerate(packets):
            known = self._undecided.id_of(self._key, packet) if packet.dup else None
            try:
                events.append(event_of_packet(packet, source, known, now))
            except (Malformed, TidingsError) as error:
                outcomes[position] = self._outcome(packet, error)
                continue
            positions.append(position)
            numbered.append(known is None)

        def answered(results: Results) -> None:
            if any(results) or self._undecided:
                self._note(packets, positions, results, outcomes)
            then(outcomes)

        if not events:
            then(outcomes)
            return
        try:
            publish_batch(self._bus, events, numbered, AckMode.AUTO, answered)
        except TidingsError as error:  # of the whole batch: the session of the principal is over
            for position in positions:
                outcomes[position] = self._outcome(packets[position], error)
            then(outcomes)

    def _note(
        self,
        packets: Sequence[PublishPacket],
        positions: list[int],
        results: Results,
        outcomes: list[Outcome],
    ) -> None:
        for position, result in zip(positions, results, strict=True):
            if result is not None:
                error = error_of(result.code, result.reason, result.id)
                outcomes[position] = self._outcome(packets[position], error)
            else:
                self._undecided.decided(self._key, packets[position])

    # -- one packet --------------------------------------------------------------------------------

    async def publish(self, packet: PublishPacket) -> Outcome:
        """Publish a packet of QoS 2 or a will; the outcome when the broker has answered."""
        known = self._undecided.id_of(self._key, packet)
        try:
            if packet.qos == 2:
                known = await self._exchanges.begin(packet.packet_id, known)
            event = event_of_packet(packet, self._bus.name, known, datetime.now(UTC))
            mode = AckMode.BEST_EFFORT if packet.qos == 0 else AckMode.AUTO
            results: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
            publish_batch(self._bus, [event], [known is None], mode, results.set_result)
            [result] = await results
            if result is not None:
                raise error_of(result.code, result.reason, result.id)
        except (Malformed, TidingsError) as error:
            return self._outcome(packet, error)
        self._undecided.decided(self._key, packet)
        if packet.qos == 2:
            self._exchanges.published(packet.packet_id)
        return Reason.SUCCESS

    def _outcome(self, packet: PublishPacket, error: Exception) -> Outcome:
        """The reason code of a failed publish."""
        known = self._undecided.id_of(self._key, packet)
        level = logging.INFO
        outcome: Outcome = Reason.IMPLEMENTATION
        if isinstance(error, UnknownOutcomeError):
            self._undecided.note(self._key, packet, error.id)
            outcome = None
        elif isinstance(error, RefusedError):
            outcome = Reason.NOT_AUTHORISED
        elif isinstance(error, Malformed):
            outcome = error.reason
        elif isinstance(error, StoreFullError):
            outcome = Reason.QUOTA
            if packet.dup and known is None:
                outcome = None  # the broker may have an earlier copy with a lost answer
        elif isinstance(error, TooLargeError):
            outcome = Reason.QUOTA
        elif isinstance(error, SchemaError):
            outcome = Reason.PAYLOAD_FORMAT
        else:
            level = logging.WARNING
        log.log(level, "mqtt %s: %s", self._client_id, error)
        if outcome is not None:
            self._undecided.decided(self._key, packet)
        return outcome

    # -- QoS 2 -------------------------------------------------------------------------------------

    @property
    def open_exchanges(self) -> int:
        """Messages of QoS 2 that wait for PUBREL."""
        return max(len(self._received), self._exchanges.open)

    def is_new(self, packet_id: int, most: int) -> bool:
        """False when it came before and waits for PUBREL. Raises `Malformed` above `most` exchanges."""
        if packet_id in self._received or self._exchanges.is_kept(packet_id):
            return False
        if self.open_exchanges >= most:
            raise Malformed(f"more than {most} messages of QoS 2 wait for PUBREL", Reason.RECEIVE_MAXIMUM)
        self._received.add(packet_id)
        return True

    def refused(self, packet_id: int) -> None:
        """The message was refused: its packet id is free."""
        self._received.discard(packet_id)
        self._exchanges.drop(packet_id)

    def unsure(self, packet_id: int) -> None:
        """The message may have been accepted: a resend is the same message."""
        self._received.discard(packet_id)

    async def released(self, packet_id: int) -> int:
        """PUBREL came; the reason of PUBCOMP, once it is kept that the packet id is free."""
        is_known = packet_id in self._received or self._exchanges.is_open(packet_id)
        await self._exchanges.release(packet_id)
        self._received.discard(packet_id)
        return Reason.SUCCESS if is_known else Reason.PACKET_ID_NOT_FOUND


def message_of(will: Will) -> PublishPacket:
    """The message that a will stands for."""
    properties = {name: value for name, value in will.properties.items() if name != "will_delay"}
    return PublishPacket(will.topic, will.payload, will.qos, will.retain, properties=properties)
