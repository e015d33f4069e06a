"""A voter: what it promised and accepted for the view after the one it knows. A pure value with its rows.

For each number the voters agree as on one value in Paxos: an interrogation is answered with what was accepted
under the highest ballot, and binds the voter to refuse lower ballots; a proposal is accepted unless a higher
ballot was promised. So a takeover finds every view that may have been decided (the third phase, which Mathur
et al. 1995, 4.1.2 leave out), and a coordinator that was taken over is refused. A voter answers after its
promise is kept.
"""

from __future__ import annotations

import msgspec

from tidings.protocol.membership.views import AgreedView, Ballot


class Vote(msgspec.Struct, array_like=True):
    """For one number."""

    number: int
    promised: Ballot | None = None
    accepted_at: Ballot | None = None
    accepted: AgreedView | None = None

    def promise(self, ballot: Ballot) -> bool:
        """Promise to refuse lower ballots from now on. False: a higher one was promised."""
        if self.promised is not None and self.promised > ballot:
            return False
        self.promised = ballot
        return True

    def accept(self, ballot: Ballot, view: AgreedView) -> bool:
        if not self.promise(ballot):
            return False
        self.accepted_at, self.accepted = ballot, view
        return True

    def copy(self) -> Vote:
        return Vote(self.number, self.promised, self.accepted_at, self.accepted)


class VotingRound:
    """A try to decide a number: the answers so far."""

    def __init__(self, base: AgreedView, ballot: Ballot, ends_at: float) -> None:
        self.base = base
        self.ballot = ballot
        self.ends_at = ends_at  # then it is tried again, with a higher ballot
        self.view: AgreedView | None = None  # None: still asking
        self.answers: dict[str, tuple[Ballot | None, AgreedView | None]] = {}
        self.acks: dict[str, str] = {}  # by name: the disk on which it accepted

    @property
    def number(self) -> int:
        return self.base.number + 1

    def answered(self, voter: str, accepted_at: Ballot | None, accepted: AgreedView | None) -> bool:
        """True when enough have answered, for the first time."""
        if self.view is not None:
            return False
        self.answers[voter] = (accepted_at, accepted)
        return len(self.answers) >= self.base.quorum

    def found(self) -> AgreedView | None:
        """The view that may have been decided already: it has to be proposed again."""
        views = [(at, view) for at, view in self.answers.values() if at is not None and view is not None]
        return max(views, key=lambda each: each[0])[1] if views else None
