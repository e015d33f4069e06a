"""The record of a subscription that rights narrow holds the filter that holds."""

from __future__ import annotations

from random import Random

import pytest

from tidings.history.check import check
from tidings.history.schema import SUB, Row, ntfy_row, pub_row, sub_row
from tidings.language import parse_filter
from tidings.model.event import make_event
from tidings.model.subscription import DeliveryOptions
from tidings.protocol import messages as msg
from tidings.protocol.client import Client
from tidings.protocol.effects import Record
from tidings.protocol.inputs import ClientSubscribe, LinkUp, Received
from tidings.runtime.narrowing import shown
from tidings.security.rules import conjoined, of_tenant


def recorded(narrowed: str) -> Row:
    """The `sub` row of a client that asked for `n > 0`, and whose broker answers with that narrowing."""
    client = Client("ann", "b", rng=Random(1), recording=True)
    client.handle(LinkUp("b"), 0.0)
    client.handle(Received("b", msg.Welcome("b", log="b")), 0.0)
    client.handle(ClientSubscribe(1, parse_filter("n > 0"), options=DeliveryOptions()), 0.0)
    effects = client.handle(Received("b", msg.Subscribed(1, 1, "ann", "mine", narrowed=narrowed)), 1.0)
    (row,) = [effect.row for effect in effects if isinstance(effect, Record)]
    assert row.op == SUB
    return row


def test_a_record_holds_the_filter_that_holds() -> None:
    """Found by a user: completeness was broken for every subscription that a right narrowed."""
    right = conjoined(parse_filter("n > 0"), parse_filter("level < 3"))
    row = recorded(shown(right))
    first, second = (make_event({"n": 1, "level": n}, source="p", id=str(n)) for n in (1, 9))
    rows = [row, pub_row(2.0, "p", first), pub_row(2.5, "p", second), ntfy_row(3.0, "ann", "ann/mine", first)]
    assert check(rows, t_sub=0.5, t_diff=1.5).holds
    asked = [sub_row(1.0, "ann", "ann/mine", "n > 0"), *rows[1:]]
    assert "completeness" in check(asked, t_sub=0.5, t_diff=1.5).broken


def test_a_record_of_one_that_is_not_narrowed_holds_what_was_asked_for() -> None:
    assert recorded("").filter == "n > 0"


@pytest.mark.parametrize("asked", ["n > 0", "n > 0 OR level = 1", "n + 1 > 0"])
def test_the_tenant_is_not_shown(asked: str) -> None:
    wanted = parse_filter(asked)
    found = shown(conjoined(wanted, of_tenant("acme")))
    assert "acme" not in found
    assert parse_filter(found).digest == wanted.digest


def test_other_parts_of_the_rules_are_not_shown() -> None:
    right = parse_filter("level < 3 OR secret = 'x'")
    assert "'x'" not in shown(conjoined(parse_filter("n > 0 AND secret = 'y'"), right))
