"""Files that an executor reads by path with pyarrow, so that their rows never pass through the JVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from millstream.core.errors import SourceFailed
from millstream.core.schema import TIMESTAMP, Schema
from millstream.language.catalog import StreamEntry
from millstream.runtime.file_listing import OPTIONS, is_local
from millstream.runtime.rows import table_of

_CSV = {"header", "sep", "delimiter", "nullvalue"}


@dataclass(frozen=True)
class FileReader:
    format: Literal["parquet", "arrow", "csv"]
    stream: str
    schema: Schema
    header: bool = False
    delimiter: str = ","
    null_value: str = ""

    def read(self, path: str) -> pa.Table:
        try:
            return table_of(self._read(path), self.schema, self.stream)
        except (pa.ArrowException, OSError) as error:
            raise SourceFailed(
                f'stream "{self.stream}" cannot read {path}: {error}', hint="Move the file away, or correct it, and start again."
            ) from error

    def _read(self, path: str) -> pa.Table:
        match self.format:
            case "parquet":
                present = set(pq.read_schema(path).names)
                return pq.read_table(
                    path, columns=[name for name in self.schema.names if name in present], use_threads=False, memory_map=True
                )
            case "arrow":
                with pa.memory_map(path) as source:
                    return pa.ipc.open_file(source).read_all()
            case "csv":
                return self._read_csv(path)

    def _read_csv(self, path: str) -> pa.Table:
        names = list(self.schema.names)
        types = {field.name: pa.timestamp("us") if field.type == TIMESTAMP else field.type for field in self.schema}
        return pa.csv.read_csv(
            path,
            read_options=pa.csv.ReadOptions(column_names=None if self.header else names, use_threads=False),
            parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=types,
                null_values=[self.null_value],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                include_columns=names,
                timestamp_parsers=[pa.csv.ISO8601, "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"],
            ),
        )


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
            return (
                FileReader("csv", entry.name, entry.schema, header, delimiter, options.get("nullvalue", ""))
                if len(delimiter) == 1
                else None
            )
        case _:
            return None
