"""Plays: scenarios in plain text that read like a script, and judge themselves.

    system siena
    link b0 - b1 - b2
    client alice at b0
    subscribe alice cheap: price < 10
    settle
    publish bob price=7
    expect alice receives 1

For overlays that rearrange themselves there is `expect b0 linked b7` and, after `watch`, the path of a
message: `expect LockPath goes b0>b1 b1>b5`. For groups that agree on views: `expect d3 view 2`, and the view
of its distributor in which a client received its second event, `expect c3 received 2 in view 1`. One line is
one step; `#` begins a comment. `run 5` lets five seconds pass, `settle` lets everything in flight arrive.
An unknown line, and an expectation that is not met, is a `PlayError` that names the line.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from tidings.errors import InputError, TidingsError
from tidings.history.check import check
from tidings.history.schema import NTFY, VIEW
from tidings.protocol.inputs import Received
from tidings.protocol.messages import tag_of
from tidings.simulation.faults import (
    CRASH,
    PARTITION_HALVES,
    PARTITION_ONE_WAY,
    RATES,
    SLOW_LINK,
    FaultPlan,
    Incident,
    Rates,
)
from tidings.simulation.simulator import SimulationSettings
from tidings.simulation.topology import OverlayGraph
from tidings.simulation.workloads import AdvertiseStep, UnadvertiseStep
from tidings.simulation.world import World

LONGEST_RUN: Final = 1e6  # seconds; a typo should not run for ever


class PlayError(InputError):
    """A play that cannot be read, or an expectation in it that was not met."""

    code = "play"


class _PlayLine(msgspec.Struct, frozen=True):
    number: int
    text: str

    def error(self, problem: str) -> PlayError:
        return PlayError(f"line {self.number}: {problem}: {self.text}")


def perform(text: str, *, seed: int = 1) -> World:
    """Perform a play; the world as it is at the end."""
    return _PlayStage(seed).perform(text)


class _PlayStage:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.system = "tidings"
        self.options: dict[str, Any] = {}
        self.links: dict[tuple[str, str], float | None] = {}
        self.brokers: dict[str, None] = {}
        self.clients: dict[str, str] = {}
        self.rates = Rates()
        self.world: World | None = None
        self.cuts: list[Incident] = []
        self.went: list[tuple[str, str]] = []  # since `watch`: what went between brokers, and which way
        self.measured: dict[frozenset[str], float] = {}
        self.verbs: dict[str, Callable[[_PlayLine, str], None]] = {
            name[3:].replace("_", "-"): getattr(self, name) for name in dir(self) if name.startswith("do_")
        }

    def perform(self, text: str) -> World:
        for number, raw in enumerate(text.splitlines(), start=1):
            words = raw.split("#", 1)[0].strip() if not raw.lstrip().startswith("#") else ""
            if words:
                self._line(_PlayLine(number, words))
        return self._ready()

    def _line(self, line: _PlayLine) -> None:
        verb, _, rest = line.text.partition(" ")
        action = self.verbs.get(verb)
        if action is None:
            near = get_close_matches(verb, self.verbs, n=1)
            hint = f"did you mean {near[0]}?" if near else f"verbs: {', '.join(sorted(self.verbs))}"
            raise line.error(f"{verb!r} is no verb of a play ({hint})")
        try:
            action(line, rest.strip())
        except PlayError:
            raise
        except (TidingsError, ValueError, KeyError) as error:
            raise line.error(str(error)) from error

    def _ready(self) -> World:
        """The world is built at the first step that needs it."""
        if self.world is None:
            overlay = OverlayGraph(tuple(self.brokers) or ("b0",), tuple(self.links))
            latencies = {link: seconds for link, seconds in self.links.items() if seconds is not None}
            self.world = World(
                self.system, overlay, seed=self.seed, latencies=latencies, options=self.options,
                settings=SimulationSettings(check=True),
            )  # fmt: skip
            self.world.simulation.plan_rough()
            self.world.simulation.plan(FaultPlan(self.rates))
            if self.measured:
                self.world.simulation.measured = lambda a, b: self.measured[frozenset((a, b))]
            self.world.run(0.1)
            for client, broker in self.clients.items():
                self._enter(client, broker)
        return self.world

    def _enter(self, client: str, broker: str) -> None:
        world = self._ready()
        world.add_client(client, broker)
        world.run(world.simulation.now + 0.1)

    def _named(self, line: _PlayLine, name: str) -> str:
        if name not in self._ready().simulation.hosts:
            raise line.error(f"nobody is called {name!r}")
        return name

    def _now(self) -> float:
        return self._ready().simulation.now

    # -- setting the stage -----------------------------------------------------------------

    def do_system(self, line: _PlayLine, rest: str) -> None:
        if self.world is not None:
            raise line.error("the system is chosen before anything happens")
        self.system, *options = rest.split()
        self.options = {name: _value(value) for name, _, value in (o.partition("=") for o in options)}

    def do_brokers(self, line: _PlayLine, rest: str) -> None:
        self.brokers.update(dict.fromkeys(rest.split()))

    def do_link(self, line: _PlayLine, rest: str) -> None:
        """link b0 - b1 - b2 [latency 0.5]"""
        chain, _, latency = rest.partition(" latency ")
        names = [name.strip() for name in chain.split("-")]
        if len(names) < 2 or not all(names):
            raise line.error("a link joins two brokers: link b0 - b1")
        self.brokers.update(dict.fromkeys(names))
        for a, b in itertools.pairwise(names):
            self.links[(a, b)] = float(latency) if latency else None

    def do_client(self, line: _PlayLine, rest: str) -> None:
        name, word, broker = rest.split()
        if word != "at":
            raise line.error("say: client NAME at BROKER")
        if self.world is None:
            self.brokers.setdefault(broker)
            self.clients[name] = broker
        else:
            self._enter(name, broker)

    def do_rate(self, line: _PlayLine, rest: str) -> None:
        """rate loss 0.1"""
        name, chance = rest.split()
        if name not in RATES:
            raise line.error(f"no rate is called {name!r}, there are {', '.join(RATES)}")
        self.rates = msgspec.structs.replace(self.rates, **{name: float(chance)})
        if self.world is not None:
            self.world.simulation.plan(FaultPlan(self.rates))

    def do_distance(self, line: _PlayLine, rest: str) -> None:
        """distance b0 - b1 3: the distance that brokers will measure, in any unit"""
        pair, _, amount = rest.rpartition(" ")
        self.measured[frozenset(name.strip() for name in pair.split("-"))] = float(amount)

    def do_watch(self, line: _PlayLine, rest: str) -> None:
        """From now on note what goes between brokers, for `expect KIND goes ...`."""
        simulation = self._ready().simulation
        self.went = []

        def note(name: str, item: Any, _now: float) -> None:
            if type(item) is Received and item.sender in self.brokers and name in self.brokers:
                self.went.append((tag_of(type(item.message)), f"{item.sender}>{name}"))

        simulation.on_handled = note

    # -- what clients do -------------------------------------------------------------------

    def do_subscribe(self, line: _PlayLine, rest: str) -> None:
        """subscribe alice news: change < -3    or    subscribe alice durable news: change < -3"""
        head, colon, filter = rest.partition(":")
        client, *kind, name = head.split()
        if not colon or kind not in ([], ["durable"]):
            raise line.error("say: subscribe CLIENT [durable] NAME: FILTER")
        self._ready().subscribe(self._named(line, client), name, filter.strip(), durable=bool(kind))

    def do_unsubscribe(self, line: _PlayLine, rest: str) -> None:
        client, name = rest.split()
        self._ready().unsubscribe(self._named(line, client), name)

    def do_publish(self, line: _PlayLine, rest: str) -> None:
        """publish bob price=7 symbol='IBM' [lifetime=60] [topic=a/b]"""
        client, *pairs = shlex.split(rest)
        values = {name: _value(value) for name, _, value in (pair.partition("=") for pair in pairs)}
        fields = {name: values.pop(name) for name in ("lifetime", "topic", "key") if name in values}
        self._ready().publish(self._named(line, client), values, **fields)

    def do_advertise(self, line: _PlayLine, rest: str) -> None:
        head, _, filter = rest.partition(":")
        client, name = head.split()
        self._ready().do(AdvertiseStep(at=self._now(), client=client, name=name, filter=filter.strip()))

    def do_unadvertise(self, line: _PlayLine, rest: str) -> None:
        client, name = rest.split()
        self._ready().do(UnadvertiseStep(at=self._now(), client=client, name=name))

    # -- time ------------------------------------------------------------------------------

    def do_run(self, line: _PlayLine, rest: str) -> None:
        self._run(line, float(rest))

    def do_settle(self, line: _PlayLine, rest: str) -> None:
        self._run(line, float(rest or 10.0))

    def _run(self, line: _PlayLine, seconds: float) -> None:
        if not 0 <= seconds <= LONGEST_RUN:
            raise line.error(f"a run of {seconds} seconds; from 0 to {LONGEST_RUN:,.0f}")
        self._ready().run(self._now() + seconds)

    # -- what goes wrong ---------------------------------------------------------------------

    def do_crash(self, line: _PlayLine, rest: str) -> None:
        for name in rest.split():
            self._begin(Incident(kind=CRASH, at=0, until=0, nodes=(self._named(line, name),)))

    def do_restart(self, line: _PlayLine, rest: str) -> None:
        """restart b1 [without disk]"""
        names, without, _ = rest.partition(" without ")
        for name in names.split():
            self._ready().simulation.restart(self._named(line, name), keep_disk=not without)

    def do_stop(self, line: _PlayLine, rest: str) -> None:
        self._ready().simulation.stop(self._named(line, rest))

    def do_resume(self, line: _PlayLine, rest: str) -> None:
        self._ready().simulation.resume(self._named(line, rest))

    def do_partition(self, line: _PlayLine, rest: str) -> None:
        """partition b0 b1 | b2"""
        sides = [[self._named(line, name) for name in side.split()] for side in rest.split("|")]
        if len(sides) != 2:
            raise line.error("say: partition SOME | OTHERS")
        pairs = tuple(pair for a in sides[0] for b in sides[1] for pair in ((a, b), (b, a)))
        self._begin(Incident(kind=PARTITION_HALVES, at=0, until=0, cut=pairs))

    def do_cut(self, line: _PlayLine, rest: str) -> None:
        """cut b0 -> b1: messages are lost in that direction"""
        a, b = (self._named(line, name.strip()) for name in rest.split("->"))
        self._begin(Incident(kind=PARTITION_ONE_WAY, at=0, until=0, cut=((a, b),)))

    def do_slow(self, line: _PlayLine, rest: str) -> None:
        """slow b0 - b1 10: ten times slower"""
        pair, _, times = rest.rpartition(" ")
        a, b = (self._named(line, name.strip()) for name in pair.split("-"))
        self._begin(Incident(kind=SLOW_LINK, at=0, until=0, cut=((a, b),), amount=float(times)))

    def do_heal(self, line: _PlayLine, rest: str) -> None:
        for incident in self.cuts:
            self._ready().simulation.end(incident)
        self.cuts.clear()

    def _begin(self, incident: Incident) -> None:
        self._ready().simulation.begin(incident)
        if incident.kind != CRASH:
            self.cuts.append(incident)

    # -- what is expected ----------------------------------------------------------------------

    def do_expect(self, line: _PlayLine, rest: str) -> None:
        """expect alice receives 2 | expect alice receives nothing | expect minimality holds
        expect b0 linked b1 | expect b0 apart b1 | expect Forward goes b0>b1 b1>b2
        expect d3 view 2 | expect c3 received 2 in view 1"""
        subject, verb, *what = rest.split()
        if verb in ("holds", "fails"):
            self._expect_property(line, subject, verb == "holds")
        elif verb in ("receives", "hears"):  # the second: as plays said it before 0.2
            self._expect_received(line, subject, what)
        elif verb in ("linked", "apart") and len(what) == 1:
            self._expect_link(line, subject, what[0], verb == "linked")
        elif verb == "goes":
            self._expect_ways(line, subject, what)
        elif verb == "view" and len(what) == 1:
            self._expect_view(line, subject, int(what[0]))
        elif verb in ("received", "heard") and what[1:3] == ["in", "view"]:
            self._expect_received_in(line, subject, int(what[0]), int(what[3]))
        else:
            raise line.error("say: expect CLIENT receives N, or: expect PROPERTY holds")

    def _expect_link(self, line: _PlayLine, a: str, b: str, linked: bool) -> None:
        nodes = dict(self._ready().nodes())
        for one, other in ((a, b), (b, a)):
            peers = nodes[self._named(line, one)].slots["overlay"].links()
            if (other in peers) is not linked:
                raise line.error(f"the links of {one} are {', '.join(sorted(peers))}")

    def _expect_ways(self, line: _PlayLine, kind: str, ways: list[str]) -> None:
        went = [way for name, way in self.went if name == kind]
        if sorted(went) != sorted(ways):
            raise line.error(f"it went {' '.join(went) or 'nowhere'}")

    def _expect_view(self, line: _PlayLine, broker: str, number: int) -> None:
        view = dict(self._ready().nodes())[self._named(line, broker)].slots["membership"].epoch
        if view != number:
            raise line.error(f"the view of {broker} is {view}")

    def _expect_received_in(self, line: _PlayLine, client: str, position: int, number: int) -> None:
        rows = self._ready().rows
        delivered = [row for row in rows if row.op == NTFY and row.process == client]
        if len(delivered) < position:
            raise line.error(f"{client} received {len(delivered)}")
        ntfy = delivered[position - 1]
        seen = [row.view for row in rows[: rows.index(ntfy)] if row.op == VIEW and row.process == ntfy.broker]
        if seen[-1:] != [number]:
            raise line.error(f"{client} received it in view {seen[-1] if seen else 'none'} of {ntfy.broker}")

    def _expect_received(self, line: _PlayLine, client: str, what: list[str]) -> None:
        received = self._ready().applications[self._named(line, client)].received
        if len(what) != 1:
            raise line.error("say: expect CLIENT receives N")
        wanted = 0 if what == ["nothing"] else int(what[0])
        if len(received) != wanted:
            reported = ", ".join(str(each.event.attributes) for each in received) or "nothing"
            raise line.error(f"{client} received {len(received)}: {reported}")

    def _expect_property(self, line: _PlayLine, name: str, holds: bool) -> None:
        world = self._ready()
        report = check(world.rows, contract=world.system.contract)
        verdict = report.verdicts[name]
        if verdict.holds is not holds:
            raise line.error(f"{name} is {verdict.holds}: {verdict.story or verdict.reason}")


def _value(text: str) -> Any:
    """A value as a play writes it: a number, true or false, or text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
