"""Links between brokers: dialling, accepting, and the choice between two links.

Rules
- A broker dials those it was told to join, for ever, with growing pauses, while there is no link to them.
  Others dial it. One that it was told to join and the node wants to be dialled has two diallers: each newer
  link ends the older one, so a dialler waits while the other's link stands.
- A link is used when the node says so (`OpenLink`, after the neighbour is on the disk); until then what
  arrives on it waits, and no more is read.
- There is one link between two brokers. Of two that the same end dialled the newer one stays, since
  the far end would not have dialled again had the old one been alive. Of two that were dialled from
  both ends the one stays whose dialler has the smaller name.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from tidings.errors import RefusedError, TidingsError, WireError
from tidings.protocol.effects import CloseLink, OpenLink, ProbePeer
from tidings.protocol.inputs import ALL_FEATURES, Joined, MessageTooLarge, Parted, Probed
from tidings.protocol.messages import Message, tag_of
from tidings.runtime.connection import Connection, NetworkSettings, WriteCoalescer, sendable
from tidings.runtime.dialling import Address, OpenedConnection, RetryDelays, dial, parse_addresses
from tidings.runtime.driver import Driver
from tidings.runtime.messages import OpenSession, SessionClose, SessionDenied, SessionOpened
from tidings.security.certificates import principal_of
from tidings.security.interfaces import BROKER, Credentials
from tidings.wire.codec import Codec

log = logging.getLogger("tidings.broker")


class NeighbourLink:
    """One link, or one that is about to be."""

    __slots__ = (
        "connection", "dialler", "early", "features", "is_used", "listens", "name", "server_final", "takes",
    )  # fmt: skip

    def __init__(self, name: str, connection: Connection, dialler: str, server_final: bytes | None) -> None:
        self.name = name
        self.connection = connection
        self.dialler = dialler
        self.server_final = server_final  # not None: the far end waits for our welcome
        self.early: list[Message] = []
        self.is_used = False
        self.listens = ""  # where it can be reached, as it says itself
        self.takes = 0  # bytes of a frame, as it says itself
        self.features = 0  # kinds of messages, likewise

    def note_features(self, opening: OpenSession | SessionOpened) -> None:
        """Take over the neighbour's part of the handshake."""
        self.listens, self.takes, self.features = opening.listens, opening.takes, opening.features


