"""A flow explained: its graph as text, as Mermaid or as an SVG picture, with strategies and sizes.

It needs no Spark: sizes come from the files themselves, where this machine can see them.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, Final, NamedTuple

from tidings.pipeline.flow_kinds import KINDS, InputSize
from tidings.pipeline.flows import Flow, FlowPart
from tidings.pipeline.sizing import BYTES_EACH

FORMATS: Final = ("text", "mermaid", "svg")
_MB: Final = 2**20


class PictureBox(NamedTuple):
    """One thing of the flow, in its column of the picture."""

    id: str
    column: int
    lines: tuple[str, ...]


def boxes(flow: Flow) -> list[PictureBox]:
    found = [
        PictureBox(f"source-{name}", 0, _part("source", name, "sources", part))
        for name, part in flow.sources.items()
    ]
    found += [
        PictureBox(f"subscriptions-{name}", 0, _part("subscriptions", name, "subscriptions", part))
        for name, part in flow.subscriptions.items()
    ]
    found += [
        PictureBox(f"match-{name}", 1, ("match " + name, *_strategy(flow, name))) for name in flow.matches
    ]
    found += [
        PictureBox(f"sink-{name}", 2, _part("sink", name, "sinks", part)) for name, part in flow.sinks.items()
    ]
    return found


def arrows(flow: Flow) -> Iterator[tuple[str, str]]:
    for name, match in flow.matches.items():
        yield f"source-{match.events}", f"match-{name}"
        yield f"subscriptions-{match.subscriptions}", f"match-{name}"
    for name, sink in flow.sinks.items():
        yield f"match-{sink.of}", f"sink-{name}"


def _part(word: str, name: str, table: str, part: FlowPart) -> tuple[str, ...]:
    kind = KINDS[table][part.kind]
    lines = [f"{word} {name}", kind.says(part.settings)]
    size = kind.size(part.settings)
    if table != "sinks":
        lines.append(_size(size))
    else:
        lines.append("exactly once" if kind.once else "again after a crash")
    return tuple(lines)


def _size(size: InputSize | None) -> str:
    if size is None:
        return "size not known here"
    rows = "" if size.rows is None else f"{size.rows:,} rows, "
    return f"{rows}{size.files:,} files, {size.bytes / _MB:,.1f} MB"


def _strategy(flow: Flow, name: str) -> Iterator[str]:
    match = flow.matches[name]
    every = flow.every(name)
    yield f"{match.output}; " + ("as soon as there are events" if every is None else f"every {every}")
    table = flow.subscriptions[match.subscriptions]
    size = KINDS["subscriptions"][table.kind].size(table.settings)
    stored = "the table is held by every executor, mapped into memory"
    if size is None or size.rows is None:
        yield stored
    else:
        yield f"{stored}: about {size.rows * BYTES_EACH / _MB:,.1f} MB"


def as_text(flow: Flow) -> str:
    """The graph, a match at a time."""
    by_id = {box.id: box for box in boxes(flow)}
    lines = [f"flow {flow.name} ({flow.file})", f"checkpoint {flow.checkpoint}"]
    for name, match in flow.matches.items():
        lines.append("")
        for above in (f"source-{match.events}", f"subscriptions-{match.subscriptions}"):
            lines += _described(by_id[above], "")
        lines += _described(by_id[f"match-{name}"], "└─> ")
        for sink in flow.sinks_of(name):
            lines += _described(by_id[f"sink-{sink}"], "    └─> ")
    return "\n".join(lines)


def _described(box: PictureBox, lead: str) -> list[str]:
    return [lead + box.lines[0], *(" " * len(lead) + "  " + line for line in box.lines[1:])]


def as_mermaid(flow: Flow) -> str:
    lines = ["flowchart LR"]
    for box in boxes(flow):
        label = "<br>".join(escape(line, quote=False).replace('"', "#quot;") for line in box.lines)
        lines.append(f'  {box.id}["{label}"]')
    lines += [f"  {one} --> {other}" for one, other in arrows(flow)]
    return "\n".join(lines)


_WIDTH, _GAP, _LINE, _PAD = 360, 80, 18, 10


def as_svg(flow: Flow) -> str:
    """Three columns of boxes, with arrows from left to right."""
    all_boxes = boxes(flow)
    heights = [0, 0, 0]
    at: dict[str, tuple[int, int, int]] = {}
    for box in all_boxes:
        height = 2 * _PAD + _LINE * len(box.lines)
        at[box.id] = (_PAD + box.column * (_WIDTH + _GAP), _PAD + heights[box.column], height)
        heights[box.column] += height + _PAD
    width, height = 3 * _WIDTH + 2 * _GAP + 2 * _PAD, max(heights) + _PAD
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        f"<title>flow {escape(flow.name)}</title>",
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z"/></marker></defs>',
        *(_box(box, *at[box.id]) for box in all_boxes),
        *(_arrow(at[one], at[other]) for one, other in arrows(flow)),
        "</svg>",
    ]
    return "\n".join(parts)


def _box(box: PictureBox, x: int, y: int, height: int) -> str:
    texts = "".join(
        f'<text x="{x + _PAD}" '
        f'y="{y + _PAD + _LINE * (number + 1) - 5}"{weight}>{escape(_short(line))}</text>'
        for number, line in enumerate(box.lines)
        for weight in [' font-weight="bold"' if number == 0 else ""]
    )
    frame = f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{height}" rx="6" fill="#f4f4f8" stroke="#556"/>'
    return frame + texts


def _short(line: str, most: int = 58) -> str:
    return line if len(line) <= most else f"{line[: most // 3]}…{line[-(most * 2 // 3) :]}"


def _arrow(one: tuple[int, int, int], other: tuple[int, int, int]) -> str:
    x1, y1 = one[0] + _WIDTH, one[1] + one[2] // 2
    x2, y2 = other[0], other[1] + other[2] // 2
    middle = (x1 + x2) // 2
    path = f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"
    return f'<path d="{path}" fill="none" stroke="#556" marker-end="url(#tip)"/>'


def as_json(flow: Flow) -> dict[str, Any]:
    return {
        "flow": flow.name,
        "checkpoint": flow.checkpoint,
        "parameters": flow.parameters,
        "boxes": [{"id": box.id, "says": list(box.lines)} for box in boxes(flow)],
        "arrows": [list(arrow) for arrow in arrows(flow)],
    }
