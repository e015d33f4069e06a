"""Sweeps: one function at many points, on Spark or in processes, never twice at the same point.

Rules
- A point is the tuple of the function's arguments; its result is what JSON can hold, so that the
  table of results can be read by anything and is safe to read.
- Finished points are rows of Parquet files in the sweep's folder. They are found again by the
  function, its arguments and the text of the program (see `program_text.py`): a changed program runs
  everything anew.
- Points travel in packs, one pack a task, sized by how long the first ones took: a task of Spark
  costs more than a small point. A pack is small enough that all workers stay busy to the end.
- A point that fails keeps its place with its error; the others go on. The next run tries it again.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from multiprocessing import get_context
from os import cpu_count
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec

from tidings.errors import SettingsError, TidingsError
from tidings.pipeline.program_text import program
from tidings.simulation.experiment import Experiment, run_experiment

PACK_SECONDS: Final = 3.0  # work in one task, about
FLUSH_SECONDS: Final = 5.0  # finished points wait at most so long before they are on the disk
COLUMNS: Final = ("key", "function", "point", "result", "error", "seconds")

Point = tuple[Any, ...]
Task = tuple[int, str]  # place in the sweep, arguments as JSON


class Done(NamedTuple):
    """A point that was run, now or before."""

    point: Point
    result: Any  # None when it failed
    error: str | None
    seconds: float
    again: bool = False  # it was finished before: not run now


class PointResult(NamedTuple):
    """A worker's result for one point."""

    place: int
    result: str | None
    error: str | None
    seconds: float


Launch = Callable[[str, list[Task]], list[PointResult]]  # runs a pack somewhere and waits for it


