"""Far ends of links: the frames and the kinds of messages that they take."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.protocol.inputs import Feature, LinkUp
from tidings.protocol.messages import Envelope
from tidings.protocol.slots import Ports


class FarEnds:
    """Neighbours, as they announced themselves when their links came up."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._frames: dict[str, int] = {}  # by link: the largest frame that its far end takes
        self._features: dict[str, int] = {}  # by link: kinds of messages that its far end announced
        self._passed_over: set[tuple[str, str, int | None]] = set()  # link, log and offset: too large for it

    def link_up(self, input: LinkUp) -> None:
        self._frames[input.peer] = input.frame_bytes
        self._features[input.peer] = input.features

    def takes(self, link: str, feature: Feature) -> bool:
        """Did the far end of a link announce this kind of message?"""
        return self._features.get(link, 0) & int(feature) != 0

    def taken(self, link: str, envelopes: Sequence[Envelope], now: float) -> Sequence[Envelope]:
        """Those of the events that the far end of a link takes and that a log holds (others were wanted over
        no link when they were accepted); the same sequence when it takes all."""
        most = self._most_bytes(link)
        for envelope in envelopes:
            event = envelope.event
            if event.size > most or event.rich or envelope.offset is None:
                break
        else:
            return envelopes
        kept = [envelope for envelope in envelopes if envelope.offset is not None]
        taken = [envelope for envelope in kept if not self.is_too_much(link, envelope, now)]
        return taken if len(taken) < len(envelopes) else envelopes

    def _most_bytes(self, link: str) -> int:
        limits = self._ports.limits
        return (self._frames.get(link) or limits.taken_bytes) - limits.envelope_bytes

    def is_too_much(self, link: str, envelope: Envelope, now: float) -> bool:
        """Is this an event that the far end of a link does not take? Brokers of an earlier version take only
        frames of their own limit, and flat bodies. Then it is passed over on this link and kept as a dead
        letter of the link: sent, it would end the link again and again, or arrive broken."""
        is_unread = envelope.event.rich and not self.takes(link, Feature.RICH_BODIES)
        if not is_unread and envelope.event.size <= self._most_bytes(link):
            return False
        passed = (link, envelope.origin, envelope.offset)
        if passed not in self._passed_over:
            self._passed_over.add(passed)
            self._ports.dispatcher.undeliverable(link, envelope, now)
        return True
