"""Output of the demonstration: headings, tables, and claims that are counted.

A terminal sees colours and boxes, a pipe plain text; `silent` prints no output and only counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console


class DemoClaim(NamedTuple):
    """A claim and whether it holds."""

    text: str
    holds: bool
    short: str  # for the last line; empty: left out there


class Stage:
    def __init__(self, console: Console, *, silent: bool = False) -> None:
        self._console = console
        self._silent = silent
        self._acts = 0
        self.claims: list[DemoClaim] = []

    def act(self, title: str, *story: str) -> None:
        """Open an act: its number, its title, and what is about to be shown."""
        self._acts += 1
        if not self._silent:
            self._console.print()
            self._console.rule(f"[bold]{self._acts}. {title}", align="left")
        for line in story:
            self.say(line)

    def say(self, text: str, style: str = "") -> None:
        if not self._silent:
            self._console.print(text, style=style, markup=False, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        if not self._silent:
            self._console.print(Padding(table, (1, 2)))

    def claim(self, text: str, holds: bool, short: str = "") -> None:
        """Note a claim, and show whether it holds."""
        self.claims.append(DemoClaim(text, holds, short))
        if not self._silent:
            mark, style = ("proved", "green") if holds else ("NOT SO", "bold red")
            self._console.print(f"[{style}]{mark}[/]  ", end="")
            self._console.print(text, markup=False, soft_wrap=True)

    def bow(self, seconds: float) -> None:
        """The last line: what was proved, with its counts."""
        holding = [claim for claim in self.claims if claim.holds]
        style = "green" if len(holding) == len(self.claims) else "red"
        self._console.print()
        self._console.rule(style=style)
        count = f"{len(holding)} of {len(self.claims)} claims proved in {seconds:.0f} s"
        proved = "; ".join(claim.short for claim in holding if claim.short)
        self._console.print(f"{count}: {proved}.", markup=False, soft_wrap=True, style=f"bold {style}")
