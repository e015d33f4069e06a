"""Errors of msgspec decoders on untrusted bytes: from a peer, or from a disk."""

from __future__ import annotations

import re
from typing import Final

import msgspec

# No JSON or MessagePack, of another shape, no UTF-8 inside a string, or nested deeper than the decoder's own
# stack.
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

MOST_JSON_TOKENS: Final = (
    1 << 18
)  # strings, and signs that divide or open, in one JSON text; decoding more takes long
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[,:{\[]', re.DOTALL)


def is_crowded(text: bytes, most: int = MOST_JSON_TOKENS) -> bool:
    """Has this JSON more tokens than that? Found without decoding it: a decoder makes an object of each
    value, which for a few megabytes of small ones takes a tenth of a second and more."""
    if (
        sum(map(text.count, (b",", b":", b"{", b"["))) * 2 <= most
    ):  # strings are no more than the signs and one
        return False
    return any(number > most for number, _ in enumerate(_TOKEN.finditer(text), 1))
