"""Rows of a Delta table.  Its version says whether there is anything new, so that a table which stays the same costs a look at its log."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable

from millstream.core.errors import ColumnNotFound, did_you_mean
from millstream.runtime.pulls.origin import Origin
from millstream.runtime.sinks.local_path import local_path


class DeltaReader:
    def __init__(self, origin: Origin) -> None:
        path = origin.needed("path", "OPTIONS (path '...'), a directory or the URL of an object store.")
        local = local_path(path)
        self._schema = origin.schema
        self._table = DeltaTable(path if local is None else str(local.absolute()), storage_options=origin.without("path") or None)
        self._seen: tuple[str, int] | None = None  # a table that is made anew begins again at version 0

    def read(self) -> pa.Table | None:
        self._table.update_incremental()
        version = (str(self._table.metadata().id), self._table.version())
        if version == self._seen:
            return None
        rows = self._table.to_pyarrow_table(columns=self._columns()).rename_columns(list(self._schema.names))
        self._seen = version
        return rows

    def _columns(self) -> list[str]:
        there = {field.name.lower(): field.name for field in self._table.schema().fields}
        for name in self._schema.names:
            if name.lower() not in there:
                given = list(there.values())
                hint = did_you_mean(name, given) or f"It has: {', '.join(given)}."
                raise ColumnNotFound(f'the table has no column "{name}"', hint=hint)
        return [there[name.lower()] for name in self._schema.names]

    def interrupt(self) -> None:
        """The library has no way to; object stores have time-outs of their own."""

    def close(self) -> None:
        """Nothing is held."""
