"""A stage of brokers with epidemic recovery, on which chosen events are lost on chosen links."""

from __future__ import annotations

from typing import Any

from tidings.protocol.inputs import Received
from tidings.protocol.overlay.static import StaticOverlay
from tidings.protocol.routing.covering import SubscriptionForwarding
from tidings.simulation.faults import PARTITION_ONE_WAY, Incident
from tidings.simulation.topology import OverlayGraph
from tidings_lab.recovery.epidemic.base import Epidemic
from tidings_lab.recovery.epidemic.settings import EpidemicSettings
from tidings_lab.systems.epidemic import STYLES

from ._stage import Stage

SOON = 0.08  # seconds: an event has crossed a few links, and nobody has noticed a cut


class Epidemics(Stage):
    def __init__(self, overlay: OverlayGraph, style: str, *, seed: int = 1, **knobs: Any) -> None:
        self.style = style
        self.settings = EpidemicSettings(style=style, **knobs)
        self.handled: list[tuple[str, str, Any]] = []  # broker, sender, message
        super().__init__(overlay, lambda _, near: self._slots(near), seed)
        self.simulation.on_handled = self._note

    def _slots(self, near: tuple[str, ...]) -> dict[str, Any]:
        return {
            "overlay": StaticOverlay(near),
            "routing": SubscriptionForwarding(acknowledged=True, numbered=False),
            "recovery": STYLES[self.style](self.settings),
        }

    def _note(self, name: str, item: Any, now: float) -> None:
        if isinstance(item, Received):
            self.handled.append((name, item.sender, item.message))

    def heard_messages(self, kind: type, at: str | None = None) -> list[Any]:
        return [m for name, _, m in self.handled if isinstance(m, kind) and at in (None, name)]

    def recovery(self, name: str) -> Epidemic:
        found = self.nodes[name].slots["recovery"]
        assert isinstance(found, Epidemic)
        return found

    def wants(self, *pairs: tuple[str, str]) -> None:
        for broker, text in pairs:
            self.want(broker, text)
        self.run(1.0)

    def publish(self, broker: str, id: str, seconds: float = SOON, **attributes: Any) -> None:
        self.say(broker, id, attributes)
        self.run(seconds)

    def lose(self, link: tuple[str, str], broker: str, *ids: str, **attributes: Any) -> None:
        """Publish, and lose it all on its way over a link, in this direction."""
        cut = Incident(kind=PARTITION_ONE_WAY, at=0, until=0, cut=(link,))
        self.simulation.begin(cut)
        for id in ids:
            self.say(broker, id, attributes)
        self.run(SOON)
        self.simulation.end(cut)
