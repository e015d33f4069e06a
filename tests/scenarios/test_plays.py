"""Every play in this folder is performed; its expectations judge it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidings.simulation.play import PlayError, perform

PLAYS = sorted(Path(__file__).parent.glob("*.play"))


def test_there_is_a_play_for_each_figure_that_tells_a_story() -> None:
    assert {"figure_3_1", "figure_3_4", "figure_4_1", "figure_4_3", "figure_4_9"} <= {
        play.stem for play in PLAYS
    }
    assert {
        "uarc_figure_4",
        "uarc_figure_5a",
        "uarc_figure_5b",
        "uarc_figure_6",
        "uarc_figure_6_virtual",
    } <= {play.stem for play in PLAYS}


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.stem)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_play_comes_out_as_it_says(play: Path, seed: int) -> None:
    perform(play.read_text(), seed=seed)


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.stem)
def test_an_expectation_turned_round_is_not_met(play: Path) -> None:
    text = play.read_text()
    assert " receives 1" in text or " receives 2" in text
    with pytest.raises(PlayError, match="received"):
        perform(text.replace(" receives 1", " receives 9").replace(" receives 2", " receives 9"))


def test_plays_of_the_last_version_are_read() -> None:
    text = (Path(__file__).parent / "uarc_figure_6.play").read_text()
    perform(text.replace(" receives ", " hears ").replace(" received ", " heard "))


def test_figure_4_1_uses_five_links() -> None:
    world = perform((Path(__file__).parent / "figure_4_1.play").read_text())
    assert world.simulation.sent["Forward"] == 1 + 4


def _second_view(name: str) -> float:
    """How long after the crash the new view stood everywhere."""
    world = perform((Path(__file__).parent / f"{name}.play").read_text())
    lost = min(row.time for row in world.rows if row.op == "suspect" and row.from_ == "d1")
    return max(row.time for row in world.rows if row.op == "view" and row.view == 2) - lost


def test_uar_9_the_view_comes_sooner_without_a_flush(capsys: pytest.CaptureFixture[str]) -> None:
    weak, virtual = _second_view("uarc_figure_6"), _second_view("uarc_figure_6_virtual")
    with capsys.disabled():
        print(f"\nview after {weak:.4f} s (weak), {virtual:.4f} s (virtual): {virtual - weak:.4f} s later")
    assert weak < virtual


def test_uar_9_a_view_that_stands_wrongly_is_told() -> None:
    text = (Path(__file__).parent / "uarc_figure_6.play").read_text()
    with pytest.raises(PlayError, match="received it in view 2 of d3"):
        perform(text.replace("c3 received 2 in view 2", "c3 received 2 in view 1"))
    with pytest.raises(PlayError, match="the view of d4 is 2"):
        perform(text.replace("expect d4 view 2", "expect d4 view 7"))
