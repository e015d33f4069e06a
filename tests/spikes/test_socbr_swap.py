"""Spike: an overlay that replaces a link while events are under way (SOCBR, VIR4-7).

The overlay opens the new link before it closes the old one; routing notices both by itself.
Between the two moments there is a cycle, so an event may come twice: the window drops it.
"""

from __future__ import annotations

from tests.spikes._stage import Stage

from tidings.protocol.effects import Connect, Disconnect
from tidings.protocol.inputs import Input, LinkUp
from tidings.protocol.messages import Message
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.routing.covering import Covering
from tidings.simulation.topology import line


class Swap(Message, frozen=True):
    """Replace the link to `old` by one to `new`."""

    old: str
    new: str


class Swapping(StaticOverlay):
    name = "swapping"
    messages = (Swap,)

    def __init__(self, neighbours: tuple[str, ...]) -> None:
        super().__init__(neighbours)
        self._closing: dict[str, str] = {}  # new link -> the old one it replaces
        self._close_at: float | None = None  # when the tables have settled: both ways carry events till then

    def on_message(self, sender: str, message: Message, now: float) -> None:
        assert isinstance(message, Swap)
        self._closing[message.new] = message.old
        self.ports.emit(Connect(message.new))

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, LinkUp) and input.peer.startswith("b") and input.peer not in self.neighbours:
            self.neighbours = (*self.neighbours, input.peer)
        super().on_input(input, now)
        if isinstance(input, LinkUp) and input.peer in self._closing:
            self._close_at = now + 0.2

    def next_deadline(self) -> float | None:
        return self._close_at

    def on_timer(self, now: float) -> None:
        self._close_at = None
        for old in self._closing.values():
            self.ports.emit(Disconnect(old))
        self._closing.clear()


def test_a_swap_loses_nothing_and_doubles_nothing() -> None:
    stage = Stage(line(4), lambda _, near: {"overlay": Swapping(near), "routing": Covering()})
    stage.want("b0", "price > 5")
    stage.run(1.0)
    for number in range(200):
        stage.say("b2", f"e{number}", {"price": 7})
        if number == 100:
            stage.tell("b0", Swap("b1", "b3"))
        stage.run(0.002)
    stage.run(2.0)
    assert sorted(stage.heard("b0")) == sorted({f"e{n}" for n in range(200)})
    links = {name: node.slots["overlay"].links() for name, node in stage.nodes.items()}
    assert set(links["b0"]) == {"b3"}
    assert set(links["b1"]) == {"b2"}
    stage.say("b1", "after", {"price": 9})  # b1 reaches b0 by the new way round
    stage.run(1.0)
    assert stage.heard("b0")[-1] == "after"
