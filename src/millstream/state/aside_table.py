"""Rows that a stream keeps aside, in a table of their own beside its log: late ones, and those that it could not take.

    commit of the log, with the names of these chunks ──► publish ──► commit of this table
                                                   └─ crash ──► publish at the next open

The log's commit decides; this table follows, once.  Not thread-safe: the log has the lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.core.instant import Micros
from millstream.state.atomic import remove_file
from millstream.state.chunk import ChunkInfo
from millstream.state.fault import fault_point
from millstream.state.timed_table import TimedTable

_PUBLISHED = "stream version"


class AsideTable:
    def __init__(self, directory: Path, schema: pa.Schema, time_column: str, state: dict[str, Any] | None, rows: int) -> None:
        """`state` is what the log's last commit said of this table, `rows` how many it has ever been given."""
        self.directory = directory
        self.rows = rows
        self._schema = schema
        self._time_column = time_column
        self._pending = state
        self.table: TimedTable[ChunkInfo] | None = self._opened() if directory.exists() else None

    @property
    def is_published(self) -> bool:
        return self._pending is None

    @staticmethod
    def pending(chunks: Sequence[ChunkInfo], version: int) -> dict[str, Any] | None:
        """What the log's commit of that version says."""
        return {"version": version, "chunks": [chunk.to_json() for chunk in chunks]} if chunks else None

    def committed(self, pending: dict[str, Any] | None, rows: int) -> None:
        """The log's commit is on disk."""
        self._pending = pending
        self.rows += rows

    def publish(self) -> None:
        """The chunks of the log's last commit become rows of this table, once."""
        if self._pending is None:
            return
        self.table = self.table or self._opened()
        published = self.table.log.transaction(_PUBLISHED)
        if published is None or published < self._pending["version"]:
            chunks = [ChunkInfo.from_json(fields) for fields in self._pending["chunks"]]
            self.table.commit({}, chunks, {_PUBLISHED: self._pending["version"]})
            fault_point("stream.after_aside")
        self._pending = None

    def chunks(self) -> list[ChunkInfo]:
        return [] if self.table is None else sorted(self.table.index, key=lambda chunk: chunk.min_seq)

    def retain(self, horizon: Micros, most_rows: int | None = None) -> int:
        """Drops chunks that lie before the horizon, and the oldest while the table holds more rows than that; returns how many."""
        if self.table is None:
            return 0
        old = self.table.before(horizon)
        kept = [chunk for chunk in self.chunks() if chunk not in old]
        rows = sum(chunk.rows for chunk in kept)
        while most_rows is not None and rows > most_rows and len(kept) > 1:
            rows -= kept[0].rows
            old.append(kept.pop(0))
        if old:
            self.table.drop({}, old)
        return len(old)

    def delete_unnamed(self, chunks: Sequence[ChunkInfo]) -> None:
        for chunk in chunks:
            remove_file(self.directory / chunk.path)

    def _opened(self) -> TimedTable[ChunkInfo]:
        return TimedTable.open(self.directory, self._schema, kind=ChunkInfo, time_column=self._time_column)
