"""Run every ```python block of one page, in order and in one namespace, as its reader would.

`await` works at the top of a block. Blocks that use it share one event loop; the others run
without a running loop, so that `asyncio.run` and the blocking façade work in them too.

Usage: python run_page.py PAGE   (in an empty directory; the page's files are made there)
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# A block with `file=` is a file of a package of the reader's own; tests/together/test_extending.py makes and
# runs it.
FENCE = re.compile(r"^```python(?! file=)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """(line of the first statement, code) of each block."""
    for found in FENCE.finditer(text):
        yield text.count("\n", 0, found.start(1)), found[1]


def run(page: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for line, code in blocks(page.read_text()):
            source = "\n" * line + code  # so that a traceback shows the page's own line
            compiled = compile(
                source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
            )
            if compiled.co_flags & inspect.CO_COROUTINE:
                runner.run(eval(compiled, namespace))
            else:
                exec(compiled, namespace)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
