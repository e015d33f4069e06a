"""People and organisations from a seed: codes as Italy makes them, errors of every kind."""

from __future__ import annotations

from datetime import date
from random import Random

from tidings_quality.generate import (
    DIRT,
    LOCAL,
    Dirt,
    check_letter,
    fiscal_code,
    generated_rows,
    mistyped,
    number_of,
    population,
)


def test_fiscal_codes_are_those_of_the_thesis() -> None:
    """Section 5.3.1 has two codes.

    The first is right to its last letter; the second's check letter is not.
    """
    born = date(1973, 6, 17)
    assert fiscal_code("Massimo", "Mecella", born, "H501", female=False) == "MCLMSM73H17H501F"
    born = date(1974, 11, 30)
    assert fiscal_code("Monica", "Scannapieco", born, "G230", female=True)[:15] == "SCNMNC74S70G230T"[:15]
    assert check_letter("SCNMNC74S70G230") == "U"
    assert fiscal_code("Gianfranco", "Fo", born, "H501", female=False)[:6] == "FOXGFR"


def test_a_seed_gives_the_same_data_and_another_seed_other() -> None:
    people = population(50, 1)
    assert people == population(50, 1) != population(50, 2)
    assert (
        generated_rows("INPS", people, 1)
        == generated_rows("INPS", people, 1)
        != generated_rows("INPS", people, 2)
    )


def test_every_kind_of_error_is_made_about_as_often_as_was_said() -> None:
    people = population(3000, 4)
    for organisation, dirt in DIRT.items():
        rows = generated_rows(organisation, people, 4)
        name, address, code = LOCAL[organisation]
        assert abs(len(rows) / len(people) - dirt.holds) < 0.05
        assert abs(sum(row[code] is None for row in rows) / len(rows) - dirt.missing) < 0.03
        wrong = [row for row in rows if row[code] not in (None, people[number_of(row["id"])].code)]
        assert abs(len(wrong) / len(rows) - dirt.typo * (1 - dirt.missing)) < 0.03
        stale = [row for row in rows if row[address] == people[number_of(row["id"])].moved]
        assert abs(len(stale) / len(rows) - dirt.stale) < 0.05
        initials = [row for row in rows if row[name] and row[name][1:3] == ". "]
        assert abs(len(initials) / len(rows) - dirt.initial) < 0.05


def test_clean_data_is_the_truth() -> None:
    people = population(20, 2)
    clean = Dirt(holds=1, typo=0, initial=0, missing=0, stale=0, wrong_town=0)
    for row, person in zip(generated_rows("CoC", people, 2, clean), people, strict=True):
        assert (row["Name"], row["Address"], row["FiscalCode"]) == (person.name, person.street, person.code)


def test_a_mistyped_text_is_another() -> None:
    rng = Random(3)
    assert all(mistyped(text, rng) != text for text in ("aa", "Roma", "x") for _ in range(200))
