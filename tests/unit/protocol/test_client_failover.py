"""A client that finds its distributor by itself."""

from __future__ import annotations

from random import Random

from tidings.protocol.client_failover import FailoverClient
from tidings.protocol.effects import CloseLink, Effect, OpenLink
from tidings.protocol.inputs import LinkDown, LinkUp


def of(kind: type[OpenLink] | type[CloseLink], effects: list[Effect]) -> list[str]:
    return [effect.peer for effect in effects if isinstance(effect, kind)]


def test_a_link_that_comes_back_while_another_distributor_is_tried_is_closed() -> None:
    """Seed 3071 of the wide world: the link stayed up, so that a later attempt never saw it come up."""
    roamer = FailoverClient("c", ("b0", "b1"), rng=Random(1))
    roamer.handle(LinkUp("b0"), 0.0)
    assert of(OpenLink, roamer.handle(LinkDown("b0"), 1.0)) == ["b1"]
    assert of(CloseLink, roamer.handle(LinkUp("b0"), 1.1)) == ["b0"]
    assert not of(CloseLink, roamer.handle(LinkUp("b1"), 1.2))
    assert not of(CloseLink, roamer.handle(LinkUp("b1"), 1.3)), "it is the link that is used"
