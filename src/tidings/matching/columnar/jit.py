"""Numba if it is installed, and plain Python if not.

Kernels are compiled on first use and cached on disk; they release the interpreter lock. Numba would
take a kernel from its cache as long as the kernel's own file is unchanged, though kernels of other files
are compiled into it; so the cache goes by the text of all files here.
`TIDINGS_KERNELS=numpy` in the environment does without Numba even when it is installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

KERNELS = "TIDINGS_KERNELS"


def has_numpy() -> bool:
    """Is NumPy there, without which the plain index serves any number of filters?"""
    return find_spec("numpy") is not None


def has_numba() -> bool:
    """May compiled kernels be used?"""
    return os.environ.get(KERNELS, "") != "numpy" and find_spec("numba") is not None


def cached(compile: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The decorator `compile`, with a cache on disk that holds for one text of all kernels."""

    def decorate(function: Any) -> Any:
        made = compile(function)
        made._cache._cache_file._source_stamp = sources()
        return made

    return decorate


@cache
def sources() -> str:
    """A digest of every file of this package."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
