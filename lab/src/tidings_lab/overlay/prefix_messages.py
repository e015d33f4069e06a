"""Messages between the nodes of a prefix overlay."""

from __future__ import annotations

from tidings.protocol.messages import Message

Contact = tuple[str, str]  # name, and where it is reached (empty where the driver knows)


class PrefixJoin(Message, frozen=True, tag="Seek"):
    """A newcomer looks for its place; each node on the way to its id adds the nodes that it knows."""

    newcomer: Contact
    found: tuple[Contact, ...] = ()
    hops: int = 0


class PrefixJoinReply(Message, frozen=True, tag="Admit"):
    """The end of that way: every node that was found on it, and the leaves of the last node."""

    contacts: tuple[Contact, ...]


class PrefixHello(Message, frozen=True, tag="Greet"):
    """We are there, and these are the nodes next to us. It also asks whether the other one lives."""

    contacts: tuple[Contact, ...] = ()
    answer: bool = False  # wanted
    address: str = ""  # our own


class CellRequest(Message, frozen=True, tag="CellAsk"):
    """Request for a node of this cell of the table. Answered by `PrefixHello`, or not at all."""

    newcomer: Contact
    key: int  # an id that belongs into the cell


class RowRequest(Message, frozen=True, tag="RowAsk"):
    """Request for the nodes of this row of the table. One of them may be nearer than ours."""

    row: int


class RowReply(Message, frozen=True, tag="RowTold"):
    contacts: tuple[Contact, ...]


class PrefixSuspicion(Message, frozen=True, tag="Doubt"):
    """This node does not answer us; see for yourself."""

    name: str


class PrefixLeave(Message, frozen=True, tag="Depart"):
    """We go; these stay."""

    contacts: tuple[Contact, ...] = ()
