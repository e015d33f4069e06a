"""The report as PDF: the same page, printed by Chromium."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tidings.errors import MissingDependencyError, TidingsError

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_SECONDS = 300.0


def print_to_pdf(page: Path) -> Path:
    """`report.pdf` beside the page."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name)) is not None), None)
    if browser is None:
        raise MissingDependencyError(
            "no Chromium is installed, so the report cannot be printed",
            hint="install chromium, or open the page and print it from a browser",
        )
    to = page.resolve().with_name("report.pdf")
    with TemporaryDirectory() as profile:
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
            "--no-pdf-header-footer", "--generate-pdf-document-outline",
            f"--print-to-pdf={to}", page.resolve().as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=False)  # noqa: S603
    if done.returncode or not to.exists():
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise TidingsError(
            f"{browser} could not print {page}: {' '.join(last) or done.returncode}",
            hint="open the page in a browser and print it",
        )
    return to
