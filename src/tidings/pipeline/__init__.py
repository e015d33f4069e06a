"""Tables and streams of any size on Spark: matching, history checks, sweeps, flows.

It runs on one machine out of the box, and on any Spark cluster unchanged. The public names
are exported here, and heavy modules are imported at their first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidings.errors import needing
from tidings.pipeline.session import session

if TYPE_CHECKING:
    from tidings.pipeline.matching import Matched, match
    from tidings.pipeline.streaming import match_stream
    from tidings.pipeline.tables import Table

_HOMES = {"Matched": "matching", "match": "matching", "match_stream": "streaming", "Table": "tables"}

__all__ = ["Matched", "Table", "match", "match_stream", "session"]


def __getattr__(name: str) -> Any:
    """The rest comes when it is first asked for: it brings NumPy and Arrow."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needing(f"{__name__}.{name}"):
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
