"""The gateways of a broker, and its console: `Service(settings, doors=ConsoleGateways)`."""

from __future__ import annotations

import sys

from tidings.errors import MissingDependencyError, install_command
from tidings.gateway.listeners import Gateway, Gateways
from tidings.runtime.service import Service

LISTEN = "127.0.0.1:7180"  # of `--console` without an address


class ConsoleGateways(Gateways):
    """Opens the console beside what the settings open."""

    def _chosen(self) -> list[tuple[str, Gateway]]:
        return [*super()._chosen(), *_console(self._service, self)]


def _console(service: Service, gateways: Gateways) -> list[tuple[str, Gateway]]:
    if not service.settings.console.listen:
        return []
    try:
        from tidings.console.app import ConsoleListener
    except ImportError as error:
        raise MissingDependencyError(
            f"the console needs {error.name}", hint=install_command("tidings[console]")
        ) from None
    return [("console", ConsoleListener(service, gateways.prover, service.tls))]


if __name__ == "__main__":  # one broker of a development cluster, with its console
    from tidings.runtime.development import main

    sys.exit(main(sys.argv[1], ConsoleGateways))
