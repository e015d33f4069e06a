"""Data of the kernels of `rounds.py`: plain arrays, and the columns of their tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

NEVER, CRASHED = 255, 254  # in place of a round
LAST_ROUND = 250
MOST_TABLE = 256  # entries of a table

# Columns of `sections`: where the pool of candidates begins and how many it has; entries of the table; rounds
# that the section waits; what its messages count as; who acts; how many entries are drawn (0: each by
# chance).
START, SIZE, FAN, DELAY, KIND, ROLE, EXACT = range(7)
INSIDE, ACROSS, BOTH = 0, 1, -1  # kinds: within a group, between groups
EVERYONE, PUBLISHER, FIRST, ENTRY = (
    0,
    1,
    2,
    3,
)  # roles; FIRST: the first of its class that heard; ENTRY: whose first
# copy came from another group, or its publisher
# Columns of `links`: who was named, by which naming, as which, when it heard of that, whether it has sent.
WHO, NAMING, ORDER, RECEIVED, DONE = range(5)
# Places of `counts`: sent inside, sent across, arrived, namings, links, reached, arrived across.
ARRIVED, NAMINGS, LINKS, REACHED, ARRIVED_ACROSS = 2, 3, 4, 5, 6
NAME_DRAWS, PICK_DRAWS, LINK_DRAWS = 1_000_003, 500_000, 700_000  # apart from the draws of sections


class Arena(NamedTuple):
    """Possible senders and receivers.

    Processes of one class are next to one another and have the same sections.
    """

    starts: Ints  # of each class, and the number of processes
    first: Ints  # the first section of each class, and the number of sections
    sections: Ints
    chances: NDArray[np.float64]  # by section: to act at all, and for each entry
    direct: NDArray[np.bool_]  # by section: the pool is a range of processes, not of `members`
    members: Ints


class GossipState(NamedTuple):
    """Mutable state of one dissemination."""

    received: Bytes  # by process: the round in which it heard, NEVER or CRASHED
    queue: NDArray[np.int32]  # who has heard, in that order
    copies: NDArray[np.uint16]  # by process: copies that reached it; empty: not counted
    brands: (
        Bytes  # by process: the naming that its copies carry, or 1: heard inside its group; empty: no need
    )
    marks: Bytes  # by process: was it ever named?
    links: Ints
    counts: Ints


class GossipDraws(NamedTuple):
    """Keys of the hashes, and the chances that hold for the whole run."""

    views: np.uint64
    event: np.uint64
    reach: float  # that a message arrives
    apparent: float  # chance that the receiver looks crashed to the sender, which then does not send
    publisher: int
    most_delay: int
    names: int  # turns that an entry process names links for; 0: links elect themselves
    own: int  # of these turns, the first ones that it takes itself
    amount: int  # entries that a named link sends to
    stagger: int  # rounds between one named link and the next
    forced: bool  # the publisher is always a link
    mixed: bool  # messages of both kinds go out in the order of their senders, not first those inside groups
