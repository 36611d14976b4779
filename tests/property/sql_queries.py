"""Random SQL: composed continuous queries as text, with what is needed to recompute their answers.

A query's text has places, as str.format has them: {0}, {1}, ... for the windowed items of FROM, {same} for <=> and
{timestamp} for the word before an instant.  `cql` fills them for the engine, `oracle` for DuckDB, where each
windowed item is a table.

    QUERIES       ways to make a query of wanted kinds of columns
    ITEMS         what may stand in FROM
    VALUES        expressions of each kind
    AGGREGATES    expressions over a group, of each kind

To add an operator, add a function to one of these.  Every function takes the writer, which draws.

Only what DuckDB and Spark SQL agree on is written here.  Doubles are dyadic, so that their sums are exact; averages are a
kind of their own, `mean`, by which nothing is grouped, joined or compared for equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from property.sql_windows import STREAMS, Column, Windowed, columns_of, windows

EXACT_KINDS = ("int", "int", "text", "decimal", "double", "time", "bool")
KINDS = (*EXACT_KINDS, "mean")
TO_STREAM = (None, None, None, "ISTREAM", "DSTREAM", "RSTREAM")
MOST_ITEMS = 4  # windowed ones, in a whole query: about so many

Scope = Sequence[Column]  # `name` is how an expression names the column


@dataclass(frozen=True)
class Query:
    """`WITH parts SELECT listed tail`; a set operation has no list of its own, and is all tail."""

    columns: tuple[Column, ...]
    tail: str
    listed: str | None = None
    parts: tuple[str, ...] = ()

    def text(self, to_stream: str | None = None) -> str:
        head = f"WITH {', '.join(self.parts)} " if self.parts else ""
        if self.listed is None:
            return f"{head}{self.tail}" if to_stream is None else f"SELECT {to_stream}(*) FROM ({self.text()}) AS answer"
        return f"{head}SELECT {self.listed if to_stream is None else f'{to_stream}({self.listed})'} {self.tail}"

    @property
    def side(self) -> str:
        """As one side of a set operation."""
        return f"({self.text()})" if self.listed is None or self.parts else self.text()


@dataclass(frozen=True)
class RandomQuery:
    query: Query
    items: tuple[Windowed, ...]
    to_stream: str | None

    @property
    def cql(self) -> str:
        return _filled(self.query.text(self.to_stream), self.item_texts, CQL)

    @property
    def item_texts(self) -> list[str]:
        return [_filled(item.text(alias_of(i)), [], CQL) for i, item in enumerate(self.items)]

    @property
    def oracle(self) -> str:
        """Without ISTREAM, DSTREAM or RSTREAM: the relation."""
        return _filled(self.query.text(), [f"{table_of(i)} AS {alias_of(i)}" for i in range(len(self.items))], DUCKDB)

    def seen_by_window(self, i: int) -> str | None:
        """For the oracle: what the window of an item sees, if not the stream itself."""
        select = self.items[i].select
        return None if select is None else _filled(select, [], DUCKDB)

    def __repr__(self) -> str:
        return self.cql


CQL = {"same": "<=>", "timestamp": "TIMESTAMP"}
DUCKDB = {"same": "IS NOT DISTINCT FROM", "timestamp": "TIMESTAMPTZ"}


def _filled(text: str, items: Sequence[str], words: Mapping[str, str]) -> str:
    return text.format(*items, **words)


def table_of(i: int) -> str:
    return f"window_{i}"


def alias_of(i: int) -> str:
    return f"w{i}"


@st.composite
def random_queries(draw: st.DrawFn, *, depth: int = 3) -> RandomQuery:
    writer = Writer(draw)
    query = writer.query(writer.kinds(), writer.number(1, depth))
    return RandomQuery(query, tuple(writer.items), draw(st.sampled_from(TO_STREAM)))


class Writer:
    """Draws, and remembers what one query has been given so far."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self.items: list[Windowed] = []
        self.named: list[tuple[str, tuple[Column, ...]]] = []  # by WITH, where they can be seen
        self.last_is_unread = False  # then the next item reads it: a query's frontier is that of what it reads
        self._names = 0

    # --- choices ---------------------------------------------------------------------------

    def drawn(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self._draw(strategy)

    def one_of(self, choices: Sequence[Any]) -> Any:
        return self.drawn(st.sampled_from(list(choices)))

    def maybe(self) -> bool:
        return bool(self.drawn(st.booleans()))

    def number(self, least: int, most: int) -> int:
        return int(self.drawn(st.integers(least, most)))

    def kinds(self, among: Sequence[str] = KINDS) -> tuple[str, ...]:
        return tuple(self.drawn(st.lists(st.sampled_from(among), min_size=1, max_size=3)))

    def fresh(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    # --- queries ---------------------------------------------------------------------------

    def query(self, kinds: tuple[str, ...], depth: int) -> Query:
        return self.one_of(QUERIES if depth > 1 else SHALLOW_QUERIES)(self, kinds, depth)

    def listed(self, kinds: Sequence[str], values: Callable[[str], str]) -> tuple[str, tuple[Column, ...]]:
        """A select list of these kinds, and its columns."""
        columns = tuple(Column(self.fresh("c"), kind) for kind in kinds)
        return ", ".join(f"{values(column.kind)} AS {column.name}" for column in columns), columns

    @contextmanager
    def naming(self, name: str, columns: tuple[Column, ...]) -> Iterator[None]:
        self.named.append((name, columns))
        self.last_is_unread = True
        yield
        self.named.pop()

    # --- FROM and WHERE --------------------------------------------------------------------

    def source(self, depth: int) -> tuple[str, list[Column]]:
        """What stands behind FROM, and what can be named."""
        text, scope = self.item(depth)
        for _ in range(self.one_of([0, 0, 0, 1, 1, 1, 2])):
            text, scope = self._joined(text, scope, depth)
        return text, scope

    def item(self, depth: int) -> tuple[str, list[Column]]:
        """One item, and its columns with its alias before them."""
        ways = ITEMS if depth > 1 and len(self.items) < MOST_ITEMS else SHALLOW_ITEMS
        named = [named_query] * 3 if self.named else []
        text, alias, columns = self.one_of(named if self.last_is_unread else [*ways, *named])(self, depth)
        return text, [Column(f"{alias}.{column.name}", column.kind) for column in columns]

    def windowed(self, item: Windowed) -> tuple[str, str, tuple[Column, ...]]:
        self.items.append(item)
        return f"{{{len(self.items) - 1}}}", alias_of(len(self.items) - 1), item.columns

    def shortened(self, scope: list[Column]) -> list[Column]:
        """Columns without their aliases where that says the same, or as they are."""
        if self.maybe():
            return scope
        bare = [_bare(column) for column in scope]
        return [replace(column, name=name) if bare.count(name) == 1 else column for column, name in zip(scope, bare, strict=True)]

    def _joined(self, left: str, scope: list[Column], depth: int) -> tuple[str, list[Column]]:
        right, own = self.item(depth - 1)
        kind = self.one_of(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "CROSS JOIN"])
        shared = self._shared(scope, own)
        # a column of an earlier USING is ambiguous beside one of the same name
        scope = [column for column in scope if not any(_bare(other) == column.name for other in own)]
        if kind == "CROSS JOIN":
            return f"{left} CROSS JOIN {right}", [*scope, *own]
        after = scope if kind in ("SEMI JOIN", "ANTI JOIN") else [*scope, *own]
        if shared and self.maybe():
            name = self.one_of(shared)
            merged = next(Column(name, column.kind) for column in own if _bare(column) == name)
            return f"{left} {kind} {right} USING ({name})", [merged, *after]
        return f"{left} {kind} {right} ON {self.join_condition(scope, own)}", after

    def _shared(self, scope: list[Column], own: list[Column]) -> list[str]:
        """The names that USING could name: once on each side, of one kind."""
        found = []
        for column in own:
            name = _bare(column)
            same = [other for other in scope if other.name == name] or [other for other in scope if _bare(other) == name]
            if len(same) == 1 and same[0].kind == column.kind != "mean":
                found.append(name)
        return found

    def join_condition(self, one: Scope, other: Scope) -> str:
        """About both sides: an equality in most cases."""
        pairs = [(a, b) for a in one for b in other if a.kind == b.kind and a.kind != "mean"]
        if not pairs or self.number(0, 5) == 0:
            return self.condition([*one, *other])
        a, b = self.one_of(pairs)
        equal = f"{a.name} {self.one_of(['=', '=', '=', '{same}', '<', '>='])} {b.name}"
        return f"{equal} AND {self.condition([*one, *other])}" if self.number(0, 3) == 0 else equal

    def where(self, scope: Scope, depth: int) -> str:
        """WHERE, or nothing; conditions with a query stand beside the others."""
        conditions = [self.condition(scope)] if self.number(0, 2) == 0 else []
        if depth > 1 and self.number(0, 2) == 0:
            conditions.append(self.one_of(SUBQUERY_CONDITIONS)(self, scope, depth - 1))
        return f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""

    # --- expressions -----------------------------------------------------------------------

    def value(self, kind: str, scope: Scope, depth: int = 1) -> str:
        """An expression of this kind: a column in most cases."""
        columns = [column.name for column in scope if column.kind == kind]
        if columns and (depth == 0 or self.number(0, 2) > 0):
            return self.one_of(columns)
        if depth == 0 or kind == "time":
            return LITERALS[kind](self)
        return self.one_of(VALUES[kind])(self, scope, depth - 1)

    def condition(self, scope: Scope, depth: int = 1) -> str:
        return self.value("bool", scope, depth)

    def key(self, scope: Scope) -> Column:
        """An expression to group by; it names a column, for a number alone would be a place in the list."""
        columns = [column for column in scope if column.kind != "mean"]
        if not columns:
            return Column("coalesce(1, 2)", "int")
        column = self.one_of(columns)
        if column.kind == "int" and self.maybe():
            return Column(self.one_of(["{} % 2", "coalesce({}, 0)", "{} + 1"]).format(column.name), "int")
        return column


# --- queries ----------------------------------------------------------------------------------


def selected(w: Writer, kinds: tuple[str, ...], depth: int) -> Query:
    source, scope = w.source(depth)
    where, scope = w.where(scope, depth), w.shortened(scope)
    listed, columns = w.listed(kinds, lambda kind: w.value(kind, scope))
    distinct = "DISTINCT " if "mean" not in kinds and w.number(0, 3) == 0 else ""
    return Query(columns, f"FROM {source}{where}", f"{distinct}{listed}")


def grouped(w: Writer, kinds: tuple[str, ...], depth: int) -> Query:
    source, scope = w.source(depth)
    where, scope = w.where(scope, depth), w.shortened(scope)
    keys = [w.key(scope) for _ in range(w.number(0, 2))]

    def over_group(kind: str) -> str:
        fitting = [key.name for key in keys if key.kind == kind]
        if fitting and w.maybe():
            return str(w.one_of(fitting))
        return str(w.one_of(AGGREGATES[kind])(w, scope))

    listed, columns = w.listed(kinds, over_group)
    by = f" GROUP BY {', '.join(key.name for key in keys)}" if keys else ""
    having = f" HAVING {over_group('bool')}" if w.number(0, 3) == 0 else ""
    return Query(columns, f"FROM {source}{where}{by}{having}", listed)


def combined(w: Writer, kinds: tuple[str, ...], depth: int) -> Query:
    words = ["UNION ALL"] if "mean" in kinds else ["UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]
    left, right = (w.query(kinds, depth - 1) for _ in range(2))
    return Query(left.columns, f"{left.side} {w.one_of(words)} {right.side}")


def with_name(w: Writer, kinds: tuple[str, ...], depth: int) -> Query:
    named = w.query(w.kinds(), depth - 1)
    name = w.fresh("n")
    with w.naming(name, named.columns):
        query = w.query(kinds, depth - 1)
    return replace(query, parts=(f"{name} AS ({named.text()})", *query.parts))


SHALLOW_QUERIES = (selected, selected, grouped)
QUERIES = (*SHALLOW_QUERIES, grouped, combined, with_name)


# --- items of FROM ----------------------------------------------------------------------------


def windowed_stream(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    stream = w.one_of(sorted(STREAMS))
    columns = columns_of(stream)
    return w.windowed(Windowed(stream, None, columns, w.drawn(windows(columns))))


def windowed_rows(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    """A window over filtered and projected rows of a stream."""
    stream = w.one_of(sorted(STREAMS))
    scope = columns_of(stream)
    listed, columns = w.listed(w.kinds(EXACT_KINDS), lambda kind: w.value(kind, scope))
    where = f" WHERE {w.condition(scope)}" if w.number(0, 2) == 0 else ""
    return w.windowed(Windowed(stream, f"SELECT {listed} FROM {stream}{where}", columns, w.drawn(windows(columns))))


def subquery(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    query, alias = w.query(w.kinds(), depth - 1), w.fresh("t")
    return f"({query.text()}) AS {alias}", alias, query.columns


def named_query(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    (name, columns), alias = w.named[-1] if w.last_is_unread else w.one_of(w.named), w.fresh("t")
    w.last_is_unread = False
    return f"{name} AS {alias}", alias, columns


SHALLOW_ITEMS = (windowed_stream, windowed_stream, windowed_rows)
ITEMS = (*SHALLOW_ITEMS, subquery)
"""And the queries that WITH has named, where there are any."""


# --- conditions with a query ------------------------------------------------------------------


def exists(w: Writer, outer: Scope, depth: int) -> str:
    source, scope = w.source(depth)
    conditions = [w.join_condition(_from_within(outer, scope), scope)] if w.number(0, 3) > 0 else []
    conditions += [w.condition(scope)] if w.number(0, 3) == 0 else []
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{w.one_of(['', 'NOT '])}EXISTS (SELECT 1 FROM {source}{where})"


def in_rows(w: Writer, outer: Scope, depth: int) -> str:
    kind = w.one_of(["int", "text", "decimal"])
    source, scope = w.source(depth)
    where = f" WHERE {w.join_condition(_from_within(outer, scope), scope)}" if w.maybe() else ""
    return f"{w.value(kind, outer)} {w.one_of(['', 'NOT '])}IN (SELECT {w.value(kind, scope)} FROM {source}{where})"


def in_query(w: Writer, outer: Scope, depth: int) -> str:
    """With a query that is more than FROM and WHERE."""
    kind = w.one_of(["int", "text", "decimal"])
    query = w.one_of([grouped, combined] if depth > 1 else [grouped])(w, (kind,), depth)
    return f"{w.value(kind, outer)} {w.one_of(['', 'NOT '])}IN ({query.text()})"


def _from_within(outer: Scope, inner: Scope) -> Scope:
    """How an inner query can name the outer one's columns: without an alias where it has no such name itself."""
    hidden, names = {_bare(column) for column in inner}, [_bare(column) for column in outer]
    qualified = [column for column in outer if "." in column.name]
    merged = [column for column in outer if "." not in column.name and column.name not in hidden]
    short = [Column(_bare(column), column.kind) for column in qualified if _bare(column) not in hidden and names.count(_bare(column)) == 1]
    return [*qualified, *merged, *short]


def _bare(column: Column) -> str:
    return column.name.rsplit(".", 1)[-1]


SUBQUERY_CONDITIONS = (exists, in_rows, in_query)


# --- expressions ------------------------------------------------------------------------------

Value = Callable[[Writer, Scope, int], str]


def _pattern(text: str, *kinds: str) -> Value:
    """{0}, {1}, ... are values of the kinds."""
    return lambda w, scope, depth: text.format(*(w.value(kind, scope, depth) for kind in kinds))


def _comparison(w: Writer, scope: Scope, depth: int) -> str:
    kind = w.one_of(sorted({column.kind for column in scope if column.kind not in ("bool", "mean")}) or ["int"])
    one = w.value(kind, scope, depth)
    others = [column for column in scope if column.name != one]
    return f"{one} {w.one_of(['=', '<>', '<', '<=', '>', '>=', '{same}'])} {w.value(kind, others, 0)}"


def _null_test(w: Writer, scope: Scope, depth: int) -> str:
    kind = w.one_of(sorted({column.kind for column in scope if column.kind != "bool"}) or ["int"])
    return f"{w.value(kind, scope, depth)} IS {w.one_of(['', 'NOT '])}NULL"


def _connective(w: Writer, scope: Scope, depth: int) -> str:
    return f"({_comparison(w, scope, depth)} {w.one_of(['AND', 'OR'])} {w.one_of([_null_test, _comparison])(w, scope, depth)})"


def _negation(w: Writer, scope: Scope, depth: int) -> str:
    return f"NOT ({_comparison(w, scope, depth)})"


def _choice(kind: str) -> Value:
    return lambda w, scope, depth: (
        f"CASE WHEN {_comparison(w, scope, depth)} THEN {w.value(kind, scope, depth)} ELSE {w.value(kind, scope, depth)} END"
    )


LITERALS: dict[str, Callable[[Writer], str]] = {
    "int": lambda w: str(w.number(0, 3)),
    "text": lambda w: w.one_of(["'a'", "'b'", "'c'"]),
    "decimal": lambda w: w.one_of(["1.50", "0.25"]),
    "double": lambda w: w.one_of(["CAST(0.5 AS DOUBLE)", "CAST(-1 AS DOUBLE)"]),
    "mean": lambda w: "CAST(0.25 AS DOUBLE)",
    "time": lambda w: f"{{timestamp}} '1970-01-01T00:00:00.{w.number(0, 20):06}Z'",
    "bool": lambda w: w.one_of(["TRUE", "FALSE"]),
}

VALUES: dict[str, Sequence[Value]] = {
    "int": [
        _pattern("{0} + 1", "int"), _pattern("{0} * 2", "int"), _pattern("({0} - {1})", "int", "int"), _pattern("{0} % 2", "int"),
        _pattern("-({0})", "int"), _pattern("abs({0})", "int"), _pattern("coalesce({0}, {1})", "int", "int"),
        _pattern("nullif({0}, 1)", "int"), _pattern("length({0})", "text"), _choice("int"),
    ],
    "text": [
        _pattern("upper({0})", "text"), _pattern("({0} || 'b')", "text"), _pattern("coalesce({0}, {1})", "text", "text"),
        _pattern("substring({0}, 1, 1)", "text"), _choice("text"),
    ],
    "decimal": [_pattern("({0} + 0.25)", "decimal"), _pattern("coalesce({0}, 1.50)", "decimal"), _choice("decimal")],
    "double": [
        _pattern("({0} + {1})", "double", "int"), _pattern("coalesce({0}, {1})", "double", "double"),
        _pattern("CAST({0} AS DOUBLE)", "int"), _choice("double"),
    ],
    "mean": [_pattern("({0} + 1)", "mean"), _pattern("CAST({0} AS DOUBLE)", "int")],
    "bool": [
        _comparison, _comparison, _comparison, _null_test, _connective, _negation, _pattern("{0} IN (1, 3)", "int"),
        _pattern("{0} NOT IN ('a', 'c')", "text"), _pattern("{0} BETWEEN 1 AND 2", "int"), _pattern("{0} LIKE 'a%'", "text"),
    ],
}  # fmt: skip

# --- aggregates -------------------------------------------------------------------------------

Aggregate = Callable[[Writer, Scope], str]


def _call(function: str, kind: str) -> Aggregate:
    return lambda w, scope: f"{function}({w.value(kind, scope)})"


def _count(w: Writer, scope: Scope) -> str:
    columns = [column.name for column in scope]
    return f"count({w.one_of(columns)})" if columns and w.maybe() else "count(*)"


def _over(text: str, *parts: Aggregate) -> Aggregate:
    return lambda w, scope: text.format(*(part(w, scope) for part in parts))


def _extremes(kind: str) -> list[Aggregate]:
    return [_call("min", kind), _call("max", kind)]


AGGREGATES: dict[str, Sequence[Aggregate]] = {
    "int": [
        _count, _call("sum", "int"), *_extremes("int"), _over("coalesce({0}, 0) + {1}", _call("sum", "int"), _count),
        _over("{0} % 3", _call("sum", "int")),
    ],
    "text": [*_extremes("text"), _over("coalesce({0}, 'c')", _call("max", "text"))],
    "decimal": [*_extremes("decimal"), _call("sum", "decimal")],
    "double": [*_extremes("double"), _call("sum", "double")],
    "time": _extremes("time"),
    "bool": [_over("{0} > 1", _count), _over("{0} >= 2", _call("sum", "int")), _over("{0} <> 'a'", _call("min", "text"))],
    "mean": [_call("avg", "int"), _call("avg", "double"), _call("max", "mean")],
}  # fmt: skip
