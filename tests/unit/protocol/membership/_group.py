"""A group of processes that agree on views, on a network where a process can be killed between two sends.

The simulator performs the effects of a step as one; here each send is a step of its own, so that a
coordinator can die when it has told one member and not the others (E-U3).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from tidings.history.schema import Row
from tidings.protocol.effects import Persist, Record, Send
from tidings.protocol.inputs import LinkDown, LinkUp, Persisted, Received, Started, TimerFired
from tidings.protocol.membership.agreed import AgreedViews, GroupSettings
from tidings.protocol.membership.views import ViewBeat, ViewHello
from tidings.protocol.node import Node
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.slots import Delivery
from tidings.store.memory import MemoryStore

WAY, DETECT, SYNC = 0.01, 0.3, 0.001
_DIE = object()
CHATTER = (ViewBeat, ViewHello)


class Group:
    def __init__(self, names: list[str], *, founders: int | None = None, seed: int = 1) -> None:
        self.names = names
        self.founders = tuple(names[: founders or len(names)])
        self.seed = seed
        self.now = 0.0
        self.rows: list[Row] = []
        self.nodes: dict[str, Node] = {}
        self.disks = {name: MemoryStore() for name in names}
        self.lives = dict.fromkeys(names, 0)
        self.cut: set[tuple[str, str]] = set()  # ways that are blocked, in silence
        self.sent = dict.fromkeys(names, 0)  # what was said to agree
        self.dies_after: tuple[str, int] | None = None
        self.takes_along = False  # whoever it told last dies too, as soon as it has heard
        self.log: list[tuple[str, str, str]] = []
        self._queue: list[tuple[float, int, str, int, Any]] = []
        self._order = count()
        self._woken: dict[str, float] = {}
        self._told_last: dict[str, str] = {}

    def start(self, *names: str) -> None:
        for name in names:
            others = tuple(other for other in self.names if other != name)
            self.lives[name] += 1
            membership = AgreedViews(self.founders, settings=GroupSettings())
            self.nodes[name] = Node(
                name, delivery=Delivery(), membership=membership, overlay=StaticOverlay(others), stable=True,
                recording=True, rng=Random(f"{self.seed}/{name}/{self.lives[name]}"),
            )  # fmt: skip
            self._woken.pop(name, None)
            self._hand(name, Started(self.disks[name].load()))
            for other in others:
                if other in self.nodes:
                    self._put(self.now, name, LinkUp(other))
                    self._put(self.now, other, LinkUp(name))

    def wipe(self, name: str) -> None:
        self.disks[name] = MemoryStore()

    def crash(self, name: str) -> None:
        if name not in self.nodes:
            return
        del self.nodes[name]
        self.lives[name] += 1
        for other in self.nodes:
            self._put(self.now + DETECT, other, LinkDown(name))

    def membership(self, name: str) -> AgreedViews:
        found = self.nodes[name].slots["membership"]
        assert isinstance(found, AgreedViews)
        return found

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            if until is not None and until():
                return True
            at, _, name, life, item = heappop(self._queue)
            self.now = at
            if self.lives[name] == life and item is _DIE:
                self.crash(name)
            elif self.lives[name] == life:
                self._hand(name, item)
        self.now = end if until is None or not until() else self.now
        return until is None or until()

    def agree(self, *names: str) -> bool:
        """Do these have one view, of exactly themselves?"""
        views = [self.membership(name).current for name in names if name in self.nodes]
        return all(
            view == views[0] and view is not None and set(view.members) == set(names) for view in views
        )

    def _put(self, at: float, name: str, item: Any) -> None:
        heappush(self._queue, (at, next(self._order), name, self.lives[name], item))

    def _hand(self, name: str, item: Any) -> None:
        node = self.nodes[name]
        if isinstance(item, TimerFired):
            self._woken.pop(name, None)
        for effect in node.handle(item, self.now):
            if name not in self.nodes:
                return  # it died between two effects
            self._perform(name, effect)
        if name not in self.nodes:
            return
        node.check()
        wake = node.next_deadline()
        if wake is not None and wake < self._woken.get(name, float("inf")):
            self._woken[name] = wake
            self._put(max(wake, self.now), name, TimerFired())

    def _perform(self, name: str, effect: Any) -> None:
        if isinstance(effect, Send):
            self._send(name, effect)
        elif isinstance(effect, Persist):
            self.disks[name].commit(effect.records)
            self._put(self.now + SYNC, name, Persisted(effect.token))
        elif isinstance(effect, Record):
            self.rows.append(effect.row)

    def _send(self, name: str, effect: Send) -> None:
        if not isinstance(effect.message, CHATTER):
            if self.dies_after == (name, self.sent[name]):
                self.crash(name)
                if self.takes_along and self.sent[name]:
                    self._put(self.now + 2 * WAY, self._told_last[name], _DIE)
                return
            self.sent[name] += 1
            self._told_last[name] = effect.to
            self.log.append((name, effect.to, type(effect.message).__name__))
        if effect.to in self.nodes and (name, effect.to) not in self.cut:
            self._put(self.now + WAY, effect.to, Received(name, effect.message))
