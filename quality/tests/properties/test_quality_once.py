"""Organisations hear each change once, whatever crashes when: before a commit, after it, or between two
steps.

The network is played by hand: a batch is carried, its answer may be lost, either side may crash at any write.
The reader keeps the number of what it has heard together with it, as a reader that wants each change once
does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings_quality.interface import UserRequest
from tidings_quality.model import QualityChange
from tidings_quality.organisation import OrganisationService, QualityNotification, SubChanged
from tidings_quality.running_example import HOLDER, running_example
from tidings_quality.settings import OrganisationSettings, PeerOrganisation
from tidings_quality.state import OrganisationState, unpacked

NAMES = ("INPS", "INAIL", "CoC")
READERS = (("INPS", "a", 0.5), ("INPS", "b", 1.0), ("INAIL", "a", 0.7), ("CoC", "a", 1.0))


class Crash(Exception):
    pass


class Fragile(OrganisationState):
    """A state whose process can end just before or just after the next transaction is kept.

    It lives in memory: what a transaction left is what the next process finds."""

    crash = ""  # before, after

    @contextmanager
    def writing(self) -> Iterator[None]:
        if self._writing:
            with super().writing():
                yield
            return
        crash, self.crash = self.crash, ""
        with super().writing():
            yield
            if crash == "before":
                raise Crash
        if crash == "after":
            raise Crash


class Play:
    def __init__(self) -> None:
        organisations = tuple(
            msgspec.structs.replace(one, capability=1) for one in running_example().organisations
        )
        self.schema = msgspec.structs.replace(running_example(), organisations=organisations)
        self.organisations = {name: self._opened(name, Fragile()) for name in NAMES}
        self.received: dict[tuple[str, str], list[str]] = {(name, user): [] for name, user, _ in READERS}
        self.number = dict.fromkeys(self.received, 0)
        for name, user, least in READERS:
            self.organisations[name].subscribe(
                UserRequest(f"ON Enterprise WHERE name.accuracy <= {least}", user, "s")
            )
        self._agree()

    def _opened(self, name: str, state: OrganisationState) -> OrganisationService:
        peers = {other: PeerOrganisation("http://127.0.0.1:1") for other in NAMES if other != name}
        return OrganisationService(OrganisationSettings(name=name, schema=self.schema, peers=peers), state)

    def _agree(self) -> None:
        for name, consumer in self.organisations.items():
            for producer in consumer.settings.peers:
                delivered = consumer.to_tell(producer)
                if delivered is not None:
                    assert self.organisations[producer].sub_changed(name, delivered) == SubChanged()
                    consumer.on_confirmed(producer, delivered)

    def restart(self, name: str) -> None:
        self.organisations[name] = self._opened(name, self.organisations[name].state)

    @contextmanager
    def dying(self, name: str, when: str) -> Iterator[None]:
        state = self.organisations[name].state
        assert isinstance(state, Fragile)
        state.crash = when
        try:
            yield
        except Crash:
            self.restart(name)
        else:
            state.crash = ""

    def publish(self, key: int, when: str) -> None:
        change = QualityChange(HOLDER, "CoC", f"k{key}", "Name", "accuracy", key / 10, "1", {"Name": "x"})
        with self.dying("CoC", when):
            self.organisations["CoC"].changed([change])

    def carry(self, sender: str, target: str, when: str, lost: bool) -> None:
        batch = self.organisations[sender].state.sendings(target)
        if not batch or sender == target:
            return
        delivered = [QualityNotification(unpacked(one.event), one.below) for one in batch]
        taken = False
        with self.dying(target, when):
            self.organisations[target].notified(sender, delivered)
            taken = True
        if not taken or lost:  # no answer: the sender serves those below itself, and will try again
            self.organisations[sender].state.take_over([one for one in batch if one.below])
            return
        with self.dying(sender, when if when == "after" else ""):
            self.organisations[sender].state.sent([one.place for one in batch])

    def read(self, reader: int, when: str) -> None:
        name, user, _ = READERS[reader]
        state = self.organisations[name].state
        for number, event in state.notifications(f"{user}.s", after=self.number[name, user]):
            self.received[name, user].append(str(unpacked(event).get("change.object")))
            self.number[name, user] = number
        with self.dying(name, when):
            state.acknowledge(f"{user}.s", self.number[name, user])

    def settle(self, keys: set[int]) -> None:
        for key in keys:
            self.publish(key, "")
        for _ in range(8):
            for sender in NAMES:
                for target in NAMES:
                    self.carry(sender, target, "", lost=False)
        for reader in range(len(READERS)):
            self.read(reader, "")


WHEN = st.sampled_from(["", "before", "after"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 9), WHEN),
        st.tuples(st.just("carry"), st.sampled_from(NAMES), st.sampled_from(NAMES), WHEN, st.booleans()),
        st.tuples(st.just("read"), st.integers(0, len(READERS) - 1), WHEN),
        st.tuples(st.just("restart"), st.sampled_from(NAMES)),
    ),
    max_size=24,
)


@settings(deadline=None, max_examples=40)
@given(STEPS)
def test_each_reader_hears_each_change_once_whatever_crashes(steps: list[tuple[object, ...]]) -> None:
    play = Play()
    keys: set[int] = set()
    for what, *rest in steps:
        getattr(play, str(what))(*rest)
        if what == "publish":
            keys.add(int(str(rest[0])))
    play.settle(keys)
    for name, user, least in READERS:
        expected = sorted(f"k{key}" for key in keys if key / 10 <= least)
        assert sorted(play.received[name, user]) == expected
    for one in play.organisations.values():
        one.state.close()
