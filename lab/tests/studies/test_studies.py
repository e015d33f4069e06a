"""Studies: they are found by name, and what they print has one shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidings.cli import main, output
from tidings.errors import SettingsError
from tidings_lab.studies.study import PaperClaim, StudySetting, find_study, study_names

FIELDS = {
    "id", "claim", "paper", "expected", "erratum", "ours", "tolerance", "reproduced", "verdict", "kind",
    "where",
    "interval", "seeds", "reason", "source", "built", "arithmetic", "at",
}  # fmt: skip
KNOWN = {"locality", "notification-loss", "policies", "rendezvous"}


def test_every_study_is_found_by_its_name() -> None:
    assert set(study_names()) >= KNOWN
    for name in study_names():
        study = find_study(name)
        assert study.name == name
        assert study.title
        assert study.answers
    with pytest.raises(SettingsError, match="no study is called 'weather'"):
        find_study("weather")


def test_the_study_of_policies_prints_its_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output.console.cache_clear()  # consoles hold the streams of their time
    output.errors.cache_clear()
    command = ["study", "run", "policies", "--quick", "--json", "--plots", str(tmp_path)]
    assert main(command) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {"study", "claims", "plots"}
    assert printed["study"] == "policies"
    assert len(printed["claims"]) == 13
    for claim in printed["claims"]:
        assert set(claim) == FIELDS
        assert claim["id"] == "VIR2-6"
        assert (claim["reproduced"], claim["verdict"]) == (True, "held")
        assert claim["built"] is (claim["kind"] != "our own")  # the systems were built by Table 2.1
    kinds = [claim["kind"] for claim in printed["claims"]]
    assert (kinds.count("printed words"), kinds.count("our own")) == (12, 1)
    assert {Path(path).suffix for path in printed["plots"]} == {".png", ".svg"}
    assert all(Path(path).stat().st_size > 0 for path in printed["plots"])


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(KNOWN - {"policies"}))
def test_every_claim_of_a_quick_study_has_an_answer(name: str) -> None:
    claims = find_study(name).run(StudySetting(quick=True)).claims
    assert claims
    for claim in claims:
        assert isinstance(claim, PaperClaim)
        assert claim.ours is not None
        assert claim.tolerance is not None
