"""Messages between the two ends of a connection before and beside those of the protocol.

A connection begins with `OpenSession`. The other end answers with `AuthChallenge` (as often as the mechanism
needs; each is answered by `AuthResponse`), and then `SessionOpened` or `SessionDenied`. From then on it
carries the messages of `protocol`; `Keepalive` and `KeepaliveAck` say that both ends are there,
`SessionClose` that one is about to leave. `InquiryRequest` asks a broker about itself.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tidings.protocol.client_bounds import CALL, ID, NAME, CheckedBound, ValuesBound, declare
from tidings.protocol.messages import Message


class OpenSession(Message, frozen=True, tag="Open"):
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
    features: int = 0  # messages and contents that this end takes (`inputs.Feature`)


class AuthChallenge(Message, frozen=True, tag="Challenge"):
    data: bytes


class AuthResponse(Message, frozen=True, tag="Proof"):
    data: bytes


class SessionOpened(Message, frozen=True, tag="Opened"):
    """Welcome."""

    name: str
    composition: str = ""
    server_final: bytes = b""  # the last word of the proof
    listens: str = ""
    takes: int = 0  # as in `OpenSession`
    features: int = 0  # likewise
    inbox: str = ""  # of a client: the topic below which replies go to it alone; empty: the broker has none


class SessionDenied(Message, frozen=True, tag="Denied"):
    """No, and why. The connection is closed after this."""

    code: str
    reason: str


class Keepalive(Message, frozen=True, tag="Ping"):
    pass


class KeepaliveAck(Message, frozen=True, tag="Pong"):
    pass


class SessionClose(Message, frozen=True, tag="Goodbye"):
    """The broker is about to stop: no more messages are read from this connection."""

    reason: str = ""


class InquiryRequest(Message, frozen=True, tag="Inquire"):
    """A client asks the broker about itself."""

    call: int
    what: str
    about: dict[str, Any] = msgspec.field(default_factory=dict)


class InquiryReply(Message, frozen=True, tag="Informed"):
    call: int
    value: Any = None


class InquiryRefused(Message, frozen=True, tag="NotInformed"):
    call: int
    code: str
    reason: str


HANDSHAKE: tuple[type[Message], ...] = (
    OpenSession,
    AuthChallenge,
    AuthResponse,
    SessionOpened,
    SessionDenied,
)
BESIDE: tuple[type[Message], ...] = (
    Keepalive,
    KeepaliveAck,
    SessionClose,
    InquiryRequest,
    InquiryReply,
    InquiryRefused,
)

_PROOF = CheckedBound("handshake_frame_bytes")
declare(
    OpenSession,
    {
        "role": NAME, "name": NAME, "composition": NAME, "mechanism": NAME, "proof": _PROOF, "tenant": NAME,
        "listens": NAME, "number": ID, "takes": ID, "features": ID,
    },
)  # fmt: skip
declare(AuthResponse, {"data": _PROOF})
declare(InquiryRequest, {"call": CALL, "what": NAME, "about": ValuesBound()})
for _bare in (Keepalive, KeepaliveAck):
    declare(_bare, {})
