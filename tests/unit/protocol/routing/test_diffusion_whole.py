"""A broker that restarts in the middle says what it knows, and that there may be more."""

from __future__ import annotations

from tidings.language import parse_filter
from tidings.protocol.effects import Channel
from tidings.protocol.messages import Message
from tidings.protocol.routing.diffusion import Diffusion, Interest

FILTER = parse_filter("x > 1")
OTHER = parse_filter("y > 1")


class Link:
    """Both ends of a link, and what travels on it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Message]] = []

    def __call__(self, to: str, message: Message, channel: Channel = Channel.LINK) -> None:
        self.sent.append((to, message))

    def interests(self, to: str) -> list[Interest]:
        return [m for receiver, m in self.sent if receiver == to and isinstance(m, Interest)]


def middle(*peers: str) -> Diffusion:
    diffusion = Diffusion("subscriptions", acknowledged=True, remembers=True)
    diffusion.peers = lambda: peers
    for peer in peers:
        diffusion.link_up(peer, "life")
    return diffusion


def test_it_is_whole_only_when_every_other_link_was_heard_whole() -> None:
    diffusion, link = middle("left", "right"), Link()
    diffusion.flush(link, ("left", "right"), 0.0)
    assert [m.whole for m in link.interests("left")] == [False]
    diffusion.receive("right", Interest("subscriptions", (FILTER,), (), True, "r", 1, True), link)
    diffusion.flush(link, ("left", "right"), 0.0)
    delivered = link.interests("left")[-1]
    assert (delivered.whole, delivered.reset, delivered.add) == (True, True, (FILTER,))


def test_what_is_not_whole_only_adds() -> None:
    diffusion, link = middle("left", "right"), Link()
    diffusion.receive("right", Interest("subscriptions", (FILTER,), (), True, "r", 1, True), link)
    diffusion.quiet("right")
    diffusion.link_up("right", "life 2")
    diffusion.receive("right", Interest("subscriptions", (OTHER,), (), True, "r2", 1, False), link)
    diffusion.receive("right", Interest("subscriptions", (), (FILTER.digest,), False, "r2", 2, False), link)
    assert set(diffusion.behind("right")) == {FILTER, OTHER}
    diffusion.receive("right", Interest("subscriptions", (OTHER,), (), True, "r2", 3, True), link)
    assert diffusion.behind("right") == (OTHER,)


def test_a_link_that_was_never_heard_whole_wants_everything() -> None:
    diffusion, link = middle("left", "right"), Link()
    assert diffusion.is_unknown("left")
    diffusion.receive("left", Interest("subscriptions", (), (), True, "l", 1, False), link)
    assert diffusion.is_unknown("left")
    diffusion.receive("left", Interest("subscriptions", (), (), True, "l", 2, True), link)
    assert not diffusion.is_unknown("left")
