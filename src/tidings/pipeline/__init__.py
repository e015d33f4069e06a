"""Tables and streams of any size on Spark: matching, history checks, sweeps, flows.

It runs on one machine out of the box, and on any Spark cluster unchanged. What a user needs
is reached from here, and nothing heavy is imported before it is used.
"""

from __future__ import annotations

from tidings.pipeline.session import session

__all__ = ["session"]
