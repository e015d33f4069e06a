"""The properties, judged over the last minutes of a whole network.

Each broker remembers its own last minutes (`trace.history_seconds`). The console joins them and hands them to
the checker that `tidings check` uses, away from the event loop. Subscriptions with a backlog are left out:
their pending events are late, not lost, and the two cannot be told apart before delivery. Without any row
no property is judged.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tidings.console.network import Answers, BrokerNetwork
from tidings.console.sessions import Visitor
from tidings.console.watch import NetworkWatches
from tidings.history.check import check
from tidings.history.jsonlines import from_lines
from tidings.history.properties import PROPERTIES
from tidings.history.schema import PUB, Row
from tidings.history.window import HistoryWindow, judged
from tidings.runtime.service import Service
from tidings.systems import find_system

T_SUB = 5.0  # seconds until a subscription is known everywhere
T_DIFF = 10.0  # seconds until an event has reached all subscribers; a loaded machine is slow
MOST_ROWS = 40_000  # that one look judges; with more the window is shorter
MOST_KEPT = 400_000  # rows of one broker
MOST_TURNS = 50  # pieces of one broker's history that one look takes
DESCRIBED = 1_000
EMPTY = "there is nothing to judge: no row of the window was recorded or may be judged"
MOST_VISITORS = 8  # visitors with histories kept here


class _BrokerHistory:
    """The known part of one broker's history."""

    def __init__(self, began: float, seconds: float) -> None:
        self.began, self.after = began, 0
        self.window = HistoryWindow(seconds, MOST_KEPT)


class Verdicts:
    def __init__(self, service: Service, watches: NetworkWatches) -> None:
        self._contract = find_system(service.settings.system).contract
        self._now = service.server.clock.now
        self._watches = watches
        self._known: dict[Visitor, dict[str, _BrokerHistory]] = {}
        self._turn = asyncio.Lock()

    async def answer(self, request: Request, visitor: Visitor) -> Response:
        del request
        watch = await self._watches.of(visitor)
        await watch.find_brokers()
        async with self._turn:
            known = self._known.setdefault(visitor, {})
            while len(self._known) > MOST_VISITORS:
                del self._known[next(iter(self._known))]
            missing = await self._learn(watch.network, known)
            behind = await _behind(watch.network)
            reported = await asyncio.to_thread(self._judge, known, behind, self._now())
        reported |= {"missing": missing, "recorded": sorted(known), "behind": len(behind)}
        return Response(msgspec.json.encode(reported), media_type="application/json")

    async def _learn(self, network: BrokerNetwork, known: dict[str, _BrokerHistory]) -> list[str]:
        """Fetch new rows from every broker; returns the brokers that record no history."""
        missing: set[str] = set()
        for _ in range(MOST_TURNS):
            answers = await network.ask(
                "history", lambda name: {"after": known[name].after if name in known else 0}
            )
            more = [_take(known, name, one, missing) for name, one in answers.items()]
            if not any(more):
                break
        for name in known.keys() - set(network.brokers):
            del known[name]
        return sorted(missing)

    def _judge(self, known: dict[str, _BrokerHistory], behind: set[str], now: float) -> dict[str, Any]:
        seconds = min((one.window.seconds for one in known.values()), default=0.0)
        rows: list[Row] = []
        for one in known.values():
            one.window.trim(now)
            rows += one.window.rows()
        since, is_cut = _start(rows, now - seconds)
        chosen = judged(rows, since, behind)
        report = check(chosen.rows, t_sub=T_SUB, t_diff=T_DIFF, contract=self._contract, until=now)
        properties = {
            name: {
                "says": PROPERTIES[name].says,
                "seed": PROPERTIES[name].seed,
                "holds": one.holds if chosen.rows else None,
                "violations": one.violations,
                "reason": one.reason if chosen.rows else EMPTY,
                "story": one.story,
            }
            for name, one in report.verdicts.items()
        }
        first = min((row.time for row in chosen.rows if row.op == PUB), default=now)
        return {
            "properties": properties,
            "contract": self._contract,
            "rows": len(chosen.rows),
            "left_out": chosen.left_out,
            "from": max(since, first),
            "until": now,
            "cut": is_cut,
        }


def _take(known: dict[str, _BrokerHistory], name: str, reported: dict[str, Any], missing: set[str]) -> bool:
    """True: there is more to ask for."""
    if "problem" in reported or not reported.get("seconds"):
        missing.add(name)
        known.pop(name, None)
        return False
    one = known.get(name)
    if one is not None and one.began != reported["began"]:
        known[name] = _BrokerHistory(reported["began"], reported["seconds"])
        return True  # another life of the broker: ask from its beginning
    if one is None:
        one = known[name] = _BrokerHistory(reported["began"], reported["seconds"])
    for row in from_lines(bytes(reported["rows"])):
        one.window.add(row)
    one.after = reported["upto"]
    return not reported["is_last"]


def _start(rows: list[Row], since: float) -> tuple[float, bool]:
    """From when on to judge, so that the rows are not too many."""
    if len(rows) <= MOST_ROWS:
        return since, False
    times = sorted(row.time for row in rows)
    return max(since, times[-MOST_ROWS]), True


async def _behind(network: BrokerNetwork) -> set[str]:
    answers: Answers = await network.ask("subscriptions", lambda name: {"limit": DESCRIBED})
    return {
        row["subscription"]
        for one in answers.values()
        for row in one.get("value", ())
        if row["waiting"]
        or row["phase"] != "live"
        or any(group["phase"] != "live" for group in row["logs"].values())
    }
