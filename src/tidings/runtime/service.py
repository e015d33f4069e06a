"""A broker as an operator runs it: settings, security, TLS, logs, metrics, tracing around a `Server`.

    service = Service(settings)
    await service.run()          # until SIGTERM or SIGINT; SIGHUP reloads

Rules
- Everything that can be wrong with the settings is found before the broker listens.
- A reload takes what can change while the broker runs (the users file, certificates, the log) and
  names what needs a restart. Wrong settings have no effect. Files of the log and the audit are opened again.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tidings._version import __version__
from tidings.errors import RefusedError, SettingsError, TidingsError, UnreachableError
from tidings.model.schemas import SCHEMAS
from tidings.model.subscription import GROUPS, OWNER_MARK, SubscriptionId, unscoped
from tidings.runtime import logs, tls
from tidings.runtime.activity import activity
from tidings.runtime.administration import BrokerAdministration
from tidings.runtime.backlogs import BacklogCount
from tidings.runtime.clock import RealClock
from tidings.runtime.histogram import Histogram
from tidings.runtime.http import OperatorHttp, OperatorPage
from tidings.runtime.metrics import CONTENT_TYPE, exposition
from tidings.runtime.observing import figures, view_of
from tidings.runtime.past import PastFigures
from tidings.runtime.process import print_ready, serve
from tidings.runtime.recent import RecentHistory, together
from tidings.runtime.retention import RetentionFigures, capped
from tidings.runtime.revoked_resources import RevokedResources
from tidings.runtime.secured import Secured
from tidings.runtime.server import Server
from tidings.runtime.settings import GROUP_SYSTEM, LIVE, BrokerSettings, changed, peers_of
from tidings.runtime.spans import SpanTap, exporting
from tidings.runtime.trace import TraceRing
from tidings.runtime.unit import UnitAuthenticator, UnitCredentials, UnitListeners, UnitMember
from tidings.security.credentials import CertificateCredentials
from tidings.security.interfaces import Authenticator, Credentials, NoCredentials
from tidings.security.principal import Principal
from tidings.security.quotas import HOLDS
from tidings.store.checked import CheckedStore

if TYPE_CHECKING:
    from tidings.runtime.store_control import StoreControl

log = logging.getLogger("tidings.broker")


class GatewaySet(Protocol):
    """The gateways of a broker; they are in a room above this one."""

    addresses: dict[str, str]  # by protocol, when they are open

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class Service:
    """One broker process. `again` reads the settings anew, for a reload; `gateways` makes its gateways."""

    def __init__(
        self,
        settings: BrokerSettings,
        again: Callable[[], BrokerSettings] | None = None,
        gateways: Callable[[Service], GatewaySet] | None = None,
        unit: UnitMember | None = None,  # its place among the processes of a unit
    ) -> None:
        self.settings, self._unit = settings, unit
        self._make_gateways = gateways
        self.gateways: GatewaySet | None = None
        self._again = again
        self._clock = RealClock()
        name = settings.name or default_name(settings)
        logs.set_up(settings.log, name)
        self.ring = TraceRing(settings.trace.events) if settings.trace.events else None
        self.history: RecentHistory | None = None
        if settings.trace.history_seconds:
            self.history = RecentHistory(name, settings.trace.history_seconds, self._clock.now)
        self._spans = SpanTap(exporting(name)) if settings.trace.spans else None
        self._deliver_seconds, self._looked_at = Histogram(), self._clock.now()
        self.secured = Secured(settings.security, self._clock.now, self._on_withheld, settings.tls)
        subscription = self.tls = tls.listening(settings.tls)  # of all listeners
        self._join_tls = _joining(settings) if subscription and (unit is None or not unit.parent) else None
        self.server = self._made_server(name, unit)
        self._public = UnitListeners(unit, self.server, subscription) if unit is not None else None
        self._disowning = RevokedResources(self.server, self.secured)
        self.server.inquiries["figures"] = lambda about, principal: figures(
            self.server, self.figures, view_of(self.secured.guard, principal)
        )
        self.server.inquiries["trace"] = self._trace
        self.secured.guard.retained = partial(capped, settings=settings.retention)
        self._kept_figures = RetentionFigures(
            self.server, settings.retention, on_disk=_is_folder(settings.store)
        )
        self.administration = BrokerAdministration(self.server, self.secured)
        self.server.inquiries["admin"] = self.administration.answer
        self.server.own_checks.add("admin")
        self.server.inquiries["activity"] = self._activity
        self.server.inquiries["history"] = self._history
        self.past = PastFigures(self.figures, Path(settings.store) if _is_folder(settings.store) else None)
        self.server.inquiries["past"] = self._past
        if settings.archive:
            self.server.serve_archive(settings.archive)
        self.http: OperatorHttp | None = None
        self._control: StoreControl | None = None
        self.backlogs = BacklogCount()
        self._begun = self.settings  # what the process works with until it is restarted

    def _made_server(self, name: str, unit: UnitMember | None) -> Server:
        """The server of this broker. In a unit it listens on loopback, the public address is separate."""
        settings, subscription = self.settings, self.tls
        authenticator: Authenticator = self.secured.authenticator
        credentials: Credentials = CertificateCredentials() if subscription else NoCredentials()
        if unit is not None:
            authenticator = UnitAuthenticator(unit.secret, authenticator)
            credentials = UnitCredentials(unit.secret) if unit.number else credentials
        return Server(
            name,
            listen=settings.listen,
            join=[_with_scheme(address, subscription is not None) for address in settings.join]
            if unit is None or not unit.parent
            else [unit.parent],
            advertise=_with_scheme(settings.advertise, subscription is not None),
            path=settings.store or None,
            network=settings.network,
            delivery=settings.delivery,
            authenticator=authenticator,
            guard=self.secured.guard,
            credentials=credentials,
            tls=subscription if unit is None else None,
            join_tls=self._join_tls,
            clock=self._clock,
            tap=together(self.ring, self.history, self._spans),
            record=self.history,
            limits=settings.limits,
            resources=settings.resources,
            is_revoked=lambda certificate: self.secured.revoked.holds(certificate),
            standing=self.secured.standing,
            system=GROUP_SYSTEM if settings.group.name else settings.system,
            datagrams=settings.datagrams,
            peers=peers_of(settings),
            options={
                **settings.options,
                "heal_seconds": settings.heal_seconds,
                **({} if settings.rearrange else {"ttl": 0}),
                **_group_options(settings),
            },
        )

    async def __aenter__(self) -> Service:
        """Run it inside another program: `async with Service(settings) as service`."""
        await self.server.start()
        try:
            await self._on_start()
        except BaseException:
            await self.server.close()
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close_gateways()
        await self.server.drain(self.settings.drain_seconds)
        await self._close()

    async def _on_start(self) -> None:
        if self.settings.schemas:
            SCHEMAS.load(self.settings.schemas)
        self._count_durables()
        trusts_others = bool(self.settings.tls.authority or self.secured.guard.users.verifier)
        self._disowning.start(others=trusts_others)
        await self._open_control()
        self.backlogs.start(self.server.node, self.server.store)
        self.past.start()
        await self.start_http()
        if self._public is not None:
            self._public.open()
        if self._make_gateways is not None:
            self.gateways = self._make_gateways(self)
            await self.gateways.start()

    async def _open_control(self) -> None:
        """Let `tidings store` reach the store on this machine's disk."""
        if _is_folder(self.settings.store):
            from tidings.runtime.store_control import StoreControl

            self._control = StoreControl(
                self.server.store,  # type: ignore[arg-type]  # a directory is a RocksStore
                lambda do, outcome, why: self.secured.audit.note(
                    "store", outcome, "operator", subject=do, reason=why
                ),
            )
            await self._control.start()

    async def _close_gateways(self) -> None:
        if self.gateways is not None:
            gateways, self.gateways = self.gateways, None
            await gateways.close()

    async def _close(self) -> None:
        await self._close_gateways()
        if self._public is not None:
            self._public.close()
        if self.http is not None:
            await self.http.close()
        if self._control is not None:
            await self._control.close()
        await self.backlogs.close()
        self.past.close()
        if self._spans is not None:
            self._spans.close()
        self.secured.close()
        logs.leave_file(self.settings.log, self.server.name)

    async def run(self, ready: Callable[[Server], None] = print_ready) -> bool:
        """Serve until a signal comes, then drain. True: every request was answered."""
        try:
            return await serve(
                self.server,
                drain_seconds=self.settings.drain_seconds,
                ready=ready,
                reload=self.reload,
                started=self._on_start,
                stopping=self._close_gateways,
            )
        finally:
            await self._close()

    def _count_durables(self) -> None:
        """Durable subscriptions too."""
        self.secured.guard.is_stored = self._is_stored
        ownerless = []
        for name, filter in self.server.node.log_holds().items():
            self.secured.guard.found_hold(name, filter)
        for id, filter in self.server.node.durables():
            self.secured.guard.found(id.subscriber, id.name, filter)
            if id.subscriber == GROUPS and OWNER_MARK not in id.name:
                ownerless.append(unscoped(id.name))
        is_shared = self.secured.guard.users.permissions.is_shared
        for name in sorted(name for name in ownerless if not is_shared(name)):
            log.warning(
                "the stored consumer group %r has no owner; its events are kept: a rule for the "
                "action share has to "
                "name who may consume in it",
                name,
            )

    def _is_stored(self, client: str, name: str) -> bool:
        """Does the broker still hold this durable subscription, or this log for its reader?"""
        node = self.server.node
        if client == HOLDS:
            return name in node.log_holds()
        return node.subscription(SubscriptionId(client, name)) is not None

    # -- reload ---------------------------------------------------------------------------------

    def reload(self) -> bool:
        """Take new settings over; False: they are wrong, and the old ones stay."""
        try:
            new = self._again() if self._again is not None else self.settings
            tls.listening(new.tls)  # checks the files before any of them is used
            self.secured.reload(new.security, new.tls)
            self._renew_certificates(new)
            logs.set_up(new.log, self.server.name)
        except (TidingsError, OSError) as error:
            log.error("the settings were not reloaded, the old ones stay: %s", error)
            return False
        differs = changed(self.settings, new)
        self.server.review()
        pending = changed(self._begun, new)  # what was changed back needs none
        waiting = [name for name in pending if name not in LIVE and not name.startswith("log.")]
        self.settings = new
        files = "no setting; the users file, certificates and revocations were read again"
        log.info("reloaded; changed: %s", ", ".join(differs) or files)
        if waiting:
            log.warning("these need a restart to take effect: %s", ", ".join(waiting))
        return True

    def _renew_certificates(self, new: BrokerSettings) -> None:
        for context in (self.tls, self._join_tls):
            if context is not None and new.tls.certificate:
                tls.renew(context, new.tls)

    # -- what it says of itself --------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        own: dict[str, Any] = {"version": __version__, "time": datetime.now(UTC).isoformat()}
        own |= {"sessions": len(self.server.sessions), "ready": int(self._problems()[0])}
        own |= self._public.figures if self._public is not None else {}
        kept = self._kept_figures.figures(self._clock.now())
        return {**self.server.figures(), **self.secured.figures(), **self._delays(), **own, **kept}

    def _delays(self) -> dict[str, Any]:
        """Delays of events at this broker, as far as the trace holds them."""
        if self.ring is None:
            return {}
        for seconds in self.ring.delays(self._looked_at):
            self._deliver_seconds.observe(seconds)
        self._looked_at = self._clock.now()
        return {"seconds to deliver": self._deliver_seconds.figures()}

    def _on_withheld(self, principal: str, event: Any) -> None:
        if self.ring is not None:
            self.ring.withheld(principal, event, self._clock.now())

    def _trace(self, about: dict[str, Any], principal: Principal) -> dict[str, Any]:
        if self.ring is None:
            raise SettingsError("this broker keeps no trace", hint="set trace.events above 0 and restart it")
        view = view_of(self.secured.guard, principal)
        answer = self.ring.answer(self.server.node, about, self._clock.now(), view)
        return answer | {"links": self.server.links_at()}

    def _activity(self, about: dict[str, Any], principal: Principal) -> dict[str, Any]:
        view = view_of(self.secured.guard, principal)
        return activity(self.ring, about, self._clock.now(), view) | {"broker": self.server.name}

    def _history(self, about: dict[str, Any], principal: Principal) -> dict[str, Any]:
        """History over the events of all principals: only those who may observe them all get it."""
        if not self.secured.guard.observes_all(principal):
            raise RefusedError(
                "the history holds the events of all principals",
                hint="a rule for observe without a filter has to allow it",
            )
        if self.history is None:
            return {"broker": self.server.name, "seconds": 0.0}
        return self.history.answer(about) | {"broker": self.server.name}

    def _past(self, about: dict[str, Any], principal: Principal) -> dict[str, Any]:
        """Figures of the last days; they are over the events of all principals."""
        if not self.secured.guard.observes_all(principal):
            raise RefusedError(
                "the past figures are everybody's", hint="a rule for observe without a filter has to allow it"
            )
        return {"broker": self.server.name, "rows": self.past.rows(about), "links": self.server.links_at()}

    async def start_http(self) -> None:
        if not self.settings.http:
            return
        host, _, port = self.settings.http.rpartition(":")
        page = exposition(self.figures, self.server.name)
        self.http = OperatorHttp(
            {
                "/metrics": lambda: OperatorPage(page(), CONTENT_TYPE),
                "/healthz": self._healthz,
                "/readyz": self._readyz,
            }
        )
        try:
            await self.http.start(host.strip("[]") or "127.0.0.1", int(port))
        except OSError as error:
            raise UnreachableError(
                f"metrics cannot be served at {self.settings.http}: {error.strerror or error}",
                hint="choose another address for http",
            ) from None

    def _healthz(self) -> OperatorPage:
        """Alive: the event loop answers, and the disk has not failed for good."""
        problem = self.server.disk_problem
        return _page({"ok": problem is None, "broker": self.server.name, "problem": problem})

    def _readyz(self) -> OperatorPage:
        """Ready: clients are let in, publishes can be kept, and every broker that was to be
        joined is linked."""
        ok, problems = self._problems()
        unlinked = {name: one["problem"] for name, one in self.server.figures()["unlinked"].items()}
        links = {"links": self.server.links_at(), "unlinked": unlinked}
        return _page({"ok": ok, **links, "problems": problems})

    def _problems(self) -> tuple[bool, list[str]]:
        """Is this broker ready, and if not, why?"""
        problems = list(self.server._neighbours.problems.values())
        node, store = self.server.node, self.server.store
        if self.settings.group.name:  # a member that is away is no problem of the others
            problems = [] if node.is_serving else ["this broker is not in the majority of its group"]
            if node.is_serving and not node.has_caught_up:
                problems = ["this member has not caught up with its group's log; replace no other disk yet"]
        disk = node.disk_problem or (store.problem if isinstance(store, CheckedStore) else None)
        problems += filter(None, (disk, node.disk_full, self.secured.audit_problem))
        problems += self._kept_figures.problems(self._clock.now())
        return not problems and self.server.is_open, problems


