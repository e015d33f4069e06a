"""Memory that is free goes back to the system.

Each new table replaces one nearly as large, and the C library keeps what was freed: without asking, a broker of
a hundred thousand subscriptions would hold half as much again as it uses.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def _trim() -> Any:
    """The C library's own way to do this; None where it has none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def give_back() -> bool:
    """Hand free memory back to the system; False where that cannot be asked for."""
    trim = _trim()
    if trim is None:
        return False
    trim(0)
    return True
