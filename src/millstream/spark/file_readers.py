"""Files that an executor reads by path with pyarrow, so that their rows never pass through the JVM.

A row that does not fit becomes a dead letter that names the file and the row; a file that cannot be read at all, one that
names the file.  What the operating system refuses (a file that is gone, a disk that fails) is no fault of the file's: the source stops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from millstream.core.errors import MillstreamError, SourceFailed
from millstream.core.schema import Schema
from millstream.language.catalog import StreamEntry
from millstream.runtime.csv_rows import CsvReader, check_columns
from millstream.runtime.dead_letters import DeadLetter, Part
from millstream.runtime.file_listing import OPTIONS, is_local
from millstream.runtime.row_times import RowTimes
from millstream.runtime.row_values import REFUSALS
from millstream.runtime.sorting_out import sorted_out

_NOT_BETWEEN = ("", '"', "\n", "\r")
_CSV = {"header", "sep", "delimiter", "nullvalue"}


@dataclass(frozen=True)
class FileReader:
    format: Literal["parquet", "arrow", "csv"]
    stream: str
    schema: Schema
    csv: CsvReader | None = None

    def read(self, path: str, times: RowTimes) -> Part:
        try:
            if self.csv is not None:
                return self.csv.read(path, times)
            return sorted_out(self._table(path), self.schema, times, lambda i: f"{path}, row {i}")
        except (*REFUSALS, OSError) as error:
            if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
                raise SourceFailed(
                    f'stream "{self.stream}" cannot read {path}: {error}', hint="Move the file away, or correct it, and start again."
                ) from error
            reason = error.message if isinstance(error, MillstreamError) else str(error)
            return Part(self.schema.to_arrow().empty_table(), [DeadLetter(None, f"the file cannot be read: {reason}", path)])

    def _table(self, path: str) -> pa.Table:
        names = list(self.schema.names)
        if self.format == "parquet":
            check_columns(self.schema, pq.read_schema(path).names)
            return pq.read_table(path, columns=names, use_threads=False, memory_map=True, partitioning=None)
        with pa.memory_map(path) as source:
            table = pa.ipc.open_file(source).read_all()
        check_columns(self.schema, table.column_names)
        return table.select(names)


def fast_file_reader(entry: StreamEntry) -> FileReader | None:
    """The reader for the stream's files, or None where only Spark's own reader does what the options ask for."""
    options = {key.lower(): str(value) for key, value in entry.options.items()}
    if not is_local(options.get("path", "")):
        return None
    match (entry.format or "").lower():
        case "parquet" if options.keys() <= OPTIONS:
            return FileReader("parquet", entry.name, entry.schema)
        case "arrow" if options.keys() <= OPTIONS:
            return FileReader("arrow", entry.name, entry.schema)
        case "csv" if options.keys() <= OPTIONS | _CSV and not any(pa.types.is_nested(field.type) for field in entry.schema):
            delimiter = options.get("sep", options.get("delimiter", ","))
            header = options.get("header", "false").lower() == "true"
            if delimiter in _NOT_BETWEEN:
                raise SourceFailed(
                    f'the source of stream "{entry.name}" has the option sep {delimiter!r}, which cannot stand between values',
                    hint="OPTIONS (sep ';').",
                )
            if len(delimiter.encode()) != 1:  # pyarrow takes one byte, Spark takes any
                return None
            return FileReader("csv", entry.name, entry.schema, CsvReader(entry.schema, header, delimiter, options.get("nullvalue", "")))
        case _:
            return None