def _is_folder(store: str) -> bool:
    return bool(store) and "://" not in store


def _page(value: dict[str, Any]) -> OperatorPage:
    status = HTTPStatus.OK if value["ok"] else HTTPStatus.SERVICE_UNAVAILABLE
    return OperatorPage(json.dumps(value).encode() + b"\n", status=status)


def _with_scheme(address: str, has_tls: bool) -> str:
    """A broker with TLS joins, and is reached, by TLS, unless the address says otherwise."""
    return f"tidings+tls://{address}" if address and has_tls and "://" not in address else address


def _group_options(settings: BrokerSettings) -> dict[str, Any]:
    group = settings.group
    return {
        "group": group.name,
        "members": group.members,
        "detector": {"beat_seconds": group.beat_seconds, "suspect_seconds": group.suspect_seconds},
        "log": {"keep_seconds": group.keep_seconds, "orphan_seconds": group.orphan_seconds},
    }


def _joining(settings: BrokerSettings) -> Any:
    return tls.dialling(
        authority=settings.tls.authority, certificate=settings.tls.certificate, key=settings.tls.key
    )


def default_name(settings: BrokerSettings) -> str:
    """A name that stays the same: brokers remember their neighbours by it."""
    host, _, port = settings.listen.rpartition(":")
    if port == "0":
        raise SettingsError("a broker at a free port needs a name", hint="give --name")
    return f"{socket.gethostname() if host.startswith('127.') or host == 'localhost' else host}:{port}"


def settings_file(path: str | None) -> Path | None:
    return Path(path) if path else None
