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


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.stem)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_play_comes_out_as_it_says(play: Path, seed: int) -> None:
    perform(play.read_text(), seed=seed)


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.stem)
def test_an_expectation_turned_round_is_not_met(play: Path) -> None:
    text = play.read_text()
    assert " hears 1" in text or " hears 2" in text
    with pytest.raises(PlayError, match="heard"):
        perform(text.replace(" hears 1", " hears 9").replace(" hears 2", " hears 9"))


def test_figure_4_1_uses_five_links() -> None:
    world = perform((Path(__file__).parent / "figure_4_1.play").read_text())
    assert world.simulation.sent["Forward"] == 1 + 4
