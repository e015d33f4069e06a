"""Failed logins: how long a name, an address, and a name from an address have to wait for the next try.

Rules
- After some failures each further one doubles the pause, up to a bound; a try within the pause is refused
  before the password is looked at. A success forgets the failures of its name from its address.
- Failures count three times: for the name from that address (few are free), for the address, and for the name
  (more are free, the pause is short). An address from which the name was proved before is spared the pauses
  of the name and of the address: guessing by others does not lock its owner out.
- During the pause of an address other clients may share it that never failed. Their passwords are checked,
  some a second; a wrong one is answered as if it had not been checked, so an attacker learns no names, and
  few attempts on existing names are admitted. Made-up names use up none of these.
- Passwords that are sent (HTTP, MQTT, the console) and passwords that are proved (SCRAM) are counted apart.
- Tables are bounded: the entries that were not used for longest go first.
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from tidings.errors import RefusedError
from tidings.security.principal import LONGEST_NAME

FORGET_SECONDS = 900.0  # without a failure
MOST_ENTRIES = 20_000
MOST_KNOWN = 20_000  # pairs of a name and an address from which it was proved


class AttemptBound(NamedTuple):
    free: int  # failures without a pause
    longest: float  # seconds


class AttemptRate(NamedTuple):
    per_second: float
    burst: int


PAIR, ADDRESS, NAME = AttemptBound(5, 60.0), AttemptBound(50, 30.0), AttemptBound(50, 5.0)
CHECKS = AttemptRate(20.0, 20)  # passwords that are looked at in the pause of an address: hashing is work
SPARED = AttemptRate(0.1, 10)  # of those, tries of names that exist; more lets one address guess faster


class TooManyAttempts(RefusedError):
    """Refused without a look at the password; `seconds` are to go by first."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(
            "too many logins have failed", hint=f"try again in {self.seconds} s, with the right password"
        )


class _Failures:
    __slots__ = ("at", "checks_at", "count", "spared_at")

    def __init__(self) -> None:
        self.count = 0
        self.at = 0.0
        self.checks_at = 0.0  # of an address: when all that was taken of `CHECKS` is there again ...
        self.spared_at = 0.0  # ... and of `SPARED`

    def left(self, bound: AttemptBound, now: float) -> float:
        """Seconds of the pause that are left."""
        beyond = self.count - bound.free
        if beyond < 0:
            return 0.0
        return self.at + min(2.0 ** min(beyond, 16), bound.longest) - now


class Attempts:
    """Of one broker, on all its listeners. May be used from several threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = Lock()
        self._failures: OrderedDict[tuple[str, str, str], _Failures] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, kind: str, name: str, peer: str, *, begins: bool = False) -> float:
        """May this name be tried from this address now? Raises `TooManyAttempts`. The seconds of the
        address's pause, in which a try counts only by `is_spared`; 0: there is none. `begins`: this is the
        first look at this try."""
        now, net = self._clock(), network_of(peer)
        pause = 0.0
        with self._lock:
            for key, bound in self._keys(kind, name, net):
                failures = self._failures.get(key)
                if failures is None or (bound is not PAIR and (name, net) in self._known):
                    continue
                if now - failures.at > FORGET_SECONDS:
                    del self._failures[key]
                elif (left := failures.left(bound, now)) > 0:
                    if bound is not ADDRESS:
                        raise TooManyAttempts(left)
                    pause = left
                    if begins:
                        failures.checks_at = _taken(CHECKS, failures.checks_at, now)
        return pause

    def is_spared(self, kind: str, peer: str) -> bool:
        """In the pause of this address: may an existing name still be admitted?

        Called once for each attempt.
        """
        now = self._clock()
        with self._lock:
            failures = self._failures.get((kind, "", network_of(peer)))
            try:
                if failures is not None:
                    failures.spared_at = _taken(SPARED, failures.spared_at, now)
            except TooManyAttempts:
                return False
        return True

    def failed(self, kind: str, name: str, peer: str) -> None:
        now = self._clock()
        with self._lock:
            for key, _ in self._keys(kind, name, network_of(peer)):
                failures = self._failures.setdefault(key, _Failures())
                failures.count += 1
                failures.at = now
                self._failures.move_to_end(key)
            while len(self._failures) > MOST_ENTRIES:
                self._failures.popitem(last=False)

    def succeeded(self, kind: str, name: str, peer: str) -> None:
        net = network_of(peer)
        with self._lock:
            self._failures.pop((kind, name[:LONGEST_NAME], net), None)
            self._known[name, net] = None
            self._known.move_to_end((name, net))
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)

    @staticmethod
    def _keys(kind: str, name: str, net: str) -> tuple[tuple[tuple[str, str, str], AttemptBound], ...]:
        name = name[:LONGEST_NAME]  # that a name is too long is found later
        return ((kind, name, net), PAIR), ((kind, "", net), ADDRESS), ((kind, name, ""), NAME)

    def __len__(self) -> int:
        return len(self._failures)


def _taken(rate: AttemptRate, at: float, now: float) -> float:
    """Take one; when all is there again. Raises `TooManyAttempts` when none is left."""
    at = max(at, now) + 1 / rate.per_second
    if (left := at - now - rate.burst / rate.per_second) > 1e-9:
        raise TooManyAttempts(left)
    return at


def network_of(peer: str) -> str:
    """An address, of version 6 its network of 64 bits: one machine has all of that."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer[:64]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
