"""A Delta table of timed files with everything that keeps it small: what streams, late rows and changelogs share.

    delta_log      what is committed          index           the committed files by time
    retired        files that left, kept for readers that still hold their names

Not thread-safe: the owner has the lock.  What the rows mean, and how files are merged, is the owner's business too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic

import pyarrow as pa

from millstream.core.instant import Micros
from millstream.state.atomic import remove_file
from millstream.state.chunk import BUCKET, SEQ, ChunkInfo
from millstream.state.delta_log import DataFile, DeltaLog
from millstream.state.retired_files import GRACE_S, RetiredFiles
from millstream.state.timed_file import F, FileIndex, TimedFile


class TimedTable(Generic[F]):
    def __init__(self, log: DeltaLog, kind: type[F], time_column: str) -> None:
        self.log = log
        self.directory = log.directory
        self._kind = kind
        self._time_column = time_column
        bounds = (time_column, SEQ) if issubclass(kind, ChunkInfo) else (time_column,)
        self.index: FileIndex[F] = FileIndex(self._named(file) for file in log.files(bounds))
        self._retired = RetiredFiles(self.directory, self._live())

    @staticmethod
    def open(directory: Path, schema: pa.Schema, *, kind: type[F], time_column: str, partitioned: bool = False) -> TimedTable[F]:
        log = DeltaLog.open(directory, schema, partition_by=(BUCKET,) if partitioned else ())
        return TimedTable(log, kind, time_column)

    def commit(self, state: Mapping[str, Any], files: Sequence[F], transactions: Mapping[str, int] | None = None) -> None:
        self.log.commit(state, add=map(self._data_file, files), transactions=transactions)
        self.index.add(files)
        self.log.checkpoint_if_due(len(self.index))

    def drop(self, state: Mapping[str, Any], files: Sequence[F]) -> None:
        """The rows of these files leave the table; the cost is that of naming them."""
        self._replace(state, files, (), rearranges=False)

    def rearrange(self, state: Mapping[str, Any], old: Sequence[F], new: Sequence[F]) -> None:
        """`new` files hold exactly the rows of the `old` ones."""
        assert sum(file.rows for file in old) == sum(file.rows for file in new), "merging files must keep every row"
        self._replace(state, old, new, rearranges=True)

    def replace(self, state: Mapping[str, Any], old: Sequence[F], new: Sequence[F]) -> None:
        """Other rows in the place of those of the `old` files."""
        self._replace(state, old, new, rearranges=False)

    def _replace(self, state: Mapping[str, Any], old: Sequence[F], new: Sequence[F], *, rearranges: bool) -> None:
        leaving = [file.path for file in old]
        try:
            self._retired.retire(leaving)
            self.log.commit(state, add=map(self._data_file, new), remove=map(self._data_file, old), rearranges=rearranges)
        except BaseException:
            self.delete_unnamed(new)
            self._retired.forget(leaving)
            raise
        self.index.discard(set(leaving))
        self.index.add(new)
        self.log.checkpoint_if_due(len(self.index))

    def still_holds(self, files: Sequence[F]) -> bool:
        return {file.path for file in files} <= self._live()

    def before(self, horizon: Micros) -> list[F]:
        return self.index.before(horizon)

    def vacuum(self, *, grace_s: float = GRACE_S, now_s: float | None = None) -> int:
        """Deletes files that left the table longer than the grace period ago."""
        return self._retired.remove_expired(grace_s=grace_s, now_s=now_s)

    def close(self) -> None:
        self.log.close()

    def sweep(self) -> int:
        """Deletes files that no commit names; nobody may be writing any."""
        return self._retired.sweep(self._live())

    def delete_unnamed(self, files: Sequence[TimedFile]) -> None:
        """Files that were written for a commit that will not come."""
        for file in files:
            remove_file(self.directory / file.path)

    def _live(self) -> set[str]:
        return {file.path for file in self.index}

    def _data_file(self, file: F) -> DataFile:
        minimum, maximum = {self._time_column: file.min_ts}, {self._time_column: file.max_ts}
        if isinstance(file, ChunkInfo):
            minimum[SEQ], maximum[SEQ] = file.min_seq, file.max_seq
        partition = {} if file.bucket is None else {BUCKET: file.bucket}
        return DataFile(file.path, file.bytes, file.rows, partition, minimum, maximum)

    def _named(self, file: DataFile) -> F:
        sequence = {"min_seq": file.minimum[SEQ], "max_seq": file.maximum[SEQ]} if SEQ in file.minimum else {}
        return self._kind(
            path=file.path,
            bucket=file.partition.get(BUCKET),
            rows=file.rows,
            bytes=file.bytes,
            min_ts=file.minimum[self._time_column],
            max_ts=file.maximum[self._time_column],
            **sequence,
        )
