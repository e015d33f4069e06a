"""`python -m tidings` is the command line."""

from __future__ import annotations

import sys

from tidings.cli import main

if __name__ == "__main__":
    sys.exit(main())
