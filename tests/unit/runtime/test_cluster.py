"""A cluster of brokers as processes: what it refuses before it starts one."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

from tidings.cli.output import Exit
from tidings.errors import UnreachableError
from tidings.runtime.cluster import Cluster


def test_a_port_that_is_taken_is_named_before_any_broker_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        cluster = Cluster(2, port=port)
        with pytest.raises(UnreachableError, match=f"broker b1 cannot listen at 127.0.0.1:{port}"):
            asyncio.run(cluster.__aenter__())
        assert cluster.members == []
        command = [sys.executable, "-m", "tidings", "cluster", "up", "2", "--port", str(port)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == Exit.ENVIRONMENT
    assert "--port" in ended.stderr
    assert "--listen" not in ended.stderr
