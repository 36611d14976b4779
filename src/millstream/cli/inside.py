"""What the commands need of a database beyond its public surface.

One place, so that it is plain what would have to become public for commands written elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from millstream.api import Database
from millstream.core.errors import MillstreamError
from millstream.core.instant import Micros
from millstream.language.catalog import StreamEntry
from millstream.language.parser import parse_one
from millstream.runtime.statements import SourceManager


def definition(db: Database, name: str) -> str | None:
    """The statement that made the object of this name, None if there is no such object."""
    for saved in db._statements._file.entries:
        if getattr(parse_one(saved.sql), "name", "").lower() == name.lower():
            return saved.sql
    return None


def tick_seconds(db: Database) -> list[float]:
    """How long each of the last ticks took, up to a thousand of them."""
    return [report.seconds for report in db._engine.reports]


def remove(db: Database, name: str, rows: pa.Table, at: Micros | None) -> None:
    """Take rows out of a relation: one copy of each."""
    db._statements.remove(name, rows, at)


@contextmanager
def sources_held(db: Database) -> Iterator[None]:
    """Sources of streams that are created inside start to read only at the end.

    So the queries of a script see their streams from the first row on, however fast the sources are.
    """
    real = db._statements._sources
    if real is None:
        yield
        db.flush()
        return
    held = _Held(real)
    db._statements._sources = held
    try:
        yield
        # a query that has not ticked yet would begin where the first rows have already moved the frontier
        db.flush()
    finally:
        db._statements._sources = real
    for entry in held.waiting.values():
        real.start(entry)


class _Held:
    """Stands in for the sources: notes what is to start, passes on everything else."""

    def __init__(self, real: SourceManager) -> None:
        self.waiting: dict[str, StreamEntry] = {}
        self._real = real

    def start(self, entry: StreamEntry) -> None:
        self.waiting[entry.name] = entry

    def stop(self, name: str) -> None:
        if self.waiting.pop(name, None) is None:
            self._real.stop(name)

    def note_failure(self, name: str, error: MillstreamError) -> None:
        self._real.note_failure(name, error)
