"""Answers to the publishes of one connection, in the order of the packets that they answer (MQTT-4.6.0)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from tidings.gateway.mqtt.packets import V5, PacketKind

PLAIN_PUBACK = b"\x40\x02"  # before the packet id, when the publish was accepted


class PendingAnswers:
    """The place of the answers to packets that were handled together; `data` is known when they are."""

    __slots__ = ("count", "data", "is_puback")

    def __init__(self, count: int, is_puback: bool) -> None:
        self.count = count
        self.is_puback = is_puback
        self.data: bytes | None = None


class AnswerLine:
    """Those of one connection, no more than `most`. `send` writes the ones that may leave."""

    def __init__(self, most: int, send: Callable[[bytes], None]) -> None:
        self._most = most
        self._send = send
        self._line: deque[PendingAnswers] = deque()
        self._has_room = asyncio.Event()
        self._is_over = False
        self.count = 0  # answers that did not leave yet
        self.pubacks = 0  # of those

    def reserve(self, count: int = 1, *, is_puback: bool = False) -> PendingAnswers:
        """The next place, for so many answers."""
        answers = PendingAnswers(count, is_puback)
        self._line.append(answers)
        self.count += count
        if is_puback:
            self.pubacks += count
        return answers

    def answer(self, answers: PendingAnswers, data: bytes) -> None:
        """These are known; they leave when those before them have."""
        answers.data = data
        line = self._line
        while line and (known := line[0].data) is not None:
            gone = line.popleft()
            self.count -= gone.count
            if gone.is_puback:
                self.pubacks -= gone.count
            if known:
                self._send(known)
        if self.count < self._most:
            self._has_room.set()

    async def room(self) -> None:
        """Wait until a bounded number of packets is unanswered."""
        while self.count >= self._most and not self._is_over:
            self._has_room.clear()
            await self._has_room.wait()

    def end(self) -> None:
        """The connection is over: no packet waits for room."""
        self._is_over = True
        self._has_room.set()


def ack(kind: PacketKind, packet_id: int, reason: int, version: int) -> bytes:
    """The bytes of PUBACK, PUBREC or PUBCOMP."""
    if reason and version == V5:
        return bytes((kind << 4, 3, packet_id >> 8, packet_id & 0xFF, reason))
    return bytes((kind << 4, 2, packet_id >> 8, packet_id & 0xFF))
