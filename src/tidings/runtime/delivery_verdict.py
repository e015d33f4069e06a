"""Reason why a subscription did not receive an event: one sentence from the answers of all brokers (the
inquiry `trace`)."""

from __future__ import annotations

from typing import Any

from tidings.language import parse_filter
from tidings.matching.explain import explain_briefly
from tidings.model.cloudevents import from_mapping
from tidings.runtime.trace import SENT


def explain_elsewhere(found: list[dict[str, Any]]) -> None:
    """Explain an event that the broker of the subscription did not see."""
    events = [one["event"] for one in found if one.get("event")]
    for one in found:
        stored = one.get("subscription")
        if events and stored and stored["is_here"] and stored["accepts"] is None:
            story = explain_briefly(
                from_mapping(events[0]), parse_filter(stored["filter"], dialect=stored["dialect"])
            )
            stored |= {"accepts": story.accepted, "explanation": str(story)}


def why(found: list[dict[str, Any]], subscription: str) -> str:
    """Explanation in one sentence, from the answers of all brokers."""
    holders = [one for one in found if one.get("subscription", {}).get("is_here")]
    seen = [one for one in found if one.get("steps")]
    if not seen:
        return "no broker that was asked remembers the event"
    if not holders:
        return f"no broker that was asked holds the subscription {subscription}"
    holder = holders[0]
    if holder.get("steps"):
        return f"{subscription} at {holder['broker']}: {holder['subscription']['why']}"
    if holder["subscription"]["accepts"] is False:
        return f"{subscription} at {holder['broker']}: its filter does not accept the event"
    if (forgot := _forgot(holder, seen)) is not None:
        return forgot
    return (
        f"it never came to {holder['broker']}, which holds {subscription}: "
        f"{_not_sent(found, holder['broker'])}"
    )


def _forgot(holder: dict[str, Any], seen: list[dict[str, Any]]) -> str | None:
    """Does the memory of the broker begin after the event? Then it may have come, and been handed over."""
    name, ring = holder["broker"], holder.get("ring", {})
    sent_ago = [
        step["ago"] for one in seen for step in one["steps"] if (step["what"], step["peer"]) == (SENT, name)
    ]
    ago = min(sent_ago) if sent_ago else max(step["ago"] for one in seen for step in one["steps"])
    reach = ring.get("seconds")
    if ring.get("events") is None or (reach is not None and reach >= ago):
        return None
    memory = "remembers no event" if reach is None else f"remembers the last {reach:g} s"
    came = f"it was sent there {ago:g} s ago" if sent_ago else f"the event is {ago:g} s old"
    return (
        f"{name} no longer remembers: {came}, and {name} {memory} (since it started, or as far as its "
        "memory goes), so it may have been handed over"
    )


def _not_sent(found: list[dict[str, Any]], holder: str) -> str:
    """The broker that saw it and stands nearest to the holder on the tree."""
    links = {one["broker"]: sorted(one.get("links", {})) for one in found}
    seen = {one["broker"]: one for one in found if one.get("steps")}
    came: dict[str, str] = {holder: holder}
    order = [holder]
    for here in order:
        if here in seen:
            step = came[here]
            wanted = (seen[here].get("wanted") or {}).get("links", {}).get(step)
            reason = (
                "it is wanted there now, so the subscription is younger than the event"
                if wanted
                else f"nothing that {here} knows of behind {step} accepts it"
            )
            return f"{here} did not send it to {step}; {reason}"
        for there in links.get(here, ()):
            if there not in came:
                came[there] = here
                order.append(there)
    return "no linked broker saw it"
