"""Sinks: a query's changes, written elsewhere as they are committed.

A sink is a cursor over the changelog.  Each delivery is one file named by the frontier up to which the
changes are in it; the greatest name in the directory is the cursor.  So a delivery that was cut short is
done again under the same name, and nothing is delivered twice.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from millstream.core.errors import ConfigInvalid, NotSupported
from millstream.core.instant import NEVER_BEFORE, Micros, format_instant
from millstream.language.catalog import SinkEntry

FORMATS = ("console", "parquet", "csv", "json")
_OFFSET = -NEVER_BEFORE  # frontiers as sortable positive numbers


class FileSink:
    def __init__(self, entry: SinkEntry) -> None:
        path = entry.options.get("path")
        if path is None:
            raise ConfigInvalid(f'sink "{entry.name}" needs a path', hint="OPTIONS (path '...').")
        self._directory = Path(str(path))
        self._format = (entry.format or "").lower()
        self._directory.mkdir(parents=True, exist_ok=True)
        written = sorted(self._directory.glob(f"changes-*.{self._format}"))
        self.delivered: Micros = int(written[-1].stem.removeprefix("changes-")) - _OFFSET if written else NEVER_BEFORE - 1

    def deliver(self, changes: pa.Table, frontier: Micros) -> None:
        if changes.num_rows:
            path = self._directory / f"changes-{frontier + _OFFSET:020d}.{self._format}"
            temporary = path.with_name(f".{path.name}.tmp")
            _write(_distinct_names(changes), temporary, self._format)
            os.replace(temporary, path)
        self.delivered = frontier


class ConsoleSink:
    def __init__(self, entry: SinkEntry, out: TextIO) -> None:
        self._name = entry.name
        self._out = out
        self.delivered: Micros = NEVER_BEFORE - 1

    def deliver(self, changes: pa.Table, frontier: Micros) -> None:
        columns = [column.to_pylist() for column in changes.columns]
        for instant, diff, *row in zip(*columns, strict=True):
            stamp = format_instant(int(instant.timestamp() * 1_000_000))
            self._out.write(f"{self._name} {stamp} {'+' if diff > 0 else '-'} {', '.join(map(str, row))}\n")
        self._out.flush()
        self.delivered = frontier


Sink = FileSink | ConsoleSink


def open_sink(entry: SinkEntry, out: TextIO) -> Sink:
    match (entry.format or "").lower():
        case "console":
            return ConsoleSink(entry, out)
        case "parquet" | "csv" | "json":
            return FileSink(entry)
        case other:
            raise NotSupported(f'no sink of format "{other}"', hint=f"Formats: {', '.join(FORMATS)}.")


def _distinct_names(changes: pa.Table) -> pa.Table:
    names: list[str] = []
    for name in changes.column_names:
        names.append(name if name not in names else f"{name}_{len(names)}")
    return changes.rename_columns(names)


def _write(changes: pa.Table, path: Path, format_: str) -> None:
    match format_:
        case "parquet":
            pq.write_table(changes, path)
        case "csv":
            pa.csv.write_csv(changes, path)
        case _:
            changes.to_pandas().to_json(path, orient="records", lines=True, date_format="iso", date_unit="us")
