"""The gate of a connection with the guard behind it: what is found free is asked anew when a rule changes."""

from __future__ import annotations

from typing import Any

from tidings.language import parse_filter
from tidings.model.event import Event, make_event
from tidings.protocol import messages as msg
from tidings.runtime.gate import Gate
from tidings.security.audit import Audit
from tidings.security.gate import Gate as Guard
from tidings.security.principal import Means, Principal
from tidings.security.rules import Action, Permissions, Rule
from tidings.security.users import NOBODY, Users

ANN = Principal("ann", Means.SCRAM)


def users(filter: str) -> Users:
    rules = [Rule("ann", action, parse_filter(filter)) for action in Action]
    return Users({}, {}, Permissions(rules), {}, NOBODY.default_quota, NOBODY.verifier)


class Door:
    def __init__(self, filter: str) -> None:
        self.said: list[Any] = []  # to the client
        self.handed: list[Any] = []  # to the node, in the client's place
        self.guard = Guard(users(filter), clock=lambda: 0.0, audit=Audit(lambda entry: None, lambda: 0.0))
        self.gate = Gate("ann", ANN, self.guard, say=self.said.append, hand_in=self.handed.append)
        self.out = self.gate.outlet(lambda: None)

    def heard(self, level: int) -> bool:
        before = len(self.said)
        self.out(msg.Deliver(1, level, quote(level)))
        return len(self.said) > before

    def let_in(self, level: int, **options: Any) -> bool:
        return bool(self.gate.inward([msg.Publish(level, quote(level, **options), level)]))


def quote(level: int, **options: Any) -> Event:
    return make_event({"level": level}, **{"source": "ann", "id": str(level), **options})


def test_a_right_to_everything_that_is_taken_away_ends_at_once() -> None:
    door = Door("TRUE")
    assert all(door.heard(level) for level in (1, 9, 1, 9))
    door.guard.replace(users("level < 5"))
    assert [door.heard(level) for level in (1, 9)] == [True, False]
    assert door.handed == [msg.Ack(1, (9,)), msg.Credit(1, 1)]  # what is withheld counts as taken
    door.guard.replace(users("TRUE"))
    assert door.heard(9)


def test_publishing_everything_ends_with_its_rule_and_never_covers_another_source() -> None:
    door = Door("TRUE")
    assert all(door.let_in(level) for level in (1, 9, 1))
    assert not door.let_in(1, source="bob")
    assert door.let_in(9)
    assert door.let_in(9, source="ann/desk")
    assert not door.let_in(1, source="bob")
    door.guard.replace(users("level < 5"))
    assert [door.let_in(level) for level in (1, 9)] == [True, False]
