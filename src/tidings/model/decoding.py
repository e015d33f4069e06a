"""Bytes that strangers wrote, or a disk kept: whatever a decoder of msgspec raises when they are not what was wanted."""

from __future__ import annotations

from typing import Final

import msgspec

# No JSON or MessagePack, of another shape, no UTF-8 inside a string, or nested deeper than the decoder's own stack.
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
