"""Notifications to a service manager (systemd's `Type=notify`): ready, stopping, alive.

The protocol is a datagram of `NAME=VALUE` lines to the socket that `NOTIFY_SOCKET` names; without that
variable nothing is sent. A failure to send is logged and changes nothing: the manager decides what silence
means.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket

log = logging.getLogger("tidings.broker")


def notify(state: str) -> bool:
    """Send this state (`READY=1`) to the service manager; False: there is none, or it could not be told."""
    position = os.environ.get("NOTIFY_SOCKET", "")
    if not position:
        return False
    if position.startswith("@"):  # a name without a file
        position = "\0" + position[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.connect(position)
            out.sendall(state.encode())
    except OSError as error:
        log.warning("the service manager cannot be notified of %s: %s", state, error.strerror or error)
        return False
    return True


class Watchdog:
    """Tells the service manager that the event loop turns, twice as often as `WATCHDOG_USEC` asks for."""

    def __init__(self) -> None:
        microseconds = os.environ.get("WATCHDOG_USEC", "")
        self._seconds = int(microseconds) / 2e6 if microseconds.isdecimal() else 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._seconds and notify("WATCHDOG=1"):
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
