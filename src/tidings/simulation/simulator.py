"""Driver one: virtual time.

Rules
- One seed, one run, byte for byte: every random draw comes from a `Random` named after the seed
  and the machine, and simultaneous happenings keep the order in which they were asked for.
- The driver performs effects and never looks into a machine.
- A link is a first-in-first-out pipe with a latency while it is up. Rates of loss, duplication,
  reordering and corruption act between brokers only; an incident that cuts a pair is noticed by
  both ends `detect_seconds` later (`LinkDown`), and what was in flight then is lost.
- A disk takes `disk_seconds` to sync. Unsynced writes are lost in a crash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from math import nextafter
from random import Random
from typing import Any, Protocol

import msgspec

from tidings.availability.records import Append, Record
from tidings.errors import StoreError, StoreFullError, WireError
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.protocol.messages import tag_of
from tidings.simulation import faults as fault
from tidings.simulation import incidents
from tidings.simulation.faults import NO_FAULTS, FaultPlan, Incident
from tidings.simulation.parts import NEVER, Host, MachineClock, SimulatedLink, SimulatedMachine, pair
from tidings.store.store import Store


class FrameCodec(Protocol):
    def encode(self, message: Any) -> bytes: ...
    def decode(self, frame: bytes) -> Any: ...


class SimulationObserver(Protocol):
    """Observer of disks and frames: what is on stable storage, and what no connection takes."""

    def committed(self, name: str, records: Sequence[Record]) -> None: ...
    def fetched(self, name: str, effect: fx.Fetch, found: Sequence[Append]) -> None: ...
    def replaced(self, name: str) -> None: ...
    def oversized(self, sender: str, to: str, error: WireError) -> None: ...


class SimulationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the simulated world, apart from its faults."""

    link_seconds: float = 0.01  # latency of a link that has no latency of its own
    client_seconds: float = 0.0005  # latency between a client and its broker
    disk_seconds: float = 0.002  # one sync
    full_seconds: float = 0.5  # until a full disk is tried again
    detect_seconds: float = 0.3  # until both ends notice that a link is cut or its peer is gone
    check: bool = False  # run every machine's invariants after each step
    processing: Callable[[Any], float] | None = None  # seconds a machine is busy with an input
    bytes_per_second: float | None = None  # bandwidth of a link; None: unlimited
    codec: FrameCodec | None = None  # pass every message through bytes
    together: bool = False  # hand in together what arrives over one link at one moment, as sockets do


