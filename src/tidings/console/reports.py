"""Reports that other processes leave for the console: progress of Spark flows, studies, data quality.

The operator names the places in `[console]` of the settings. A place that is empty, away or unreadable is
told with what to do; one bad file never hides the others.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from tidings.console.quality import organisations
from tidings.console.sessions import Visitor
from tidings.gateway.problems import Problem
from tidings.runtime.settings import ConsoleSettings

TAIL_BYTES = 256 * 1024  # of a file of JSON lines that is read
MOST_BATCHES = 300  # of one flow that are shown
MOST_FILES = 200  # of one directory
MOST_BYTES = 8 << 20  # of one report
PICTURES = {".svg": "image/svg+xml", ".png": "image/png"}
FETCH_SECONDS = 2.0
COUNTERS = ("batches", "events", "matches", "problems")


class Reports:
    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._seen: dict[str, deque[dict[str, Any]]] = {}  # by address of metrics: what was read so far

    # -- flows ------------------------------------------------------------------------------------

    async def flows(self, request: Request, visitor: Visitor) -> Response:
        del request, visitor
        found: dict[tuple[str, str], dict[str, Any]] = {}
        problems: dict[str, str] = {}
        for position in self._settings.flows:
            try:
                batches = await self._batches(position)
            except (OSError, ValueError, httpx.HTTPError) as error:
                problems[position] = _why(error)
                continue
            for batch in batches:
                key = (str(batch.get("flow", "?")), str(batch.get("match", "?")))
                flow = found.setdefault(
                    key, {"flow": key[0], "match": key[1], "place": position, "batches": []}
                )
                flow["batches"].append(batch)
        for flow in found.values():
            flow["batches"] = flow["batches"][-MOST_BATCHES:]
        listed = [found[key] for key in sorted(found)]
        return _json({"flows": listed, "problems": problems, "places": list(self._settings.flows)})

    async def _batches(self, position: str) -> list[dict[str, Any]]:
        if "://" not in position:
            return await asyncio.to_thread(_tail, Path(position))
        async with httpx.AsyncClient(timeout=FETCH_SECONDS, trust_env=False) as client:
            page = (await client.get(position)).raise_for_status().text
        seen = self._seen.setdefault(position, deque(maxlen=MOST_BATCHES))
        seen.extend(_scraped(page, {(one["flow"], one["match"]): one["sums"] for one in seen}))
        return list(seen)

    # -- studies ----------------------------------------------------------------------------------

    async def studies(self, request: Request, visitor: Visitor) -> Response:
        del request, visitor
        return _json(await asyncio.to_thread(self._studies))

    def _studies(self) -> dict[str, Any]:
        folder = self._settings.studies
        if not folder:
            return {"place": "", "studies": [], "problems": {}}
        studies: list[dict[str, Any]] = []
        problems: dict[str, str] = {}
        if not Path(folder).is_dir():
            problems[folder] = "there is no such directory"
        for file in _listed(Path(folder), {".json", ".jsonl"}):
            try:
                read = [one for one in _documents(file) if isinstance(one, dict) and "study" in one]
            except (OSError, ValueError) as error:
                problems[file.name] = _why(error)
                continue
            for one in read:
                pictures = [name for name in map(self._picture_of, one.get("plots") or ()) if name]
                studies.append(
                    {
                        "study": str(one["study"]),
                        "claims": [claim for claim in one.get("claims") or () if isinstance(claim, dict)],
                        "pictures": pictures,
                        "file": file.name,
                        "written": file.stat().st_mtime,
                    }
                )
        newest = {one["study"]: one for one in sorted(studies, key=lambda one: one["written"])}
        return {"place": folder, "studies": [newest[name] for name in sorted(newest)], "problems": problems}

    def _picture_of(self, plot: Any) -> str:
        """The plot's name in our folder; empty when it is not there."""
        name = Path(str(plot)).name
        known = {path.name: path for path in self._pictures()}
        return name if name in known else ""

    def _pictures(self) -> list[Path]:
        return _listed(Path(self._settings.studies), PICTURES) if self._settings.studies else []

    async def picture(self, request: Request, visitor: Visitor) -> Response:
        """A picture of a study; only those that are listed can be asked for."""
        del visitor
        name = request.path_params["name"]
        known = {path.name: path for path in await asyncio.to_thread(self._pictures)}
        if name not in known:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no such picture")
        content = await asyncio.to_thread(known[name].read_bytes)
        return Response(content, media_type=PICTURES[known[name].suffix])

    # -- quality ----------------------------------------------------------------------------------

    async def quality(self, request: Request, visitor: Visitor) -> Response:
        del request, visitor
        return _json(await asyncio.to_thread(self._quality))

    def _quality(self) -> dict[str, Any]:
        read: list[tuple[list[Any], float]] = []
        problems: dict[str, str] = {}
        for path in map(Path, self._settings.quality):
            files = _listed(path, {".json", ".jsonl"}) if path.is_dir() else [path]
            for file in files:
                try:
                    documents = [one for one in _documents(file) if isinstance(one, dict)]
                    read.append((documents, file.stat().st_mtime))
                except (OSError, ValueError) as error:
                    problems[str(file)] = _why(error)
        found, strange = organisations(read)
        if strange:
            problems["rows"] = f"{strange} have no class, property, dimension and value from 0 to 1"
        return {"places": list(self._settings.quality), "organisations": found, "problems": problems}


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value, enc_hook=str), media_type="application/json")


