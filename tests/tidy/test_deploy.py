"""Files of deploy/: as far as tools of the registries check them. Their heads say what was not run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.tidy._sources import ROOT

from tidings._version import __version__
from tidings.runtime.settings import read_settings, said_by

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "tidings"
_BESIDE = Path(sys.executable).with_name("helm")
HELM = str(_BESIDE) if _BESIDE.exists() else shutil.which("helm") or ""
VALUES = (
    {},
    {"console": {"enabled": True}, "serviceMonitor": {"enabled": True}, "replicas": 5},
    {"jetstream": "nats://n:4222/T", "processes": 4, "settings": {"TIDINGS_LOG_LEVEL": "debug"}},
    {"spread": False, "persistence": {"size": "1Gi", "storageClass": "fast"}, "nodeSelector": {"a": "b"}},
)

pytestmark = [pytest.mark.skipif(not DEPLOY.exists(), reason="a source distribution without deploy/")]


def rendered(values: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    file = folder / "values.json"
    file.write_text(json.dumps(values))
    command = [HELM, "template", "news", str(CHART), "--values", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@pytest.mark.skipif(not HELM, reason="helm is not installed")
@pytest.mark.parametrize("values", VALUES, ids=range(len(VALUES)))
def test_the_chart_renders_to_what_kubernetes_takes(values: dict[str, Any], tmp_path: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    documents = rendered(values, tmp_path)
    kinds = [each["kind"] for each in documents]
    assert {"StatefulSet", "Service", "PodDisruptionBudget"} <= set(kinds)
    for each in documents:
        if each["kind"] != "ServiceMonitor":
            validate.validate(each, "1.30", strict=True)
    (pods,) = (each["spec"] for each in documents if each["kind"] == "StatefulSet")
    (container,) = pods["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value", "") for each in container["env"] if each["name"] != "POD"}
    stated = said_by({name: value.replace("$(POD)", "news-0") for name, value in variables.items()})
    settings = read_settings(fields=stated)  # refuses what a broker would refuse
    assert settings.name == "news-0"
    assert settings.processes == values.get("processes", 1)
    assert {container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")} == {
        "/healthz", "/readyz",
    }  # fmt: skip


@pytest.mark.skipif(not HELM, reason="helm is not installed")
def test_wrong_values_are_refused(tmp_path: Path) -> None:
    (tmp_path / "values.json").write_text(json.dumps({"replica": 3}))
    done = subprocess.run(
        [HELM, "template", "news", str(CHART), "--values", str(tmp_path / "values.json")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode
    assert "replica" in done.stderr
    assert subprocess.run([HELM, "lint", str(CHART)], capture_output=True, check=False).returncode == 0


def test_versions_agree() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert f"tidings:{__version__}" in (DEPLOY / "container" / "compose.yaml").read_text()


def test_settings_of_the_compose_file_are_those_of_brokers() -> None:
    compose = yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"init", "b1", "b2", "b3", "prometheus", "grafana"}
    for name in ("b1", "b2", "b3"):
        environment = services[name]["environment"]
        settings = read_settings(fields=said_by(environment))
        assert settings.name == name
        assert settings.tls.certificate == f"/secrets/{name}.pem"
    for service in services.values():
        for volume in service.get("volumes", ()):
            position = volume.split(":")[0]
            if position.startswith("."):
                assert position == "../monitoring" or (DEPLOY / "container" / position).exists(), position
            else:
                assert position in compose["volumes"]


def test_secrets_of_the_compose_file_are_made(tmp_path: Path) -> None:
    """Its script runs here as it does in its container, but for the owner of the files."""
    (tmp_path / "bin").mkdir()
    for name, words in {"tidings": "-m tidings", "python": ""}.items():
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        program.chmod(0o755)
    (tmp_path / "bin" / "id").write_text("#!/bin/sh\necho 10001\n")
    (tmp_path / "bin" / "id").chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}
    script = ["sh", str(DEPLOY / "container" / "init.sh"), str(tmp_path / "secrets")]
    for _ in range(2):  # a second start keeps them
        subprocess.run(script, env=environment, check=True, capture_output=True)
    fields = {
        "name": "b1",
        "listen": "0.0.0.0:7117",
        "security.users": str(tmp_path / "secrets" / "users.toml"),
    }
    files = {"certificate": "b1.pem", "key": "b1.key", "authority": "authority.pem"}
    fields |= {f"tls.{name}": str(tmp_path / "secrets" / file) for name, file in files.items()}
    from tidings.runtime.secured import load_users

    assert "admin" in load_users(read_settings(fields=fields).security).keys


def test_the_containerfile_has_the_instructions_of_one() -> None:
    text = (DEPLOY / "container" / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    known = "ARG|FROM|COPY|RUN|USER|ENV|VOLUME|EXPOSE|STOPSIGNAL|HEALTHCHECK|ENTRYPOINT"
    assert not [line for line in lines if not re.match(rf"({known}) \S", line)]
    last = [line.split()[1] for line in lines if line.startswith("USER")][-1]
    assert last == "10001"
    variables = dict(re.findall(r"(TIDINGS_[A-Z_]+)=(\S+)", text))
    assert said_by(variables)["http"] == "0.0.0.0:9117"


def test_every_head_says_what_was_not_run() -> None:
    for name in ("systemd/tidings.service", "container/compose.yaml", "container/Containerfile",
                 "helm/tidings/Chart.yaml"):  # fmt: skip
        head = "".join((DEPLOY / name).read_text().splitlines(keepends=True)[:4])
        assert "Checked:" in head, name
