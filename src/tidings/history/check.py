"""The checker: a history in, a verdict for each property out.

`check` serves histories that fit in memory. `check_tables` is the same for any engine that
offers the operations of `relations.py`, whatever the size of its tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

from tidings.errors import HistoryError
from tidings.history.acceptance import Matcher
from tidings.history.contracts import Contract, contract_of
from tidings.history.facts import facts_of
from tidings.history.files import read_history
from tidings.history.plain import PlainEngine
from tidings.history.properties import PROPERTIES, Property
from tidings.history.relations import Engine
from tidings.history.report import Report, Verdict
from tidings.history.schema import Row
from tidings.history.tables import Settings, Tables


def check(
    history: Iterable[Row] | Path | str,
    *,
    t_sub: float | None = None,
    t_diff: float | None = None,
    contract: Contract | str = "Tidings",
    until: float | None = None,
    matcher: Callable[[], Matcher] | None = None,
) -> Report:
    """Judge a history (rows, or a file) by the properties that the contract promises.

    `t_sub` and `t_diff` are seconds: until a subscription is known everywhere, and until an
    event has reached everybody. Without them liveness is not judged, and completeness takes
    the largest delay seen. `until` is where a recording was cut off, if it was. `matcher` makes
    a matcher of `tidings.matching`, for histories with many filters that no value picks out.
    """
    rows = read_history(history) if isinstance(history, str | Path) else history
    return check_tables(
        PlainEngine(facts_of(rows)),
        t_sub=t_sub,
        t_diff=t_diff,
        contract=contract,
        until=until,
        matcher=matcher,
    )


def check_tables(
    engine: Engine,
    *,
    t_sub: float | None = None,
    t_diff: float | None = None,
    contract: Contract | str = "Tidings",
    until: float | None = None,
    matcher: Callable[[], Matcher] | None = None,
) -> Report:
    """The same on the tables of an engine."""
    promised = contract_of(contract) if isinstance(contract, str) else contract
    settings = Settings(_seconds("t_sub", t_sub), _seconds("t_diff", t_diff), promised.hearer, until)
    tables = Tables(engine, settings, matcher)
    return Report(
        promised.system,
        {name: _verdict(each, tables, promised) for name, each in PROPERTIES.items()},
    )


def _verdict(each: Property, tables: Tables, contract: Contract) -> Verdict:
    if each.name not in contract.properties:
        return Verdict(each.name, None, reason=f"{contract.system} does not promise it")
    reason = each.does_not_apply(tables)
    if reason is not None:
        return Verdict(each.name, None, reason=reason)
    found = tables.engine.found(*each.violations(tables))
    return Verdict(each.name, found.count == 0, found.count, found.first)


def _seconds(name: str, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value >= 0):
        raise HistoryError(f"{name} is {value!r}", hint="give seconds, 0 or more")
    return value
