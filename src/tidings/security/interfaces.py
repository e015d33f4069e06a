"""Interface between a networked broker and security: authentication and authorization.

The runtime calls these protocols at its listeners and does not know how they decide. Security
implements them and does not know sockets. A principal is an opaque value of the authenticator; the
runtime only hands it back. Rules
- A connection has no principal until its `AuthenticationExchange` ends with one. Before that only
  handshake frames are read from it, within bounds on size and time.
- Refusing is raising `RefusedError`; its message goes to the other side, so it says what to do and
  no secret.
- A `Guard` is asked on every path: each publish, each subscribe, each delivery. It answers at once,
  on the event loop: no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from tidings.errors import RefusedError
from tidings.model.event import Event
from tidings.model.filter import Filter
from tidings.model.subscription import DeliveryOptions, SubscriptionId

CLIENT, BROKER = "client", "broker"  # roles
ANONYMOUS = "anonymous"  # the mechanism of clients without credentials

P_contra = TypeVar("P_contra", contravariant=True)


class AuthenticationRequest(msgspec.Struct, frozen=True):
    """Facts known of a connection at the start of its authentication."""

    role: str  # what it says it is: `client` or `broker`
    name: str  # what it calls itself: a client's name, or a broker's
    mechanism: str
    tenant: str = ""
    peer: str = ""  # the address it comes from
    is_loopback: bool = False
    is_tls: bool = False
    is_sent: bool = False  # the password itself was sent, and a gateway proves it here in the client's place
    certificate: Mapping[str, Any] | None = None  # as `ssl.SSLSocket.getpeercert` gives it, verified


class AuthenticationResult(msgspec.Struct, frozen=True):
    """The end of a conversation."""

    principal: Any
    server_final: bytes = b""  # what the other side needs to check us


class AuthenticationExchange(Protocol):
    """One try to prove who one is. Bytes in, bytes out, as often as the mechanism needs."""

    def step(self, data: bytes) -> bytes | AuthenticationResult:
        """The next challenge, or the proof. Raises `RefusedError`."""


class Authenticator(Protocol):
    def begin(self, request: AuthenticationRequest) -> AuthenticationExchange:
        """Raises `RefusedError` when such a connection is not admitted at all."""


class Credentials(Protocol):
    """The other end of a conversation: what a client, or a broker that joins, proves itself with."""

    mechanism: str

    def first(self) -> bytes:
        """Content of the first frame. Called at the beginning of every connection."""

    def answer(self, challenge: bytes) -> bytes:
        """Answer to a challenge."""

    def finish(self, server_final: bytes) -> None:
        """Check the broker by its last word. Raises `RefusedError` when it is not who it should be."""


class Guard(Protocol[P_contra]):
    """Rights of a principal. One guard serves all connections of clients of a broker."""

    version: int  # grows whenever a rule changes; what was found free is asked anew then

    def receives_all(self, principal: P_contra) -> bool:
        """Would `deliver` pass every event unchanged, except for keys and inboxes, as long as `version`
        stays?"""

    def receives_nothing(self, principal: P_contra) -> bool:
        """Would every `subscribe` be refused, for any filter? Then no filter of it is parsed."""

    def publishes_all(self, principal: P_contra, source: str) -> bool:
        """The same of `publish`, for events of this source that have no lifetime and no key."""

    def connected(self, principal: P_contra, client: str) -> None:
        """A connection was admitted under a client's name. Raises when the name is not the principal's to
        use, or it has too many connections."""

    def disconnected(self, principal: P_contra) -> None:
        """The connection ended; called once for each `connected` that did not raise."""

    def publish(self, principal: P_contra, event: Event) -> Event:
        """The event as it may be published (most often itself). Raises."""

    def subscribe(
        self,
        principal: P_contra,
        client: str,
        name: str,
        filter: Filter,
        *,
        durable: bool = False,
        whole: bool = False,
    ) -> Filter:
        """The filter that is subscribed instead: conjoined with what is mandatory. Raises; with `whole` also
        when the filter would have to be narrowed. Called again when a subscription resumes."""

    def unsubscribed(
        self, principal: P_contra, client: str, name: str, *, durable: bool = False, ended: bool = True
    ) -> None:
        """A subscription ended, or its connection did (`ended` False: a durable one stays); called once
        for each `subscribe` that did not raise."""

    def hold(self, principal: P_contra, name: str, filter: Filter) -> Filter:
        """The filter that the log is held by instead: no more than may be read. Called again whenever the
        hold is asked for again, and counted once. Raises."""

    def hold_answered(self, name: str) -> None:
        """The broker answered, or the connection ended: called once for each `hold` that did not raise."""

    def unheld(self, principal: P_contra, name: str) -> None:
        """The hold of this name ended; an uncounted hold has no effect."""

    def memory(self, principal: P_contra) -> tuple[str, int]:
        """Account of its subscriptions, and the bytes of events that may wait for all of them."""

    def held_bytes(self, principal: P_contra) -> int:
        """The bytes that a hold of it may keep in the log."""

    def stored(self, source: str, size: int) -> None:
        """So many bytes more of this source's events live in the broker's log; below 0: so many fewer."""

    def publisher_of(self, source: str) -> str:
        """The principal that publishes under this source, as far as it is known."""

    def owner_of(self, id: SubscriptionId) -> str:
        """The principal that a subscription belongs to, as far as its identity shows."""

    def letters_fit(self, owner: str, size: int) -> bool:
        """May so many bytes more of dead letters be kept for this principal?"""

    def count_letters(self, owner: str, size: int) -> None:
        """So many bytes more of dead letters are kept for it; below 0: so many fewer."""

    def records_fit(self, owner: str, size: int) -> bool:
        """May so many bytes more of records of its ended subscriptions be kept for this principal?"""

    def count_records(self, owner: str, size: int) -> None:
        """So many bytes more of such records are kept for it; below 0: so many fewer."""

    def count_backlog(self, owner: str, size: int) -> None:
        """So many bytes more of the log wait for durable subscriptions of this principal; below 0: so many
        fewer."""

    def is_backlog_over(self, owner: str) -> bool:
        """Do more bytes wait for its durable subscriptions than its quota of stored bytes allows?"""

    def answered(self, principal: P_contra, size: int) -> None:
        """A publish of an event of this size, with a lifetime, was answered:

        `stored` has reported its result.
        """

    def stages(self, principal: P_contra, query: str) -> None:
        """Authorize staging or committing a batch of this query. Raises without the right to publish."""

    def retained(self, options: DeliveryOptions) -> DeliveryOptions:
        """The options of a subscription within the operator's caps on retention."""

    def releases(self, principal: P_contra) -> None:
        """Authorize that the log forgets archived events that live forever. Raises."""

    def advertise(self, principal: P_contra, name: str, filter: Filter, earlier: Filter | None) -> Filter:
        """The filter that is advertised instead: no more than may be published. `earlier` is what was
        advertised under this name on this connection, and counted. Raises; then `earlier` stays."""

    def unadvertised(self, principal: P_contra, filter: Filter) -> None:
        """An advertisement ended, or its connection did; called with what `advertise` gave."""

    def scopes(self, principal: P_contra) -> tuple[str, str]:
        """The texts that are put before the names of its clients, and of its queries and holds, so that they
        never meet those of another principal."""

    def group_scope(self, principal: P_contra, group: str) -> str:
        """The text that is put before the name of a consumer group: it holds the principal unless a rule lets
        the group be shared. It depends on the rules alone, so it does not reveal which groups exist."""

    def may_receive(self, principal: P_contra, filter: Filter) -> bool:
        """Is everything that this filter accepts allowed?"""

    def inbox(self, principal: P_contra) -> str:
        """The topic below which replies to the principal go: no other principal receives them."""

    def deliver(self, principal: P_contra, event: Event, named: str | None = None) -> Event | None:
        """The event as the principal may see it; None: not at all, which counts as delivered. `named`: the
        topic of an inbox that the subscription names in full."""

    def charge(self, principal: P_contra, received_bytes: int) -> float:
        """Charge received bytes; returns the seconds for which reading from it pauses."""

    def observes_all(self, principal: P_contra) -> bool:
        """May it observe the whole broker, for all principals?"""

    def sees_event(self, principal: P_contra, event: Event) -> bool:
        """May it observe this event?"""

    def sees_subscription(self, principal: P_contra, id: SubscriptionId) -> bool:
        """May it observe this subscription: that there is one, its filter, how far it is?"""

    def tries(self, principal: P_contra, what: str) -> None:
        """Authorize a trial of a filter (`explain`): for those that may subscribe or observe. Raises."""

    def observe(self, principal: P_contra, what: str) -> None:
        """Authorize a query about the broker itself (`figures`, `trace` and so on). Raises."""


class LoopbackOnly:
    """Admits every client from this machine, under the name it gives; for development and tests."""

    def begin(self, request: AuthenticationRequest) -> AuthenticationExchange:
        if not request.is_loopback:
            raise RefusedError(
                "this broker admits no client from another host without a proof",
                hint="give it a users file, or connect from its own machine",
            )
        return _NoProof(request)


class _NoProof:
    def __init__(self, request: AuthenticationRequest) -> None:
        self._request = request

    def step(self, data: bytes) -> AuthenticationResult:
        return AuthenticationResult(self._request.name)


class NoCredentials:
    """For brokers that ask for no proof."""

    mechanism = ANONYMOUS

    def first(self) -> bytes:
        return b""

    def answer(self, challenge: bytes) -> bytes:
        raise RefusedError("the broker asks for a proof", hint="connect with credentials")

    def finish(self, server_final: bytes) -> None:
        """No action: without credentials the broker sends no proof."""
