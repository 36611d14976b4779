"""Changes appended to a Delta table, one commit for each batch.

The commit carries the batch's number as an application transaction (`txn`): the table itself says how far this sink is, and a
batch can be in it once only.  Others may read the table, and write to it too.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from millstream.core.errors import ConfigInvalid
from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.schema import TIMESTAMP
from millstream.runtime.sinks.local_path import local_path
from millstream.runtime.sinks.sink import SinkTarget, batch_number, batch_of
from millstream.state.changelog import output_columns
from millstream.state.disk_types import disk_schema, to_disk
from millstream.state.fault import fault_point
from millstream.state.output_file import DIFF, INSTANT


class DeltaSink:
    def __init__(self, target: SinkTarget) -> None:
        self._app = f"millstream:{target.owner}"
        self._names = [INSTANT, DIFF, *output_columns([field.name for field in target.fields])]
        storage = {key: value for key, value in target.options.items() if key != "path"} or None
        path = table_path(target)
        if not DeltaTable.is_deltatable(path, storage):
            types = [TIMESTAMP, pa.int8(), *(field.type for field in target.fields)]
            DeltaTable.create(
                path, disk_schema(pa.schema(list(zip(self._names, types, strict=True)))), mode="ignore", storage_options=storage
            )
        self._table = DeltaTable(path, storage_options=storage)

    def position(self) -> Micros:
        number = self._table.transaction_version(self._app)
        return NEVER_BEFORE if number is None else batch_of(number)

    def deliver(self, changes: pa.Table, batch: Micros) -> None:
        fault_point("sink.before_write")
        done = CommitProperties(app_transactions=[Transaction(self._app, batch_number(batch))])
        write_deltalake(self._table, to_disk(changes.rename_columns(self._names)), mode="append", commit_properties=done)
        fault_point("sink.after_commit")

    def close(self) -> None:
        """Nothing is held."""


def table_path(target: SinkTarget) -> str:
    """A path of this computer, never as a URL; or the URL of an object store."""
    path = target.options.get("path")
    if not path:
        raise ConfigInvalid(f'sink "{target.name}" needs a path', hint="OPTIONS (path '...'), a directory or the URL of an object store.")
    local = local_path(path)
    return path if local is None else str(local.absolute())
