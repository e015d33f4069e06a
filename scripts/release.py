"""Build a release: wheels and source distributions of all four packages, checked, in `dist/`.

    python scripts/release.py                  # `make release`
    python scripts/release.py --folder out     # into another folder
    python scripts/release.py --no-install     # without the environment, which needs pip's index

Rules
- All packages have one version, and CHANGELOG.md has a section for it. The version control's state is
  printed, not judged: a release is tagged after it was built and checked.
- Metadata is validated by `packaging`, which enforces the standard more strictly than an upload does; every
  file of a wheel has the hash that its RECORD gives.
- Every wheel is installed together with the others into an empty environment, whose `tidings version --json`
  has to name one version for all. pip's own index serves the dependencies: no address is named here.
- The bill of materials (`SBOM`, CycloneDX) lists what was installed into that environment (`sbom.py`).
- Builds are reproducible: times come from the last commit (`SOURCE_DATE_EPOCH`), hashes stand in
  `SHA256SUMS`.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from packages import FOLDERS, MODULES, NAMES, ROOT, build, build_one, install, run
from packaging.metadata import Metadata
from sbom import write as write_sbom

SUMS, SBOM = "SHA256SUMS", "tidings.cdx.json"
__all__ = ["build_one"]  # of one package, for tests


def versions() -> dict[str, str]:
    """The version that each package's source states."""
    found = {}
    for key, folder in FOLDERS.items():
        text = (ROOT / folder / "src" / MODULES[key] / "_version.py").read_text()
        found[NAMES[key]] = re.findall(r'^__version__ = "(.+)"', text, re.MULTILINE)[0]
    return found


def check_sources() -> str:
    """The one version of all packages, when the changelog knows it."""
    found = versions()
    if len(set(found.values())) != 1:
        raise SystemExit(f"the packages have several versions: {found}; give them one (_version.py of each)")
    version = next(iter(found.values()))
    if not re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE):
        raise SystemExit(f"CHANGELOG.md has no section for {version}; write it first")
    return version


def check_wheel(wheel: Path) -> Metadata:
    """Valid metadata, and each file as RECORD describes it."""
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        listed = {name: digest for name, digest, _ in csv.reader(io.StringIO(archive.read(record).decode()))}
        if set(listed) != set(archive.namelist()):
            raise SystemExit(f"{wheel.name}: RECORD lists other files than the wheel holds")
        for name, digest in listed.items():
            kind, _, value = digest.partition("=")
            if name != record and value != _digest(kind, archive.read(name)):
                raise SystemExit(f"{wheel.name}: {name} is not the file that RECORD describes")
        found = archive.read(record.replace("RECORD", "METADATA"))
    return Metadata.from_email(found, validate=True)


def _digest(kind: str, data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.new(kind, data).digest()).rstrip(b"=").decode()


def check_sdist(source: Path) -> Metadata:
    """Valid metadata; every member lies below one folder that is named like the file."""
    root = source.name.removesuffix(".tar.gz")
    with tarfile.open(source) as archive:
        strays = [name for name in archive.getnames() if name.split("/")[0] != root]
        if strays:
            raise SystemExit(f"{source.name} has files outside {root}: {strays[:3]}")
        found = archive.extractfile(f"{root}/PKG-INFO")
        assert found is not None
        return Metadata.from_email(found.read(), validate=True)


def check_files(built: dict[str, tuple[Path, Path]], version: str) -> None:
    for key, (source, wheel) in built.items():
        for path, metadata in ((source, check_sdist(source)), (wheel, check_wheel(wheel))):
            if (metadata.name, str(metadata.version)) != (NAMES[key], version):
                raise SystemExit(f"{path.name} says that it is {metadata.name} {metadata.version}")
            if not metadata.description or metadata.description_content_type != "text/markdown":
                raise SystemExit(f"{path.name} has no description; pyproject.toml names a readme")
            print(f"  checked {path.name} ({path.stat().st_size // 1000} kB)", flush=True)


def check_installed(dist: Path, version: str, wheels: dict[str, Path]) -> None:
    """All wheels together in an empty environment: one version, a command that runs, and what it holds."""
    with tempfile.TemporaryDirectory() as folder:
        python = install([f"{name}=={version}" for name in NAMES.values()], dist, Path(folder) / "venv")
        stated = json.loads(run(python, "-m", "tidings", "version", "--json", cwd=Path(folder)))
        command = run(python.with_name("tidings"), "version", cwd=Path(folder))
        count = write_sbom(python, dist / SBOM, version, wheels)
    if {stated["tidings"], *stated["distributions"].values()} != {version}:
        raise SystemExit(f"the installed packages have other versions: {stated}")
    print(f"  installed into an empty environment: {command.splitlines()[0]}", flush=True)
    print(f"  {SBOM} lists {count} distributions", flush=True)


def write_sums(dist: Path, built: dict[str, tuple[Path, Path]]) -> None:
    files = sorted([*dist.glob(SBOM), *(path for pair in built.values() for path in pair)])
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (dist / SUMS).write_text("".join(lines))


def state_of_git() -> tuple[str, str]:
    """Commit and its time, for people and for reproducible archives; empty outside version control."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%h %ct"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    commit, _, seconds = done.stdout.strip().partition(" ")
    return commit, seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="of the built files")
    parser.add_argument("--no-install", action="store_true", help="check the files alone")
    chosen = parser.parse_args()
    version = check_sources()
    commit, seconds = state_of_git()
    if seconds:
        os.environ.setdefault("SOURCE_DATE_EPOCH", seconds)
    print(f"release {version}" + (f" at commit {commit}" if commit else ""), flush=True)
    dist = chosen.folder.resolve()
    dist.mkdir(parents=True, exist_ok=True)
    for old in dist.glob("tidings*"):
        old.unlink()
    built = build(dist)
    check_files(built, version)
    if not chosen.no_install:
        check_installed(dist, version, {NAMES[key]: wheel for key, (_, wheel) in built.items()})
    write_sums(dist, built)
    print(f"{2 * len(built)} files and {SUMS} in {chosen.folder}; tag it: git tag -a v{version}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
