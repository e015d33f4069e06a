"""The inquiry `admin`: an operator lists, inspects and ends what others own, and purges the log.

Rules
- Every request needs the right `admin`, a right of its own; each is written to the audit with its subject and
  its outcome. Looks that a page repeats are written once in `LOOK_SECONDS`.
- Names are those that lists show, with their scopes. `a/b/c` may be `b/c` of `a` and `c` of `a/b`: a name
  that several have is refused, and `a//b/c` says which is meant.
- The subscription of a webhook ends with its webhook alone, which would otherwise stay and send nothing.
- A change passes through the node as an input (`protocol/delivery/administration.py`), so it is persisted
  like all else.
- Answers are plain values. A list is bounded (`described_subscriptions`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from tidings.errors import InputError, TidingsError
from tidings.language import parse_filter
from tidings.language.evaluate import accepts
from tidings.model.event import TENANT_MARK, Event
from tidings.model.subscription import GROUPS, OWNER_MARK, SubscriptionId, unscoped
from tidings.protocol.delivery.administration import READER
from tidings.protocol.inputs import EndRetentionHold, EndSubscription, PurgeEntries, SettleDeadLetters
from tidings.runtime.observing import without_absent

if TYPE_CHECKING:
    from tidings.runtime.client_connection import ClientConnection
    from tidings.runtime.local_clients import LocalClient
    from tidings.runtime.secured import Secured
    from tidings.runtime.server import Server
    from tidings.runtime.sessions import PrincipalSession

LOOKS = ("list", "pins", "letters")  # change nothing, and pages ask for them again and again
LOOK_SECONDS = 60.0  # between two entries of the audit for the same look of one principal
KINDS = ("subscription", "group", "hold", "webhook", "session")

About = dict[str, Any]


class Webhooks(Protocol):
    """The webhooks of the HTTP gateway."""

    def administered(self) -> list[dict[str, Any]]: ...

    async def end(self, id: str) -> bool: ...


class BrokerAdministration:
    """Administration of one broker."""

    def __init__(self, server: Server, secured: Secured) -> None:
        self._server, self._secured = server, secured
        self._most = server.resources.described_subscriptions  # rows of one answer
        self.webhooks: Webhooks | None = None  # when that gateway is open
        self._looks: dict[tuple[str, str], float] = {}  # when each was last written to the audit
        self._acts: dict[str, Callable[[About], Awaitable[Any] | Any]] = {
            "list": self._list,
            "inspect": self._inspect,
            "end": self._end,
            "pins": self._pins,
            "letters": self._letters,
            "redeliver": lambda about: self._settle(about, redelivers=True),
            "discard": lambda about: self._settle(about, redelivers=False),
            "purge": self._purge,
        }

    async def answer(self, about: About, principal: Any) -> Any:
        """Do what `about` says: `do`, and what that needs. Raises."""
        do = about.get("do")
        act = self._acts.get(do) if isinstance(do, str) else None
        if act is None:
            raise InputError(
                f"no act of administration is called {do!r}", hint=f"one of {', '.join(self._acts)}"
            )
        subject = " ".join(str(about[name]) for name in ("kind", "name", "filter", "upto") if name in about)
        guard, subject = self._secured.guard, f"{do} {subject}".strip()
        guard.administer(principal, subject)
        try:
            value = act(about)
            done = await value if isinstance(value, Awaitable) else value
        except TidingsError as error:
            guard.note_administered(principal, subject, error)
            raise
        if do not in LOOKS or self._is_new_look(principal, subject):
            guard.note_administered(principal, subject)
        return {"broker": self._server.name, **done}

    def _is_new_look(self, principal: Any, subject: str) -> bool:
        now, key = asyncio.get_running_loop().time(), (principal.name, subject)
        last = self._looks.get(key)
        if last is not None and now < last + LOOK_SECONDS:
            return False
        recent = {one: at for one, at in self._looks.items() if now < at + LOOK_SECONDS}
        self._looks = recent | {key: now}
        return True

    # -- looking -----------------------------------------------------------------------------------

    def _list(self, about: About) -> dict[str, Any]:
        rows = self._rows(_kind(about))
        return {"rows": rows[: self._most], "count": len(rows)}

    def _rows(self, kind: str) -> list[dict[str, Any]]:
        if kind == "session":
            return self.sessions()
        if kind == "hold":
            return [{**row, "name": _shown(row["name"])} for row in self._server.node.inspect("holds") or ()]
        if kind == "webhook":
            return [] if self.webhooks is None else self.webhooks.administered()
        letters = {row["id"]: row["letters"] for row in self._server.node.inspect("letters") or ()}
        wanted = _is_group if kind == "group" else lambda id: not _is_group(id)
        rows = without_absent(self._server, self._server.node.describe(self._most, wanted))
        dead = {id.shown: count for id, count in letters.items()}
        return [{**row, "dead_letters": dead.get(row["subscription"], 0)} for row in rows]

    def sessions(self) -> list[dict[str, Any]]:
        """Sessions of principals, the oldest first."""
        server = self._server
        clients = {client.session: client for client in server._clients.values()}
        local_clients = {local_client.session: local_client for local_client in server._local_clients}
        rows = []
        for session in server.sessions.all():
            client, local_client = clients.get(session), local_clients.get(session)
            if local_client is not None and not local_client.peer.is_shown:
                continue
            attached = client or local_client
            principal = session.principal
            rows.append(
                {
                    "session": session.number,
                    "principal": principal.name,
                    "tenant": principal.tenant,
                    "method": str(principal.means),
                    "client": "" if attached is None else attached.address.rpartition("#")[0],
                    **_connection_of(session, client, local_client),
                    **({} if attached is None else self._use_of(attached.address)),
                }
            )
        return rows

    def _use_of(self, address: str) -> dict[str, int]:
        used: dict[str, int] | None = self._server.node.inspect("client", address)
        return used or {"subscriptions": 0, "delivered": 0, "published": 0, "waiting": 0}

    async def _pins(self, about: About) -> dict[str, Any]:
        """The oldest offset of the log, who pins it, and the room on the disk."""
        sizes = await asyncio.to_thread(self._server.store.sizes)
        return {**self._pinned(), "store": sizes}

    def _pinned(self) -> dict[str, Any]:
        """With the brokers by name; a pin that nothing is known of stays as it is."""
        node = self._server.node
        pinned: dict[str, Any] = node.inspect("pins") or {"pins": []}
        named = [pin for pin in pinned["pins"] if pin["kind"] != READER]
        offsets = [pin["offset"] for pin in pinned["pins"] if pin["kind"] == READER]
        named += [
            {"kind": "broker", "name": name, "offset": offset}
            for offset in offsets
            for name in node.log_keepers(offset)
        ]
        return pinned | {"pins": named or pinned["pins"]}

    def _inspect(self, about: About) -> dict[str, Any]:
        kind, name = _kind(about), _text(about, "name")
        key = {"session": "session", "webhook": "id", "hold": "name"}.get(kind, "subscription")
        for row in self._rows(kind):
            if str(row[key]) in (name, f"{GROUPS}/{name}"):
                pins = [pin for pin in self._pinned()["pins"] if pin["name"] == str(row[key])]
                return {kind: row, "pins": pins}
        raise self._unknown(kind, name)

    # -- ending ------------------------------------------------------------------------------------

    async def _end(self, about: About) -> dict[str, Any]:
        kind, name = _kind(about), _text(about, "name")
        if kind == "session":
            ended = name.isdecimal() and self._server.sessions.end(
                int(name), "an operator ended this session"
            )
        elif kind == "webhook":
            ended = self.webhooks is not None and await self.webhooks.end(name)
        elif kind == "hold":
            names = {_shown(each): each for each in self._server.node.log_holds()}
            ended = name in names
            if ended:
                self._server.hand(EndRetentionHold(names[name]))
        else:
            id = self._found(kind, name)
            self._check_no_webhook(id)
            self._server.hand(EndSubscription(id))
            ended = True
        if not ended:
            raise self._unknown(kind, name)
        return {"ended": name, "kind": kind}

    def _found(self, kind: str, name: str) -> SubscriptionId:
        """The subscription that is shown under this name. Raises `InputError`."""
        ids = [id for id in self._ids() if kind != "group" or _is_group(id)]
        found = _named(ids, name)
        if found is None:
            raise self._unknown(kind, name)
        return found

    def _check_no_webhook(self, id: SubscriptionId) -> None:
        number = unscoped(id.subscriber).rpartition("/")[2]
        hooks = () if self.webhooks is None else self.webhooks.administered()
        if unscoped(id.name) == "webhook" and any(hook["id"] == number for hook in hooks):
            raise InputError(
                f"{id.shown} is the subscription of webhook {number}",
                hint=f"end that: tidings admin end webhook {number}",
            )

    def _ids(self) -> Iterable[SubscriptionId]:
        return self._server.node.subscriptions()

    def _unknown(self, kind: str, name: str) -> InputError:
        return InputError(
            f"broker {self._server.name} has no {kind} {name!r}",
            hint=f"list them: tidings admin list {kind}s",
        )

    # -- dead letters ------------------------------------------------------------------------------

    def _box(self, about: About) -> SubscriptionId:
        """Whose dead letters are meant: of a subscription, or of one that has ended."""
        name = _text(about, "name")
        ids = {row["id"]: None for row in self._server.node.inspect("letters") or ()}
        return _named(ids, name) or self._found("subscription", name)

    def _letters(self, about: About) -> dict[str, Any]:
        if not about.get("name"):
            rows = self._server.node.inspect("letters") or ()
            return {"rows": [{**row, "id": row["id"].shown} for row in rows]}
        letters = self._server.node.inspect("letters", self._box(about)) or ()
        return {
            "count": len(letters),
            "rows": [{**letter, "event": _event(letter["event"])} for letter in letters[: self._most]],
        }

    def _settle(self, about: About, *, redelivers: bool) -> dict[str, Any]:
        id = self._box(about)
        if redelivers and self._server.node.subscription(id) is None:
            raise InputError(
                f"the subscription {id.shown} has ended", hint="discard its dead letters, or publish them"
            )
        numbers = about.get("numbers", [])
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            raise InputError("`numbers` is a list of the numbers of dead letters")
        there = {letter["number"] for letter in self._server.node.inspect("letters", id) or ()}
        chosen = sorted(there.intersection(numbers) if numbers else there)
        if chosen:
            self._server.hand(SettleDeadLetters(id, tuple(chosen), redelivers))
        return {"subscription": id.shown, "redelivered" if redelivers else "discarded": len(chosen)}

    # -- purging -----------------------------------------------------------------------------------

    async def _purge(self, about: About) -> dict[str, Any]:
        """Forget entries of this broker's log that a filter accepts, up to an offset."""
        filter = parse_filter(_text(about, "filter"))
        node, store, limits = self._server.node, self._server.store, self._server.resources
        upto = about.get("upto")
        end = int(node.inspect("pins")["next"]) - 1
        last = end if not isinstance(upto, int) else min(upto, end)

        def accepted() -> list[int]:
            found, after = [], 0
            while entries := store.fetch(after + 1, limits.transfer_count, limits.transfer_bytes):
                found += [
                    each.offset for each in entries if each.offset <= last and accepts(filter, each.event)
                ]
                after = entries[-1].offset
                if after >= last:
                    break
            return found

        offsets = await asyncio.to_thread(accepted)
        if offsets and not about.get("dry"):
            self._server.hand(PurgeEntries(tuple(offsets)))
        return {"purged": 0 if about.get("dry") else len(offsets), "matches": len(offsets), "upto": last}


