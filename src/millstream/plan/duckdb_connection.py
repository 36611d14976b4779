"""DuckDB as Millstream evaluates expressions with it: one thread, UTC, and none of the optimizer that expressions do not need."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import duckdb

from millstream.plan.duckdb_macros import macros_in

# common_subexpressions is not among them: it takes parts out of a TRY, where they may fail, and runs them outside
_NEEDED_OPTIMIZERS = {"expression_rewriter", "unused_columns"}


class DuckDb:
    """A connection of its own, made when it is first needed, with the macros that have been asked for."""

    def __init__(self) -> None:
        self._macros: set[str] = set()

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:", config={"threads": 1, "preserve_insertion_order": True})
        connection.execute("SET TimeZone = 'UTC'")
        optimizers = connection.execute("SELECT name FROM duckdb_optimizers() AS o(name)").fetchall()
        disabled = ",".join(name for (name,) in optimizers if name not in _NEEDED_OPTIMIZERS)
        connection.execute(f"SET disabled_optimizers = '{disabled}'")
        return connection

    def define_macros(self, expressions: Iterable[str]) -> None:
        """Those that these expressions use."""
        for name, definition in macros_in(" ".join(expressions)).items():
            if name not in self._macros:
                self.connection.execute(definition)
                self._macros.add(name)
