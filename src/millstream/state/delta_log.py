"""One Delta table: files that others wrote become rows of the table, one commit at a time.

Creating, opening, checkpoints and cleaning are `deltalake`'s.  The commit itself is written here: it is one
small JSON file created under the next version's name, and we are the only writer (the location's lock).

    commit of two files        after 20 commits    after 100    after 600       (one run, on a busy machine)
    deltalake's own            5 ms                37 ms        179 ms          it brings its table handle up to date
    here, with fsync           1.0 ms              1.0 ms       1.0 ms

Each commit carries our state in its commitInfo; the newest one is what `open` finds.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError

from millstream.core.errors import DataDamaged, StorageFailed
from millstream.core.instant import format_instant
from millstream.state.atomic import create_exclusive, remove_temporaries, storage_failure
from millstream.state.delta_check import (
    WITNESS,
    check_table,
    newest_checkpoint,
    seal_checkpoint,
    seal_created,
    sealed_commit,
    table_name,
    version_path,
)
from millstream.state.disk_types import disk_schema
from millstream.state.fault import fault_point
from millstream.state.sealed import RESTORE

log = logging.getLogger(__name__)

CHECKPOINT_EVERY = 100
_STATE = "millstream"
_TABLE_PROPERTIES = {
    "delta.checkpointInterval": "1000000000",  # ours come when `checkpoint_if_due` says so
    "delta.logRetentionDuration": "interval 10 minutes",
    "delta.deletedFileRetentionDuration": "interval 10 minutes",
}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file as a commit names it.  `minimum` and `maximum` are bounds of integer columns, or instants of timestamp columns."""

    path: str
    bytes: int
    rows: int
    partition: Mapping[str, int]
    minimum: Mapping[str, int]
    maximum: Mapping[str, int]


