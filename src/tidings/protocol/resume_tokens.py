"""Resume tokens of the durable subscriptions that a client left: its broker may crash with the last
acknowledgements.

Rules
- The same filter under the same name goes on from the token.
- Another filter under the same name hears what the earlier one did not want: the broker tells the difference,
  from where it knows the client to stand. Events that the earlier one wanted, up to the client's own token,
  were delivered already.
- One that was ended begins anew, without earlier deliveries; with the same filter it goes on all the same.
- Events that were committed behind an open one, and at another broker in a log that the home had said nothing
  of yet, are beyond the token: their positions are remembered, and acknowledged when they come again.
- A member of a group has no token, since events between two of its own go to other members. It remembers
  which positions it committed, and acknowledges them once more when they are delivered again: of a durable
  group under its name, of a transient one, which replays when its last link broke, while it is a member.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from tidings.protocol.client_subscription import ClientSubscription, CommittedPositions, FilterProgress

MOST = 4  # filters that are remembered for a name


class ResumeTokens:
    def __init__(self, most_positions: int) -> None:
        self._most_positions = most_positions
        self._committed: dict[str, CommittedPositions] = {}  # by durable group
        self._of_members: WeakValueDictionary[str, CommittedPositions] = WeakValueDictionary()
        self._ahead: dict[str, CommittedPositions] = {}  # by name: beyond its token
        self._left: dict[str, tuple[FilterProgress, ...]] = {}  # by name, the last first
        self._ended: set[str] = set()

    def leave(self, subscription: ClientSubscription) -> None:
        if not subscription.options.durable or subscription.options.group is not None:
            return
        if not subscription.is_resumed:
            return  # it was never asked for: the one before it says where the name stands
        name = subscription.id.name
        last = FilterProgress(subscription.filter, dict(subscription.after), dict(subscription.away))
        for taken in subscription.taken:
            if taken.is_committed:
                subscription.commits_ahead(taken.deliver.position)
        if subscription.must_end:
            self._ended.add(name)
            self._left[name] = (last,)
        else:
            self._ended.discard(name)
            self._left[name] = (last, *subscription.delivered)[:MOST]

    def resume(self, subscription: ClientSubscription) -> None:
        """Say where it goes on, unless the application has said so."""
        subscription.is_resumed = True
        group = subscription.options.group
        if group is not None:
            positions = CommittedPositions(self._most_positions)
            groups = self._committed if subscription.options.durable else self._of_members
            subscription.committed = groups.setdefault(group, positions)
        name = subscription.id.name
        left = self._left.get(name, ())
        is_same = bool(left) and left[0].filter.digest == subscription.filter.digest
        if subscription.after or (name in self._ended and not is_same):
            self._ahead.pop(name, None)  # it receives again what it asks for
        if subscription.options.durable and group is None:
            positions = CommittedPositions(self._most_positions)
            subscription.ahead = self._ahead.setdefault(name, positions)
        if subscription.after or not left:
            return
        if is_same:
            subscription.after, subscription.away = dict(left[0].upto), dict(left[0].away)
            left = left[1:]
        if name not in self._ended:
            subscription.delivered = left
