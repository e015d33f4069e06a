"""Where the demonstration is shown: headings, tables, and claims that are counted.

A terminal sees colours and boxes, a pipe plain text; `silent` shows nothing and only counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console


class Claim(NamedTuple):
    """Something that was found to be so, or not."""

    text: str
    holds: bool


class Stage:
    def __init__(self, console: Console, *, silent: bool = False) -> None:
        self._console = console
        self._silent = silent
        self._acts = 0
        self.claims: list[Claim] = []

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
        from rich.table import Table
        from rich.text import Text

        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        if not self._silent:
            self._console.print(table)

    def claim(self, text: str, holds: bool) -> None:
        """Note a claim, and show whether it holds."""
        self.claims.append(Claim(text, holds))
        if not self._silent:
            mark, style = ("proved", "green") if holds else ("NOT SO", "bold red")
            self._console.print(f"[{style}]{mark}[/]  ", end="")
            self._console.print(text, markup=False, soft_wrap=True)

    def bow(self, seconds: float) -> None:
        """The last line: everything that was proved, in one breath."""
        holding = [claim.text for claim in self.claims if claim.holds]
        self._console.print()
        self._console.rule(style="green" if len(holding) == len(self.claims) else "red")
        head = f"{len(holding)} of {len(self.claims)} claims proved in {seconds:.0f} s: "
        self._console.print(head + "; ".join(holding) + ".", markup=False, soft_wrap=True, style="bold")
