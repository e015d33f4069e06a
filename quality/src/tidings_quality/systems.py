"""The Quality Notification Service in the simulator: organisations that send by diffusion trees."""

from __future__ import annotations

from typing import Any

from tidings.language import parse_filter
from tidings.systems.brokers import broker_slots
from tidings.systems.system import ANY_GRAPH, Choice, Site, System
from tidings_quality.routing.diffusion_trees import DiffusionTrees


def _qns(site: Site) -> dict[str, Any]:
    options = site.options
    produces = {name: parse_filter(text) for name, text in options.get("produces", {}).items()}
    routing = DiffusionTrees(
        site.brokers, produces=produces, capability=options.get("capability"),
        reduce=options.get("reduce", "covering"),
    )  # fmt: skip
    return broker_slots(site, routing)


SYSTEMS: tuple[System, ...] = (
    System(
        name="qns",
        contract="QNS",
        model="quality triple, as content",
        promise="best effort; organisations send by diffusion trees",
        graph=ANY_GRAPH,
        strategies=_qns,
        options=("produces", "capability", "reduce"),
        choice=Choice(
            "Virgillito 2003, chapter 5",
            "organisations hear of the quality of one another's data, and what each can produce is known",
            "a table of each producer's subscribers at every organisation on the way",
            "quality/docs/quality-notification.md",
            "tidings quality serve",
        ),
    ),
)
