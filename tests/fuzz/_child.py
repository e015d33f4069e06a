"""python -m tests.fuzz._child TARGET INPUTS CORPUS: fuzz one target with Atheris, guided by coverage.

It ends with 0 when nothing was found. What was found is written to the folder CORPUS, and said.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["tidings"]):
    from tests.fuzz._targets import TARGETS, corpus


def main() -> None:
    name, inputs, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(corpus(name)):
        (folder / f"seed-{number}").write_bytes(data)
    arguments = [
        sys.argv[0], str(folder), f"-runs={inputs}", "-max_len=4096", "-timeout=2",
        "-rss_limit_mb=1024", f"-artifact_prefix={folder}/", "-print_final_stats=1",
    ]  # fmt: skip
    atheris.Setup(arguments, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
