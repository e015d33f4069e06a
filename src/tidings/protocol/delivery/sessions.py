"""Connected clients, and checks of their requests."""

from __future__ import annotations

from tidings.model.subscription import GROUPS, Advertisement, Policy, SubscriptionId
from tidings.protocol.delivery.migration_header import MigrationHeader
from tidings.protocol.delivery.owner import UNCOUNTED
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.subscription_state import Member
from tidings.protocol.messages import Home, MemberHoldings, Subscribe

MOST_UNOPENED = 1024  # homes and holdings that wait for their subscribe; more are ignored


class Session:
    """One client's link."""

    __slots__ = (
        "address",
        "advertisements",
        "client",
        "holdings",
        "homes",
        "incarnation",
        "members",
        "memory",
        "positions",
        "published",
        "stay",
    )

    def __init__(self, address: str, client: str, incarnation: str) -> None:
        self.address = address
        self.client = client
        self.incarnation = incarnation
        self.members: dict[int, Member] = {}  # by ref
        self.memory = UNCOUNTED  # of its principal
        self.published = 0  # events on this link, for people
        self.stay = 0  # how often the client moved
        self.positions: dict[str, dict[str, int]] = {}  # by source and log: its last events
        self.homes: dict[int, str] = {}  # by ref: the log of the broker where it was opened first
        self.holdings: dict[int, MemberHoldings] = {}  # by ref: of members of groups, until they are opened
        self.advertisements: dict[str, Advertisement] = {}  # by name; they end with the link

    def note_home(self, message: Home, now: float) -> None:
        if len(self.homes) < MOST_UNOPENED:
            self.homes[message.ref] = message.log

    def is_own(self, id: str, number: int) -> bool:
        """Did the client make this id from its number?"""
        return id == f"{self.incarnation}-{number}"

    def moved(self, source: str) -> MigrationHeader | None:
        """Header that names the client's earlier brokers."""
        return (
            MigrationHeader(self.incarnation, self.stay, self.positions.get(source, {}))
            if self.stay
            else None
        )


def identity(session: Session, message: Subscribe) -> SubscriptionId:
    group = message.options.group
    return SubscriptionId(session.client, message.name) if group is None else SubscriptionId(GROUPS, group)


def refusal(session: Session, message: Subscribe, settings: DeliverySettings) -> tuple[str, str] | None:
    """Code and reason when a subscription cannot be had, regardless of those held already."""
    options = message.options
    if message.filter.is_never_true:
        return ("impossible", f"the filter can never be true: {message.filter.text}")
    if message.ref in session.members:
        return ("refused", f"reference {message.ref} is in use")
    if options.queue < 1 or options.max_deliveries < 1:
        return ("refused", "a queue holds at least 1, and an event is delivered at least once")
    if options.policy is Policy.BLOCK and not options.durable and not settings.allow_block:
        return ("refused", "policy `block` is for the embedded broker; choose one that drops, or durable")
    if options.durable and not message.named:
        return ("refused", "a durable subscription needs a name, by which a client resumes it")
    if options.dead_letters_of is not None and (options.durable or options.group is not None):
        return ("refused", "dead letters are kept anyway: receive them with a plain subscription")
    return None
