"""Run what was drawn, and judge it: invariants after every step, progress once the faults are over.

The run has three parts. *Settle*: brokers, clients and subscriptions, without faults. *Trouble*: events and
faults. *Calm*: the faults are over; after `recovery_seconds` further events are published, and everything
that is owed, of before and of now, is delivered within `progress_seconds`. Both bounds are computed from the
settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any

import msgspec

from tidings.errors import UnknownOutcomeError
from tidings.history.schema import Row
from tidings.language import parse_filter
from tidings.model.event import Event, make_event
from tidings.protocol import effects as fx
from tidings.protocol import inputs as ins
from tidings.protocol import messages as msg
from tidings.protocol.client_failover import FailoverSettings
from tidings.protocol.delivery.publisher_migration import BARRED_SECONDS
from tidings.protocol.membership.agreed import GroupSettings
from tidings.protocol.recovery.group_log import GroupLogSettings
from tidings.protocol.recovery.settings import AcknowledgedSettings
from tidings.security.principal import Principal
from tidings.security.users import Users, parse_users
from tidings.simulation.faults import Incident
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.wide.drawing import (
    GROUP,
    JOBS,
    LATE,
    LEAVER,
    SETTLE,
    DrawnPublish,
    DrawnRun,
    DrawnSubscribe,
    calm_events,
    draw,
    is_disabled,
    with_keys,
)
from tidings.simulation.wide.guarded import GuardedNode, GuardRules, SessionGuard
from tidings.simulation.wide.hostile import HostileClient
from tidings.simulation.wide.limit_meter import LimitMeter, MeteredCodec
from tidings.simulation.wide.observer import BrokenPromise, Observer
from tidings.simulation.wide.returning import NAME, RETRY_SECONDS, ReturningClient
from tidings.simulation.wide.returns import with_returns
from tidings.simulation.world import World

PAGE_SECONDS = 0.05  # to ask for a page and get it, over a few links
CONNECTED_SECONDS = 0.3  # that a hostile user is connected when it is disabled


class WideOutcome(msgspec.Struct, kw_only=True):
    """Result of a run."""

    seed: int
    system: str
    broken: str  # the promise that was broken; empty: none
    published: int = 0
    acked: int = 0
    refused: int = 0
    delivered: int = 0
    faults: dict[str, int] = {}
    met: dict[str, int] = {}  # limits that were met, by name: how often
    handled: int = 0
    fingerprint: str = ""
    seconds: float = 0.0


def run_seed(
    seed: int,
    ingress: Callable[..., SessionGuard],
    *,
    system: str | None = None,
    keyed: bool = True,
    returning: bool = True,
) -> WideOutcome:
    """Run a seed of the wide world. `ingress` is that of the runtime: drivers do not import one another.
    `keyed`: with superseding keys, where the seed says so; `returning`: with subscriptions that return."""
    drawn = draw(seed, system=system)
    drawn = with_keys(drawn) if keyed else drawn
    return WideRun(with_returns(drawn) if returning else drawn, ingress).run()


class WideRun:
    """One run."""

    def __init__(self, drawn: DrawnRun, ingress: Callable[..., SessionGuard]) -> None:
        self.drawn = drawn
        settings = SimulationSettings(check=True, disk_seconds=drawn.disk_seconds, together=drawn.together)
        self.rules = GuardRules(users_of(drawn), drawn.overlay.brokers, ingress)
        self.rules.hostile, self.rules.sent = frozenset(drawn.hostile), self._sent
        self.world = World(
            drawn.system, drawn.overlay, seed=drawn.seed, settings=settings, limits=drawn.limits,
            frames=drawn.frames, options=drawn.options, wrap=lambda node: GuardedNode(node, self.rules),
        )  # fmt: skip
        self.meter = LimitMeter(drawn.limits)
        declared = {
            m: None for _, node in self.world.nodes() for s in node.slots.values() for m in s.messages
        }
        self.simulation = self.world.simulation
        codec = MeteredCodec(tuple(declared), self.meter)
        self.simulation.settings = msgspec.structs.replace(settings, codec=codec)
        grouped = drawn.system == GROUP
        self.observer = Observer(self.world, self.meter, grouped=grouped, hostile=drawn.hostile)
        self._sequences: Counter[str] = Counter()
        self._numbers: dict[str, dict[str, int]] = {}  # by subscription and source: the last number received
        self._returning = {
            each.client: ReturningClient(each, self.world, self.observer)
            for each in drawn.subscriptions
            if each.is_returning
        }
        self._digest = blake2b(digest_size=12)
        self._read: dict[str, set[int]] = {}  # by reader of a log: offsets that it has read
        self._calls: dict[int, str] = {}  # of readers
        self._publishes: dict[int, tuple[str, str]] = {}  # by call
        self._is_revoked = False
        self.refused = 0

    # -- the run ---------------------------------------------------------------------------------

    def run(self) -> WideOutcome:
        broken = ""
        try:
            self._run()
        except Exception as error:  # a machine that raises breaks a promise too
            broken = str(error) if isinstance(error, BrokenPromise) else f"{type(error).__name__}: {error}"
        return self._outcome(broken)

    def _run(self) -> None:
        drawn, simulation = self.drawn, self.simulation
        self._watch()
        self.world.run(0.5)
        for client, broker in drawn.publishers.items():
            self.world.add_client(client, broker)
        for client, broker in drawn.hostile.items():
            self._add_hostile(client, broker)
        for each in drawn.subscriptions:
            self.world.add_client(each.client, each.broker)
            if (returning := self._returning.get(each.client)) is not None:
                self._schedule(returning)
                continue
            simulation.call_at(each.at, partial(self._subscribe, each))
            if each.away is not None:
                simulation.call_at(each.away[0], partial(self._detach, each))
                simulation.call_at(each.away[1], partial(self._attach, each))
        self.world.run(SETTLE)
        for each in drawn.subscriptions:
            if each.durable and each.at < SETTLE and each.client != LEAVER:
                self._stand(each)
        if drawn.revoked_at is not None:
            simulation.call_at(drawn.revoked_at, self._revoke)
        for event in drawn.events:
            simulation.call_at(event.at, partial(self._publish, event))
        simulation.plan(drawn.faults)
        if drawn.replacements:
            simulation.call_at(SETTLE + 0.5, partial(self._replace, list(drawn.replacements)))
        self.world.run(drawn.trouble_over)
        self._calm()

    def _calm(self) -> None:
        """No fault acts any more."""
        drawn, now = self.drawn, self.drawn.trouble_over
        recovered = now + recovery_seconds(self.drawn)
        self.world.run(recovered)
        self.observer.restore()
        if is_disabled(drawn):
            for client, home in drawn.hostile.items():
                self.simulation.connect(client, home)  # it may have been cut off before
            self.simulation.call_at(recovered + CONNECTED_SECONDS, self._disable)
        self._publish_calm("calm")
        self._until_done()
        self._take_other_filters()
        self._read_logs()
        self.world.run(self.simulation.now + 2.0)  # no further delivery, and no duplicate
        self._judge()

    def _until_done(self) -> None:
        deadline = self.simulation.now + progress_seconds(self.drawn)
        while True:
            at = self.simulation.now + 0.5
            self.world.run(at)
            if self._is_done():
                break
            if at > deadline:
                raise BrokenPromise(self._left())

    def _take_other_filters(self) -> None:
        """Nothing is owed. Some subscriptions leave, events are published, a broker of a tree perhaps
        restarts, and they return with other filters, just before further events and long before the last."""
        clients = [each for each in self._returning.values() if each.drawn.calm is not None]
        if not clients:
            return
        rng, home = Random(f"calm returns/{self.drawn.seed}"), clients[0].drawn.broker
        for client in clients:
            client.want(None)
        self._wait(1.0)
        self._publish_calm("before")
        self._wait(1.0)
        restarts = self.drawn.system != GROUP and rng.random() < 0.7
        if restarts:
            self.simulation.crash(home)
            self._wait(1.0)
            self.simulation.restart(home)
            self._wait(rng.choice((0.0, 0.02, 6.0)))
        for client in clients:
            assert client.drawn.calm is not None
            client.want(client.drawn.calm, is_quiet=not restarts)
        self._wait(0.02)
        self._publish_calm("beside")
        self._wait(recovery_seconds(self.drawn))
        self.observer.settle()
        self._publish_calm("after")
        self._until_done()

    def _wait(self, seconds: float) -> None:
        self.world.run(self.simulation.now + seconds)

    def _publish_calm(self, round: str) -> None:
        for event in calm_events(self.drawn, self.simulation.now, round):
            self._publish(event)

    def _is_done(self) -> bool:
        unanswered = len(self.observer.published) - len(self.observer.acked) - self.refused
        return not self.observer.pending and not unanswered and not self._missing_forever()

    def _left(self) -> str:
        observer = self.observer
        waiting = [identity for identity in observer.published if identity not in observer.acked]
        owed = {identity: sorted(ids) for identity, ids in list(observer.owed.items())[:3]}
        return (
            f"{progress_seconds(self.drawn):.0f} s after the last fault {observer.pending} "
            f"deliveries are owed ({owed}), "
            f"{len(waiting) - self.refused} publishes are not answered ({waiting[:3]}), "
            f"missing forever: {self._missing_forever()[:3]}"
        )

    # -- what clients do -----------------------------------------------------------------------------

    def _subscribe(self, each: DrawnSubscribe) -> None:
        self.world.subscribe(
            each.client, NAME, each.filter, durable=each.durable, queue=each.queue, window=each.window,
            group=each.group, superseding=each.superseding,
        )  # fmt: skip

    def _schedule(self, client: ReturningClient) -> None:
        call_at, drawn = self.simulation.call_at, client.drawn
        call_at(drawn.at, client.begin)
        for each in drawn.returns:
            if each.left < each.at:
                call_at(each.left, partial(client.want, None, each.commits))
            call_at(each.at, partial(client.want, each, each.commits))
        for at, broker in drawn.moves:
            call_at(at, partial(client.move, broker))

    def _stand(self, each: DrawnSubscribe) -> None:
        assert NAME in self.world.applications[each.client].refs, (
            f"{each.client} is not subscribed after {SETTLE} s"
        )
        wanted = f"({each.filter}) AND ({each.right})" if each.right else each.filter
        self.observer.stands(f"{each.client}/{NAME}", parse_filter(wanted), each.broker, each.superseding)

    def _detach(self, each: DrawnSubscribe) -> None:
        ref = self.world.applications[each.client].refs.pop(NAME, None)
        if ref is not None:
            self.simulation.input(each.client, ins.ClientLeave(self.world.next_call(), ref))

    def _attach(self, each: DrawnSubscribe) -> None:
        if NAME not in self.world.applications[each.client].refs:
            self._subscribe(each)

    def _publish(self, each: DrawnPublish) -> None:
        machine: Any = self.simulation.hosts[each.client].machine
        self._sequences[each.client] += 1
        id = f"{machine.incarnation}-{self._sequences[each.client]}"
        event = sized_event(each, id)
        self.meter.published(_size(event), len(machine._in_flight))
        self.observer.publishes(event)
        call = self.world.next_call()
        self._publishes[call] = event.identity
        self.simulation.input(each.client, ins.ClientPublish(call, event, number=True))

    # -- principals ------------------------------------------------------------------------------------

    def _add_hostile(self, client: str, broker: str) -> None:
        names = (
            *self.drawn.publishers,
            *(each.client for each in self.drawn.subscriptions),
            NAME,
            JOBS,
            broker,
        )
        rng = self.simulation.rng(client)
        build = partial(HostileClient, client, broker, rng=rng, names=names, seen=self._leaked)
        self.simulation.add(client, build, broker=False)
        self.simulation.connect(client, broker)

    def _leaked(self, event: Event) -> None:
        if event.source not in self.drawn.hostile:
            raise BrokenPromise(f"a hostile client received {event.identity} without a right to it")

    def _revoke(self) -> None:
        self.rules.replace(users_of(self.drawn, without=LEAVER))
        self._is_revoked = True

    def _disable(self) -> None:
        """The hostile users are disabled while they are connected: their sessions end, and no
        other begins."""
        without = LEAVER if self._is_revoked else ""
        self.rules.replace(users_of(self.drawn, without=without, is_disabled=True))
        self.observer.disabled(self.drawn.hostile)
        for client, home in self.drawn.hostile.items():
            self.simulation.disconnect(client, home)
            again = self.simulation.now + RETRY_SECONDS
            self.simulation.call_at(again, partial(self.simulation.connect, client, home))

    def _sent(self, principal: Principal, message: msg.Message) -> None:
        """A message leaves a broker for a client: may its principal read the events in it, by the rules of
        now?"""
        if principal.name == LEAVER and self._is_revoked:
            for event in events_in(message):
                raise BrokenPromise(f"{LEAVER} was sent {event.identity} after its rights had ended")
        elif principal.name in self.observer.disabled_since:
            self.observer.sent_to_disabled(principal.name)
        elif principal.name == "few":
            for event in events_in(message):
                if event.attributes.get("k") != 0:
                    raise BrokenPromise(f"few was sent {event.identity} without a right to it")

    # -- disks of a group ------------------------------------------------------------------------------

    def _replace(self, left: list[Incident]) -> None:
        """Replace the next disk as soon as the member before has caught up, while there is trouble."""
        now = self.simulation.now
        if not left or now > self.drawn.trouble_over - 1.5:
            return
        if not all(self._has_caught_up(name) for name in self.drawn.overlay.brokers):
            self.simulation.call_at(now + 0.1, partial(self._replace, left))
            return
        incident = msgspec.structs.replace(left[0], at=now, until=now + left[0].until)
        self.simulation.begin(incident)
        self.simulation.call_at(incident.until, partial(self.simulation.end, incident))
        self.simulation.call_at(incident.until + 0.1, partial(self._replace, left[1:]))

    def _has_caught_up(self, name: str) -> bool:
        host = self.simulation.hosts[name]
        node: Any = host.machine
        recovery = node.slots["recovery"]
        return host.up and not host.stopped and bool(recovery.has_caught_up)

    # -- what clients see ------------------------------------------------------------------------------

    def _watch(self) -> None:
        simulation, pass_on = self.simulation, self.simulation.on_client_effect
        assert pass_on is not None
        simulation.watch = self.observer
        simulation.on_handled = self.observer.stepped
        keep = self.world.rows.append

        def row(found: Row) -> None:
            keep(found)
            self._digest.update(msgspec.msgpack.encode(found))

        def observed(client: str, effect: Any) -> None:
            pass_on(client, effect)
            if client in self._returning:
                self._returning[client].observed(effect)
            elif type(effect) is fx.Notify:
                for notification in effect.notifications:
                    self._notified(client, notification.event)
            elif type(effect) is fx.CallResult and isinstance(effect.value, fx.Receipt):
                self.observer.acknowledged((effect.value.source, effect.value.id))
            elif type(effect) is fx.CallResult and isinstance(effect.value, msg.LogRead):
                self._log_read(client, effect.value)
            elif type(effect) is fx.CallFailed:
                self._failed(client, effect)
            elif type(effect) is fx.SubscriptionEnded:
                self.world.applications[client].refs.clear()
                self._failed(client, effect)

        simulation.on_client_effect = observed
        simulation.on_row = row

    def _notified(self, client: str, event: Event) -> None:
        if event.source in self.drawn.hostile:
            return  # it may publish a little
        id = f"{client}/{NAME}"
        self.observer.notified(id, event)
        if client in self._read and self.observer.is_superseded(event):
            raise BrokenPromise(f"{id} received {event.identity}, which was superseded before it came")
        number = int(event.id.rpartition("-")[2])
        last = self._numbers.setdefault(id, {})
        if number <= last.get(event.source, 0):
            raise BrokenPromise(
                f"{id} received {event.identity} after number {last[event.source]} of its publisher"
            )
        last[event.source] = number

    def _failed(self, client: str, effect: fx.CallFailed | fx.SubscriptionEnded) -> None:
        if client in self.drawn.publishers:
            self.refused += 1
            if isinstance(effect, fx.CallFailed) and effect.code != UnknownOutcomeError.code:
                self.observer.refused(self._publishes[effect.call], effect.code)
        elif client not in self._read:  # an application that was refused tries again
            again = next(each for each in self.drawn.subscriptions if each.client == client)
            self.simulation.call_at(self.simulation.now + RETRY_SECONDS, partial(self._attach, again))

    # -- judging at the end ------------------------------------------------------------------------------

    def _missing_forever(self) -> list[tuple[str, tuple[str, str]]]:
        """Events that live forever are owed to subscriptions that came late, too."""
        found = []
        for each in self.drawn.subscriptions:
            if each.client != LATE:
                continue
            wanted, id = parse_filter(each.filter), f"{each.client}/{NAME}"
            received = self.observer.received.get(id, {})
            found += [
                (id, identity) for identity in self.observer.forever(wanted) if identity not in received
            ]
        return found

    def _read_logs(self) -> None:
        """A client at each broker reads its whole log, page by page, and subscribes to what is available."""
        for broker in self.drawn.overlay.brokers:
            self.world.add_client(f"reader-{broker}", broker)
            self._read[f"reader-{broker}"] = set()
        self.world.run(self.simulation.now + 1.0)
        for reader in self._read:
            self._read_on(reader, 0)
            if self.drawn.system != GROUP:
                self.world.subscribe(reader, NAME, "EXISTS x", durable=True)
        entries = len(self.observer.published) + 2
        self.world.run(self.simulation.now + entries * (PAGE_SECONDS + 2 * self.drawn.disk_seconds))

    def _read_on(self, reader: str, after: int) -> None:
        call = self.world.next_call()
        self._calls[call] = reader
        request = msg.ReadLog(call, parse_filter("TRUE"), after, limit=1000)
        self.simulation.input(reader, ins.ClientAsk(call, request))

    def _log_read(self, reader: str, page: msg.LogRead) -> None:
        del self._calls[page.call]
        self._read[reader].update(entry.offset for entry in page.entries)
        if page.upto < page.end:
            self._read_on(reader, page.upto)

    def _judge(self) -> None:
        limit = self.drawn.limits.event_bytes
        for identity, event in self.observer.acked.items():
            if _size(event) > limit:
                raise BrokenPromise(f"{identity} of {_size(event)} bytes was accepted; the limit is {limit}")
        if self._calls:
            raise BrokenPromise(f"reading the log does not end: {sorted(self._calls.values())}")
        for broker in self.drawn.overlay.brokers:
            missing = self.observer.lasting(broker) - self._read[f"reader-{broker}"]
            if missing:
                raise BrokenPromise(f"the log of {broker} was read without the offsets {sorted(missing)[:5]}")

    def _outcome(self, broken: str) -> WideOutcome:
        simulation = self.simulation
        self._digest.update(msgspec.msgpack.encode(sorted(simulation.sent.items())))
        self._digest.update(f"{simulation.handled} {simulation.bytes_sent} {broken}".encode())
        return WideOutcome(
            seed=self.drawn.seed,
            system=self.drawn.system,
            broken=broken,
            published=len(self.observer.published),
            acked=len(self.observer.acked),
            refused=self.refused,
            delivered=sum(map(len, self.observer.received.values())),
            faults=dict(simulation.fired),
            met=dict(self.meter.met),
            handled=simulation.handled,
            fingerprint=self._digest.hexdigest(),
            seconds=simulation.now,
        )


def users_of(drawn: DrawnRun, *, without: str = "", is_disabled: bool = False) -> Users:
    """The users file of a run: publishers and subscribers may do everything, `LEAVER` by a rule of its own,
    others a part. `without`: the rules of one principal are gone; `is_disabled`: the hostile users are."""
    subscribers = [each.client for each in drawn.subscriptions]
    readers = [f"reader-{broker}" for broker in drawn.overlay.brokers]
    rights = {each.client: each.right for each in drawn.subscriptions if each.right}
    rights |= {LEAVER: "TRUE"} | dict.fromkeys(drawn.hostile, "k = 9")
    staff = [name for name in (*drawn.publishers, *subscribers, *readers) if name not in rights]
    lines = [f'[users.{name}]\ngroups = ["staff"]' for name in staff]
    off = "\ndisabled = true" if is_disabled else ""
    lines += [f"[users.{name}]{off if name in drawn.hostile else ''}" for name in rights]
    lines.append('[[allow]]\nwho = "group:staff"\naction = ["publish", "subscribe"]')
    for name, right in rights.items():
        if name != without:
            actions = '["publish", "subscribe"]' if name in drawn.hostile else '"subscribe"'
            lines.append(f'[[allow]]\nwho = "{name}"\naction = {actions}\nfilter = "{right}"')
    return parse_users("\n".join(lines), read=lambda name: b"")


def events_in(message: msg.Message) -> list[Event]:
    if isinstance(message, msg.Deliver):
        return [message.event]
    if isinstance(message, msg.DeliverAll):
        return list(message.events)
    return [entry.event for entry in message.entries] if isinstance(message, msg.LogRead) else []


def recovery_seconds(drawn: DrawnRun) -> float:
    """Until every link stands again and every subscription is known, once the faults are over: each broker on
    the way tries again after the longest pause; a group agrees on a view, and clients find a member."""
    detect = 2 * SimulationSettings().detect_seconds
    size = len(drawn.overlay.brokers)
    if drawn.system == GROUP:
        group, roaming = GroupSettings(), FailoverSettings()
        view = group.detector.suspect_seconds + group.detector.steady_seconds + 3 * group.round_seconds
        client = roaming.suspect_seconds + size * roaming.connect_seconds + roaming.fetch_seconds
        return detect + view + client + 2 * GroupLogSettings().again_seconds
    link = AcknowledgedSettings()
    return detect + size * (link.slow_seconds + link.answer_seconds)


def progress_seconds(drawn: DrawnRun) -> float:
    """Until everything that is owed is delivered: page by page, one event each at worst, behind the longest
    pause between two requests and, where a publisher's broker lost its log, the wait for its earlier events.
    """
    pages = (len(drawn.events) + 10) * (PAGE_SECONDS + 2 * drawn.disk_seconds)
    if drawn.system == GROUP:
        return recovery_seconds(drawn) + pages
    return recovery_seconds(drawn) + pages + AcknowledgedSettings().poll_seconds + BARRED_SECONDS


def _size(event: Event) -> int:
    return len(msgspec.msgpack.encode(event))


def sized_event(each: DrawnPublish, id: str) -> Event:
    """The event with a payload that makes it exactly as large as was drawn."""
    build = partial(
        make_event, each.attributes, source=each.client, id=id, lifetime=each.lifetime, key=each.key
    )
    event = build()
    short = each.size - _size(event)
    while short > 0:
        event = build(payload=bytes(short))
        over = _size(event) - each.size
        if over <= 0:
            break
        short -= over
    return event
