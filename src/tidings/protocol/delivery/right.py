"""What a subscription has a right to, under one of the filters that it had."""

from __future__ import annotations

import msgspec

from tidings.availability.records import Append
from tidings.language.evaluate import accepts
from tidings.model.filter import Filter


class Right(msgspec.Struct, array_like=True, frozen=True):
    """To what was available when it began to want a filter, and to what came while it did; as far as
    every filter that it had since wants it too (what one of them did not want was given up)."""

    filters: tuple[Filter, ...]
    since: float  # when it began to want the first of them; infinite: it wanted nothing older
    start: int  # the first offset that came while it wanted it
    stop: int  # the first that came after

    def gives(self, record: Append) -> bool:
        if record.offset >= self.stop or (record.offset < self.start and record.ends_at <= self.since):
            return False
        return all(accepts(filter, record.event) for filter in self.filters)

    def narrowed(self, filter: Filter) -> Right:
        return msgspec.structs.replace(self, filters=(*self.filters, filter))
