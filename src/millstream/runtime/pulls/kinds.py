"""From a statement to a reader: the kinds there are, and what can be told about each before anybody is asked."""

from __future__ import annotations

import pyarrow as pa

from millstream.core.errors import ConfigInvalid, NotSupported, did_you_mean
from millstream.runtime.pulls.delta import DeltaReader
from millstream.runtime.pulls.files import FILE_OPTIONS, FileReader
from millstream.runtime.pulls.origin import Origin, Reader, SparkRead
from millstream.runtime.pulls.postgres import PostgresReader, check_postgres
from millstream.runtime.sinks.local_path import local_path

FORMATS = ("postgres", "delta", *FILE_OPTIONS)


class SparkReader:
    """Spark is asked anew each time."""

    def __init__(self, origin: Origin, read: SparkRead) -> None:
        self._origin = origin
        self._read = read

    def read(self) -> pa.Table:
        return self._read(self._origin)

    def interrupt(self) -> None:
        """Its job goes on; nobody waits for it."""

    def close(self) -> None:
        """Nothing is held."""


def check_origin(origin: Origin, spark: SparkRead | None) -> None:
    """Whether the statement can be meant; nothing here waits for anybody."""
    match origin.format:
        case "postgres":
            check_postgres(origin)
        case "delta":
            origin.needed("path", "OPTIONS (path '...'), a directory or the URL of an object store.")
        case _ if _reads_files(origin):
            _check_text(origin)
        case _ if spark is None:
            _refuse(origin)


def open_reader(origin: Origin, spark: SparkRead | None, timeout_s: float) -> Reader:
    check_origin(origin, spark)
    match origin.format:
        case "postgres":
            return PostgresReader(origin, timeout_s)
        case "delta":
            return DeltaReader(origin)
        case _ if spark is None or _reads_files(origin):
            return FileReader(origin)
        case _:
            return SparkReader(origin, spark)


def _reads_files(origin: Origin) -> bool:
    """Whether we read the files ourselves: those of this computer, with options that we know."""
    known = FILE_OPTIONS.get(origin.format)
    if known is None or local_path(origin.needed("path", "OPTIONS (path '...'), a file, a directory or a glob.")) is None:
        return False
    return all(key.lower() in known for key in origin.options)


def _check_text(origin: Origin) -> None:
    if origin.format != "csv":
        return
    if len(origin.option("sep", origin.option("delimiter", ",")).encode()) != 1:
        raise ConfigInvalid(f'relation "{origin.relation}": the option sep must be one character', hint="OPTIONS (sep ';').")
    nested = [field.name for field in origin.schema if pa.types.is_nested(field.type)]
    if nested:
        raise NotSupported(f'relation "{origin.relation}": column "{nested[0]}" cannot stand in a CSV file', hint="Use parquet or json.")


def _refuse(origin: Origin) -> None:
    if origin.format not in FORMATS:
        hint = did_you_mean(origin.format, FORMATS) or f"Formats: {', '.join(FORMATS)}; with Spark also those of its own."
        raise NotSupported(f'no relation can be read from "{origin.format}" without Spark', hint=hint)
    if local_path(origin.option("path")) is None:
        raise NotSupported(f'relation "{origin.relation}": only Spark reads the path "{origin.option("path")}"', hint="Use a local path.")
    known = FILE_OPTIONS[origin.format]
    unknown = next(key for key in origin.options if key.lower() not in known)
    raise ConfigInvalid(
        f'a relation from "{origin.format}" has no option "{unknown}"', hint=did_you_mean(unknown, known) or f"It takes {', '.join(known)}."
    )
