"""Every parser that takes bytes of strangers, fuzzed: a little always, for long and by coverage in soak."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from conftest import Figures
from tests.fuzz._targets import BEFORE_LOGIN, TARGETS, corpus

ROOT = Path(__file__).parents[2]
ROUNDS = 300


def mutated(data: bytes, rng: Random) -> bytes:
    body = bytearray(data)
    for _ in range(rng.randrange(6)):
        position = rng.randrange(len(body) + 1)
        body[position : position + rng.randrange(4)] = rng.randbytes(rng.randrange(5))
    return bytes(body)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_stands_what_its_corpus_becomes(name: str) -> None:
    rng = Random(name)
    seeds = corpus(name)
    for data in [b"", b"\x00", *seeds]:
        TARGETS[name](data)
    for _ in range(ROUNDS):
        TARGETS[name](mutated(rng.choice(seeds), rng))


def test_somebody_who_is_let_in_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target that cannot fail shows nothing."""
    from tests.fuzz import _targets

    from tidings.security.interfaces import LoopbackOnly

    monkeypatch.setattr(_targets, "ByUsers", lambda *given, **more: LoopbackOnly())
    with pytest.raises(AssertionError, match="without a proof"):
        TARGETS["handshake"](corpus("handshake")[0])


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None,
    reason="Atheris is not installed: it has no wheel for this Python",
)
@pytest.mark.parametrize("name", TARGETS)
def test_fuzzing_by_coverage_finds_nothing(name: str, tmp_path: Path, figures: Figures) -> None:
    """A million inputs for each parser, and ten millions together for those that need no login."""
    inputs = int(os.environ.get("TIDINGS_FUZZ_INPUTS", "1000000"))
    if name in BEFORE_LOGIN:
        inputs *= math.ceil(10 / len(BEFORE_LOGIN))
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz._child", name, str(inputs), str(tmp_path / "corpus")],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    stated = done.stderr + done.stdout
    assert done.returncode == 0, stated[-4000:]
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", stated)
    assert runs is not None, stated[-2000:]
    assert int(runs[1]) >= inputs, stated[-2000:]
    figures(inputs=int(runs[1]), crashes=0)
    print(f"{name}: {runs[1]} inputs, nothing found")
