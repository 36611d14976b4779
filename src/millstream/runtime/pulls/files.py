"""Rows out of the files of a path: Parquet, CSV, and JSON with an object on each line.

The path is a file, a directory or a glob.  What it names must be there: a directory without files is an empty relation, but a path that
leads nowhere is a mistake, and no reason to forget the rows.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from millstream.core.errors import MillstreamError, SourceFailed
from millstream.core.schema import Schema
from millstream.runtime.csv_rows import CsvReader, check_columns
from millstream.runtime.pulls.origin import Origin
from millstream.runtime.rows import table_of
from millstream.runtime.sinks.local_path import local_path

_CSV_OPTIONS = ("header", "sep", "delimiter", "nullvalue")
FILE_OPTIONS = {"parquet": ("path",), "json": ("path",), "csv": ("path", *_CSV_OPTIONS)}
"""With others than these, only Spark's own reader does what is asked for."""


class FileReader:
    def __init__(self, origin: Origin) -> None:
        path = local_path(origin.needed("path", "OPTIONS (path '...'), a file, a directory or a glob."))
        assert path is not None, "only local files are read here"
        self._path = path
        self._relation, self._schema = origin.relation, origin.schema
        self._read: Callable[[str], pa.Table] = {"parquet": self._parquet, "csv": _csv_reader(origin).table, "json": self._json}[
            origin.format
        ]

    def read(self) -> pa.Table:
        tables = [self._named(path) for path in files_of(self._path)]
        return pa.concat_tables(tables) if tables else self._schema.to_arrow().empty_table()

    def interrupt(self) -> None:
        """Nothing can be done about a file system that hangs."""

    def close(self) -> None:
        """Nothing is held."""

    def _named(self, path: str) -> pa.Table:
        if os.path.getsize(path) == 0:  # no row, which pyarrow takes for a mistake
            return self._schema.to_arrow().empty_table()
        try:
            return table_of(self._read(path), self._schema, self._relation)
        except (pa.ArrowException, MillstreamError) as error:
            reason = error.message if isinstance(error, MillstreamError) else str(error)
            raise SourceFailed(f"{path} cannot be read: {reason}") from error

    def _parquet(self, path: str) -> pa.Table:
        check_columns(self._schema, pq.read_schema(path).names)
        return pq.read_table(path, columns=list(self._schema.names), use_threads=False, partitioning=None)

    def _json(self, path: str) -> pa.Table:
        """pyarrow wants times to name their zone all or not at all."""
        try:
            return _parsed_json(path, self._schema.to_arrow())
        except pa.ArrowInvalid:
            if not any(pa.types.is_timestamp(field.type) for field in self._schema):
                raise
            return _parsed_json(path, _zoneless(self._schema))


def _parsed_json(path: str, schema: pa.Schema) -> pa.Table:
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    return pyarrow.json.read_json(path, read_options=pyarrow.json.ReadOptions(use_threads=False), parse_options=options)


def files_of(path: Path) -> list[str]:
    """In the order of their names; those that begin with a dot or an underscore are none."""
    text = str(path)
    if glob.has_magic(text) and not path.exists():
        found = glob.glob(text)
    elif path.is_dir():
        found = [entry.path for entry in os.scandir(path) if entry.is_file()]
    else:
        os.stat(path)  # raises if it is not there: what the user has named must be
        found = [text]
    return sorted(file for file in found if not os.path.basename(file).startswith((".", "_")) and os.path.isfile(file))


def _csv_reader(origin: Origin) -> CsvReader:
    delimiter = origin.option("sep", origin.option("delimiter", ","))
    header = origin.option("header", "false").lower() == "true"
    return CsvReader(origin.schema, header, delimiter, origin.option("nullvalue"))


def _zoneless(schema: Schema) -> pa.Schema:
    """With times that name no zone: they are UTC."""
    return pa.schema([pa.field(field.name, pa.timestamp("us") if pa.types.is_timestamp(field.type) else field.type) for field in schema])