class Simulation:
    """Machines, links, disks and a clock that jumps from one happening to the next."""

    def __init__(self, seed: int, settings: SimulationSettings | None = None) -> None:
        self.seed = seed
        self.settings = settings or SimulationSettings()
        self.now = 0.0
        self.handled = 0  # inputs that machines have handled
        self._sent: Counter[type] = Counter()  # messages between brokers
        self.fired: Counter[str] = Counter()  # faults that took effect, by name
        self.bytes_sent = 0
        self.refused_frames: Counter[str] = Counter()  # over the codec's limit, by the class of the message
        self.watch: SimulationObserver | None = None  # sees what no machine sees
        self.hosts: dict[str, Host] = {}
        self.links: dict[tuple[str, str], SimulatedLink] = {}
        self.on_row: Callable[[Any], None] | None = None  # where history rows go
        self.on_client_effect: Callable[[str, Any], None] | None = None
        self.on_handled: Callable[[str, Any, float], None] | None = None  # to watch: who, what, when
        self.seconds_between: Callable[[str, str], float] | None = (
            None  # one way, between brokers without a link
        )
        self.measured: Callable[[str, str], float] | None = None  # what `ProbePeer` measures; None: seconds
        self.scopes: dict[str, dict[str, None]] = {}  # by name: the receivers of a multicast
        self._queue: list[tuple[float, int, Host | None, int, Any]] = []
        self._order = 0
        self._chance = self.rng("network")
        self._faults: FaultPlan = NO_FAULTS
        self._rough = False  # True as soon as anything can go wrong between brokers

    @property
    def sent(self) -> Counter[str]:
        """Number of messages between brokers, by tag."""
        return Counter({tag_of(kind): count for kind, count in self._sent.items()})

    @property
    def hops(self) -> int:
        """Number of them that forwarded an event."""
        return sum(count for kind, count in self._sent.items() if getattr(kind, "is_hop", False))

    def rng(self, name: str) -> Random:
        """The random source of that name: the same for the same seed."""
        return Random(f"{self.seed}/{name}")

    # -- building the world ------------------------------------------------------------

    def add(
        self,
        name: str,
        build: Callable[[], SimulatedMachine],
        *,
        broker: bool = True,
        disk: Store | None = None,
    ) -> None:
        self.hosts[name] = host = Host(name, build, broker, disk)
        if disk is not None:
            self._push(self.now, host, ins.Started(disk.load()))

    def connect(self, a: str, b: str, seconds: float | None = None) -> None:
        """A link of the overlay, or from a client to its broker; up from now on."""
        if seconds is None:
            both = self.hosts[a].is_broker and self.hosts[b].is_broker
            seconds = self.settings.link_seconds if both else self.settings.client_seconds
        link = self.links.setdefault(pair(a, b), SimulatedLink(seconds))
        link.wanted = True
        self._raise_link(a, b, link)

    def disconnect(self, a: str, b: str) -> None:
        """That link is no part of the overlay any more."""
        self._close(a, b)

    def plan(self, faults: FaultPlan) -> None:
        """Schedule everything that goes wrong."""
        self._faults = faults
        self._rough = self._rough or faults.rates.any or bool(faults.incidents)
        for incident in faults.incidents:
            self.call_at(incident.at, partial(self.begin, incident))
            self.call_at(incident.until, partial(self.end, incident))

    def plan_rough(self) -> None:
        """From now on faults may begin by hand, and what is in flight can be lost."""
        self._rough = True

    def notice(self, name: str) -> None:
        """Let the peers of a machine notice, in their time, that it is gone or back."""
        self.review_links([name])

    def call_at(self, at: float, action: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._queue, (at, self._order, None, 0, action))

    def input(self, name: str, item: Any, at: float | None = None) -> None:
        """Schedule an input for a machine (an application's call, say), now or at a later time."""
        self._push(self.now if at is None else at, self.hosts[name], item)

    # -- running -----------------------------------------------------------------------

    def run(self, until: float = NEVER, progress: Callable[[float, int], None] | None = None) -> None:
        """Run to a moment, or until the queue is empty."""
        queue = self._queue
        processing, together = self.settings.processing, self.settings.together
        steps = 0
        while queue and queue[0][0] <= until:
            at, _, host, epoch, item = heappop(queue)
            self.now = at
            if host is None:
                item()
                continue
            if host.epoch != epoch or not host.up:
                continue  # it was meant for an earlier life, or reached a machine that is down
            if host.stopped:
                host.queued.append(item)
                continue
            if processing is not None and type(item) is not _Ready:
                host.busy_until = max(host.busy_until, at) + processing(item)
                self._push(host.busy_until, host, _Ready(item))
                continue
            if together and type(item) is ins.Received:
                item = self._with_others(at, host, epoch, item)
            self._step(host, item.input if type(item) is _Ready else item)
            steps += 1
            if progress is not None and steps % 10_000 == 0:
                progress(at, steps)
        if until != NEVER:
            self.now = max(self.now, until)

    def _with_others(self, at: float, host: Host, epoch: int, first: ins.Received) -> ins.Input:
        """Coalesce this message with the next ones over the same link at the same moment."""
        queue, messages = self._queue, [first.message]
        while queue and (queue[0][0], queue[0][2], queue[0][3]) == (at, host, epoch):
            if type(queue[0][4]) is not ins.Received or queue[0][4].sender != first.sender:
                break
            messages.append(heappop(queue)[4].message)
        return first if len(messages) == 1 else ins.ReceivedAll(first.sender, messages)

    def run_until_quiet(self, limit: float, quiet: Callable[[], bool] | None = None) -> bool:
        """Run until only timers are left, or `quiet` holds; False when `limit` came first."""
        while self._queue and self._queue[0][0] <= limit:
            self.run(min(limit, self._queue[0][0]))
            if quiet is not None and quiet():
                return True
        return quiet is None or quiet()

    def _step(self, host: Host, item: Any) -> None:
        machine = host.machine
        if type(item) is ins.TimerFired:
            if host.waking > self.now:
                return  # an earlier wake-up took its place
            host.woke(self.now)
        clock = host.clock
        if type(item) is ins.Started:
            clock.not_before(item.state.latest, self.now)
        effects = machine.handle(item, clock.local(self.now))
        self.handled += 1
        if self.on_handled is not None:
            self.on_handled(host.name, item, self.now)
        for effect in effects:
            (self._send if type(effect) is fx.Send else self._perform)(host, effect)
        if self.settings.check:
            machine.check()
        deadline = machine.next_deadline()
        if deadline is not None and (due := clock.true(deadline)) < host.waking:
            wake = max(due, self.now)
            while clock.local(wake) < deadline:  # rounding
                wake = nextafter(wake, NEVER)
            host.waking = wake
            self._push(wake, host, _TIMER)

    def _push(self, at: float, host: Host, item: Any) -> None:
        self._order += 1
        heappush(self._queue, (at, self._order, host, host.epoch, item))

    # -- effects -----------------------------------------------------------------------

    def _send(self, host: Host, effect: fx.Send) -> None:
        route = host.routes.get(effect.to) or self._route(host, effect)
        if route is None:
            if effect.channel is _MULTICAST:
                self._send_multicast(host, effect)
            return
        to, link, between_brokers = route
        message = effect.message
        if between_brokers:
            self._sent[type(message)] += 1
        if effect.channel is _DATAGRAM:
            self._send_datagram(host, to, message)
            return
        if not link.up:
            return
        settings = self.settings
        if settings.codec is not None:
            try:
                message = self._through_bytes(message)
            except WireError as error:
                self._refuse_frame(host, to, link, message, error)
                return
        at = self.now + link.seconds
        if settings.bytes_per_second is not None:
            at = self._after_bandwidth(link, to.name, message) + link.seconds
        if not self._rough:
            self._push(self._in_order(link, to.name, at), to, ins.Received(host.name, message))
        elif between_brokers:
            self._send_roughly(host, to, link, message, at)
        else:
            self._fly(link, to, host.name, message, self._in_order(link, to.name, at))

    def _route(self, host: Host, effect: fx.Send) -> tuple[Host, SimulatedLink, bool] | None:
        """The way to a machine; remembered once there is a link."""
        to = self.hosts.get(effect.to)
        if to is None:
            return None
        link = self.links.get(pair(host.name, to.name))
        route = (to, link or _NO_LINK, host.is_broker and to.is_broker)
        if link is not None:
            host.routes[effect.to] = route
        return route

    def _in_order(self, link: SimulatedLink, receiver: str, at: float) -> float:
        """No overtaking on a link."""
        last = link.last_arrival.get(receiver, 0.0)
        if at < last:
            at = last
        link.last_arrival[receiver] = at
        return at

    def _after_bandwidth(self, link: SimulatedLink, receiver: str, message: Any) -> float:
        rate = self.settings.bytes_per_second
        assert rate is not None
        size = len(msgspec.msgpack.encode(message))
        self.bytes_sent += size
        begin = max(self.now, link.free_at.get(receiver, 0.0))
        link.free_at[receiver] = begin + size / rate
        return begin + size / rate

    def _through_bytes(self, message: Any) -> Any:
        codec = self.settings.codec
        assert codec is not None
        frame = codec.encode(message)
        self.bytes_sent += len(frame)
        return codec.decode(frame)

    def _refuse_frame(
        self, host: Host, to: Host, link: SimulatedLink, message: Any, error: WireError
    ) -> None:
        """End the connection of a frame over the limit, as a socket's driver does; the sender dials again."""
        if (parts := message.one_by_one())[0] is not message:  # too large together
            for part in parts:
                self._send(host, fx.Send(to.name, part))
            return
        self.refused_frames[tag_of(type(message))] += 1
        if self.watch is not None:
            self.watch.oversized(host.name, to.name, error)
        self._drop_link(*pair(host.name, to.name), link)
        self.review_links([host.name])

    def _send_roughly(self, host: Host, to: Host, link: SimulatedLink, message: Any, at: float) -> None:
        """Between brokers, when things go wrong."""
        if link.cut[(host.name, to.name)]:
            return
        at = self.now + (at - self.now) * link.slower
        rates, chance = self._faults.rates, self._chance
        if rates.any and self.now < self._faults.rates_until:
            if chance.random() < rates.loss:
                self.fired[fault.LOSS] += 1
                return
            if chance.random() < rates.corruption and self._is_spoiled(message):
                self.fired[fault.CORRUPTION] += 1
                return
            if chance.random() < rates.reordering:
                self.fired[fault.REORDERING] += 1
                self._fly(link, to, host.name, message, at + chance.uniform(0.0, rates.reorder_seconds))
                return
            if chance.random() < rates.duplication:
                self.fired[fault.DUPLICATION] += 1
                self._fly(link, to, host.name, message, at + chance.uniform(0.0, rates.reorder_seconds))
        self._fly(link, to, host.name, message, self._in_order(link, to.name, at))

    def _is_spoiled(self, message: Any) -> bool:
        """One bit flips on the way; the codec has to notice."""
        codec = self.settings.codec
        if codec is None:
            return True
        frame = bytearray(codec.encode(message))
        bit = self._chance.randrange(len(frame) * 8)
        frame[bit // 8] ^= 1 << (bit % 8)
        try:
            codec.decode(bytes(frame))
        except WireError:
            return True
        raise AssertionError(f"a flipped bit went unnoticed in {tag_of(type(message))}")

    def _fly(self, link: SimulatedLink, to: Host, sender: str, message: Any, at: float) -> None:
        session, epoch = link.session, to.epoch

        def arrive() -> None:
            if link.session == session and to.epoch == epoch and not link.cut[(sender, to.name)]:
                self._push(self.now, to, ins.Received(sender, message))

        self.call_at(at, arrive)

    def _send_datagram(self, host: Host, to: Host, message: Any) -> None:
        """Out of band: straight to any broker, without order, lost as often as on a link."""
        link = self.links.get(pair(host.name, to.name))
        if not to.up or (link is not None and link.cut[(host.name, to.name)]):
            return
        losing = self._faults.rates.loss > 0 and self.now < self._faults.rates_until
        if losing and self._chance.random() < self._faults.rates.loss:
            self.fired[fault.LOSS] += 1
            return
        if self.settings.codec is not None:
            message = self._through_bytes(message)
        self._push(self.now + self._seconds(host.name, to.name), to, ins.Received(host.name, message))

    def _send_multicast(self, host: Host, effect: fx.Send) -> None:
        """One message, for all receivers of this scope."""
        self._sent[type(effect.message)] += 1
        for name in self.scopes.get(effect.to, ()):
            if name != host.name:
                self._send_datagram(host, self.hosts[name], effect.message)

    def _perform(self, host: Host, effect: Any) -> None:
        kind = type(effect)
        if kind is fx.Record:
            if self.on_row is not None:
                self.on_row(_by_true_time(effect.row, host.clock))
        elif kind is fx.SendAll:
            for message in effect.messages:
                self._send(host, fx.Send(effect.to, message))
        elif kind is fx.Persist:
            self._persist(host, effect)
        elif kind is fx.Fetch:
            self._fetch(host, effect)
        elif kind is fx.OpenLink:
            self.call_at(self.now + self.settings.link_seconds, lambda: self._open(host.name, effect.peer))
        elif kind is fx.CloseLink:
            self._close(host.name, effect.peer)
        elif kind is fx.ProbePeer:
            self._probe(host, effect.peer)
        elif kind is fx.JoinMulticast:
            self.scopes.setdefault(effect.scope, {})[host.name] = None
        elif kind is not fx.Warn and self.on_client_effect is not None:
            self.on_client_effect(host.name, effect)

    def _persist(self, host: Host, effect: fx.Persist) -> None:
        epoch = host.epoch

        def sync() -> None:
            if host.epoch != epoch:
                return  # crashed before the sync: the write is lost
            host.unsynced.append(effect)
            if len(host.unsynced) == 1:
                self._sync(host, epoch)

        self.call_at(self.now + self.settings.disk_seconds, sync)

    def _sync(self, host: Host, epoch: int) -> None:
        """Write in order what waits; what finds the disk full waits, and with it all behind it, as in every
        driver."""
        while host.epoch == epoch and host.unsynced:
            effect = host.unsynced[0]
            try:
                if host.disk is not None:
                    self._write(host, host.disk, effect.records)
            except StoreFullError as error:
                self._push(self.now, host, ins.DiskFull(str(error)))
                self.call_at(self.now + self.settings.full_seconds, partial(self._sync, host, epoch))
                return
            except StoreError as error:
                self._push(self.now, host, ins.PersistFailed(effect.token, error.code, str(error)))
            else:
                self._push(self.now, host, ins.Persisted(effect.token))
            host.unsynced.popleft()

    def _write(self, host: Host, disk: Store, records: Sequence[Record]) -> None:
        if host.sync_fails:
            raise StoreError(f"{host.name}: the sync failed (input/output error)")
        if host.full and any(type(record) is Append for record in records):
            raise StoreFullError(f"{host.name}: no space left")  # the reserve holds what is small
        disk.commit(records)
        if self.watch is not None:
            self.watch.committed(host.name, records)

    def _fetch(self, host: Host, effect: fx.Fetch) -> None:
        epoch = host.epoch

        def read() -> None:
            if host.epoch != epoch:
                return
            try:
                assert host.disk is not None
                found = host.disk.fetch(effect.from_offset, effect.limit, effect.max_bytes)
                if self.watch is not None:
                    self.watch.fetched(host.name, effect, found)
            except StoreError as error:
                self._push(self.now, host, ins.FetchFailed(effect.request, error.code, str(error)))
            else:
                self._push(self.now, host, ins.Fetched(effect.request, tuple(found)))

        self.call_at(self.now + self.settings.disk_seconds / 4, read)

    def _probe(self, host: Host, peer: str) -> None:
        seconds = self._seconds(host.name, peer)
        reached = peer in self.hosts and self.hosts[peer].up
        way = seconds if self.measured is None else self.measured(host.name, peer)
        self._push(self.now + 2 * seconds, host, ins.Probed(peer, 2 * way if reached else None))

    def _seconds(self, a: str, b: str) -> float:
        """The latency between two machines, linked or not."""
        link = self.links.get(pair(a, b))
        if link is not None:
            return link.seconds
        return self.settings.link_seconds if self.seconds_between is None else self.seconds_between(a, b)

    # -- links -------------------------------------------------------------------------

    def _open(self, a: str, b: str) -> None:
        if b in self.hosts:
            link = self.links.setdefault(pair(a, b), SimulatedLink(self._seconds(a, b)))
            link.wanted = True
            self._raise_link(a, b, link)

    def _close(self, a: str, b: str) -> None:
        link = self.links.get(pair(a, b))
        if link is not None:
            link.wanted = False
            self._drop_link(a, b, link)

    def _can_be_up(self, a: str, b: str, link: SimulatedLink) -> bool:
        one, other = self.hosts[a], self.hosts[b]
        return (
            link.wanted and one.up and other.up
            and not link.cut[(a, b)] and not link.cut[(b, a)]
            and not one.stopped and not other.stopped
        )  # fmt: skip

    def _raise_link(self, a: str, b: str, link: SimulatedLink) -> None:
        if not link.up and self._can_be_up(a, b, link):
            link.up = True
            link.last_arrival.clear()
            self._push(self.now, self.hosts[a], ins.LinkUp(b))
            self._push(self.now, self.hosts[b], ins.LinkUp(a))

    def _drop_link(self, a: str, b: str, link: SimulatedLink) -> None:
        if link.up:
            link.up = False
            link.session += 1
            for end, other in ((a, b), (b, a)):
                if self.hosts[end].up:
                    self._push(self.now, self.hosts[end], ins.LinkDown(other))

    def review_links(self, names: Iterable[str]) -> None:
        """After an incident began or ended: let both ends detect the new state after the detection time."""
        wanted = set(names)
        for (a, b), link in self.links.items():
            if a in wanted or b in wanted:
                self.call_at(self.now + self.settings.detect_seconds, partial(self._review, a, b, link))

    def _review(self, a: str, b: str, link: SimulatedLink) -> None:
        if self._can_be_up(a, b, link):
            self._raise_link(a, b, link)
        else:
            self._drop_link(a, b, link)

    # -- incidents -----------------------------------------------------------------------

    def begin(self, incident: Incident) -> None:
        incidents.begin(self, incident)

    def end(self, incident: Incident) -> None:
        incidents.end(self, incident)

    def crash(self, name: str) -> bool:
        """The machine is gone with all that it had not synced; its peers notice a little later.
        False when it was down already."""
        host = self.hosts[name]
        if not host.up:
            return False
        self.plan_rough()
        host.up = False
        host.epoch += 1
        host.queued.clear()
        host.unsynced.clear()
        host.waking = NEVER
        return True

    def restart(self, name: str, *, keep_disk: bool = True) -> None:
        """A new machine in the same place, with what the disk holds, or with an empty disk."""
        host = self.hosts[name]
        if host.up:
            return
        for (a, b), link in self.links.items():
            if name in (a, b):
                self._drop_link(a, b, link)  # a quick restart still breaks every connection
        host.up = True
        host.epoch += 1  # what was sent to the dead machine is not for the new one
        host.machine = host.build()
        host.clock.restart()
        host.sync_fails = False
        if host.disk is not None:
            if not keep_disk:
                host.disk = type(host.disk)()
                if self.watch is not None:
                    self.watch.replaced(name)
            self._push(self.now, host, ins.Started(host.disk.load()))
        self.review_links([name])

    def stop(self, name: str) -> None:
        self.hosts[name].stopped += 1

    def resume(self, name: str) -> None:
        host = self.hosts[name]
        host.stopped -= 1
        if not host.stopped:
            stored, host.queued = host.queued, []
            for item in stored:
                self._push(self.now, host, item)


class _Ready:
    """An input after its processing time."""

    __slots__ = ("input",)

    def __init__(self, item: Any) -> None:
        self.input = item


_TIMER = ins.TimerFired()
_NO_LINK = SimulatedLink(0.0)  # never up
_DATAGRAM, _MULTICAST = fx.Channel.DATAGRAM, fx.Channel.MULTICAST


def _by_true_time(row: Any, clock: MachineClock) -> Any:
    """A history has one clock, however wrong that of a machine is."""
    true = clock.true(row.time)
    return row if true == row.time else msgspec.structs.replace(row, time=true)
