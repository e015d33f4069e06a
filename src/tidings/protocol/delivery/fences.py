"""Answers to fences: a client that returned events learns what became of them.

Rules
- The answer to a fence follows all that the broker does because of earlier messages.
- Returned events may have been superseded, or dropped by a bound: they do not come again. The client holds
  its token for them until a silence before the answer says up to where every event is settled.
- Members of a group hold no token.
"""

from __future__ import annotations

from tidings.model.subscription import Position
from tidings.protocol.delivery.sessions import Session
from tidings.protocol.delivery.subscription_state import SubscriptionState
from tidings.protocol.messages import Fence, Fenced, Silence
from tidings.protocol.slots import Ports


def answer_fence(ports: Ports, session: Session, fence: Fence) -> None:
    """Send the answer, behind silences where events were lost."""
    if (member := session.members.get(fence.ref)) is not None:
        for position in _settled(member.subscription):
            ports.send(session.address, Silence(fence.ref, position))
    ports.send(session.address, Fenced(fence.ref, fence.number))


def _settled(state: SubscriptionState) -> list[Position]:
    """By log: the position up to which every event is settled, if some were lost."""
    if state.losses is None or state.options.group is not None or state.dead_letters_of is not None:
        return []
    cursors = [cursor for cursor in state.cursors if cursor.start is not None]
    return [Position(cursor.log, cursor.floor() - 1) for cursor in cursors if cursor.floor() > 1]
