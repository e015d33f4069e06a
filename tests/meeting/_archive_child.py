"""An archiver as a process of its own, to be killed: fills the archive until then, and says when it began.

Usage: python _archive_child.py ARCHIVE BROKERS
"""

from __future__ import annotations

import sys
import threading

from tidings.pipeline.broker.archiving import Archiver


def main(archive: str, brokers: str) -> None:
    archiver = Archiver(archive, brokers, release=True, step=20)
    archiver.run_once()
    print("ready", flush=True)
    archiver.run(
        threading.Event(),
        every=0.02,
        compact_every=5,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
