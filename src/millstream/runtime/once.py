"""Questions that are answered once, by Spark SQL itself: over relations, query results, late rows and dead letters, as they are or AS OF an
instant of the past, and over what streams held AS OF an instant.

What is sent to Spark is not quite what the user wrote: names of tables are replaced, the rest is printed anew.  An error
points into the text that was sent and is moved here to the same words of the user's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token

from millstream.core.errors import MillstreamError, NotSupported, Span, WindowInvalid
from millstream.language.catalog import Catalog, StreamEntry
from millstream.language.cursor import token_span
from millstream.language.dialect import Cql
from millstream.language.nodes import AsOf, StreamWindow
from millstream.language.spans import span_of
from millstream.runtime.runner import Runner

PARTS = ("late", "rejected")
"""Tables that every stream has beside its rows: `trades.late`, `trades.rejected`."""


@dataclass(frozen=True)
class Asked:
    """What a name stands for in such a question."""

    name: str
    part: str | None  # late, rejected
    as_of: AsOf | None
    window: StreamWindow | None


def reads_only_finished(select: exp.Expr, catalog: Catalog) -> bool:
    """True if no rows of a stream are read that are still to come: then there is nothing to wait for, and the answer is a table."""
    if select.find(AsOf) is not None:
        return True
    if select.find(StreamWindow) is not None:
        return False  # behind a stream it is a question that stays; behind anything else the binder knows what to say
    tables = _tables(select)
    return bool(tables) and not any(_is_live(table, catalog) for table in tables)


def run_once(select: exp.Expr, catalog: Catalog, contents: Callable[[Asked], pa.Table], runner: Runner, sql: str | None = None) -> pa.Table:
    """`sql` is the text that `select` was read from: errors underline their place in it."""
    _refuse_to_stream(select, sql)
    tree = select.copy()
    tables: dict[str, pa.Table] = {}
    for i, (table, written) in enumerate(zip(_tables(tree), _tables(select), strict=True)):
        name, part = _name_and_part(table)
        view = f"_millstream_{i}"
        _refuse_live(written, catalog, sql)
        try:
            tables[view] = contents(Asked(name, part, table.args.get("as_of"), table.args.get("stream_window")))
        except MillstreamError as error:
            if error.span is None:
                error.span, error.sql = span_of(written.args.get("as_of")) or span_of(written.this), sql
            raise
        alias = table.alias or (part or name)
        table.replace(exp.alias_(exp.to_table(view), alias, table=True))
    try:
        return runner.query_once(tree.sql(dialect="spark"), tables, tuple(catalog.functions.values()))
    except MillstreamError as error:
        error.sql, error.span = sql, _same_words(error.sql, error.span, sql)
        raise


def _refuse_live(table: exp.Table, catalog: Catalog, sql: str | None) -> None:
    """Beside something AS OF an instant, a stream alone or a subquery with a window would be a question that stays."""
    name, part = _name_and_part(table)
    if part is not None:
        return
    entry = catalog.find(name, span_of(table.this), sql)
    if table.args.get("as_of") is None and _is_live(table, catalog):
        hint = "Write AS OF NOW behind it, or an instant."
        raise NotSupported(
            f'stream "{entry.name}" goes on, and this question is answered once', hint=hint, span=span_of(table.this), sql=sql
        )
    window = table.args.get("stream_window")
    if window is not None and not isinstance(entry, StreamEntry):
        raise WindowInvalid(f'"{entry.name}" takes no window here', hint="Windows are for streams.", span=span_of(window), sql=sql)


def _refuse_to_stream(select: exp.Expr, sql: str | None) -> None:
    for part in select.find_all(exp.Select):
        if kind := part.args.get("to_stream"):
            raise NotSupported(
                f"{kind.upper()} is of no use here: a question over relations and results only is answered once, with a table",
                hint=f"Leave {kind.upper()} out, or read a stream.",
                span=_word(kind, span_of(part), sql),
                sql=sql,
            )


# --- places ---------------------------------------------------------------------------------


def _same_words(sent: str | None, place: Span | None, written: str | None) -> Span | None:
    """Where the words that stand at `place` in the text sent stand in the text written; None if none of them does."""
    if sent is None or place is None or written is None:
        return None
    theirs, ours = _tokens(sent), _tokens(written)
    matcher = SequenceMatcher(None, [token.text.lower() for token in theirs], [token.text.lower() for token in ours], autojunk=False)
    inside = [
        token_span(ours[block.b + i])
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
        if place.start <= theirs[block.a + i].start < place.end
    ]
    return Span(inside[0].start, inside[-1].end) if inside else None


def _word(word: str, place: Span | None, sql: str | None) -> Span | None:
    """The first such word at `place`."""
    tokens = [token_span(token) for token in _tokens(sql or "") if token.text.lower() == word]
    return next((span for span in tokens if place is None or span.start >= place.start), place)


def _tokens(sql: str) -> list[Token]:
    try:
        return list(Cql().tokenize(sql))
    except TokenError:
        return []


# --- tables ---------------------------------------------------------------------------------


def _tables(select: exp.Expr) -> list[exp.Table]:
    names = {cte.alias.lower() for cte in select.find_all(exp.CTE)}
    return [table for table in select.find_all(exp.Table) if table.db or table.name.lower() not in names]


def _name_and_part(table: exp.Table) -> tuple[str, str | None]:
    return (table.db, table.name.lower()) if table.db else (table.name, None)


def _is_live(table: exp.Table, catalog: Catalog) -> bool:
    name, part = _name_and_part(table)
    if part is not None:
        return part not in PARTS
    if name not in catalog:
        return True  # the binder knows what to say
    return isinstance(catalog.find(name), StreamEntry)
