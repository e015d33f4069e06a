"""Output of the demonstration: one line for each act, or every step, and claims that are counted.

Rules
- Brief, the default: an act is one line that names what a user gains, printed when the act is over, with the
  counts that prove it.
- With details: headings, stories, tables and claims as they come. Both count the same claims.
- A terminal sees colours and boxes, a pipe plain text; `silent` prints no output and only counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console


class DemoClaim(NamedTuple):
    """A claim and whether it holds."""

    text: str
    holds: bool
    short: str  # for the last line; empty: left out there


class Stage:
    def __init__(self, console: Console, *, silent: bool = False, details: bool = True) -> None:
        self._console = console
        self._silent = silent
        self.details = details and not silent
        self._acts = 0
        self._gain = ""  # of the act that is open
        self._skipped = ""
        self._first = 0  # claim of that act
        self.claims: list[DemoClaim] = []

    def act(self, title: str, *story: str, gain: str = "") -> None:
        """Open an act: its title, the story that the details show, and what a user gains by it."""
        self._end_act()
        self._acts += 1
        self._gain, self._first = gain or title, len(self.claims)
        if self.details:
            self._console.print()
            self._console.rule(f"[bold]{self._acts}. {title}", align="left")
        for line in story:
            self.say(line)

    def say(self, text: str, style: str = "") -> None:
        """Print a step of an act, with the details."""
        if self.details:
            self._console.print(text, style=style, markup=False, soft_wrap=True)

    def skip(self, reason: str) -> None:
        """The open act cannot be played here; its line gives the reason."""
        self._skipped = reason
        self.say(reason)

    def _end_act(self) -> None:
        """Brief: print the line of the act that is open."""
        gain, self._gain, skipped, self._skipped = self._gain, "", self._skipped, ""
        if not gain or self._silent or self.details:
            return
        proved = [claim.short for claim in self.claims[self._first :] if claim.holds and claim.short]
        mark, style = ("-", "dim") if skipped else ("ok", "green")
        if not all(claim.holds for claim in self.claims[self._first :]):
            mark, style = "NO", "bold red"
        self._console.print(f"[{style}]{mark}[/]  ", end="")
        self._console.print(gain, markup=False, style="bold", soft_wrap=True)
        self._console.print(f"    {skipped or '; '.join(proved)}", markup=False, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        if self.details:
            self._console.print(Padding(table, (1, 2)))

    def claim(self, text: str, holds: bool, short: str = "") -> None:
        """Note a claim, and show whether it holds."""
        self.claims.append(DemoClaim(text, holds, short))
        if self.details or not (holds or self._silent):
            mark, style = ("proved", "green") if holds else ("NOT SO", "bold red")
            self._console.print(f"[{style}]{mark}[/]  ", end="")
            self._console.print(text, markup=False, soft_wrap=True)

    def bow(self, seconds: float) -> None:
        """The last lines: how much was proved, and where the proofs are."""
        self._end_act()
        holding = [claim for claim in self.claims if claim.holds]
        style = "green" if len(holding) == len(self.claims) else "red"
        self._console.print()
        count = f"{len(holding)} of {len(self.claims)} claims proved in {seconds:.0f} s"
        if self.details:
            self._console.rule(style=style)
            count += ": " + "; ".join(claim.short for claim in holding if claim.short)
        self._console.print(f"{count}.", markup=False, soft_wrap=True, style=f"bold {style}")
        if not self.details:
            self._console.print("Each step and its proof: tidings demo --details", markup=False, style="dim")


class Aside(Stage):
    """Stage of an act that is played beside others: it notes calls until it is shown, then passes them on.

    Acts may play in threads."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage._console, silent=True)
        self.details = stage.details
        self._stage, self._is_shown, self._lock = stage, False, Lock()
        self._calls: list[Callable[[Stage], None]] = []

    def show(self) -> None:
        """Show the act as far as it was played, and from now on as it goes."""
        with self._lock:
            for call in self._calls:
                call(self._stage)
            self._is_shown = True

    def _note(self, call: Callable[[Stage], None]) -> None:
        with self._lock:
            if self._is_shown:
                call(self._stage)
            else:
                self._calls.append(call)

    def act(self, title: str, *story: str, gain: str = "") -> None:
        self._note(lambda stage: stage.act(title, *story, gain=gain))

    def say(self, text: str, style: str = "") -> None:
        self._note(lambda stage: stage.say(text, style))

    def skip(self, reason: str) -> None:
        self._note(lambda stage: stage.skip(reason))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        lines = list(rows)
        self._note(lambda stage: stage.table(columns, lines))

    def claim(self, text: str, holds: bool, short: str = "") -> None:
        self._note(lambda stage: stage.claim(text, holds, short))


async def side_by_side(stage: Stage, acts: Sequence[Callable[[Stage], Coroutine[Any, Any, None]]]) -> None:
    """Play acts at one time and show them in their order."""
    played = [Aside(stage) for _ in acts]
    tasks = [asyncio.create_task(act(one)) for act, one in zip(acts, played, strict=True)]
    try:
        for task, one in zip(tasks, played, strict=True):
            one.show()
            await task
    finally:
        for task in tasks:
            task.cancel()
