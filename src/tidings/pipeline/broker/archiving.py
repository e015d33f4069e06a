"""Filling an archive from the brokers' logs, exactly once: the archive itself says how far it is.

Rules
- Each log is read on from its archived offset. Files and the new offset become the archive's state in one
  step; then the archiver releases the log before that offset at the broker. A crash at any point repeats
  no event and skips none.
- The broker holds the events to come: events that the policy accepts stay in the log until they are archived,
  with any lifetime. A lost hold is an error when there is a policy, because missed events cannot be known.
- A log remembers up to where it let go of archived events. An archive that reaches less far lacks them, and
  is not filled, so that it does not pass for the whole one.
- With `release`, what lives forever leaves the log once it is archived, so that a broker's disk and memory do
  not grow for ever. Then only subscriptions `since="forever"` receive it, from the archive.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tidings.archive.state import Archive
from tidings.archive.writing import ArchiveEntry, ArchiveWriter
from tidings.errors import InputError
from tidings.pipeline.broker import options
from tidings.pipeline.broker.lines import Ask, line_to
from tidings.pipeline.broker.options import GO_ON, BrokerTarget
from tidings.pipeline.broker.reading import LogSpan, next_place, pages
from tidings.protocol.messages import LogHeld

NAME = "archive"
STEP = 200_000  # entries of a log that become one change of the archive
NOTHING = "FALSE"  # a hold for its place alone: what lives forever stays by itself


class ArchivingProgress(NamedTuple):
    """Result of one step."""

    log: str
    upto: int
    archived: int
    read: int


class Archiver:
    """Fills one archive from the brokers that the options name (as those of `format("tidings")`)."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        brokers: Mapping[str, str] | str,
        *,
        policy: str | None = None,
        release: bool = False,
        step: int = STEP,
    ) -> None:
        given = {"brokers": brokers} if isinstance(brokers, str) else dict(brokers)
        self._reading = options.reading({"reader": NAME, **given})
        self._archive, self._policy, self._release, self._step = Archive(path), policy, release, step

    def run_once(self, tell: Callable[[ArchivingProgress], None] = lambda progress: None) -> int:
        """Bring the archive up to what the logs hold now; how many events came into it."""
        count = 0
        with self._archive.locked():
            writer = ArchiveWriter(self._archive, policy=self._policy)
            for where in self._reading.brokers:
                for progress in self._fill(writer, where):
                    count += progress.archived
                    tell(progress)
        return count

    def run(
        self,
        stop: threading.Event,
        *,
        every: float = 5.0,
        compact_every: int = 100,
        tell: Callable[[ArchivingProgress], None] = lambda progress: None,
    ) -> None:
        """Run until it is stopped; small files are joined now and then."""
        rounds = 0
        while True:
            self.run_once(tell)
            rounds += 1
            if rounds % compact_every == 0:
                self.compact()
            if stop.wait(every):
                return

    def compact(self) -> int:
        """Join small files; how many went."""
        with self._archive.locked():
            return ArchiveWriter(self._archive, policy=self._policy).compact()

    def _fill(self, writer: ArchiveWriter, where: BrokerTarget) -> Any:
        line = line_to(where)
        hold: LogHeld = line.ask(self._hold("", 0))
        position = writer.state.places.get(hold.log, 0)
        if self._reading.on_trimmed != GO_ON:
            self._refuse_gap(where, hold, position)
        if position > hold.end:
            next_place(where, hold.log, position)  # an error, unless others of a group are further
        for upto, entries in self._steps(where, hold.log, position, hold.end):
            before = sum(file.rows for file in writer.state.files)
            writer.append(hold.log, entries, upto)
            archived = sum(file.rows for file in writer.state.files) - before
            yield ArchivingProgress(hold.log, upto, archived, len(entries))
            position = upto
        line.ask(self._hold(hold.log, position))

    def _refuse_gap(self, where: BrokerTarget, hold: LogHeld, position: int) -> None:
        """Raise for events that are gone and not in this archive."""
        if hold.is_new and position and self._policy is not None:
            line_to(where).ask(lambda bus: bus.end_hold(self._reading.reader))
            raise InputError(
                f"no hold keeps the log {hold.log} at {where.address} for the archive any more: what "
                "the policy names "
                f"and came after offset {position} may be gone",
                hint="archive what is there with --go-on (in Python: onTrimmed is 'go on'); keepSeconds "
                "makes brokers hold longer",
            )
        if position < hold.released:
            raise InputError(
                f"the log {hold.log} at {where.address} let go of events up to offset {hold.released} "
                f"because they are archived, and {self._archive.path} reaches to {position}: it is another "
                "archive, an older copy, or not mounted",
                hint="put the archive back; or archive what is there, without the events that are gone, with "
                "--go-on (in Python: onTrimmed is 'go on')",
            )

    def _steps(
        self, where: BrokerTarget, log: str, after: int, end: int
    ) -> Iterator[tuple[int, list[ArchiveEntry]]]:
        """The entries up to the end, so many at a time, and the place up to which each part reaches. Parts
        are counted in entries: a hole of the log is passed at once."""
        if after >= end:
            return
        entries: list[ArchiveEntry] = []
        for page in pages(LogSpan(where, log, after, end, None, "tidings")):
            entries += [ArchiveEntry(offset, stored.accepted, stored.event) for offset, stored in page]
            while len(entries) >= self._step:
                part, entries = entries[: self._step], entries[self._step :]
                yield part[-1].offset, part
        yield end, entries

    def _hold(self, log: str, upto: int) -> Ask[LogHeld]:
        reading = self._reading
        return lambda bus: bus.hold_log(
            reading.reader, self._policy or NOTHING, upto=upto, seconds=reading.keep_seconds,
            releases=self._release and upto > 0, log=log,
        )  # fmt: skip
