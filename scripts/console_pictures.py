"""Take the console's pictures from the browser tests into the docs, small; and make the tour of them.

    python -m pytest tests/browser tests/pipeline/test_console_progress.py
    python scripts/console_pictures.py

Reads artefacts/console/*.png and writes docs/images/console/*.png with few colours, and tour.webp: a page every
two seconds, the same that a person would click through.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
TAKEN = ROOT / "artefacts" / "console"
KEPT = ROOT / "docs" / "images" / "console"
WIDTH = 1000  # pixels of a picture in the docs
COLOURS = 96
TOUR = ("overlay", "overlay-swap", "broker-away", "rates", "subscriptions", "consumers", "store", "recovery", "verdict",
        "quality", "streams", "studies", "try")  # fmt: skip
TOUR_SIZE = (760, 480)
SECONDS = 2.0


def small(file: Path) -> Image.Image:
    with Image.open(file) as taken:
        picture = taken.convert("RGB")
    if picture.width > WIDTH:
        picture = picture.resize(
            (WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS
        )
    return picture


def main() -> int:
    files = sorted(TAKEN.glob("*.png"))
    if not files:
        print(f"{TAKEN} holds no picture: run the browser tests first", file=sys.stderr)
        return 2
    KEPT.mkdir(parents=True, exist_ok=True)
    size = 0
    for file in files:
        picture = small(file).quantize(COLOURS, dither=Image.Dither.NONE)
        picture.save(KEPT / file.name, optimize=True)
        size += (KEPT / file.name).stat().st_size
    scenes = [TAKEN / f"{name}-light.png" for name in TOUR] + [
        TAKEN / f"{name}-dark.png" for name in ("overlay", "try")
    ]
    frames = [scene(file) for file in scenes if file.exists()]
    tour = KEPT / "tour.webp"
    frames[0].save(
        tour,
        save_all=True,
        append_images=frames[1:],
        duration=round(1000 * SECONDS),
        loop=0,
        quality=70,
        method=4,
    )
    print(
        f"{len(files)} pictures, {size // 1024} KB; {tour.name}: {len(frames)} pages, {tour.stat().st_size // 1024} KB"
    )
    return 0


def scene(file: Path) -> Image.Image:
    """The upper part of a page, in the tour's size."""
    with Image.open(file) as taken:
        picture = taken.convert("RGB")
    height = min(picture.height, round(picture.width * TOUR_SIZE[1] / TOUR_SIZE[0]))
    return picture.crop((0, 0, picture.width, height)).resize(TOUR_SIZE, Image.Resampling.LANCZOS)


if __name__ == "__main__":
    sys.exit(main())