def _connection_of(
    session: PrincipalSession, client: ClientConnection | None, local: LocalClient | None
) -> dict[str, Any]:
    """The listener of a session, its peer, whether it is connected now, and since when."""
    if client is not None:
        visit = client.connection.visit
        peer = "" if visit is None else visit.address
        return {"by": "tcp", "peer": peer, "connected": True, "since": session.since}
    if local is not None:
        since = session.since if local.peer.since is None else local.peer.since
        there = {"peer": local.peer.address, "connected": local.peer.is_connected}
        return {"by": "gateway", **there, "since": since}
    return {"by": session.by, "peer": session.peer, "connected": True, "since": session.since}


def _named(ids: Iterable[SubscriptionId], name: str) -> SubscriptionId | None:
    """The one that is shown under this name, or spelled so. Raises `InputError` when several are."""
    ids = list(ids)
    found = [id for id in ids if id.shown in (name, f"{GROUPS}/{name}")]
    found = found or [id for id in ids if _spelled(id) == name]
    if len(found) > 1:
        raise InputError(
            f"{len(found)} subscriptions are shown as {name!r}",
            hint=f"say which: {' or '.join(sorted(map(_spelled, found)))}",
        )
    return found[0] if found else None


def _spelled(id: SubscriptionId) -> str:
    """Subscriber and name, told apart."""
    return f"{_shown(id.subscriber)}//{_shown(id.name)}"


def _is_group(id: SubscriptionId) -> bool:
    return id.subscriber == GROUPS


def _kind(about: About) -> str:
    kind = about.get("kind")
    if kind not in KINDS:
        raise InputError(f"{kind!r} is nothing to administer", hint=f"one of {', '.join(KINDS)}")
    return str(kind)


def _text(about: About, name: str) -> str:
    text = about.get(name)
    if not isinstance(text, str) or not text:
        raise InputError(f"`{name}` is missing")
    return text


def _shown(name: str) -> str:
    return name.replace(TENANT_MARK, ":").replace(OWNER_MARK, ":")


def _event(event: Event) -> dict[str, Any]:
    return {
        "id": event.id,
        "source": event.source,
        "topic": event.topic,
        "attributes": dict(event.attributes),
    }
