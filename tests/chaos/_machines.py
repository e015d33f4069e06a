"""What real machines do to a broker process: wall clocks that are set, disks that are replaced or full."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

from tidings.protocol.limits import DEFAULT_LIMITS

MAX_FRAME = 256 << 10  # bytes; so an event at the limit is 192 kB, and a machine holds many
LARGEST = (
    DEFAULT_LIMITS.fitted(MAX_FRAME).event_bytes - 256
)  # of a payload: names and attributes need the rest
AT_LIMIT = 0.001  # of the events are as large
DISK_BYTES = 384 << 20  # of a disk that can be filled


def draw_payload(rng: Random) -> bytes:
    """Heavy-tailed, 2 kB in the mean, one in a thousand at the limit."""
    if rng.random() < AT_LIMIT:
        return bytes(LARGEST)
    return bytes(min(LARGEST, int(700 * rng.paretovariate(1.5))))


def command_of(seconds: float) -> list[str]:
    """How to start a broker process whose wall clock is wrong by so much; its monotonic clock is right."""
    if not seconds:
        return [sys.executable, "-m", "tidings.runtime.process"]
    return [sys.executable, "-c", _CLOCKED, str(seconds)]


# As libfaketime would do it, but for the waits of threads, which libfaketime holds up for the whole
# difference.
_CLOCKED = """
import sys, time
wall, seconds = time.time, float(sys.argv.pop(1))
time.time = lambda: wall() + seconds
from tidings.runtime.process import main
sys.exit(main())
"""


class SmallDisk:
    """A file system of its own at a folder, where this system allows mounting one.

    The folder is a link out of pytest's own folders: a run that is killed leaves its mount behind, and
    pytest, which removes old folders, would fail on it in every later run."""

    def __init__(self, folder: Path, size: int = DISK_BYTES) -> None:
        self._folder = folder
        self._place = Path(tempfile.mkdtemp(prefix="tidings-disk-"))
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.symlink_to(self._place, target_is_directory=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self._place)]
        mount = shutil.which("mount")
        done = (
            None
            if mount is None or os.geteuid() != 0
            else subprocess.run(command, capture_output=True, check=False)
        )
        self.is_mounted = done is not None and done.returncode == 0

    def fill(self) -> None:
        """Leave no room."""
        try:
            with (self._folder / "ballast").open("wb", buffering=0) as ballast:
                while ballast.write(bytes(1 << 20)):
                    pass
        except OSError as error:  # at once, when the store itself has used up the disk
            if error.errno != errno.ENOSPC:
                raise

    def free(self) -> None:
        (self._folder / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self._place)], check=True)
        shutil.rmtree(self._place)
