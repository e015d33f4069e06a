"""Errors of msgspec decoders on untrusted bytes: from a peer, or from a disk."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

# No JSON or MessagePack, of another shape, no UTF-8 inside a string, or nested deeper than the decoder's own
# stack.
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

MOST_JSON_TOKENS: Final = (
    1 << 18
)  # strings, and signs that divide or open, in one JSON text; decoding more takes long
LONGEST_REMEMBERED: Final = 256  # bytes; decoded, small values take 30 times as much
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[,:{\[]', re.DOTALL)


def is_crowded(text: bytes, most: int = MOST_JSON_TOKENS) -> bool:
    """Has this JSON more tokens than that? Found without decoding it: a decoder makes an object of each
    value, which for a few megabytes of small ones takes a tenth of a second and more."""
    if (
        sum(map(text.count, (b",", b":", b"{", b"["))) * 2 <= most
    ):  # strings are no more than the signs and one
        return False
    return any(number > most for number, _ in enumerate(_TOKEN.finditer(text), 1))


T = TypeVar("T")


def remembering(decode: Callable[[bytes], T], most: int = 1024) -> Callable[[bytes], T]:
    """The decoder with a memory of results, for frozen ones. It remembers short texts alone: they come from
    clients, so it is bounded by bytes and not by number only."""
    known = lru_cache(maxsize=most)(decode)
    return lambda data: known(data) if len(data) <= LONGEST_REMEMBERED else decode(data)
