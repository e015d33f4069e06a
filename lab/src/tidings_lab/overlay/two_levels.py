"""Two levels: hosts that hear one another's broadcasts on their local network, and routers
between networks."""

from __future__ import annotations

from tidings.protocol.effects import JoinMulticast
from tidings.protocol.inputs import Input, Started
from tidings.protocol.slots import Overlay
from tidings_lab.lans import Lan


class TwoLevels(Overlay):
    """No links: the network's broadcast below, and above every router knows every other."""

    name = "two levels"

    def __init__(self, lan: Lan) -> None:
        self.lan = lan

    def on_input(self, input: Input, now: float) -> None:
        if isinstance(input, Started):
            self.ports.emit(JoinMulticast(self.lan.name))