def _listed(folder: Path, suffixes: Any) -> list[Path]:
    if not folder.is_dir():
        return []
    found = (path for path in folder.rglob("*") if path.suffix in suffixes and path.is_file())
    return sorted(found)[:MOST_FILES]


def _documents(file: Path) -> list[Any]:
    """One JSON document, or one on each line."""
    if file.suffix == ".jsonl":
        return list(_tail(file, MOST_BYTES))
    if file.stat().st_size > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES} bytes")
    text = file.read_text(encoding="utf-8")
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def _tail(file: Path, most: int = TAIL_BYTES) -> list[dict[str, Any]]:
    """The last lines; the first of them may be a piece, and a line may be under way."""
    with file.open("rb") as source:
        size = source.seek(0, 2)
        source.seek(max(0, size - most))
        lines = source.read().split(b"\n")
    whole = lines[1:-1] if size > most else lines[:-1]
    read = [json.loads(line) for line in whole if line.strip()]
    return [one for one in read if isinstance(one, dict)]


def _scraped(page: str, before: dict[tuple[str, str], dict[str, float]]) -> list[dict[str, Any]]:
    """Counters of flows as batches: what came since they were last read."""
    from prometheus_client.parser import text_string_to_metric_families

    sums: dict[tuple[str, str], dict[str, float]] = {}
    names = {f"tidings_flow_{name}_total": name for name in COUNTERS}
    names["tidings_flow_batch_seconds_sum"] = "seconds"
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in names and "flow" in sample.labels:
                key = (sample.labels["flow"], sample.labels.get("match", ""))
                sums.setdefault(key, {})[names[sample.name]] = sample.value
    now, batches = round(time.time(), 3), []
    for (flow, match), new in sums.items():
        old = before.get((flow, match), {})
        since = {name: max(0.0, value - old.get(name, 0.0)) for name, value in new.items()}
        if since.get("batches"):
            seconds = since.get("seconds", 0.0)
            events = since.get("events", 0.0)
            batches.append(
                {"time": now, "flow": flow, "match": match, "sums": new, "batch": int(new["batches"]) - 1}
                | {name: since.get(name, 0.0) for name in ("events", "matches", "problems", "seconds")}
                | {"events_per_second": round(events / seconds, 1) if seconds else 0.0}
            )
    return batches


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
