"""Neighbours of neighbours: knowledge for the loss of two adjacent brokers at once.

Each broker passes on what a neighbour told it of its links (`TwoHopNeighbours`). So when two adjacent brokers
are lost, the brokers on either side know those on the other. Rules
- On each side the neighbours of the lost one find one another first (`healing.py`); one of them keeps a place
  for the other lost broker, with everything that those behind it may want.
- When that one does not come either, the broker that keeps the place stands in for the lost broker between
  them (`StandInRequest`): it asks the neighbours that the lost broker would have asked.
- The asked broker handles the request on behalf of the lost one, and releases the place that it kept for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from tidings.availability.records import Delete, Put, Record
from tidings.protocol.messages import Message

COUSINS = "overlay.cousins"  # table: by broker that a neighbour is linked with, the links of that broker
KEPT_COUSINS = 256


class AddressedMessage(Protocol):
    """A message that names brokers, and where each is."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def addresses(self) -> tuple[str, ...]: ...


class TwoHopNeighbours(Message, frozen=True, tag="Cousin"):
    """Links of a neighbour of the sender, with addresses."""

    of: str
    names: tuple[str, ...]
    addresses: tuple[str, ...]


class StandInRequest(Message, frozen=True, tag="StandIn"):
    """The sender wants to be linked with us, since this broker and the one between it and us are lost."""

    lost: str
    instead: str  # the neighbour of the sender that was linked with the lost one


def places_in(message: AddressedMessage) -> dict[str, str]:
    """By name, where each is. A neighbour that tells more names than places is believed as far as it goes."""
    return dict(zip(message.names, message.addresses, strict=False))


class TwoHopTable:
    """Knowledge of brokers two links away, the newest last."""

    def __init__(self) -> None:
        self._addresses: dict[str, dict[str, str]] = {}

    def load(self, table: Mapping[str, bytes]) -> None:
        self._addresses = {of: msgspec.msgpack.decode(row, type=dict[str, str]) for of, row in table.items()}

    def of(self, broker: str) -> dict[str, str]:
        return self._addresses.get(broker, {})

    def receive(self, neighbours: TwoHopNeighbours) -> list[Record]:
        """Remember a neighbour's links; the records to persist."""
        addresses = places_in(neighbours)
        if self._addresses.get(neighbours.of) == addresses:
            return []
        self._addresses.pop(neighbours.of, None)
        self._addresses[neighbours.of] = addresses
        rows: list[Record] = [Put(COUSINS, neighbours.of, msgspec.msgpack.encode(addresses))]
        if len(self._addresses) > KEPT_COUSINS:
            oldest = next(iter(self._addresses))
            del self._addresses[oldest]
            rows.append(Delete(COUSINS, oldest))
        return rows
