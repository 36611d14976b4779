"""What a batch of a source is for the executors: rows are written to files that the driver then commits (sources.py).

In a file of its own: a worker that unpickles a task loads the module it is from, and what commits take is not needed there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from millstream.runtime.dead_letters import Part
from millstream.runtime.ingest import IngestPlan, write_partition
from millstream.spark.declared_columns import part_of
from millstream.spark.file_readers import FileReader
from millstream.spark.garbage import leave_out_what_is_loaded
from millstream.spark.lost_files import ENDS_ITS_READER, reading
from millstream.spark.reports import encode_failure, encode_report

_CHUNK_ROWS, _CHUNK_BYTES = 1_000_000, 64 << 20
"""Files are read together until they have about this many rows, or bytes in memory."""


class RowWriter:
    def __init__(self, plan: IngestPlan, source: str) -> None:
        self._plan = plan
        self._source = source

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        given = [batch for batch in batches if batch.num_rows]
        try:
            report = encode_report(write_partition(self._plan, partition, [self._part(given)]))
        except Exception as error:
            report = encode_failure(error)
        yield pa.RecordBatch.from_pydict({"report": [report]})
        leave_out_what_is_loaded()

    def _part(self, given: Sequence[pa.RecordBatch]) -> Part:
        if not given:
            return Part(self._plan.schema.to_arrow().empty_table())
        return part_of(pa.Table.from_batches(given), self._plan.schema, self._plan.times, self._source)


class FileWriter:
    """The function of a task (python_job.py) over some of a batch's files, with their numbers in it."""

    def __init__(
        self, plan: IngestPlan, reader: FileReader, notes: Path, fatal: frozenset[str], numbered_paths: Sequence[tuple[int, str]],
        *, more: bool,
    ) -> None:  # fmt: skip
        """`more`: another batch follows at once, and every process gets files of it."""
        self._plan = plan
        self._reader = reader
        self._notes = notes
        self._fatal = fatal
        self._numbered_paths = numbered_paths
        self._more = more

    def __call__(self, _: int, anchor: Iterable[str]) -> Iterator[list[str]]:
        for _each in anchor:
            pass
        yield list(self._reports())

    def _reports(self) -> Iterator[str]:
        """Neighbouring files share chunks: a commit of many small ones would cost more than their rows."""
        number, rows, size = 0, 0, 0
        parts: list[Part] = []
        try:
            for i, path in self._numbered_paths:
                number = i if not parts else number
                parts.append(self._part(i, path))
                rows, size = rows + parts[-1].rows.num_rows + len(parts[-1].rejected), size + parts[-1].rows.nbytes
                if rows >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
                    yield encode_report(write_partition(self._plan, number, parts))
                    parts, rows, size = [], 0, 0
            if parts:
                yield encode_report(write_partition(self._plan, number, parts))
        except Exception as error:
            yield encode_failure(error)
        # Who waits for files that may not come lets go of the memory, as buckets need it now.  Who works off a backlog is asked again
        # at once: having it made anew each time cost 26 ns a row of numbers, 70 ns a bid, and keeping it keeps 0.2 GB.
        del parts
        if not self._more:
            pa.default_memory_pool().release_unused()
        leave_out_what_is_loaded()

    def _part(self, number: int, path: str) -> Part:
        if path in self._fatal:
            return self._reader.unread(path, ENDS_ITS_READER)
        with reading(path, self._notes, number):
            return self._reader.read(path, self._plan.times)


class FileOpener:
    """Reads a file for nothing but to see whether it can be."""

    def __init__(self, plan: IngestPlan, reader: FileReader) -> None:
        self._plan = plan
        self._reader = reader

    def __call__(self, path: str) -> None:
        with suppress(Exception):  # the batch itself will say so
            self._reader.read(path, self._plan.times)
