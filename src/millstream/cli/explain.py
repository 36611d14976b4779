"""`millstream explain`: the plans of the queries in a file.  No Spark is started and nothing is made."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from millstream.cli.options import ScriptFile, read_text
from millstream.cli.statements import split_statements
from millstream.core.errors import ConfigInvalid
from millstream.language.catalog import Catalog
from millstream.language.parser import parse_one
from millstream.language.statements import CreateQuery, CreateRelation, CreateSink, CreateStream, Explain, Select
from millstream.runtime.compile import compile_query
from millstream.runtime.once import reads_only_finished


def explain(file: ScriptFile) -> None:
    """Show the logical and physical plan of each query in a script."""
    plans = list(explain_script(read_text(file)))
    if not plans:
        raise ConfigInvalid(f'there is no query in "{file}"', hint="Plans are shown for SELECT and CREATE QUERY.")
    typer.echo("\n\n".join(plans))


def explain_script(text: str) -> Iterator[str]:
    """One text for each query, in the script's own order; later queries may read earlier ones."""
    catalog = Catalog.of_a_database()
    for piece in split_statements(text):
        statement = parse_one(piece.sql)
        if isinstance(statement, Explain):
            statement = statement.statement
        match statement:
            case CreateStream():
                catalog = catalog.with_stream(statement)
            case CreateRelation():
                catalog = catalog.with_relation(statement)
            case CreateSink():
                catalog = catalog.with_sink(statement)
            case CreateQuery():
                compiled = compile_query(statement.select, catalog, statement.text, expiry=statement.expiry)
                catalog = catalog.with_query(statement, compiled.fields, compiled.stored_as, is_stream=compiled.bound.is_stream)
                yield f"-- {statement.name}\n{compiled.explain()}"
            case Select() if reads_only_finished(statement.select, catalog):
                yield f"-- line {piece.line}\nAnswered once, by Spark SQL, over results as they stand."
            case Select():
                yield f"-- line {piece.line}\n{compile_query(statement.select, catalog, statement.text, expiry=statement.expiry).explain()}"
