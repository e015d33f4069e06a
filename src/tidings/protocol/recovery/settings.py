"""Settings of acknowledged recovery, each with its price."""

from __future__ import annotations

import msgspec


class AcknowledgedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The knobs, each with its price."""

    confirm_seconds: float = 0.1  # what arrived is confirmed after so long; sooner costs messages
    doubt_seconds: float = 0.4  # unconfirmed for so long: tell it again
    patience_seconds: float = 0.05  # a gap may close by itself (events overtake one another)
    retry_seconds: float = 0.3  # between two tries to fill a gap; doubles up to `slow_seconds`
    ask_seconds: float = 0.05  # requests over one link wait so long for one another; longer saves messages
    gather_seconds: float = 0.05  # answers to a replay wait so long for one another; longer saves messages
    answer_seconds: float = 0.6  # a log may be far away: ask it again only after so long
    slow_seconds: float = 3.0  # the longest pause between tries
    first_word_seconds: float = 2.0  # after a start, events wait so long for the word of each neighbour
    poll_seconds: float = 10.0  # how often to ask a link that has all but needs it still
    orphan_seconds: float = 60.0  # a log whose link was undone is heard by another way by then, or gone
    recall_seconds: float = 600.0  # a broker that was behind an earlier disk of ours is back by then, or gone
    waiting: int = 1024  # events that wait behind a gap, per log; more holds more memory
    gone: int = 1024  # names of logs that are no more; one that is forgotten is asked about again
    resends: int = 0  # events of each link that are held to be sent again; 0: a log alone answers
