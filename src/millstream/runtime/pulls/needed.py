"""Which relations from elsewhere a statement begins to read."""

from __future__ import annotations

from sqlglot import exp

from millstream.language import statements as ast
from millstream.language.catalog import Catalog


def pulled_relations(statement: ast.Statement, catalog: Catalog) -> list[str]:
    """Those that it names itself: what a query answers that it reads is the concern of that query's own ticks."""
    pulled = [entry.name for entry in catalog.relations if entry.format is not None]
    if not pulled or not isinstance(statement, ast.CreateQuery | ast.Select):
        return []
    named = {table.name.lower() for table in statement.select.find_all(exp.Table)}
    return [name for name in pulled if name.lower() in named]
