"""Services of a broker for external jobs, such as queries of a cluster: read, hold, stage, commit.

Three parts behind one face: `scanning` reads the log by filter, `holding` keeps it for readers that have not
read it yet, `staging` publishes in two steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidings.availability.records import Loaded, Record
from tidings.matching.engine import MatchingEngine
from tidings.protocol import messages as msg
from tidings.protocol.delivery.log_index import LogIndex
from tidings.protocol.delivery.publisher_migration import PublisherStays
from tidings.protocol.delivery.retention_holds import RetentionHolds
from tidings.protocol.delivery.scanning import LogScanner
from tidings.protocol.delivery.sessions import Session
from tidings.protocol.delivery.settings import DeliverySettings
from tidings.protocol.delivery.staging import Publish, Staging
from tidings.protocol.inputs import PrincipalRevoked
from tidings.protocol.slots import Ports

Handler = Callable[[Session, Any, float], None]


class Jobs:
    def __init__(
        self,
        ports: Ports,
        settings: DeliverySettings,
        index: LogIndex,
        stays: PublisherStays,
        publish: Publish,
    ) -> None:
        self.scanning = scanning = LogScanner(ports, index, stays, own=settings.names_log)
        self.holding = holding = RetentionHolds(ports, settings, index, MatchingEngine())
        self.staging = staging = Staging(ports, settings, index, publish)
        self.handlers: dict[type[msg.Message], Handler] = {
            msg.ReadLog: lambda session, message, now: scanning.read(session.address, message),
            msg.HoldLog: holding.hold,
            msg.EndHold: holding.end,
            msg.StageEvents: staging.stage,
            msg.CommitStaged: staging.commit,
            msg.CommitParts: staging.commit,
            msg.AskCommitted: lambda session, message, now: staging.ask(session, message),
        }

    def load(self, state: Loaded) -> None:
        self.staging.load(state)
        self.holding.load(state)

    def disowned(self, input: PrincipalRevoked) -> list[Record]:
        """End what a principal may not have any longer; the records to persist."""
        staged = self.staging.forget_scope(input.scope) if input.staged else []
        return [*staged, *self.holding.end_scope(input.scope, input.allowed)]

    def collect(self, now: float) -> list[Record]:
        """Forget what is over; the records to persist."""
        return [*self.staging.collect(now), *self.holding.collect(now)]
