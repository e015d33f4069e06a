"""Numba when it is there, and nothing when it is not.

Kernels are compiled on first use and cached on disk; they release the interpreter lock.
`TIDINGS_KERNELS=numpy` in the environment does without Numba even when it is installed.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

KERNELS = "TIDINGS_KERNELS"


def has_numba() -> bool:
    """May compiled kernels be used?"""
    return os.environ.get(KERNELS, "") != "numpy" and find_spec("numba") is not None
