"""The checker: a history in, a verdict for each property out.

`check` serves histories that fit in memory. `check_tables` is the same for any engine that
offers the operations of `relations.py`, for tables of any size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tidings.errors import HistoryError
from tidings.history.acceptance import AcceptanceMatcher
from tidings.history.contracts import Contract, contract_of
from tidings.history.facts import facts_of
from tidings.history.files import read_history
from tidings.history.plain import PlainEngine
from tidings.history.properties import Property, known_properties
from tidings.history.relations import RelationEngine, Table
from tidings.history.report import CheckReport, PropertyVerdict
from tidings.history.schema import Row
from tidings.history.tables import CheckSettings, Tables


def check(
    history: Iterable[Row] | Path | str,
    *,
    t_sub: float | None = None,
    t_diff: float | None = None,
    contract: Contract | str = "Tidings",
    until: float | None = None,
    matcher: Callable[[], AcceptanceMatcher] | None = None,
    instances: bool = False,
) -> CheckReport:
    """Judge a history (rows, or a file) by the properties that the contract promises.

    `t_sub` and `t_diff` are seconds: until a subscription is known at all brokers, and until an
    event has reached all subscribers. Without them liveness is not judged, and completeness takes
    the largest delay seen. `until` is where a recording was cut off, if it was. `matcher` makes
    a matcher of `tidings.matching`, for histories with many filters that no value picks out.
    `instances`: give a reason where a property holds because the history has no instance of it.
    """
    rows = read_history(history) if isinstance(history, str | Path) else history
    return check_tables(
        PlainEngine(facts_of(rows)),
        t_sub=t_sub,
        t_diff=t_diff,
        contract=contract,
        until=until,
        matcher=matcher,
        instances=instances,
    )


def check_tables(
    engine: RelationEngine,
    *,
    t_sub: float | None = None,
    t_diff: float | None = None,
    contract: Contract | str = "Tidings",
    until: float | None = None,
    matcher: Callable[[], AcceptanceMatcher] | None = None,
    instances: bool = False,
) -> CheckReport:
    """The same on the tables of an engine."""
    promised = contract_of(contract)
    settings = CheckSettings(_seconds("t_sub", t_sub), _seconds("t_diff", t_diff), promised.receiver, until)
    tables = Tables(engine, settings, matcher)
    reasons = {name: _not_judged(each, tables, promised) for name, each in known_properties().items()}
    planned = _planned([each for name, each in known_properties().items() if reasons[name] is None], tables)
    return CheckReport(
        promised.system,
        {
            name: _verdict(known_properties()[name], why, planned, tables, instances)
            for name, why in reasons.items()
        },
        promised.properties,
    )


def _not_judged(each: Property, tables: Tables, contract: Contract) -> str | None:
    if each.name not in contract.properties:
        return f"{contract.system} does not promise it"
    return each.does_not_apply(tables)


def _planned(wanted: Iterable[Property], tables: Tables) -> dict[str, Sequence[Table]]:
    """The violations of each property, all asked for before the first answer is wanted, so that an
    engine can find them in few passes; those that need an answer themselves come last."""
    in_order = sorted(wanted, key=lambda each: each.late)
    return {each.name: each.violations(tables) for each in in_order}


def _verdict(
    each: Property,
    reason: str | None,
    planned: Mapping[str, Sequence[Table]],
    tables: Tables,
    instances: bool,
) -> PropertyVerdict:
    if reason is not None:
        return PropertyVerdict(each.name, None, reason=reason)
    found = tables.engine.found(*planned[each.name])
    if (
        instances
        and not found.count
        and each.instances is not None
        and tables.engine.lacks(each.instances(tables))
    ):
        return PropertyVerdict(each.name, True, reason=each.nothing)
    return PropertyVerdict(each.name, found.count == 0, found.count, found.first)


def _seconds(name: str, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value >= 0):
        raise HistoryError(f"{name} is {value!r}", hint="give seconds, 0 or more")
    return value
