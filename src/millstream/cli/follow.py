"""Following queries while they run: their new changes, and how fast things go."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa
from rich.console import Console

from millstream.api import Database, Query
from millstream.cli.display import change_lines, show_frontier
from millstream.core.instant import BEGINNING, NEVER_BEFORE, UNITS, Micros

LINES_AT_ONCE = 200
"""More changes than this in one go are counted, not printed, on a terminal: nobody could read them."""


class Follower:
    """The changes of one query that have not been printed yet.

    All changes of an instant are committed together, so "later than the last instant seen" misses none.
    """

    def __init__(self, query: Query, *, since: Micros | None = None) -> None:
        self.query = query
        self.printed = 0
        self._seen = since

    def new_changes(self) -> pa.Table:
        table = self.query.changes(since=self._seen)
        if table.num_rows:
            self._seen = table["instant"][-1].cast(pa.int64()).as_py()
        return table

    def print_new(self, console: Console) -> None:
        table = self.new_changes()
        self.printed += table.num_rows
        shown = table.slice(max(0, table.num_rows - LINES_AT_ONCE)) if console.is_terminal else table
        if shown.num_rows < table.num_rows:
            console.print(f"[dim]{self.query.name}  ... {table.num_rows - shown.num_rows:,} changes not shown[/dim]")
        for line in change_lines(self.query.name, shown):
            console.print(line, soft_wrap=True)


@dataclass
class Pace:
    """Rows a second since the last look, the least frontier, and how far answers are behind their streams."""

    db: Database
    _rows: int = 0
    _at: float = 0.0

    def __post_init__(self) -> None:
        self._rows, self._at = self._total(), time.perf_counter()

    def line(self) -> str:
        """What is not there yet is not mentioned."""
        rows, now = self._total(), time.perf_counter()
        rate = (rows - self._rows) / max(now - self._at, 1e-6)
        self._rows, self._at = rows, now
        queries = self.db.queries()
        frontier = min((query.frontier for query in queries), default=NEVER_BEFORE)
        ahead = max((stream.frontier for stream in self.db.streams()), default=NEVER_BEFORE)
        late, rejected = sum(stream.late for stream in self.db.streams()), sum(stream.rejected for stream in self.db.streams())
        if not rows and not late and not rejected and frontier <= BEGINNING:
            return "no rows yet"
        line = f"{rows:,} rows in, {rate:,.0f} rows/s, {late:,} late" + (f", {rejected:,} rejected" if rejected else "")
        if frontier <= BEGINNING:
            return line
        return f"{line}; answers final up to {show_frontier(frontier)}, lag {max(0, ahead - frontier) / UNITS['SECOND']:.1f} s"

    def totals(self) -> str:
        return f"{self._total():,} rows in"

    def _total(self) -> int:
        return sum(stream.rows for stream in self.db.streams())
