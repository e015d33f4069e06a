"""One broker of a development cluster, with gateways (see `runtime/development.py`)."""

from __future__ import annotations

import sys

from tidings.gateway.listeners import Gateways
from tidings.runtime.development import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Gateways))
