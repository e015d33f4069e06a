"""Files of records as RocksDB writes them, its log and its manifest: what it cannot be trusted to read.

A record is `checksum (4) | length (2) | kind (1) | body`, and none crosses a block of 32 KiB. Kinds 5 to 8,
and two of newer versions, are those of files that are used again, which ours never are. RocksDB, at such a
record in a file that is none, goes round for ever instead of looking at the checksum; one flipped bit makes a
kind of 5 out of a 1.
"""

from __future__ import annotations

from pathlib import Path

BLOCK = 32_768
HEADER = 7
REUSED = frozenset((5, 6, 7, 8, 11, 131))


def record_never_written(file: Path) -> int | None:
    """Start of the first record of such a kind; None when there is none."""
    data = file.read_bytes()
    size, position = len(data), 0
    while position + HEADER <= size:
        left = BLOCK - position % BLOCK
        kind = data[position + 6] if left >= HEADER else 0
        if kind in REUSED:
            return position
        if not kind:  # the end of a block, or what was made larger and never written
            position += left
        else:
            position += HEADER + data[position + 4] + (data[position + 5] << 8)
    return None