def sweep(
    function: Callable[..., Any],
    points: Sequence[Point],
    *,
    folder: Path | None = None,
    spark: Any = None,
    processes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[Done]:
    """`function(*point)` for each point, in the order of the points.

    With a Spark session the points run on its cores, otherwise in `processes` (all cores) of this
    machine. `folder` keeps finished points. `progress` receives how many points were finished.
    """
    name = _name(function)
    texts = [json.dumps(list(point)) for point in points]
    store = _PointStore(folder, name)
    found = {position: done for position, text in enumerate(texts) if (done := store.done(text)) is not None}
    tell = progress or (lambda count: None)
    tell(len(found))
    left = [(position, text) for position, text in enumerate(texts) if position not in found]
    if left:
        try:
            with _launcher(spark, processes) as (launch, slots):
                for answer in _answers(launch, name, left, slots):
                    store.add(texts[answer.place], answer)
                    found[answer.place] = _done(texts[answer.place], answer)
                    tell(1)
        finally:
            store.flush()  # also after an interrupt
    return [found[position] for position in range(len(points))]


def results(done: Sequence[Done]) -> list[Any]:
    """The results of a sweep without failures; otherwise an error that names the points."""
    failed = [each for each in done if each.error is not None]
    if failed:
        first = failed[0]
        raise TidingsError(
            f"{len(failed)} of {len(done)} points failed, the first at {first.point}: {first.error}",
            hint="the others are kept; run it again to try the failed ones only",
        )
    return [each.result for each in done]


def _name(function: Callable[..., Any]) -> str:
    name = f"{function.__module__}:{function.__qualname__}"
    if "<" in name or "." in function.__qualname__ or function.__module__ == "__main__":
        raise SettingsError(f"{name} cannot be sent to other processes", hint="use a function of a module")
    return name


# The workers' side


def run_pack(name: str, pack: list[Task]) -> list[PointResult]:
    """Run the points of a pack, here; what goes wrong with one is its answer."""
    module, _, function = name.partition(":")
    run = getattr(import_module(module), function)
    return [_run_one(run, position, text) for position, text in pack]


def _run_one(run: Callable[..., Any], position: int, text: str) -> PointResult:
    began = time.monotonic()
    try:
        result = json.dumps(run(*json.loads(text)))
    except Exception as error:  # any error belongs to this point
        where = traceback.extract_tb(error.__traceback__)[-1]
        problem = (
            f"{type(error).__name__}: {error} (in {where.name}, line {where.lineno} of "
            f"{Path(where.filename).name})"
        )
        return PointResult(position, None, problem, time.monotonic() - began)
    return PointResult(position, result, None, time.monotonic() - began)


def simulate_point(experiment: str, seed: int) -> dict[str, Any]:
    """One seed of `tidings simulate`: what came of it, and the story of each broken property."""
    wanted = msgspec.structs.replace(msgspec.json.decode(experiment, type=Experiment), seed=seed)
    outcome = run_experiment(wanted)
    report = outcome.report
    return {
        "seed": seed,
        "handled": outcome.handled,
        "published": outcome.published,
        "delivered": outcome.delivered,
        "hops": outcome.hops,
        "latency": outcome.latency,
        "faults": outcome.faults,
        "fingerprint": outcome.fingerprint,
        "broken": {} if report is None else {name: report[name].story for name in report.broken},
    }


# The driver's side


def _answers(launch: Launch, name: str, left: list[Task], slots: int) -> Iterator[PointResult]:
    """Every slot has a pack under way until no point is left."""
    waiting = list(reversed(left))
    spent, finished = 0.0, 0
    with ThreadPoolExecutor(slots, thread_name_prefix="sweep") as threads:
        running: set[Future[list[PointResult]]] = set()
        try:
            while waiting or running:
                while waiting and len(running) < slots:
                    size = _pack_size(len(waiting), slots, spent / finished if finished else None)
                    pack = [waiting.pop() for _ in range(size)]
                    running.add(threads.submit(launch, name, pack))
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for answer in (each for future in ended for each in future.result()):
                    spent, finished = spent + answer.seconds, finished + 1
                    yield answer
        finally:
            threads.shutdown(wait=False, cancel_futures=True)


def _pack_size(waiting: int, slots: int, seconds: float | None) -> int:
    if seconds is None:
        return 1
    fair = max(1, waiting // (2 * slots))  # the last packs are small, so that no worker idles long
    return min(fair, max(1, int(PACK_SECONDS / max(seconds, 1e-6))))


@contextmanager
def _launcher(spark: Any, processes: int | None) -> Iterator[tuple[Launch, int]]:
    if spark is not None:
        context = spark.sparkContext

        def on_spark(name: str, pack: list[Task]) -> list[PointResult]:
            collected = context.parallelize([pack], 1).flatMap(lambda tasks: run_pack(name, tasks)).collect()
            return [PointResult(*each) for each in collected]

        yield on_spark, context.defaultParallelism
        return
    slots = processes or cpu_count() or 1
    if slots == 1:
        yield run_pack, 1
        return
    with ProcessPoolExecutor(slots, mp_context=get_context("spawn")) as pool:
        yield (lambda name, pack: pool.submit(run_pack, name, pack).result()), slots


class _PointStore:
    """The finished points of one function, as Parquet files in a folder."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self._folder = folder
        self._name = name
        self._program = program(name.partition(":")[0].partition(".")[0])
        self._rows: list[tuple[Any, ...]] = []
        self._flushed = time.monotonic()
        self._known = {} if folder is None else _read(folder)

    def done(self, text: str) -> Done | None:
        """The point as it was finished before; None when it was not, or failed."""
        row = self._known.get(self._key(text))
        if row is None:
            return None
        return Done(tuple(json.loads(text)), json.loads(row["result"]), None, row["seconds"], True)

    def add(self, text: str, answer: PointResult) -> None:
        row = (self._key(text), self._name, text, answer.result, answer.error, answer.seconds)
        self._rows.append(row)
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        self._flushed = time.monotonic()
        if rows and self._folder is not None:
            _write(self._folder, rows)

    def _key(self, text: str) -> str:
        return blake2b(f"{self._program}\n{self._name}\n{text}".encode(), digest_size=16).hexdigest()


def _done(text: str, answer: PointResult) -> Done:
    result = None if answer.result is None else json.loads(answer.result)
    return Done(tuple(json.loads(text)), result, answer.error, answer.seconds)


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows of points that did not fail, by key. A file that is no table of ours is an error."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    known: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.parquet")):
        try:
            rows = parquet.read_table(path, columns=list(COLUMNS)).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise TidingsError(
                f"{path}: no whole table of a sweep's points: {str(error).splitlines()[0]}",
                hint="remove the file, and its points are run again",
            ) from None
        known.update({row["key"]: row for row in rows if row["error"] is None})
    return known


def _write(folder: Path, rows: Sequence[tuple[Any, ...]]) -> None:
    """A file of its own, there as a whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True, exist_ok=True)
    text = pa.string()
    schema = pa.schema([(name, pa.float64() if name == "seconds" else text) for name in COLUMNS])
    columns = [
        pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
    ]
    draft = folder / f".{uuid4().hex}"
    parquet.write_table(pa.Table.from_arrays(columns, schema=schema), draft, compression="zstd")
    draft.rename(folder / f"points-{time.time_ns()}-{uuid4().hex[:8]}.parquet")
