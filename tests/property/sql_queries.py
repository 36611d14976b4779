"""Random SQL: composed continuous queries as text, with what is needed to recompute their answers.

A query's text has places, as str.format has them: {0}, {1}, ... for the windowed items of FROM, {same} for <=> and
{timestamp} for the word before an instant.  `cql` fills them for the engine, `oracle` for DuckDB, where each
windowed item is a table.  `Writer.either` writes something in two ways.

    QUERIES       ways to make a query of wanted kinds of columns
    ITEMS         what may stand in FROM
    VALUES        expressions of each kind (sql_values)
    AGGREGATES    expressions over a group, of each kind (sql_aggregates)

and sql_over has OVER and ORDER BY.

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

from property.engine_model import WINDOWS
from property.sql_aggregates import AGGREGATES
from property.sql_over import direction, first_places, over_call, totally
from property.sql_values import LITERALS, VALUES, Scope, choice, comparison
from property.sql_windows import BETWEEN, STREAMS, Column, Item, Relation, Windowed, columns_of, windows

EXACT_KINDS = ("int", "int", "int", "text", "text", "decimal", "double", "time", "bool")
KINDS = (*EXACT_KINDS, "mean")
TO_STREAM = (None, None, None, None, None, "ISTREAM", "DSTREAM", "RSTREAM")
MOST_ITEMS = 4  # windowed ones, in a whole query: about so many


@dataclass(frozen=True)
class Query:
    """`WITH parts SELECT listed tail`; a set operation has no list of its own, and is all tail."""

    columns: tuple[Column, ...]
    tail: str
    listed: str | None = None
    parts: tuple[str, ...] = ()
    is_cut: bool = False  # by LIMIT, which belongs to this query alone

    def text(self, to_stream: str | None = None) -> str:
        head = f"WITH {', '.join(self.parts)} " if self.parts else ""
        if self.listed is None:
            return f"{head}{self.tail}" if to_stream is None else f"SELECT {to_stream}(*) FROM ({self.text()}) AS answer"
        return f"{head}SELECT {self.listed if to_stream is None else f'{to_stream}({self.listed})'} {self.tail}"

    @property
    def side(self) -> str:
        """As one side of a set operation."""
        return f"({self.text()})" if self.listed is None or self.parts or self.is_cut else self.text()


@dataclass(frozen=True)
class RandomQuery:
    """`either` has what is written in two ways, for the engine and for the oracle; `named` the queries that are created first."""

    query: Query
    items: tuple[Item, ...]
    to_stream: str | None
    either: Mapping[str, tuple[str, str]]
    named: Mapping[str, str]

    def cql(self, prefix: str = "") -> str:
        return self._filled(self.query.text(self.to_stream), 0, prefix)

    def named_cql(self, prefix: str = "", *, is_stream: bool | None = None) -> list[tuple[str, str]]:
        """The queries that this one reads, by their names, in the order in which they are created."""
        streams = {item.name for item in self.items if isinstance(item, Windowed)}
        wanted = {name: text for name, text in self.named.items() if is_stream in (None, name in streams)}
        return [(prefix + name, self._filled(text, 0, prefix)) for name, text in wanted.items()]

    def item_texts(self) -> list[str]:
        return [self._filled(f"{{{i}}}", 0, "") for i in range(len(self.items))]

    @property
    def oracle(self) -> str:
        """Without ISTREAM, DSTREAM or RSTREAM: the relation."""
        return self._filled(self.query.text(), 1)

    def seen_by_window(self, i: int) -> str | None:
        """For the oracle: what the window of an item sees, if not the stream itself."""
        item = self.items[i]
        return self._filled(item.select, 1) if isinstance(item, Windowed) and item.select is not None else None

    @property
    def streams(self) -> set[str]:
        return {item.stream for item in self.items if isinstance(item, Windowed)}

    def _filled(self, text: str, way: int, prefix: str = "") -> str:
        """What is filled in may have places too."""
        names = {name: (prefix + name, f"({inner})")[way] for name, inner in self.named.items()}
        either = {name: ways[way] for name, ways in self.either.items()}
        items = [item.text(alias_of(i)) if way == 0 else f"{table_of(i)} AS {alias_of(i)}" for i, item in enumerate(self.items)]
        while "{" in text:
            text = text.format(*items, **WORDS[way], **names, **either)
        return text

    def __repr__(self) -> str:
        return "; ".join([*(f"{name} AS {text}" for name, text in self.named_cql()), self.cql()])


WORDS = ({"same": "<=>", "timestamp": "TIMESTAMP"}, {"same": "IS NOT DISTINCT FROM", "timestamp": "TIMESTAMPTZ"})


def table_of(i: int) -> str:
    return f"window_{i}"


def alias_of(i: int) -> str:
    return f"w{i}"


@st.composite
def random_queries(draw: st.DrawFn, *, depth: int = 3) -> RandomQuery:
    writer = Writer(draw)
    query = writer.query(writer.kinds(), writer.number(1, depth))
    # a query that is read moves its readers when its answer changes, not with its windows; and a subquery without a window
    # moves with all rows of its stream, also those that it does not show
    is_moved_otherwise = bool(writer.named_queries) or any(isinstance(item, Windowed) and item.moves_unseen for item in writer.items)
    to_stream = draw(st.sampled_from([word for word in TO_STREAM if word != "RSTREAM" or not is_moved_otherwise]))
    return RandomQuery(query, tuple(writer.items), to_stream, writer.both, writer.named_queries)


class Writer:
    """Draws, and remembers what one query has been given so far."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self.items: list[Item] = []
        self.both: dict[str, tuple[str, str]] = {}
        self.named_queries: dict[str, str] = {}
        self.is_windowed = False  # must every stream have a window here?
        self.named: list[tuple[str, tuple[Column, ...]]] = []  # by WITH, where they can be seen
        self.ambiguous: frozenset[str] = frozenset()  # names that an inner query cannot use alone, whatever it is about
        self.last_is_unread = False  # then the next item reads it: a query's frontier is that of what it reads
        self._names = 0

    # --- choices ---------------------------------------------------------------------------

    def drawn(self, strategy: st.SearchStrategy[Any]) -> Any:
        return self._draw(strategy)

    def one_of(self, choices: Sequence[Any]) -> Any:
        return self.drawn(st.sampled_from(list(choices)))

    def maybe(self) -> bool:
        return bool(self.drawn(st.booleans()))

    def once_in(self, n: int) -> bool:
        return self.number(1, n) == n

    def number(self, least: int, most: int) -> int:
        return int(self.drawn(st.integers(least, most)))

    def kinds(self, among: Sequence[str] = KINDS) -> tuple[str, ...]:
        return tuple(self.drawn(st.lists(st.sampled_from(among), min_size=1, max_size=3)))

    def fresh(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def either(self, cql: str, duckdb: str) -> str:
        """What is not written alike."""
        name = self.fresh("e")
        self.both[name] = (cql, duckdb)
        return f"{{{name}}}"

    # --- queries ---------------------------------------------------------------------------

    def query(self, kinds: tuple[str, ...], depth: int) -> Query:
        return self.one_of(QUERIES if depth > 1 else SHALLOW_QUERIES)(self, kinds, depth)

    def listed(self, kinds: Sequence[str], values: Callable[[str], str]) -> tuple[str, tuple[Column, ...]]:
        """A select list of these kinds, and its columns."""
        columns = tuple(Column(self.fresh("c"), kind) for kind in kinds)
        return ", ".join(f"{values(column.kind)} AS {column.name}" for column in columns), columns

    def cut(self, query: Query, scope: Scope) -> Query:
        """The query, or the first rows of it.  `scope` can be ordered by, beside what is shown."""
        if not self.once_in(4) or any(column.kind == "mean" for column in query.columns):
            return query
        hidden = [self.one_of(names)] if (names := [column for column in scope if column.kind != "mean"]) and self.maybe() else []
        keys = totally(self, [*hidden, *self.drawn(st.permutations(query.columns))])
        offset = self.one_of(["", "", " OFFSET 1"])
        return replace(query, tail=f"{query.tail} ORDER BY {keys} LIMIT {self.number(1, 4)}{offset}", is_cut=True)

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

    def put(self, item: Item) -> tuple[str, str, tuple[Column, ...]]:
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
        kind = self.one_of(
            [
                "JOIN",
                "JOIN",
                "LEFT JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
                "SEMI JOIN",
                "ANTI JOIN",
                "CROSS JOIN",
                "ASOF",
                "ASOF LEFT",
            ]
        )
        if kind.startswith("ASOF"):
            return self._asof(left, scope, right, own, kind)
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
        about_one = f" AND {self._about_one(scope, own, depth)}" if depth > 1 and len(self.items) < MOST_ITEMS and self.once_in(4) else ""
        return f"{left} {kind} {right} ON {self.join_condition(scope, own)}{about_one}", after

    def _about_one(self, scope: Scope, own: Scope, depth: int) -> str:
        """A query in ON, which names one side and sees both."""
        side, other = self.one_of([(scope, own), (own, scope)])
        before, self.ambiguous = self.ambiguous, frozenset(_bare(column) for column in other)
        written = self.one_of([exists, in_rows, value_condition])(self, side, depth - 1)
        self.ambiguous = before
        return f"({written})"

    def _asof(self, left: str, scope: list[Column], right: str, own: list[Column], kind: str) -> tuple[str, list[Column]]:
        """For the oracle: the nearest row behind each left one, of ties the greatest by all columns."""
        scope = [column for column in scope if not any(_bare(other) == column.name for other in own)]
        pairs = [(a, b) for a in scope for b in own if a.kind == b.kind and a.kind in ("int", "time", "decimal", "double")]
        if not pairs or any(column.kind == "mean" for column in own):
            return f"{left} CROSS JOIN {right}", [*scope, *own]
        a, b = self.one_of(pairs)
        compared, equal = self.one_of([">=", ">", "<=", "<"]), ""
        keys = [(one, other) for one in scope for other in own if one.kind == other.kind and one.kind in ("text", "int") and other != b]
        if keys and self.maybe():
            equal = " = ".join(column.name for column in self.one_of(keys))
        nearest = ", ".join([f"{b.name} {'DESC' if '>' in compared else 'ASC'}", *(f"{column.name} DESC NULLS LAST" for column in own)])
        alias = own[0].name.split(".")[0]
        partner = f"SELECT * FROM {right} WHERE {a.name} {compared} {b.name}{equal and f' AND {equal}'} ORDER BY {nearest} LIMIT 1"
        lateral = f"{left} {'LEFT' if 'LEFT' in kind else ''} JOIN LATERAL ({partner}) AS {alias} ON TRUE"
        matched = f"{left} {kind} JOIN {right} MATCH_CONDITION ({a.name} {compared} {b.name}){equal and f' ON {equal}'}"
        return self.either(matched, lateral), [*scope, *own]

    def _shared(self, scope: list[Column], own: list[Column]) -> list[str]:
        """The names that USING could name: once on each side, of one kind."""
        found = []
        for column in own:
            name = _bare(column)
            same = [other for other in scope if other.name == name] or [other for other in scope if _bare(other) == name]
            if len(same) == 1 and same[0].kind == column.kind and column.kind in ("int", "text"):
                found.append(name)
        return found

    def join_condition(self, one: Scope, other: Scope) -> str:
        """About both sides: an equality in most cases."""
        pairs = [(a, b) for a in one for b in other if a.kind == b.kind and a.kind != "mean"]
        if not pairs or self.once_in(6):
            return self.condition([*one, *other])
        likely = [(a, b) for a, b in pairs if a.kind in ("int", "text")]  # times meet seldom
        a, b = self.one_of(pairs if not likely or self.once_in(6) else likely)
        equal = f"{a.name} {self.one_of(['=', '=', '=', '{same}', '<', '>='])} {b.name}"
        return f"{equal} AND {self.condition([*one, *other])}" if self.once_in(4) else equal

    def where(self, scope: Scope, depth: int) -> str:
        """WHERE, or nothing; conditions with a query stand beside the others."""
        conditions = [self.condition(scope)] if self.once_in(4) else []
        if depth > 1 and self.once_in(4):
            conditions.append(self.one_of(SUBQUERY_CONDITIONS)(self, scope, depth - 1))
        return f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""

    # --- expressions -----------------------------------------------------------------------

    def value(self, kind: str, scope: Scope, depth: int = 1) -> str:
        """An expression of this kind: a column in most cases."""
        columns = [column.name for column in scope if column.kind == kind]
        if columns and (depth == 0 or not self.once_in(4)):
            return self.one_of(columns)
        if depth == 0:
            return LITERALS[kind](self)
        ways = VALUES[kind] if columns or kind == "bool" else [choice(kind)]  # from row to row something else, in any case
        return self.one_of(ways)(self, scope, depth - 1)

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
    with_over, placed = w.once_in(3), iter([True])

    def of_row(kind: str) -> str:
        if with_over and w.maybe():
            return over_call(w, kind, scope, scope, placed=next(placed, False))
        return subquery_value(w, kind, scope, depth) if w.once_in(6) else w.value(kind, scope)

    listed, columns = w.listed(kinds, of_row)
    distinct = "DISTINCT " if "mean" not in kinds and w.once_in(4) else ""
    return w.cut(Query(columns, f"FROM {source}{where}", f"{distinct}{listed}"), [] if distinct else scope)


def grouped(w: Writer, kinds: tuple[str, ...], depth: int) -> Query:
    source, scope = w.source(depth)
    where, scope = w.where(scope, depth), w.shortened(scope)
    keys = list({key.name: key for key in (w.key(scope) for _ in range(w.number(0, 2)))}.values())
    with_sets = len(keys) > 0 and w.once_in(4)
    with_over = not with_sets and w.once_in(5)

    def of_group(kind: str) -> str:
        fitting = [key.name for key in keys if key.kind == kind]
        if fitting and w.maybe():
            return str(w.one_of(fitting))
        if with_sets and kind == "int" and w.maybe():
            return f"grouping({w.one_of(keys).name})"
        if kind != "time" and w.once_in(10):
            return subquery_value(w, kind, [key for key in keys if "." in key.name], depth)
        return str(w.one_of(AGGREGATES[kind])(w, scope))

    def of_groups(kind: str) -> str:
        if not with_over or w.once_in(3):
            return of_group(kind)
        shown = [Column(str(w.one_of(AGGREGATES[other])(w, scope)), other) for other in ("int", "text")]
        return over_call(w, kind, [*keys, *shown], keys, placed=True)

    listed, columns = w.listed(kinds, of_groups)
    by = f" GROUP BY {_sets(w, keys) if with_sets else ', '.join(key.name for key in keys)}" if keys else ""
    having = [of_group("bool")] if w.once_in(4) else []
    # over nothing Spark has no group, not even that of the empty set
    shown = w.either(_having(having), _having([*having, "count(*) > 0"])) if with_sets else _having(having)
    return w.cut(Query(columns, f"FROM {source}{where}{by}{shown}", listed), [])


def _having(conditions: Sequence[str]) -> str:
    return f" HAVING {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""


def _sets(w: Writer, keys: Sequence[Column]) -> str:
    names = [key.name for key in keys]
    some = w.drawn(st.lists(st.sampled_from(["()", *(f"({name})" for name in names)]), max_size=2, unique=True))
    sets = ", ".join({f"({', '.join(names)})": None, **dict.fromkeys(some)})  # each key is in one of them
    return str(w.one_of([f"ROLLUP ({', '.join(names)})", f"CUBE ({', '.join(names)})", f"GROUPING SETS ({sets})"]))


def combined(w: Writer, kinds: tuple[str, ...], depth: int) -> Query:
    words = ["UNION ALL"] if "mean" in kinds else ["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]
    left, right = (w.query(kinds, depth - 1) for _ in range(2))
    return w.cut(Query(left.columns, f"{left.side} {w.one_of(words)} {right.side}"), [])


def first_rows(w: Writer, kinds: tuple[str, ...], depth: int) -> Query:
    """The first rows of each partition, by their places."""
    source, scope = w.source(depth)
    scope = [column for column in scope if column.kind != "mean"] or [Column("coalesce(1, 2)", "int")]
    where = w.where(scope, depth)
    columns = tuple(Column(w.fresh("c"), column.kind) for column in scope)
    listed = ", ".join(f"{column.name} AS {shown.name}" for column, shown in zip(scope, columns, strict=True))
    place, alias = w.fresh("c"), w.fresh("t")
    inner = f"SELECT {listed}, {first_places(w, scope)} AS {place} FROM {source}{where}"
    outer = [*(Column(f"{alias}.{column.name}", column.kind) for column in columns), Column(f"{alias}.{place}", "int")]
    shown, shown_columns = w.listed(kinds, lambda kind: w.value(kind, outer))
    condition = f"{alias}.{place} {w.one_of(['<= 1', '<= 2', '<= 3', '< 3', '= 1', '= 2'])}"
    more = f" AND {w.condition(outer)}" if w.once_in(4) else ""
    return Query(shown_columns, f"FROM ({inner}) AS {alias} WHERE {condition}{more}", shown)


def qualified(w: Writer, kinds: tuple[str, ...], depth: int) -> Query:
    """The first rows of each partition, by QUALIFY."""
    source, scope = w.source(depth)
    scope = [column for column in scope if column.kind != "mean"] or [Column("coalesce(1, 2)", "int")]
    where = w.where(scope, depth)
    listed, columns = w.listed(kinds, lambda kind: w.value(kind, scope))
    condition = f"{first_places(w, scope)} {w.one_of(['<= 1', '<= 2', '= 2', '> 1'])}"
    more = f" {w.one_of(['AND', 'OR'])} {w.condition(scope)}" if w.once_in(4) else ""
    return Query(columns, f"FROM {source}{where} QUALIFY {condition}{more}", listed)


def with_name(w: Writer, kinds: tuple[str, ...], depth: int) -> Query:
    named = w.query(w.kinds(), depth - 1)
    name = w.fresh("n")
    with w.naming(name, named.columns):
        query = w.query(kinds, depth - 1)
    return replace(query, parts=(f"{name} AS ({named.text()})", *query.parts))


SHALLOW_QUERIES = (selected, selected, grouped)
QUERIES = (*SHALLOW_QUERIES, grouped, combined, with_name, first_rows, qualified)


# --- items of FROM ----------------------------------------------------------------------------


def windowed_stream(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    stream = w.one_of(sorted(STREAMS))
    columns = columns_of(stream)
    return w.put(Windowed(stream, None, columns, w.drawn(windows(columns, is_written=w.is_windowed))))


def windowed_rows(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    """A window over filtered and projected rows of a stream."""
    stream = w.one_of(sorted(STREAMS))
    scope = columns_of(stream)
    listed, columns = w.listed(w.kinds(EXACT_KINDS), lambda kind: w.value(kind, scope))
    where = f" WHERE {w.condition(scope)}" if w.once_in(3) else ""
    return w.put(Windowed(stream, f"SELECT {listed} FROM {stream}{where}", columns, w.drawn(windows(columns, is_written=w.is_windowed))))


def window_over_named(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    """A window over a query that is a stream by itself.  Of its elements at one instant none is the newest by arrival: no ROWS."""
    text, _, columns = windowed_rows(w, depth)
    item = w.items[-1]
    assert isinstance(item, Windowed)
    name = w.fresh("m")
    w.named_queries[name] = item.select or ""
    w.items[-1] = replace(item, name=name, window=w.one_of([*WINDOWS, *BETWEEN]))
    return text, alias_of(len(w.items) - 1), columns


def relation(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    """Not as the first item, for a query's frontier is that of its streams."""
    return w.put(Relation()) if w.items else windowed_stream(w, depth)


def named_elsewhere(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    """A query with a name of its own, that others could read too; a relation, for all its streams have windows."""
    before, w.is_windowed = w.is_windowed, True
    visible, w.named = w.named, []
    query, name, alias = w.query(w.kinds(), depth - 1), w.fresh("m"), w.fresh("t")
    w.is_windowed, w.named = before, visible
    w.named_queries[name] = query.text()
    return f"{{{name}}} AS {alias}", alias, query.columns


def subquery(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    query, alias = w.query(w.kinds(), depth - 1), w.fresh("t")
    return f"({query.text()}) AS {alias}", alias, query.columns


def named_query(w: Writer, depth: int) -> tuple[str, str, tuple[Column, ...]]:
    (name, columns), alias = w.named[-1] if w.last_is_unread else w.one_of(w.named), w.fresh("t")
    w.last_is_unread = False
    return f"{name} AS {alias}", alias, columns


SHALLOW_ITEMS = (windowed_stream, windowed_stream, windowed_rows, relation)
ITEMS = (*SHALLOW_ITEMS, subquery, subquery, named_elsewhere, window_over_named)
"""And the queries that WITH has named, where there are any."""


# --- conditions with a query ------------------------------------------------------------------


def exists(w: Writer, outer: Scope, depth: int) -> str:
    source, scope = w.source(depth)
    conditions = [w.join_condition(_from_within(w, outer, scope), scope)] if not w.once_in(4) else []
    conditions += [w.condition(scope)] if w.once_in(4) else []
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{w.one_of(['', 'NOT '])}EXISTS (SELECT 1 FROM {source}{where})"


def in_rows(w: Writer, outer: Scope, depth: int) -> str:
    kind = w.one_of(["int", "text", "decimal"])
    source, scope = w.source(depth)
    where = f" WHERE {w.join_condition(_from_within(w, outer, scope), scope)}" if w.maybe() else ""
    return f"{w.value(kind, outer)} {w.one_of(['', 'NOT '])}IN (SELECT {w.value(kind, scope)} FROM {source}{where})"


def in_query(w: Writer, outer: Scope, depth: int) -> str:
    """With a query that is more than FROM and WHERE."""
    kind = w.one_of(["int", "text", "decimal"])
    query = w.one_of([grouped, combined] if depth > 1 else [grouped])(w, (kind,), depth)
    return f"{w.value(kind, outer)} {w.one_of(['', 'NOT '])}IN ({query.text()})"


def in_pairs(w: Writer, outer: Scope, depth: int) -> str:
    """Row values, without NULLs: of these the databases think differently."""
    source, scope = w.source(depth)

    def pair(names: Scope) -> str:
        return f"coalesce({w.value('int', names, 0)}, 7), coalesce({w.value('text', names, 0)}, 'n')"

    return f"({pair(outer)}) {w.one_of(['', 'NOT '])}IN (SELECT {pair(scope)} FROM {source})"


# --- queries as values ------------------------------------------------------------------------


def subquery_value(w: Writer, kind: str, outer: Scope, depth: int) -> str:
    """One value of another query, or whether it has rows; where there are enough windows, an expression."""
    if depth < 2 or len(w.items) >= MOST_ITEMS:
        return w.value(kind, outer) if outer else LITERALS[kind](w)
    source, scope = w.source(1)
    where = _about_outer(w, outer, scope)
    if kind == "bool" and w.maybe():
        inner = w.one_of([column.kind for column in scope if column.kind in ("int", "text")] or ["bool"])
        tests = [
            f"EXISTS (SELECT 1 FROM {source}{where})",
            f"{w.value(inner, outer, 0)} IN (SELECT {w.value(inner, scope, 0)} FROM {source}{where})",
        ]
        return f"({w.one_of(['', 'NOT '])}{w.one_of(tests)})"
    if kind not in ("bool", "mean") and w.once_in(3):
        value = w.value(kind, scope, 0)
        return f"(SELECT {value} FROM {source}{where} ORDER BY coalesce({value}, NULL) {direction(w)} LIMIT 1)"
    return f"(SELECT {w.one_of(AGGREGATES[kind])(w, scope)} FROM {source}{where})"


def _about_outer(w: Writer, outer: Scope, scope: Scope) -> str:
    """WHERE of an inner query: equal to the outer one in most cases; a query inside it may name both."""
    named = [column for column in outer if "." in column.name and column.name.replace(".", "").isalnum()]
    pairs = [(a, b) for a in named for b in scope if a.kind == b.kind and a.kind in ("int", "text")]
    conditions = []
    if pairs and w.maybe():
        one, other = w.drawn(st.permutations(w.one_of(pairs)))
        conditions.append(f"{one.name} {w.one_of(['=', '=', '=', '{same}', '<', '>='])} {other.name}")
    if pairs and len(w.items) < MOST_ITEMS and w.once_in(4):
        conditions.append(exists(w, [*w.one_of(pairs)], 1))
    conditions += [w.condition(scope)] if w.once_in(5) else []
    return f" WHERE {' AND '.join(f'({condition})' for condition in conditions)}" if conditions else ""


def value_condition(w: Writer, outer: Scope, depth: int) -> str:
    """A query under OR or NOT, or compared."""
    if w.maybe():
        return f"{subquery_value(w, 'bool', outer, depth + 1)} {w.one_of(['OR', 'OR NOT'])} {comparison(w, outer, 0)}"
    kind = w.one_of(["int", "text"])
    return f"{w.value(kind, outer, 0)} {w.one_of(['=', '<>', '<', '>='])} {subquery_value(w, kind, outer, depth + 1)}"


def _from_within(w: Writer, outer: Scope, inner: Scope) -> Scope:
    """How an inner query can name the outer one's columns: without an alias where it has no such name itself."""
    hidden, names = {_bare(column) for column in inner} | w.ambiguous, [_bare(column) for column in outer]
    qualified = [column for column in outer if "." in column.name]
    merged = [column for column in outer if "." not in column.name and column.name not in hidden]
    short = [Column(_bare(column), column.kind) for column in qualified if _bare(column) not in hidden and names.count(_bare(column)) == 1]
    return [*qualified, *merged, *short]


def _bare(column: Column) -> str:
    return column.name.rsplit(".", 1)[-1]


SUBQUERY_CONDITIONS = (exists, in_rows, in_query, in_pairs, value_condition, value_condition)