class DeltaLog:
    """The driver's handle of one table."""

    def __init__(self, directory: Path, table: DeltaTable, schema: pa.Schema) -> None:
        self.directory = directory
        self.version: int = table.version()
        self._table = table
        self.schema = schema
        self._transactions: dict[str, int | None] = {}
        self._since_checkpoint = self.version - newest_checkpoint(directory)  # those of earlier runs, too: each may be a short one
        self._checkpointing: threading.Thread | None = None
        self.state: dict[str, Any] = _last_state(directory, self.version)

    @staticmethod
    def open(directory: Path, schema: pa.Schema, *, partition_by: Sequence[str] = ()) -> DeltaLog:
        """Opens the table, creating it if there is none; DataDamaged if it has other columns."""
        schema = disk_schema(schema)
        check_table(directory)
        try:
            table = DeltaTable(str(directory)) if _exists(directory) else _created(directory, schema, partition_by)
        except (DeltaError, OSError, ValueError) as error:
            raise DataDamaged(f'the table "{directory}" cannot be opened: {error}', hint=RESTORE) from error
        if table.schema().to_json() != DeltaSchema.from_arrow(schema).to_json():
            raise DataDamaged(f'the table "{directory}" has other columns than declared', hint="Drop it and create it again.")
        remove_temporaries(directory)
        remove_temporaries(directory / "_delta_log")
        return DeltaLog(directory, table, schema)

    def commit(
        self,
        state: Mapping[str, Any],
        *,
        add: Iterable[DataFile] = (),
        remove: Iterable[DataFile] = (),
        transactions: Mapping[str, int] | None = None,
        rearranges: bool = False,
    ) -> int:
        """One new version: all of it, or nothing.  With `rearranges` the rows stay the same and only the files change."""
        now_ms = int(time.time() * 1000)
        actions: list[dict[str, Any]] = [self._commit_info(state, now_ms, rearranges=rearranges)]
        actions += [{"txn": {"appId": app, "version": version, "lastUpdated": now_ms}} for app, version in (transactions or {}).items()]
        actions += [{"remove": _remove(file, now_ms, data_change=not rearranges)} for file in remove]
        actions += [{"add": self._add(file, now_ms, data_change=not rearranges)} for file in add]
        self._put(sealed_commit([json.dumps(action, separators=(",", ":")) for action in actions]))
        self.state = dict(state)
        self._transactions.update(transactions or {})
        return self.version

    def transaction(self, app: str) -> int | None:
        """The last version that `app` committed."""
        if app not in self._transactions:
            self._transactions[app] = self._table.transaction_version(app)
        return self._transactions[app]

    def files(self, bounds: Sequence[str]) -> list[DataFile]:
        """The files of the version found at open, with the bounds of these columns."""
        listed = pa.table(self._table.get_add_actions(flatten=True))
        if not listed.num_rows:
            return []
        partition = [name for name in listed.column_names if name.startswith("partition.")]
        wanted = ["path", "size_bytes", "num_records", *partition]
        wanted += [f"{end}.{name}" for end in ("min", "max") for name in bounds]
        try:
            columns = {name: _integers(listed.column(name)).to_pylist() for name in wanted}
        except KeyError as error:
            raise DataDamaged(f'the table "{self.directory}" has files that Millstream did not write', hint="Restore it.") from error
        return [
            DataFile(
                path=columns["path"][i],
                bytes=columns["size_bytes"][i],
                rows=columns["num_records"][i],
                partition={name.removeprefix("partition."): columns[name][i] for name in partition},
                minimum={name: columns[f"min.{name}"][i] for name in bounds},
                maximum={name: columns[f"max.{name}"][i] for name in bounds},
            )
            for i in range(listed.num_rows)
        ]

    def checkpoint_if_due(self, files: int) -> None:
        """Starts a checkpoint beside the commits, if enough of them came.

        It lists every file (0.2 s for 10,000 of them), so it comes the more seldom the more files there are, and no commit waits for it.
        """
        if self._since_checkpoint >= max(CHECKPOINT_EVERY, files // 50) and not (self._checkpointing and self._checkpointing.is_alive()):
            self._since_checkpoint = 0
            self._checkpointing = threading.Thread(target=self._checkpoint_quietly, name=f"checkpoint {self.directory.name}")
            self._checkpointing.start()

    def checkpoint(self) -> None:
        """Folds the commits so far into one file and removes those that no reader needs."""
        table = DeltaTable(str(self.directory))
        fault_point("delta.before_checkpoint")
        table.create_checkpoint()
        fault_point("delta.checkpointed")
        seal_checkpoint(self.directory, table.version())
        fault_point("delta.before_clean")
        table.cleanup_metadata()
        fault_point("delta.cleaned")

    def close(self) -> None:
        """Waits for a checkpoint that is being written."""
        if self._checkpointing is not None:
            self._checkpointing.join()

    def _checkpoint_quietly(self) -> None:
        try:
            self.checkpoint()
        except (DeltaError, OSError, StorageFailed) as error:
            # nothing is lost: opening reads a few more commits until the next one succeeds
            log.warning("a checkpoint could not be written", extra={"table": str(self.directory), "reason": str(error)})

    def _put(self, commit: bytes) -> None:
        path, kind = version_path(self.directory, self.version + 1), self.directory.parent.name + self.directory.suffix
        fault_point("delta.before_commit", kind)
        try:
            create_exclusive(path, commit, witness=self.directory / WITNESS)
        except FileExistsError as error:
            raise DataDamaged(
                f'somebody else wrote to the table "{self.directory}"',
                hint="Only Millstream may write below its location; close the database and open it again.",
            ) from error
        self.version += 1
        self._since_checkpoint += 1
        fault_point("delta.after_commit", kind)

    def _commit_info(self, state: Mapping[str, Any], now_ms: int, *, rearranges: bool) -> dict[str, Any]:
        info: dict[str, Any] = {
            "timestamp": now_ms,
            "operation": "OPTIMIZE" if rearranges else "WRITE",
            "operationParameters": {},
            "engineInfo": "millstream",
            "version": self.version + 1,
            "table": table_name(self.directory),
            _STATE: json.dumps(dict(state), separators=(",", ":")),
        }
        return {"commitInfo": info}

    def _add(self, file: DataFile, now_ms: int, *, data_change: bool) -> dict[str, Any]:
        return {
            "path": file.path,
            "partitionValues": {name: str(value) for name, value in file.partition.items()},
            "size": file.bytes,
            "modificationTime": now_ms,
            "dataChange": data_change,
            "stats": json.dumps(
                {
                    "numRecords": file.rows,
                    "minValues": self._bounds(file.minimum),
                    "maxValues": self._bounds(file.maximum),
                    "nullCount": dict.fromkeys(file.minimum, 0),
                }
            ),
        }

    def _bounds(self, bounds: Mapping[str, int]) -> dict[str, Any]:
        timestamps = {name for name in bounds if pa.types.is_timestamp(self.schema.field(name).type)}
        return {name: format_instant(value) if name in timestamps else value for name, value in bounds.items()}


def _exists(directory: Path) -> bool:
    return bool(DeltaTable.is_deltatable(str(directory)))


def _created(directory: Path, schema: pa.Schema, partition_by: Sequence[str]) -> DeltaTable:
    fault_point("delta.before_create", directory.parent.name)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        table = DeltaTable.create(str(directory), schema, partition_by=list(partition_by), configuration=_TABLE_PROPERTIES)
    except (DeltaError, OSError) as error:
        raise storage_failure(directory, error) from error
    seal_created(directory)
    fault_point("delta.created", directory.parent.name)
    return table


def _last_state(directory: Path, version: int) -> dict[str, Any]:
    """Ours from the newest commit that has one: a foreign commit (an OPTIMIZE from outside) has none."""
    for number in range(version, -1, -1):
        try:
            lines = version_path(directory, number).read_text().splitlines()
        except FileNotFoundError:
            break
        for line in lines:
            if found := json.loads(line).get("commitInfo", {}).get(_STATE):
                return dict(json.loads(found))
    return {}


def _remove(file: DataFile, now_ms: int, *, data_change: bool) -> dict[str, Any]:
    return {
        "path": file.path,
        "deletionTimestamp": now_ms,
        "dataChange": data_change,
        "extendedFileMetadata": True,
        "partitionValues": {name: str(value) for name, value in file.partition.items()},
        "size": file.bytes,
    }


def _integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
