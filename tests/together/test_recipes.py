"""The recipes of `examples/recipes`, against the real packages."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import uvicorn

import tidings
from tidings.testing.network import linked, played, serving, settled, until

RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
PATIENCE = 120.0


def recipe(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", RECIPES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations are read from there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _no_modules_stay() -> Any:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("recipe_"):
            del sys.modules[name]


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The application behind uvicorn on a loopback port."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="on", ws="none")
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign, assignment]
    running = asyncio.create_task(server.serve())
    await until(lambda: server.started or running.done())
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
        yield client
    server.should_exit = server.force_exit = True
    await running


def _no_signals() -> Any:
    from contextlib import nullcontext

    return nullcontext()


async def play_orders(app: Any) -> None:
    """Two orders are posted while a stream with a filter is open: it gets one of them."""
    async with served(app) as client:
        async with client.stream("GET", "/orders/events", params={"where": "total > 100"}) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            for number, total in ((1, 5.0), (2, 5000.0)):
                answer = await client.post("/orders", json={"number": number, "total": total})
                assert answer.status_code == 202
            lines = [line async for line in until_data(stream)]
        assert '"number": 2' in lines[-1]
        assert lines[-2].startswith("id: ")


async def until_data(stream: httpx.Response) -> AsyncIterator[str]:
    async for line in stream.aiter_lines():
        yield line
        if line.startswith("data:"):
            return


@played
async def test_fastapi() -> None:
    module = recipe("fastapi_app")
    await play_orders(module.app)
    assert module.large == [2]


@played
async def test_litestar() -> None:
    await play_orders(recipe("litestar_app").app)


class Child:
    def __init__(self, name: str, *words: str, **environment: str) -> None:
        path = ":".join([str(RECIPES), *(entry for entry in sys.path if entry)])
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / name), *words], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": path, "PATH": "", **environment},
        )  # fmt: skip

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        return code


def test_django(broker: str, tmp_path: Path) -> None:
    """ORM signals publish after the commit; the management command checks large orders."""
    database = str(tmp_path / "shop.db")
    shop = Child("_recipe_django.py", database, "orders", TIDINGS=broker)
    assert shop.line() == "ready"
    checks = Child("_recipe_django.py", database, "consume", TIDINGS=broker)
    assert checks.line() == "consuming"
    with tidings.open(broker) as bus:
        while not bus.inquire("figures")["subscriptions"]:
            pass
    shop.say()
    assert shop.line() == "saved"
    assert {checks.line(), checks.line()} == {"checked large", "checked larger"}
    assert checks.end() == 0
    shop.say()
    assert shop.line() == "['large', 'larger']"
    assert shop.end() == 0


def test_celery() -> None:
    child = Child("_recipe_celery.py")
    assert child.line() == "IBM fell by 4.5"
    assert child.end() == 0


@played
async def test_opentelemetry_has_one_trace_from_publish_through_brokers_to_the_handler() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    module = recipe("tracing")
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    async with (
        serving("a") as a,
        serving("b", join=[a.address]) as b,
        tidings.connect(a.address) as publisher,
        tidings.connect(b.address) as subscriber,
    ):
        await linked(a, b)
        seen = module.consume(subscriber, tracer, "orders")
        async with subscriber.serving():
            await settled(b, a)
            await module.publish(publisher, tracer, {"order": 1}, "orders")
            await until(lambda: len(exporter.get_finished_spans()) == 3)
    published, work, process = sorted(exporter.get_finished_spans(), key=lambda span: span.name[1])[::-1]
    spans = {span.name: span for span in (published, work, process)}
    names = sorted(spans)
    assert names == ["process consume.<locals>.handle", "publish orders", "work"]
    process, published, work = (spans[name] for name in names)
    assert process.parent is not None
    assert work.parent is not None
    assert process.parent.span_id == published.context.span_id
    assert work.parent.span_id == process.context.span_id
    traces = {f"{span.context.trace_id:032x}" for span in spans.values()}
    assert traces == set(seen)
    provider.shutdown()


@played
async def test_structlog_entries_carry_the_identity_of_the_event() -> None:
    import structlog
    from structlog.testing import LogCapture

    entries = LogCapture()
    before = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, entries])
    try:
        module = recipe("structured_logs")
        async with tidings.connect() as bus:
            module.watch(bus)
            async with bus.serving():
                receipt = await bus.publish({"StockName": "IBM", "change": -4.5})
                await until(lambda: len(entries.entries) == 2)
    finally:
        structlog.configure(**before)
    fall, handled = entries.entries
    assert (fall["event"], fall["stock"], fall["event_id"]) == ("fall", "IBM", receipt.id)
    assert (handled["event"], handled["handler"]) == ("handled", "watch.<locals>.fall")


def test_jupyter_shows_events_and_a_live_table(tmp_path: Path) -> None:
    """The formatters of IPython, which Jupyter uses, get tables; the live one renews its own output."""
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={"PYTHONPATH": ":".join([str(RECIPES), *(e for e in sys.path if e)]), "PATH": "",
             "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[-2] == "shown and renewed"


NOTEBOOK = """
import tidings
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.display_pub = shown = CapturingDisplayPublisher()
event = tidings.make_event({"StockName": "<b>IBM", "change": -4.5}, source="s", id="1")
html, _ = shell.display_formatter.format(event)
assert "&lt;b&gt;IBM" in html["text/html"], html
import notebook

with tidings.open() as bus:
    table = notebook.falls(bus)
    shell.display_formatter.format(table)
    assert len(shown.outputs) == 1, shown.outputs
    for n in range(5):
        bus.publish({"StockName": f"S{n}", "change": -1.0 - n})
    while table.seen < 5:
        pass
    table.close()
last = shown.outputs[-1]
assert last["update"], last
assert "5 events, the last 3 shown" in last["data"]["text/html"], last
assert "S4" in last["data"]["text/html"] and "S1" not in last["data"]["text/html"]
print("shown and renewed")
"""
