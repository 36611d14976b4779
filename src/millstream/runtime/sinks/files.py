"""Files of changes in a directory: Parquet, CSV or lines of JSON.

    changes-<batch>.parquet     one for each batch, complete once it has its name
    _millstream.json            whose directory it is, and the last batch

The greater of the last batch and the greatest name is the position: a crash may come between a file and its note, and whoever
reads the files may take them away.  The directory is locked while it is open: of two processes that believe to be the same sink
only one writes.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from millstream.core.errors import ConfigInvalid, SinkFailed
from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.plan.duckdb_connection import DuckDb
from millstream.runtime.sinks.column_text import distinct_names, json_lines, plain_columns
from millstream.runtime.sinks.local_path import local_path
from millstream.runtime.sinks.sink import SinkTarget, batch_number, batch_of, note_of, noted
from millstream.state.atomic import atomic_write, sync_directory, sync_file
from millstream.state.fault import fault_point
from millstream.state.sealed import read_sealed_json, sealed_json

FILE_FORMATS = ("parquet", "csv", "json")
_NOTE = "_millstream.json"
_PREFIX = "changes-"


class FileSink:
    def __init__(self, target: SinkTarget) -> None:
        self._directory = check_directory(target)
        self._format = target.format
        self._owner = target.owner
        self._duck = DuckDb()
        self._lock = _locked(self._directory, target.name)
        note = _noted(self._directory)
        if note is None:
            self._note(NEVER_BEFORE)
        for temporary in self._directory.glob(f".{_PREFIX}*.tmp"):
            temporary.unlink(missing_ok=True)
        self._position = max(NEVER_BEFORE if note is None else note[1], self._greatest_name())

    def position(self) -> Micros:
        return self._position

    def deliver(self, changes: pa.Table, batch: Micros) -> None:
        path = self._directory / f"{_PREFIX}{batch_number(batch):020d}.{self._format}"
        temporary = path.with_name(f".{path.name}.tmp")
        fault_point("sink.before_write")
        self._write(changes.rename_columns(distinct_names(changes.column_names)), temporary)
        sync_file(temporary)
        fault_point("sink.after_write")
        os.replace(temporary, path)
        sync_directory(self._directory)
        fault_point("sink.after_commit")
        self._note(batch)
        self._position = batch

    def close(self) -> None:
        os.close(self._lock)

    def _write(self, changes: pa.Table, path: Path) -> None:
        match self._format:
            case "parquet":
                pq.write_table(changes, path)
            case "csv":
                pa.csv.write_csv(plain_columns(changes, self._duck), path)
            case _:
                path.write_bytes(json_lines(changes, self._duck))

    def _note(self, batch: Micros) -> None:
        atomic_write(self._directory / _NOTE, sealed_json(note_of(self._owner, batch)))

    def _greatest_name(self) -> Micros:
        """Listed once, when the sink is opened."""
        names = [entry.name for entry in os.scandir(self._directory) if entry.name.startswith(_PREFIX)]
        numbers = [int(name.removeprefix(_PREFIX).split(".")[0]) for name in names if name.endswith(f".{self._format}")]
        return batch_of(max(numbers)) if numbers else NEVER_BEFORE


def check_directory(target: SinkTarget) -> Path:
    """The directory, made if there is none; ConfigInvalid if it cannot be this sink's, DataDamaged if nobody can tell whose it is."""
    directory = file_directory(target)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        holds_changes = any(entry.name.startswith(_PREFIX) for entry in os.scandir(directory))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigInvalid(
            f'sink "{target.name}" cannot write to "{directory}": {reason or error}', hint="Choose a directory that you may write to."
        ) from error
    note = _noted(directory)
    if holds_changes if note is None else note[0] != target.owner:
        raise ConfigInvalid(
            f'sink "{target.name}" cannot write to "{directory}": it holds the changes of another sink',
            hint="Choose an empty directory. A sink that is dropped and created again goes on under its old name, on the same query.",
        )
    return directory


def file_directory(target: SinkTarget) -> Path:
    path = target.options.get("path")
    if not path:
        raise ConfigInvalid(f'sink "{target.name}" needs a path', hint="OPTIONS (path '...').")
    directory = local_path(path)
    if directory is None:
        raise ConfigInvalid(
            f'sink "{target.name}" cannot write to "{path}": files of format "{target.format}" are written to directories of this computer',
            hint="Choose a directory, or format 'delta', which can write to object stores.",
        )
    return directory


def _noted(directory: Path) -> tuple[str, Micros] | None:
    hint = "Restore it from a backup, or begin again: DROP SINK, then CREATE SINK with an empty directory."
    try:
        return read_sealed_json(directory / _NOTE, noted, hint=hint)
    except FileNotFoundError:
        return None


def _locked(directory: Path, name: str) -> int:
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise SinkFailed(f'the directory "{directory}" of sink "{name}" is being written by another process or thread') from error
    return lock