class NeighbourLinks:
    """All links of one broker."""

    def __init__(
        self,
        name: str,
        composition: str,
        driver: Driver,
        codec: Codec,
        coalescer: WriteCoalescer,
        settings: NetworkSettings,
        *,
        allowed: frozenset[type[Message]],
        credentials: Credentials,
        tls: ssl.SSLContext | None,
        rng: Random,
        is_revoked: Callable[[Any], bool] = lambda certificate: False,
    ) -> None:
        self._name = name
        self._composition = composition
        self._driver = driver
        self._codec = codec
        self._coalescer = coalescer
        self._settings = settings
        self._allowed = allowed  # what a broker may say
        self._credentials = credentials
        self._tls = tls
        self._rng = rng
        self._is_revoked = is_revoked
        self._links: dict[str, NeighbourLink] = {}
        self._joining: dict[str, NeighbourLink] = {}  # the node has not answered yet
        self._tasks: list[asyncio.Task[None]] = []
        self._called: dict[str, asyncio.Task[None]] = {}  # by name: brokers that the node wants to be dialled
        self._dropped: set[str] = set()  # brokers that it does not want any more
        self._names: dict[Address, str] = {}  # of brokers that were dialled, by address
        self._freed: dict[Connection, asyncio.Event] = {}  # what a dialler waits for
        self._is_closed = False
        self.listens = ""
        self.problems: dict[str, str] = {}  # by address: why it could not be joined
        self._downs: dict[str, tuple[str, str]] = {}  # by neighbour: its address, and why its link is down
        driver.perform(OpenLink, self._on_connect)
        driver.perform(CloseLink, self.disconnect)
        driver.perform(ProbePeer, self._on_probe)
        self._probes: set[asyncio.Task[None]] = set()

    # -- for the server -----------------------------------------------------------------------

    def join(self, addresses: list[Address]) -> None:
        self._tasks += [asyncio.create_task(self._keep_dialling(address)) for address in addresses]

    def admit(self, connection: Connection, open: OpenSession, server_final: bytes) -> None:
        """A broker proved who it is. Raises `RefusedError`."""
        if open.name == self._name:
            raise RefusedError(f"{open.name} is this broker's own name", hint="give every broker its own")
        link = NeighbourLink(open.name, connection, open.name, server_final)
        link.note_features(open)
        self._begin(link)

    def part(self, name: str) -> None:
        """This neighbour is gone for good."""
        self._driver.hand(self._driver.name, Parted(name))

    def leave(self, name: str, reason: str) -> None:
        """End a link; it is dialled again."""
        link = self._links.get(name)
        if link is not None:
            link.connection.end(reason)

    def certificate(self, name: str) -> Any:
        """Certificate that the far end of a link has shown; None: none."""
        link = self._links.get(name)
        return None if link is None else link.connection.info("peercert") or None

    @property
    def connections(self) -> list[Connection]:
        return [link.connection for link in (*self._links.values(), *self._joining.values())]

    @property
    def up(self) -> list[str]:
        """The neighbours whose links are used."""
        return sorted(self._links)

    def addresses(self) -> dict[str, str]:
        """Address of each neighbour."""
        return {name: self._links[name].listens for name in self.up}

    def figures(self, neighbours: Iterable[str]) -> dict[str, Any]:
        """The links for people; also those of neighbours that the node remembers and that are not there."""
        unlinked = {}
        for name in neighbours:
            if name not in self._links:
                address, reason = self._downs.get(name, ("", "it has not been there since this broker began"))
                unlinked[name] = {"address": address, "problem": f"no link to {name}: {reason}"}
        return {"links": self.addresses(), "unlinked": unlinked, "problems": dict(self.problems)}

    async def close(self) -> None:
        self._is_closed = True
        tasks = [*self._tasks, *self._called.values(), *self._probes]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self.connections:
            connection.send(SessionClose("the broker stops"))
            connection.finish("this broker stops")

    # -- dialling -------------------------------------------------------------------------------

    async def _keep_dialling(self, address: Address) -> None:
        pauses = RetryDelays(self._settings, self._rng)
        while True:
            while self._names.get(address) in self._links:  # by another dialler, or the far end dialled
                await asyncio.sleep(pauses.next())
            try:
                dialled = await dial(
                    address,
                    self._open,
                    self._codec,
                    self._coalescer,
                    self._settings,
                    credentials=self._credentials,
                    lost=self._lost,
                    most_bytes=self._settings.broker_buffer_bytes,
                    tls=self._tls,
                )
                self.problems.pop(str(address), None)
                self._names[address] = dialled.opened.name
                pauses.reset()
                await self._until_lost(dialled)
                if dialled[1].name in self._dropped:
                    return
            except TidingsError as error:
                if self.problems.get(str(address)) != str(error):
                    log.warning("cannot join %s: %s", address, error)
                self.problems[str(address)] = str(error)
            await asyncio.sleep(pauses.next())

    def _open(self) -> OpenSession:
        return OpenSession(
            BROKER,
            self._name,
            self._composition,
            self._credentials.mechanism,
            self._credentials.first(),
            listens=self.listens,
            takes=self._codec.max_frame_bytes,
            features=ALL_FEATURES,
        )

    async def _until_lost(self, dialled: OpenedConnection) -> None:
        connection, opened, early = dialled
        if opened.name == self._name or not opened.name:
            connection.end("it is this broker")
            raise RefusedError(f"the broker to join has this broker's own name, {opened.name!r}")
        self._check_certificate(connection, opened.name)
        freed = self._freed[connection] = asyncio.Event()
        neighbour = NeighbourLink(opened.name, connection, self._name, None)
        neighbour.early = early
        neighbour.note_features(opened)
        self._begin(neighbour)
        try:
            await freed.wait()
        finally:
            self._freed.pop(connection, None)

    def _check_certificate(self, connection: Connection, name: str) -> None:
        """TLS is mutual: the dialled broker has to prove its name with a valid certificate."""
        certificate = connection.info("peercert")
        if not certificate:
            return
        problem = None
        if self._is_revoked(certificate):
            problem = "its certificate was revoked"
        elif not (principal := principal_of(certificate)).is_broker or principal.name != name:
            problem = f"its certificate is that of {principal.name!r}"
        if problem is not None:
            connection.end(problem)
            raise RefusedError(
                f"{name} is not joined: {problem}", hint="make one with `tidings certs broker`"
            )

    # -- one link for each pair -----------------------------------------------------------------

    def _begin(self, new: NeighbourLink) -> None:
        connection = new.connection
        connection.most_bytes = self._settings.broker_buffer_bytes
        connection.lost = self._lost
        connection.receive = self._wait
        connection.hold("early")
        for table in (self._joining, self._links):
            old = table.get(new.name)
            if old is None:
                continue
            stays = new if old.dialler == new.dialler else min(new, old, key=lambda link: link.dialler)
            if stays is old:
                self._refuse(new, "there is a link between these brokers already")
                return
            if old.listens and new.listens and old.listens != new.listens:
                log.warning(
                    "a broker at %s is called %s, as the one at %s, and took its link over: if both run, "
                    "give each a name of its own",
                    *(new.listens, new.name, old.listens),
                )
            old.connection.end("a newer link took over")
        self._joining[new.name] = new
        self._driver.hand(self._driver.name, Joined(new.name, new.dialler == self._name))

    def _wait(self, connection: Connection, messages: list[Message]) -> None:
        for link in self._joining.values():
            if link.connection is connection:
                link.early.extend(messages)

    def _refuse(self, link: NeighbourLink, reason: str) -> None:
        if link.server_final is not None:
            link.connection.send(SessionDenied("refused", reason))
            link.connection.finish(reason)
        else:
            link.connection.end(reason)

    def _on_connect(self, effect: OpenLink) -> None:
        link = self._joining.pop(effect.peer, None)
        self._dropped.discard(effect.peer)
        if link is None:
            if effect.address and effect.peer not in self._links and not self._is_closed:
                self._call(effect.peer, effect.address)
            return  # else it went meanwhile; it will dial again
        self.problems.pop(effect.peer, None)
        connection = link.connection
        if link.server_final is not None:
            connection.use_codec(self._codec)
            connection.send(
                SessionOpened(
                    self._name,
                    self._composition,
                    link.server_final,
                    self.listens,
                    self._codec.max_frame_bytes,
                    ALL_FEATURES,
                )
            )
        self._links[link.name] = link
        link.is_used = True
        self._downs.pop(link.name, None)
        log.info("the link to %s is up", link.name)
        connection.receive = lambda _, messages: self._receive(link, messages)
        connection.unsendable = lambda message, reason: self._unsendable(link.name, message, reason)
        most = sendable(link.takes, self._codec.max_frame_bytes)
        connection.send_by(self._codec.limited(most).read_by(link.features))
        self._driver.link_up(link.name, connection.send, most, link.features)
        early, link.early = link.early, []
        if early:
            self._receive(link, early)
        connection.release("early")

    def _call(self, peer: str, address: str) -> None:
        """Dial a broker that the node wants to be linked with."""
        old = self._called.pop(peer, None)
        if old is not None:
            old.cancel()
        self._called[peer] = asyncio.create_task(self._keep_dialling(parse_addresses(address)[0]))

    def disconnect(self, effect: CloseLink) -> None:
        if "#" in effect.peer:
            return  # a client's address
        called = self._called.pop(effect.peer, None)
        if called is not None:
            called.cancel()
        if effect.for_good:
            self._dropped.add(effect.peer)
        if effect.for_good:
            log.info("no link to %s any more: %s", effect.peer, effect.reason)
        else:
            self.problems[effect.peer] = effect.reason
            log.warning("no link to %s: %s", effect.peer, effect.reason)
        for table in (self._joining, self._links):
            link = table.get(effect.peer)
            if link is not None and link.is_used:
                link.connection.receive = self._wait  # messages still on their way are not for us
                link.connection.send(SessionClose(effect.reason))
                link.connection.finish(effect.reason)  # what the node said before has to arrive
                self._lost(link.connection, effect.reason)
            elif link is not None:
                self._refuse(link, effect.reason)
                self._lost(link.connection, effect.reason)

    def _on_probe(self, effect: ProbePeer) -> None:
        task = asyncio.create_task(self._probe(effect))
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _probe(self, effect: ProbePeer) -> None:
        """Measure the time of a TCP connect to a broker: one round trip."""
        distance = None
        try:
            address = parse_addresses(effect.address or self._links[effect.peer].listens)[0]
            loop = asyncio.get_running_loop()
            begun = loop.time()
            async with asyncio.timeout(self._settings.peer_timeout_seconds):
                _, writer = await asyncio.open_connection(address.host, address.port)
            distance = loop.time() - begun
            writer.close()
        except (OSError, KeyError, TimeoutError, TidingsError) as error:
            log.info("%s cannot be measured: %s", effect.peer, error)
        self._driver.hand(self._driver.name, Probed(effect.peer, distance))

    def _receive(self, link: NeighbourLink, messages: list[Message]) -> None:
        received = link.connection.answered(messages)
        for message in received:
            if type(message) not in self._allowed:
                if type(message) is SessionClose:
                    link.connection.finish("it stops")
                    return
                link.connection.end(str(WireError(f"a broker says no {tag_of(type(message))}")))
                return
        self._driver.receive(link.name, received)

    def _unsendable(self, name: str, message: Message, reason: str) -> None:
        log.warning("not sent to %s: %s", name, reason)
        self._driver.hand(self._driver.name, MessageTooLarge(name, message))

    def _lost(self, connection: Connection, reason: str) -> None:
        for table in (self._joining, self._links):
            for name, link in list(table.items()):
                if link.connection is connection:
                    del table[name]
                    if link.is_used:
                        self._downs[name] = (link.listens, reason)
                        log.info("the link to %s is down: %s", name, reason)
                        self._driver.link_down(name)
        freed = self._freed.get(connection)
        if freed is not None:
            freed.set()
