"""Messages between the two ends of a connection before and beside those of the protocol.

A connection begins with `Open`. The other end answers with `Challenge` (as often as the mechanism
needs; each is answered by `Proof`), and then `Opened` or `Denied`. From then on it carries the messages
of `protocol`; `Ping` and `Pong` say that both ends are there, `Goodbye` that one is about to leave.
`Inquire` asks a broker about itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.protocol.client_bounds import CALL, ID, NAME, Checked, Values, declare
from tidings.protocol.messages import Message


class Open(Message, frozen=True, tag="Open"):
    """The first frame of a connection."""

    role: str  # client or broker
    name: str
    composition: str = ""  # of a broker: the system that it runs
    mechanism: str = ""
    proof: bytes = b""
    tenant: str = ""
    listens: str = ""  # of a broker: where it can be reached
    number: int = 0  # of a broker: grows with each connection that it opens
    takes: int = 0  # bytes of a frame that this end reads at most; 0: it does not say (an earlier version)
    features: int = 0  # of a broker: kinds of messages that it takes (`inputs.Feature`)


class Challenge(Message, frozen=True, tag="Challenge"):
    data: bytes


class Proof(Message, frozen=True, tag="Proof"):
    data: bytes


class Opened(Message, frozen=True, tag="Opened"):
    """Welcome."""

    name: str
    composition: str = ""
    farewell: bytes = b""  # the last word of the proof
    listens: str = ""
    takes: int = 0  # as in `Open`
    features: int = 0  # likewise


class Denied(Message, frozen=True, tag="Denied"):
    """No, and why. The connection is closed after this."""

    code: str
    reason: str


class Ping(Message, frozen=True, tag="Ping"):
    pass


class Pong(Message, frozen=True, tag="Pong"):
    pass


class Goodbye(Message, frozen=True, tag="Goodbye"):
    """The broker is about to stop: no more messages are read from this connection."""

    reason: str = ""


class Inquire(Message, frozen=True, tag="Inquire"):
    """A client asks the broker about itself."""

    call: int
    what: str
    about: dict[str, Any] = msgspec.field(default_factory=dict)


class Informed(Message, frozen=True, tag="Informed"):
    call: int
    value: Any = None


class NotInformed(Message, frozen=True, tag="NotInformed"):
    call: int
    code: str
    reason: str


HANDSHAKE: tuple[type[Message], ...] = (Open, Challenge, Proof, Opened, Denied)
BESIDE: tuple[type[Message], ...] = (Ping, Pong, Goodbye, Inquire, Informed, NotInformed)

_PROOF = Checked("handshake_frame")
declare(
    Open,
    {
        "role": NAME, "name": NAME, "composition": NAME, "mechanism": NAME, "proof": _PROOF, "tenant": NAME,
        "listens": NAME, "number": ID, "takes": ID, "features": ID,
    },
)  # fmt: skip
declare(Proof, {"data": _PROOF})
declare(Inquire, {"call": CALL, "what": NAME, "about": Values()})
for _bare in (Ping, Pong):
    declare(_bare, {})
