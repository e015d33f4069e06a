"""The knobs of epidemic recovery, each with its price."""

from __future__ import annotations

import msgspec

from tidings.errors import SettingsError

PUSH, SUBSCRIBER, PUBLISHER, COMBINED = "push", "subscriber pull", "publisher pull", "combined pull"
RANDOM, LAZY = "random pull", "lazy push"
STYLES = (PUSH, SUBSCRIBER, PUBLISHER, COMBINED, RANDOM, LAZY)
PULLS = (SUBSCRIBER, PUBLISHER, COMBINED, RANDOM)

INTEREST, ROUTE = "interest", "route"
OLDEST, FOREIGN, ANY = "oldest", "foreign", "any"


class EpidemicSettings(msgspec.Struct, frozen=True, kw_only=True):
    style: str = COMBINED
    enabled: bool = True  # False: no event is recovered, as if there were no recovery; for comparing
    interval_seconds: float = 0.2  # between rounds; shorter recovers sooner and costs messages
    longest_seconds: float = 0.0  # rounds that find no loss come less often, up to this; 0: never less
    at_once: bool = False  # a pull begins when a loss is noticed; sooner, with smaller digests
    fan_out: int = 1  # links that a gossip message takes at each broker; more finds more, and twice
    forward: float = 0.5  # the chance that a broker with the same interest passes gossip on
    by_source: float = 0.5  # combined pull: the share of rounds that go to the publisher
    cache: int = 1500  # events that a broker holds for others
    caches: str = ROUTE  # `interest`: what it published or wants itself; `route`: all that passes
    evicts: str = OLDEST  # `oldest` first, what is `foreign` to this broker first, or `any`
    give_up: int = 30  # times that a lost event is asked for
    patience_seconds: float = 0.25  # at least, until what was asked for is asked for again; less makes copies
    heartbeat_seconds: float = 0.0  # silence after which a source tells its counters; 0: it never does
    bloom: bool = False  # digests of pulls as Bloom filters where those are smaller
    announcements: int = 3  # lazy push: how often each event is announced on a link
    most_entries: int = 4096  # in a digest; the newest stay
    most_lost: int = 10_000  # losses at once; more are not noticed
    window: int = 8192  # numbers of each source for which a broker knows what it received
    strikes: int = 3  # in a row, and a peer is ignored; fewer punishes bad luck
    ignore_seconds: float = 2.0  # the first time; twice as long each time after
    longest_ignore_seconds: float = 60.0  # that a peer is ignored, and that strikes are remembered
    datagrams: bool = False  # gossip leaves the links for datagrams, as replies always do

    def __post_init__(self) -> None:
        for name, known in (
            ("style", STYLES),
            ("caches", (INTEREST, ROUTE)),
            ("evicts", (OLDEST, FOREIGN, ANY)),
        ):
            value = getattr(self, name)
            if value not in known:
                raise SettingsError(f"gossip: {name} is {value!r}", hint=f"one of: {', '.join(known)}")
        for name in ("forward", "by_source"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SettingsError(
                    f"gossip: {name} is {getattr(self, name)}", hint="a chance is between 0 and 1"
                )
        if self.interval_seconds <= 0 or self.cache < 1 or self.fan_out < 1:
            raise SettingsError(
                "gossip: interval_seconds, cache and fan_out must be above 0",
                hint="leave them out for the defaults",
            )

    @property
    def is_pull(self) -> bool:
        return self.style in PULLS
