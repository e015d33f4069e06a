"""The console shows a real stream of Spark as it goes: batch after batch, from its lines and from its
metrics."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from quality.tests.pipeline import test_quality_factory as quality
from tests.browser._stage import Network, Stage
from tests.browser.conftest import browser, stage, watched
from tests.pipeline.test_flow_run import EXAMPLES, example

from tidings.pipeline.flow_metrics import JsonLinesMetrics, PrometheusMetrics
from tidings.pipeline.flow_run import RunningFlow
from tidings.pipeline.flows import read_flow
from tidings_quality.cli.data import _step_handler, _summary
from tidings_quality.spark.factory import Factory

__all__ = ["browser", "stage", "watched"]
pytestmark = [pytest.mark.spark, pytest.mark.browser]

PATIENCE = 240_000  # milliseconds: Spark on a loaded machine

BATCHES = (
    "count => [...document.querySelectorAll('[data-flow] .title .muted')].some(e => "
    "e.textContent.startsWith(`${count} batch`))"
)


@pytest.fixture
def streaming(spark: Any, stage: Stage, tmp_path: Path) -> Iterator[tuple[Network, Path]]:
    """A flow that goes on and on, and a broker whose console was told where it reports."""
    made = example("price_alerts")
    made.SYMBOLS = 20  # type: ignore[attr-defined]
    made.make(tmp_path, user_count=40, price_count=80)
    prices = sorted((tmp_path / "prices").glob("*.parquet"))
    (tmp_path / "later").mkdir()
    for file in prices[1:]:
        file.rename(tmp_path / "later" / file.name)
    flow = read_flow(EXAMPLES / "price_alerts" / "flow.toml", {"data": str(tmp_path)})
    metrics = PrometheusMetrics(0)
    positions = [str(tmp_path / "progress.jsonl"), f"http://127.0.0.1:{metrics.port}/metrics"]
    running = RunningFlow(flow, spark, observers=[JsonLinesMetrics(tmp_path / "progress.jsonl"), metrics])
    running.start(once=False)
    try:
        with Network(stage, 1, first={"console.flows": positions[:1]}) as network:
            yield network, tmp_path
    finally:
        running.stop()
        running.wait()
        metrics.close()


def test_batches_appear_as_spark_publishes_them(streaming: tuple[Network, Path], watched: Any) -> None:
    network, data = streaming
    opened = watched(network.url)
    page = opened.show("streams")
    page.wait_for_function(BATCHES, arg=1, timeout=PATIENCE)
    for number, file in enumerate(sorted((data / "later").glob("*.parquet"))[:2], 2):
        shutil.move(file, data / "prices" / file.name)
        page.wait_for_function(BATCHES, arg=number, timeout=PATIENCE)
    text = page.text_content("[data-flow=price-alerts]")
    assert "price-alerts · alerts" in text
    assert "matches" in text
    opened.picture("streams-light")
    dark = watched(network.url, theme="dark")
    dark.show("streams").wait_for_function(BATCHES, arg=3)
    dark.picture("streams-dark")


def test_quality_that_spark_measured_is_shown(
    spark: Any, stage: Stage, tmp_path: Path, watched: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The very lines of `tidings quality evaluate --whole --json`."""
    rng = random.Random(3)
    people = [
        {"name": rng.choice(("Roma", "M. Mecella", "n/a")), "city": rng.choice((*quality.CITIES, "Rma")),
         "zip": rng.choice(("1", "x", None)), "kind": "person", "age": rng.randint(0, 10**13)}
        for _ in range(30)
    ]  # fmt: skip
    quality.put_reference(tmp_path)
    plan = quality.plan_of(tmp_path)
    with ExitStack() as stack:
        factory = Factory(spark, plan)
        factory.snapshot(
            quality.frame(spark, quality.rows_of(people)),
            _step_handler(plan, None, as_json=True, stack=stack),
        )
        _summary(factory, as_json=True)
    (tmp_path / "inps.jsonl").write_text(capsys.readouterr().out)
    with Network(stage, 1, first={"console.quality": [str(tmp_path / "inps.jsonl")]}) as network:
        page = watched(network.url).show("quality")
        page.wait_for_selector("[data-organisation=INPS] >> text=30 objects")
        text = page.text_content("[data-organisation=INPS]")
        assert all(word in text for word in ("City", "Name", "accuracy", "completeness", "currency"))
