"""Questions that are answered once: over relations, query results and late rows only, by Spark SQL itself."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from millstream.language.catalog import Catalog, StreamEntry
from millstream.runtime.runner import Runner

PARTS = ("late", "rejected")
"""Tables that every stream has beside its rows: `trades.late`."""


def reads_only_finished(select: exp.Expr, catalog: Catalog) -> bool:
    """True if no stream's rows are read: then there is nothing to wait for, and the answer is a table."""
    tables = _tables(select)
    return bool(tables) and not any(_is_live(table, catalog) for table in tables)


def run_once(select: exp.Expr, catalog: Catalog, contents: Callable[[str, str | None], pa.Table], runner: Runner) -> pa.Table:
    tree = select.copy()
    tables: dict[str, pa.Table] = {}
    for i, table in enumerate(_tables(tree)):
        name, part = _name_and_part(table)
        view = f"_millstream_{i}"
        tables[view] = contents(name, part)
        alias = table.alias or (part or name)
        table.replace(exp.alias_(exp.to_table(view), alias, table=True))
    return runner.query_once(tree.sql(dialect="spark"), tables)


def _tables(select: exp.Expr) -> list[exp.Table]:
    names = {cte.alias.lower() for cte in select.find_all(exp.CTE)}
    return [table for table in select.find_all(exp.Table) if table.db or table.name.lower() not in names]


def _name_and_part(table: exp.Table) -> tuple[str, str | None]:
    return (table.db, table.name.lower()) if table.db else (table.name, None)


def _is_live(table: exp.Table, catalog: Catalog) -> bool:
    name, part = _name_and_part(table)
    if part is not None:
        return part not in PARTS or name not in catalog
    if table.args.get("stream_window") is not None or name not in catalog:
        return True  # the binder knows what to say
    return isinstance(catalog.find(name), StreamEntry)
