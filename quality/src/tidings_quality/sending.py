"""Messages that an organisation sends: events to others (the Forwarder), its merge subscription, and
notifications to its users.

Rules
- One worker for each other organisation sends events in order and in batches; one tells it our merge
  subscription; one for each subscription with a dispatcher brings its notifications.
- A message that was not accepted is sent again, with pauses that double; an unreachable receiver is tried as
  soon as it speaks to us. An accepted message is removed.
- When an organisation cannot be reached, we take over the branches below it and send to those ourselves, so
  that none of them waits for another. A receiver drops the duplicates that this makes.
- A message that an organisation will never accept (400, 413, 422) is put aside, and counted.
- A producer that does not have what we think it has says so (409): it is told everything.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import httpx
import msgspec

from tidings.errors import TidingsError
from tidings.runtime import tls
from tidings_quality.interface import UserDispatcher, dispatcher_of
from tidings_quality.notifier import Notifier
from tidings_quality.organisation import DISPATCH, SEND, TELL, ChangeSub, OrganisationService
from tidings_quality.state import Sending, unpacked

log = logging.getLogger("tidings_quality")

BATCH = 100  # events in one request
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
TIMEOUT_SECONDS = 15.0
NEVER = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
)
WHO = "Tidings-Organisation"
CONFIRMED = "confirmed"  # rings when a producer has confirmed a change
BACK = "back"  # rings when another organisation speaks to us: it can be reached again


class OutgoingWorkers:
    """The workers of one organisation."""

    def __init__(self, organisation: OrganisationService, notifier: Notifier) -> None:
        self._organisation = organisation
        self._state = organisation.state
        self._notifier = notifier
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._is_started = False
        organisation.on_work = self._nudged

    def start(self) -> None:
        self._is_started = True
        settings = self._organisation.settings
        for name, peer in settings.peers.items():
            headers = {WHO: self._organisation.name}
            if peer.token:  # an empty one would be no header at all, but an error
                headers["Authorization"] = f"Bearer {peer.token}"
            secure = settings.tls
            verify: Any = False  # no TLS here, and its certificates take time to load
            if peer.url.startswith("https"):
                verify = tls.dialling(
                    authority=secure.authority, certificate=secure.certificate, key=secure.key
                )
            self._clients[name] = httpx.AsyncClient(
                base_url=peer.url, headers=headers, timeout=TIMEOUT_SECONDS, verify=verify
            )
            self._begin(SEND, name, self._send_all)
            self._begin(TELL, name, self._tell_all)
        for one in self._organisation.subscriptions():
            self._nudged(DISPATCH, one.id)

    def _begin(self, what: str, who: str, work: Callable[[str], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await work(who)
            except Exception:  # a worker that dies must be reported: no task awaits it
                log.exception("the worker that has to %s %s has failed", what, who)
                raise

        self._tasks[what, who] = asyncio.create_task(run(), name=f"{what} {who}")

    def _nudged(self, what: str, who: str) -> None:
        self._notifier.ring(what, who)
        if what == DISPATCH and self._is_started and (what, who) not in self._tasks:
            known = {one.id: one for one in self._organisation.subscriptions()}
            dispatcher = dispatcher_of(known[who]) if who in known else None
            if dispatcher is not None:
                self._begin(what, who, lambda id: self._dispatch_all(id, dispatcher))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in self._clients.values():
            await client.aclose()

    # -- events ---------------------------------------------------------------------------------

    async def _send_all(self, target: str) -> None:
        pause, size = FIRST_PAUSE, BATCH
        while True:
            self._notifier.hush(SEND, target)
            batch = self._state.sendings(target, size)
            if not batch:
                await self._notifier.wait(SEND, target)
                continue
            status, reason = await self._post(target, "/edl/notify", notifications(batch))
            if status == HTTPStatus.OK:
                self._state.sent([one.place for one in batch])
                pause, size = FIRST_PAUSE, BATCH
                continue
            for name in self._state.take_over([one for one in batch if one.below]):
                self._notifier.ring(SEND, name)
            if status in NEVER and size == 1 and not batch[0].below:
                log.warning("%s never accepts an event: %s", target, reason)
                self._state.refuse(target, batch[0], reason)
                continue
            size = 1 if status in NEVER else size
            if status not in NEVER:
                pause = await self._paused(pause, "" if status else target)

    async def _paused(self, pause: float, who: str) -> float:
        """Wait, unless the peer speaks to us meanwhile (empty: no peer); how long to wait the next time."""
        self._notifier.hush(BACK, who)
        seconds = pause * random.uniform(0.8, 1.2)  # so that not all come back at once
        return FIRST_PAUSE if await self._notifier.wait(BACK, who, seconds) else min(2 * pause, LONGEST_PAUSE)

    async def _post(self, target: str, path: str, body: bytes) -> tuple[int, str]:
        """The status of the answer (0: there was none), and what it says."""
        try:
            answer = await self._clients[target].post(
                path, content=body, headers={"Content-Type": "application/json"}
            )
        except httpx.HTTPError as error:
            return 0, str(error) or type(error).__name__
        return answer.status_code, answer.text

    # -- our merge subscription -----------------------------------------------------------------

    async def _tell_all(self, producer: str) -> None:
        pause = FIRST_PAUSE
        is_due = True  # to ask whether it still knows
        known: int | None = None
        while True:
            self._notifier.hush(TELL, producer)
            change = self._organisation.to_tell(producer, confirm=is_due, known=known)
            if change is None:
                seconds = self._organisation.settings.confirm_seconds
                is_due = not await self._notifier.wait(TELL, producer, seconds)
                continue
            status, text = await self._post(producer, "/edl/changeSub", msgspec.json.encode(change))
            known = None
            if status == HTTPStatus.OK:
                self._confirmed(producer, change, msgspec.json.decode(text)["refused"])
                pause, is_due = FIRST_PAUSE, False
            elif status == HTTPStatus.CONFLICT:
                known = int(msgspec.json.decode(text)["number"])
            else:
                log.info("%s does not accept our merge subscription: %s %s", producer, status, text)
                pause = await self._paused(pause, "" if status else producer)

    def _confirmed(self, producer: str, change: ChangeSub, refused: dict[str, str]) -> None:
        for text, why in refused.items():
            log.warning("%s refuses %s: %s", producer, text, why)
        self._organisation.on_confirmed(producer, change, refused)
        self._notifier.ring(CONFIRMED, producer)

    # -- our users ------------------------------------------------------------------------------

    async def _dispatch_all(self, id: str, dispatcher: UserDispatcher) -> None:
        pause = FIRST_PAUSE
        try:
            while any(one.id == id for one in self._organisation.subscriptions()):
                self._notifier.hush(DISPATCH, id)
                waiting = self._state.notifications(id, limit=1)
                if not waiting:
                    await self._notifier.wait(DISPATCH, id)
                    continue
                number, event = waiting[0]
                try:
                    await dispatcher.dispatch(unpacked(event))
                except (TidingsError, OSError, httpx.HTTPError) as error:
                    log.info("%s is not accepted: %s", id, error)
                    pause = await self._paused(pause, "")
                    continue
                self._state.acknowledge(id, number)
                pause = FIRST_PAUSE
        finally:
            self._tasks.pop((DISPATCH, id), None)
            await dispatcher.close()


def notifications(batch: list[Sending]) -> bytes:
    """The body of `notify`."""
    return msgspec.json.encode(
        {"notifications": [{"event": msgspec.Raw(one.event), "below": one.below} for one in batch]}
    )
