"""Three organisations with copies of the same people, drawn from a seed and made dirty on purpose.

The truth is a population with names, addresses and fiscal codes (made as Italy's are: letters of the
names, date and place of birth, a check letter). Each organisation holds a part of it, under the
names of its own schema, with errors of its own kinds: letters mistyped, first names cut to an
initial, values missing, addresses that were right some years ago, postcodes of another town. How much
of each is `DIRT`. The errors are known, so that every measure can be compared with the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

FIRST = (
    "Massimo", "Monica", "Antonino", "Roberto", "Tiziana", "Carlo", "Giulia", "Marco", "Francesca", "Paolo",
    "Chiara", "Luca", "Elena", "Davide", "Sara", "Stefano", "Laura", "Giorgio", "Silvia", "Matteo",
)  # fmt: skip
LAST = (
    "Mecella", "Scannapieco", "Virgillito", "Baldoni", "Catarci", "Batini", "Rossini", "Marchetti", "Conti",
    "Ferrari", "Esposito", "Bianchi", "Romano", "Colombo", "Ricci", "Marino", "Lombardi", "Barbieri",
    "Fontana",
    "Santoro", "Mariani", "Rinaldi", "Caruso", "Ferrara", "Galli", "Martini", "Leonardi", "Vitale", "Serra",
    "Coppola",
)  # fmt: skip
STREETS = ("Via dei Gracchi", "Via Mazzini", "Corso Italia", "Via Garibaldi", "Via Verdi", "Piazza Dante",
    "Viale Europa",
           "Via San Martino", "Via Cavour", "Via Nazionale", "Via Salaria", "Via Appia")  # fmt: skip
TOWNS = {  # name -> (postcode, code of the place)
    "Roma": ("00185", "H501"), "Milano": ("20121", "F205"), "Pagani": ("84016", "G230"),
    "Torino": ("10121", "L219"),
    "Napoli": ("80133", "F839"), "Bologna": ("40121", "A944"), "Firenze": ("50122", "D612"),
    "Bari": ("70121", "A662"),
}  # fmt: skip
MONTHS = "ABCDEHLMPRST"
ODD = dict(zip(
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14,
        16, 10, 22, 25, 24, 23),
    strict=True,
))  # fmt: skip
NOW = datetime(2026, 1, 1, tzinfo=UTC)
VOWELS = "AEIOU"


class GeneratedPerson(NamedTuple):
    number: int
    first: str
    last: str
    street: str
    town: str
    code: str
    moved: str  # the street before this one

    @property
    def name(self) -> str:
        return f"{self.first} {self.last}"


class Dirt(msgspec.Struct, frozen=True, kw_only=True):
    """Rate of each kind of error, and the share of the people that is held."""

    holds: float = 0.8
    typo: float = 0.08
    initial: float = 0.05
    missing: float = 0.04
    stale: float = 0.10
    wrong_town: float = 0.03
    years: float = 6.0  # the oldest row


DIRT = {
    "INPS": Dirt(holds=0.9, typo=0.05, stale=0.05),
    "INAIL": Dirt(holds=0.6, typo=0.12, missing=0.10, stale=0.15),
    "CoC": Dirt(holds=0.75, initial=0.15, wrong_town=0.08),
}
LOCAL = {  # organisation -> its columns for name, address and fiscal code, as in the running example
    "INPS": ("OwnerName", "OwnerAddress", "OwnerCode"),
    "INAIL": ("FullName", "Residence", "TaxCode"),
    "CoC": ("Name", "Address", "FiscalCode"),
}
GLOBAL = ("Name", "Address", "FiscalCode")


def fiscal_code(first: str, last: str, born: date, position: str, *, female: bool) -> str:
    """Italy's code for a person: 15 signs from who he is, and one that checks them."""
    consonants = [sign for sign in first.upper() if sign.isalpha() and sign not in VOWELS]
    if len(consonants) >= 4:  # noqa: SIM108 - of many consonants of a first name the second is passed over
        letters = consonants[0] + consonants[2] + consonants[3]
    else:
        letters = _three(first)
    day = born.day + (40 if female else 0)
    body = f"{_three(last)}{letters}{born.year % 100:02}{MONTHS[born.month - 1]}{day:02}{position}"
    return body + check_letter(body)


def _three(name: str) -> str:
    letters = [sign for sign in name.upper() if sign.isalpha()]
    ordered = [sign for sign in letters if sign not in VOWELS] + [sign for sign in letters if sign in VOWELS]
    return ("".join(ordered) + "X" * 3)[:3]


def check_letter(body: str) -> str:
    odd = sum(ODD[sign] for sign in body[::2])
    even = sum(int(sign) if sign.isdigit() else ord(sign) - ord("A") for sign in body[1::2])
    return chr(ord("A") + (odd + even) % 26)


def population(count: int, seed: int) -> list[GeneratedPerson]:
    """The truth."""
    rng = Random(f"{seed}/population")
    people = []
    for number in range(count):
        first, last = rng.choice(FIRST), rng.choice(LAST)
        born = date(1930, 1, 1) + timedelta(days=rng.randrange(80 * 365))
        position = rng.choice(list(TOWNS.values()))[1]
        code = fiscal_code(first, last, born, position, female=first.endswith("a"))
        here, before = (f"{rng.choice(STREETS)} {rng.randint(1, 200)}" for _ in range(2))
        people.append(GeneratedPerson(number, first, last, here, rng.choice(list(TOWNS)), code, before))
    return people


