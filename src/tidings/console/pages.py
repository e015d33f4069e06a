"""The console's own files: read once from the package, and served with their digest.

Only paths in the table are served. A browser revalidates each time and
gets `not modified`, so that a new version is seen at once.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from tidings.errors import ExtensionError
from tidings.extensions import blaming, load_all, pass_over

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
SMALL = 1_000  # bytes that are not worth packing


class StaticFile(NamedTuple):
    content: bytes
    packed: bytes
    media: str
    digest: str


@cache
def table() -> dict[str, StaticFile]:
    """By path, as a browser asks for it."""
    found = dict(_read(files("tidings.console") / "static", ""))
    for name, folder in load_all("tidings.console", ()):
        try:
            with blaming("tidings.console", name):
                found.update(_read(folder, f"/extensions/{name}"))
        except ExtensionError as error:
            pass_over(error)
    return found | {"/": found["/index.html"]}


def _read(folder: Traversable, path: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for entry in folder.iterdir():
        location = f"{path}/{entry.name}"
        if entry.is_dir():
            found += _read(entry, location)
        else:
            suffix = "." + entry.name.rpartition(".")[2]
            if suffix in TYPES:
                content = entry.read_bytes()
                digest = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
                found.append(
                    (location, StaticFile(content, gzip.compress(content, 6, mtime=0), TYPES[suffix], digest))
                )
    return found


async def serve(request: Request) -> Response:
    file = table().get(request.url.path)
    if file is None:
        return Response("there is no such page\n", HTTPStatus.NOT_FOUND, media_type="text/plain")
    headers = {"ETag": file.digest, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.digest:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    content = file.content
    if len(content) > SMALL and "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = file.packed, "gzip"
    return Response(content, media_type=file.media, headers=headers)
