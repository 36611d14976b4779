"""What a query's window holds now, kept up to date as time goes: the complete variant.

waiting   in order of their latest timestamp: not in the window yet, since it ends before now
held      in order of their earliest timestamp: in the window
"""

from __future__ import annotations

import numpy as np

from millstream.core.instant import GONE_NEVER, Micros
from millstream.psoup.combinations import Combinations, Run
from millstream.psoup.query import Now, Query, window_at


class Current:
    def __init__(self, query: Query, sources: int, now: Micros) -> None:
        self._query, self._sources = query, sources
        self.now = now
        self.scheduled: Micros = GONE_NEVER
        """When somebody will look at `due` again."""
        self._held = Run(sources)
        self._waiting = Combinations.none(sources)

    @property
    def combinations(self) -> Combinations:
        return self._held.combinations

    @property
    def due(self) -> Micros:
        """The instant at which something enters or leaves, if nothing is added before."""
        next_ = GONE_NEVER
        if len(self._waiting) and isinstance(self._query.end, Now):
            next_ = int(self._waiting.latest[0]) + self._query.end.minus_us
        if len(self._held) and isinstance(self._query.begin, Now):
            next_ = min(next_, int(self._held.combinations.earliest[0]) + self._query.begin.minus_us + 1)
        return next_

    def add(self, more: Combinations, now: Micros) -> None:
        """New results of the clause; nothing is due at this instant that has not been done."""
        self.now = max(self.now, now)
        begin, end = window_at(self._query, self.now)
        more = more.in_order()
        later = more.latest > end
        self._enter(more[~later & (more.earliest >= begin)])
        if isinstance(self._query.end, int):
            later &= more.latest <= self._query.end
        if later.any():
            waiting = Combinations.concat([self._waiting, more[later]])
            self._waiting = waiting[np.argsort(waiting.latest, kind="stable")]

    def advance(self, now: Micros) -> None:
        self.now = now
        begin, end = window_at(self._query, now)
        entering = int(np.searchsorted(self._waiting.latest, end, "right"))
        ready, self._waiting = self._waiting[:entering].in_order(), self._waiting[entering:]
        self._held.drop_before(begin)
        self._enter(ready[ready.earliest >= begin])

    def drop_before(self, instant: Micros) -> None:
        """Rows with earlier timestamps are gone, and all that they are part of."""
        if len(self._held) and self._held.combinations.earliest[0] < instant:
            self._held.drop_before(instant)
        if len(self._waiting):
            self._waiting = self._waiting[self._waiting.earliest >= instant]

    @property
    def nbytes(self) -> int:
        return 8 * (self._sources + 2) * (len(self._held) + len(self._waiting))

    def _enter(self, more: Combinations) -> None:
        if not len(more):
            return
        if len(self._held) and more.earliest[0] < self._held.combinations.earliest[-1]:
            more = Combinations.concat([self._held.combinations, more]).in_order()
            self._held = Run(self._sources)
        self._held.append(more)
