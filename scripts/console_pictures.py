"""Take the console's pictures from the browser tests into the docs, small.

    python -m pytest tests/browser tests/together/test_console_progress.py
    python scripts/console_pictures.py

Reads artefacts/console/*.png and writes docs/images/console/*.png with few colours.
The tour is recorded by `scripts/console_tour.py`.
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
    print(f"{len(files)} pictures, {size // 1024} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