def mistyped(text: str, rng: Random) -> str:
    """One letter left out, doubled, replaced, or two exchanged; never the same text."""
    while True:
        position = rng.randrange(len(text))
        here, after = text[position], text[position + 1 :]
        made = text[:position] + rng.choice(
            (after, here + here + after, rng.choice("aeioulnrst") + after, after[:1] + here + after[1:])
        )
        if made != text and made:
            return made


def row_of(organisation: str, person: GeneratedPerson, rng: Random, dirt: Dirt) -> dict[str, Any]:
    """A person as an organisation holds him."""
    age = timedelta(days=rng.random() * 365 * dirt.years)
    name, street, code, town = person.name, person.street, person.code, person.town
    if rng.random() < dirt.initial:
        name = f"{person.first[0]}. {person.last}"
    if rng.random() < dirt.stale:
        street, age = person.moved, age + timedelta(days=365 * 2)
    values: list[str | None] = [
        None if rng.random() < dirt.missing else mistyped(text, rng) if rng.random() < dirt.typo else text
        for text in (name, street, code)
    ]
    postcode = TOWNS[rng.choice(list(TOWNS)) if rng.random() < dirt.wrong_town else town][0]
    return {
        "id": f"{organisation}-{person.number:07}",
        **dict(zip(LOCAL[organisation], values, strict=True)),
        "town": town,
        "postcode": postcode,
        "updated": NOW - age,
    }


def generated_rows(
    organisation: str, people: Sequence[GeneratedPerson], seed: int, dirt: Dirt | None = None
) -> list[dict[str, Any]]:
    """All rows of an organisation."""
    dirt = dirt or DIRT[organisation]
    rng = Random(f"{seed}/{organisation}")
    return [row_of(organisation, person, rng, dirt) for person in people if rng.random() < dirt.holds]


def truth_for(organisation: str, people: Sequence[GeneratedPerson]) -> list[dict[str, Any]]:
    """The right values under the keys of an organisation: its reference data."""
    return [
        {
            "id": f"{organisation}-{each.number:07}",
            "name": each.name,
            "address": each.street,
            "code": each.code,
        }
        for each in people
    ]


def number_of(key: str) -> int:
    """Person that a row is about; only the generator of the data knows."""
    return int(key.rpartition("-")[2])


def plan_text(organisation: str) -> str:
    """The plan of an organisation's factory, as TOML; tables lie beside the file."""
    name, address, code = LOCAL[organisation]
    reference = '{{ table = "reference.parquet", key = "id", column = "{}" }}'.format
    return f"""\
organisation = "{organisation}"
class = "Enterprise/Holder"
table = "holders"
key = "id"
updated = "updated"
state = "quality"

[properties.Name]
column = "{name}"
reference = {reference("name")}
volatility = "20 years"

[properties.Address]
column = "{address}"
parts = ["{address}", "town", "postcode"]
reference = {reference("address")}
volatility = "10 years"

[properties.FiscalCode]
column = "{code}"
reference = {reference("code")}

[rules.code-is-well-formed]
of = ["FiscalCode"]
check = "{code} RLIKE '^[A-Z]{{6}}[0-9]{{2}}[A-EHLMPRST][0-9]{{2}}[A-Z][0-9]{{3}}[A-Z]$'"

[rules.code-fits-the-name]
of = ["Name", "FiscalCode"]
check = '''substring(translate(upper(element_at(split({name}, ' '), -1)), 'AEIOU', ''), 1, 3)
 = substring({code}, 1, 3)'''

[dependencies.postcode-of-the-town]
of = ["Address"]
from = ["town"]
to = ["postcode"]
"""


def write_organisation(folder: Path, organisation: str, people: Sequence[GeneratedPerson], seed: int) -> int:
    """Table, reference and plan of an organisation, as files; the number of its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / organisation
    (path / "holders").mkdir(parents=True, exist_ok=True)
    rows = generated_rows(organisation, people, seed)
    pq.write_table(arrow_of(organisation, rows), path / "holders" / "0000.parquet")
    pq.write_table(pa.Table.from_pylist(truth_for(organisation, people)), path / "reference.parquet")
    (path / "factory.toml").write_text(plan_text(organisation))
    return len(rows)


def arrow_of(organisation: str, rows: Sequence[dict[str, Any]]) -> Any:
    import pyarrow as pa

    texts = ("id", *LOCAL[organisation], "town", "postcode")
    kinds = [(name, pa.string()) for name in texts]
    return pa.Table.from_pylist(list(rows), pa.schema([*kinds, ("updated", pa.timestamp("us", "UTC"))]))


def append_rows(folder: Path, organisation: str, rows: Sequence[dict[str, Any]]) -> Path:
    """New versions of rows as one more file of the table; it appears whole or not at all."""
    import pyarrow.parquet as pq

    path = folder / organisation / "holders"
    number = 1 + max((int(each.stem) for each in path.glob("[0-9]*.parquet")), default=-1)
    draft = path / f"_{number:04}"  # readers pass over names that begin with _
    pq.write_table(arrow_of(organisation, rows), draft)
    return draft.rename(path / f"{number:04}.parquet")
