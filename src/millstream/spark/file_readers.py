"""Files that an executor reads by path with pyarrow, so that their rows never pass through the JVM.

A row that does not fit becomes a dead letter that names the file and the row; a file that cannot be read at all, one that
names the file.  What the operating system refuses (a file that is gone, a disk that fails) is no fault of the file's: the source stops.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from millstream.core.errors import DuplicateColumn, MillstreamError, SourceFailed
from millstream.core.schema import Schema
from millstream.core.value_ranges import replaced
from millstream.language.catalog import StreamEntry
from millstream.runtime.csv_rows import CsvReader, check_columns
from millstream.runtime.dead_letters import DeadLetter, Part
from millstream.runtime.file_listing import OPTIONS, is_local
from millstream.runtime.row_times import RowTimes
from millstream.runtime.row_values import REFUSALS
from millstream.runtime.sorting_out import sorted_out

_NOT_BETWEEN = ("", '"', "\n", "\r")
_TEXTS = ((pa.string(), pa.binary()), (pa.large_string(), pa.large_binary()), (pa.string_view(), pa.binary_view()))
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
            if _is_of_the_machine(error):
                raise SourceFailed(
                    f'stream "{self.stream}" cannot read {path}: {error}', hint="Move the file away, or correct it, and start again."
                ) from error
            return self.unread(path, error.message if isinstance(error, MillstreamError) else str(error))

    def unread(self, path: str, reason: str) -> Part:
        """What there is of a file that cannot be read."""
        return Part(self.schema.to_arrow().empty_table(), [DeadLetter(None, f"the file cannot be read: {reason}", path)])

    def _table(self, path: str) -> pa.Table:
        names = list(self.schema.names)
        if self.format == "parquet":
            self._check_columns(pq.read_schema(path).names)
            return pq.read_table(path, columns=names, use_threads=False, memory_map=True, partitioning=None)
        with pa.memory_map(path) as source:
            table = pa.ipc.open_file(source).read_all()
        self._check_columns(table.column_names)
        table = table.select(names)
        _check_places(table)
        return table

    def _check_columns(self, given: list[str]) -> None:
        check_columns(self.schema, given)
        for name in self.schema.names:
            if given.count(name) > 1:
                raise DuplicateColumn(f'the file has the column "{name}" {given.count(name)} times')


def _is_of_the_machine(error: Exception) -> bool:
    """What is no fault of the file's.  More memory than the machine has is asked for by a length that is wrong."""
    if isinstance(error, MemoryError):
        asked = re.search(r"size (\d+)", str(error))
        return asked is None or int(asked[1]) < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return isinstance(error, OSError) and error.errno is not None


def _check_places(table: pa.Table) -> None:
    """That lengths and offsets lead nowhere else: Arrow believes what a file says of them, and who follows a wrong one may die of it.

    Texts are looked at as bytes here: which are no UTF-8 is said row by row.
    """
    table.validate()
    types = list(table.schema.types)
    for text, data in _TEXTS:
        types = [replaced(type_, text, data) for type_ in types]
    table.cast(pa.schema(zip(table.column_names, types, strict=True))).validate(full=True)


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
