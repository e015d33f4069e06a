"""Changing one link for another, so that the overlay stays a tree and no event is lost.

The path v0 … vk joins two brokers that are to be linked; the link between v(c-1) and v(c) is to go. The
thesis (Virgillito 2003, 4.3.5) cuts first. Here the new link is made before the old one goes:

1. `LockPath` goes along the path. Each broker checks that it is still a path, that neither of its links there
   is part of another swap, and keeps the lock on its disk. `LockReply` comes back: ACK, or NACK, which frees.
2. The ends link up, and tell each other what is wanted behind them. For a moment there is a cycle: an event
   may take
both ways, and a broker that has seen it drops it. 3. Each end sends `CloseOldLink` along the path behind its
tables: messages of a link keep their order, so an event that could take one way only is before it. The two
ends of the old link then stop using it (`LinkClosing`). 4. The nearer end, v(c-1), decides. It writes down
that the link is gone, says `LinkClosed`, and the locks are undone
   (`UnlockPath`) on the way to both ends.

A broker that crashed, or waits too long, asks the one that decides (`SwapVerdictRequest`). A swap that the
decider has not written down as done is given up, and never done later; so all brokers come to the same
answer, and no lock outlives it. While a swap lasts a broker may have one link more than its bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from tidings.availability.records import Delete, Put, Record
from tidings.protocol.effects import CloseLink, OpenLink
from tidings.protocol.messages import Message
from tidings.protocol.overlay import swap_messages as words
from tidings.protocol.slots import Ports

SWAPS = "overlay.swaps"  # table: by swap, its path and what is cut
DONE = "overlay.done"  # table: the swaps that this broker decided
KEPT_DONE = 256  # of these; a question about an older one would be answered as given up
MESSAGES: tuple[type[Message], ...] = (
    words.LockPath, words.LockReply, words.InterestComplete, words.CloseOldLink, words.LinkClosing,
    words.LinkClosed, words.UnlockPath,
    words.SwapVerdictRequest, words.SwapVerdict,
)  # fmt: skip


class SwapRow(msgspec.Struct, frozen=True, array_like=True):
    path: tuple[str, ...]
    cut: int


class SwapState:
    """A swap that this broker takes part in."""

    __slots__ = ("announced", "at", "closing", "cut", "deadline", "deciding", "far_closing", "path", "swap")

    def __init__(self, swap: str, path: tuple[str, ...], cut: int, at: int, deadline: float) -> None:
        self.swap = swap
        self.path = path
        self.cut = cut
        self.at = at  # our place on the path
        self.deadline = deadline
        self.closing = False  # we no longer use the link that goes
        self.far_closing = False  # nor does its far end
        self.deciding = False  # on its way to the disk
        self.announced = False  # our tables were told over the new link

    @property
    def is_decider(self) -> bool:
        return self.at == self.cut - 1

    @property
    def is_end(self) -> bool:
        return self.at in (0, len(self.path) - 1)

    @property
    def new_link(self) -> str | None:
        """The broker that we are to be linked with."""
        last = len(self.path) - 1
        return {0: self.path[last], last: self.path[0]}.get(self.at)

    @property
    def old_link(self) -> str | None:
        """Our link that will carry no more messages."""
        return {self.cut - 1: self.path[self.cut], self.cut: self.path[self.cut - 1]}.get(self.at)

    @property
    def back(self) -> str:
        """The link toward the end that is on our side of the cut."""
        return self.path[self.at - 1] if self.at < self.cut else self.path[self.at + 1]

    @property
    def onward(self) -> str:
        """The link toward the cut."""
        return self.path[self.at + 1] if self.at < self.cut else self.path[self.at - 1]

    @property
    def links(self) -> set[str]:
        """Our links that no other swap may use."""
        near = self.path[max(0, self.at - 1) : self.at + 2]
        return {*near, *filter(None, [self.new_link])} - {self.path[self.at]}


class SwapOverlay(Protocol):
    """Interface of the overlay, as swaps use it."""

    ports: Ports

    def firm(self, link: str) -> bool:
        """Is it a link of ours, up, that no swap made and has not finished?"""

    def knows(self, link: str) -> bool:
        """Is it a link of ours, up or not?"""

    def room(self) -> int:
        """Number of links that we may add, beside those that swaps are making."""

    def add(self, link: str, swap: str, address: str) -> list[Record]: ...

    def confirm(self, link: str) -> list[Record]: ...

    def drop(self, link: str) -> list[Record]: ...

    def peers(self) -> tuple[str, ...]: ...

    def is_up(self, link: str) -> bool: ...

    def missed(self, link: str, now: float) -> None:
        """A swap that we began along this link failed."""


class Swaps:
    """All swaps that one broker takes part in."""

    def __init__(self, overlay: SwapOverlay, *, locks: bool = True, patience: float = 2.0) -> None:
        self._overlay = overlay
        self._locks = locks  # False: for the test that shows what they are for
        self._patience = patience  # seconds until it asks what has become of a swap
        self.swaps: dict[str, SwapState] = {}
        self.done: dict[str, None] = {}
        self.counts: Counter[str] = Counter()
        self._number = 0
        self._addresses: dict[str, str] = {}  # by swap: where the other end can be reached
        self._announce: list[str] = []  # swaps whose new link has just come up
        self._forwarded: dict[tuple[str, str], float] = {}  # questions that were passed on, and when

    # -- what others see ------------------------------------------------------------------------

    def is_locked(self, link: str) -> bool:
        return any(link in swap.links for swap in self.swaps.values())

    def is_closing(self, link: str) -> bool:
        return any(swap.closing and swap.old_link == link for swap in self.swaps.values())

    def pending(self) -> int:
        """Links that will be ours, beyond those that will go."""
        return sum(1 for swap in self.swaps.values() if swap.is_end and swap.old_link is None)

    # -- beginning --------------------------------------------------------------------------------

    def begin(self, path: tuple[str, ...], cut: int, address: str, now: float) -> bool:
        """Try to link the ends of the path; False: one of our own links is in use."""
        first, last = path[1], path[-1]
        is_busy = self._locks and (self.is_locked(first) or self.is_locked(last))
        if not self._overlay.firm(first) or self._overlay.knows(last) or is_busy:
            self.counts["not begun"] += 1
            return False
        self._number += 1
        swap = f"{path[0]}/{self._overlay.ports.rng.getrandbits(32):08x}/{self._number}"
        self._addresses[swap] = address
        self.counts["begun"] += 1
        self._hold(
            swap, path, cut, 0, now, partial(self._send_in_swap, swap, words.LockPath(swap, path, cut), first)
        )
        return True

    def _hold(
        self, swap: str, path: tuple[str, ...], cut: int, at: int, now: float, then: Callable[[float], None]
    ) -> None:
        swap_state = self.swaps[swap] = SwapState(swap, path, cut, at, now + self._patience)
        records: list[Record] = [Put(SWAPS, swap, msgspec.msgpack.encode(SwapRow(path, cut)))]
        if swap_state.at == len(path) - 1:
            records += self._overlay.add(path[0], swap, "")
        self._keep(records, then)

    def _keep(self, records: list[Record], then: Callable[[float], None]) -> None:
        disk = self._overlay.ports.disk
        if disk.failed is None:
            disk.persist(records, then)

    def _send_in_swap(self, swap: str, message: Message, to: str, now: float) -> None:
        if swap in self.swaps:
            self._overlay.ports.send(to, message)

    # -- messages ---------------------------------------------------------------------------------

    def on_message(self, sender: str, message: Message, now: float) -> None:
        match message:
            case words.LockPath():
                self._on_lock(sender, message, now)
            case words.LockReply():
                self._on_answer(sender, message, now)
            case words.SwapVerdictRequest():
                self._on_question(sender, message, now)
            case words.SwapVerdict():
                self._on_verdict(message, now)
            case (
                words.InterestComplete()
                | words.CloseOldLink()
                | words.LinkClosing()
                | words.LinkClosed()
                | words.UnlockPath()
            ):
                self._on_step(sender, message, now)

    def _on_lock(self, sender: str, lock: words.LockPath, now: float) -> None:
        path, name = lock.path, self._overlay.ports.name
        at = path.index(name) if name in path else 0
        reason = self._objection(sender, path, lock.cut, at)
        if reason is not None:
            self.counts[f"refused: {reason}"] += 1
            self._overlay.ports.send(sender, words.LockReply(lock.swap, False, reason))
        elif at == len(path) - 1:
            answer = words.LockReply(lock.swap, True)
            self._hold(
                lock.swap, path, lock.cut, at, now, partial(self._send_in_swap, lock.swap, answer, sender)
            )
        else:
            onward = partial(self._send_in_swap, lock.swap, lock, path[at + 1])
            self._hold(lock.swap, path, lock.cut, at, now, onward)

    def _objection(self, sender: str, path: tuple[str, ...], cut: int, at: int) -> str | None:
        """Reason why we cannot be part of a swap; None: we can."""
        overlay = self._overlay
        if at == 0 or path[at - 1] != sender or not 0 < cut < len(path) or len(set(path)) < len(path):
            return "no path"
        if not overlay.firm(sender) or (at + 1 < len(path) and not overlay.firm(path[at + 1])):
            return "stale"
        if self._locks and (self.is_locked(sender) or (at + 1 < len(path) and self.is_locked(path[at + 1]))):
            return "locked"
        if at + 1 == len(path):
            if overlay.knows(path[0]) or self.is_locked(path[0]):
                return "linked already"
            if overlay.room() - self.pending() <= 0 and cut != at:
                return "full"
        return None

    def _on_answer(self, sender: str, answer: words.LockReply, now: float) -> None:
        swap = self.swaps.get(answer.swap)
        if swap is None:
            return  # given up meanwhile; a waiting broker will ask
        if not answer.is_locked:
            self._release(swap)
            if swap.at:
                self._overlay.ports.send(swap.path[swap.at - 1], answer)
            else:
                self.counts["nack"] += 1
                self._overlay.missed(swap.path[1], now)
        elif swap.at:
            self._overlay.ports.send(swap.path[swap.at - 1], answer)
        else:
            self._link_up_with(swap)

    def _link_up_with(self, swap: SwapState) -> None:
        """The path is ours: make the new link."""
        far, address = swap.path[-1], self._addresses.get(swap.swap, "")
        rows = self._overlay.add(far, swap.swap, address)

        def open_it(_now: float) -> None:
            if swap.swap in self.swaps:
                self._overlay.ports.emit(OpenLink(far, address))

        self._keep(rows, open_it)

    def linked(self, link: str) -> None:
        """A link came up: is it one that was to be made?"""
        self._announce += [h.swap for h in self.swaps.values() if h.new_link == link and not h.announced]

    def _on_step(self, sender: str, message: Message, now: float) -> None:
        swap = self.swaps.get(message.swap)  # type: ignore[attr-defined]
        if swap is None:
            if isinstance(message, words.CloseOldLink):
                self._overlay.ports.send(sender, words.UnlockPath(message.swap, message.swap in self.done))
            return
        match message:
            case words.InterestComplete():
                self._pass_close(swap)
            case words.CloseOldLink():
                self._pass_close(swap)
            case words.LinkClosing():
                swap.far_closing = True
                self._decide(swap)
            case words.LinkClosed():
                self._end_old(swap, now)
            case words.UnlockPath():
                self._finish(swap, message.is_done, now)

    def _pass_close(self, swap: SwapState) -> None:
        old = swap.old_link
        if old is None:
            self._overlay.ports.send(swap.onward, words.CloseOldLink(swap.swap))
        elif not swap.closing:
            swap.closing = True
            if swap.is_decider:
                self._decide(swap)
            else:
                self._overlay.ports.send(old, words.LinkClosing(swap.swap))

    def _decide(self, swap: SwapState) -> None:
        """Both ends no longer use the old link: it is gone as soon as that is written down."""
        if not (swap.is_decider and swap.closing and swap.far_closing) or swap.deciding:
            return
        swap.deciding = True
        far = swap.path[swap.cut]
        self.done[swap.swap] = None
        rows: list[Record] = [Put(DONE, swap.swap, b""), *self._overlay.drop(far)]
        if len(self.done) > KEPT_DONE:
            oldest = next(iter(self.done))
            del self.done[oldest]
            rows.append(Delete(DONE, oldest))

        def decided(now: float) -> None:
            self.counts["done"] += 1
            self._overlay.ports.send(far, words.LinkClosed(swap.swap))
            self._finish(swap, True, now)

        self._keep(rows, decided)

    def _end_old(self, swap: SwapState, now: float) -> None:
        """The far end of the old link hears that it is gone."""
        near = swap.path[swap.cut - 1]
        if swap.at != swap.cut:
            return

        def ended(now: float) -> None:
            self._overlay.ports.emit(CloseLink(near, "another link took its place", for_good=True))
            self._finish(swap, True, now)

        self._keep(self._overlay.drop(near), ended)

    def _finish(self, swap: SwapState, is_done: bool, now: float) -> None:
        """The swap is over here; tell the next broker on the way to our end of the new link."""
        if self.swaps.get(swap.swap) is not swap:
            return
        new = swap.new_link
        if new is not None and is_done:
            self._keep(self._overlay.confirm(new), _nothing)
        elif new is not None:
            self._keep(self._overlay.drop(new), _nothing)
            if not swap.at:
                self.counts["given up"] += 1
                self._overlay.missed(swap.path[1], now)
            if self._overlay.is_up(new):
                self._overlay.ports.send(new, words.LinkUnknown())
        else:
            self._overlay.ports.send(swap.back, words.UnlockPath(swap.swap, is_done))
        if not is_done and swap.closing and swap.old_link is not None:
            self._use_again(swap.old_link)
        self._release(swap)

    def _use_again(self, link: str) -> None:
        """A link that was not used for a while: begin anew, so that both ends tell all that they want."""
        self._overlay.ports.emit(CloseLink(link, "it is used again"))
        self._overlay.ports.emit(OpenLink(link))

    def _release(self, swap: SwapState) -> None:
        del self.swaps[swap.swap]
        self._addresses.pop(swap.swap, None)
        self._keep([Delete(SWAPS, swap.swap)], _nothing)

    # -- after failures ----------------------------------------------------------------

    def started(self, swaps: dict[str, bytes], done: dict[str, bytes], now: float) -> None:
        """Restore swaps that were not over when the last life ended."""
        self.done = dict.fromkeys(done)
        self._number = len(done) + len(swaps)
        name = self._overlay.ports.name
        for swap, packed in swaps.items():
            row = msgspec.msgpack.decode(packed, type=SwapRow)
            swap_state = self.swaps[swap] = SwapState(swap, row.path, row.cut, row.path.index(name), now)
            if swap_state.is_decider:
                self._finish(swap_state, swap in self.done, now)

    def next_deadline(self) -> float | None:
        if self._announce:
            return 0.0
        return min((swap.deadline for swap in self.swaps.values()), default=None)

    def on_timer(self, now: float) -> bool:
        """True: a broker waited too long, so that links may have changed."""
        announcing, self._announce = self._announce, []
        for swap in announcing:
            swap_state = self.swaps.get(swap)
            if (
                swap_state is not None
                and swap_state.new_link is not None
                and self._overlay.is_up(swap_state.new_link)
            ):
                swap_state.announced = True
                self._overlay.ports.send(swap_state.new_link, words.InterestComplete(swap))
        late = [swap_state for swap_state in self.swaps.values() if swap_state.deadline <= now]
        for swap_state in late:
            swap_state.deadline = now + self._patience
            self.counts["asked"] += 1
            if swap_state.is_decider:
                if not swap_state.deciding:
                    self._finish(swap_state, False, now)
            else:
                self._request(
                    words.SwapVerdictRequest(
                        swap_state.swap, swap_state.path[swap_state.cut - 1], (self._overlay.ports.name,)
                    )
                )
        return bool(late)

    def _request(self, question: words.SwapVerdictRequest) -> None:
        for link in self._overlay.peers():  # the link that was to go may be the only one that is left
            if self._overlay.is_up(link) and link not in question.path:
                self._overlay.ports.send(link, question)

    def _on_question(self, sender: str, question: words.SwapVerdictRequest, now: float) -> None:
        name = self._overlay.ports.name
        if question.decider != name:
            key = (question.swap, question.path[0])
            is_old = self._forwarded.get(key, now) + self._patience / 2 <= now
            if name not in question.path and (is_old or key not in self._forwarded):
                if len(self._forwarded) > KEPT_DONE:
                    self._forwarded.clear()
                self._forwarded[key] = now
                self._request(msgspec.structs.replace(question, path=(*question.path, name)))
            return
        swap = self.swaps.get(question.swap)
        if swap is not None and swap.deciding:
            return  # it will be asked again
        if swap is not None:
            self._finish(swap, False, now)
        self._overlay.ports.send(
            sender, words.SwapVerdict(question.swap, question.swap in self.done, question.path)
        )

    def _on_verdict(self, verdict: words.SwapVerdict, now: float) -> None:
        *path, last = verdict.path
        if last != self._overlay.ports.name:
            return
        if path:
            self._overlay.ports.send(path[-1], msgspec.structs.replace(verdict, path=tuple(path)))
            return
        swap = self.swaps.get(verdict.swap)
        if swap is None:
            return
        if verdict.is_done and swap.at == swap.cut:
            self._end_old(swap, now)
        else:
            self._finish(swap, verdict.is_done, now)

    def check(self) -> None:
        for swap, swap_state in self.swaps.items():
            assert swap_state.path[swap_state.at] == self._overlay.ports.name, (
                f"{swap}: not our place on the path"
            )
        if self._locks:
            used = [link for swap_state in self.swaps.values() for link in swap_state.links]
            assert len(used) == len(set(used)), f"two swaps use one link: {sorted(used)}"


def _nothing(now: float) -> None:
    """No step waits for this record to be kept."""
