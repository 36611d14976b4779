"""OVER and ORDER BY of random SQL.

Orders name every column, so that what SQL leaves open does not matter: rows that tie are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from property.sql_windows import Column

if TYPE_CHECKING:
    from property.sql_queries import Writer

Columns = Sequence[Column]

EDGES = ("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING", "2 FOLLOWING", "UNBOUNDED FOLLOWING")
RANKS = {"int": ["rank()", "dense_rank()"], "mean": ["percent_rank()", "cume_dist()"]}


def totally(w: Writer, columns: Columns) -> str:
    """An order by all these columns."""
    return ", ".join(f"{column.name} {direction(w)}" for column in columns)


def first_places(w: Writer, scope: Columns) -> str:
    return f"{w.one_of(['row_number()', 'row_number()', 'rank()'])} OVER ({_partition(w, scope)}ORDER BY {_total_order(w, scope)})"


def over_call(w: Writer, kind: str, scope: Columns, whole: Columns, *, placed: bool) -> str:
    """A call of this kind; `whole` are columns that tell rows apart.

    `placed` lets it depend on a row's place.  Equal rows have different places, and nobody says which of them has which in
    two orders: so only one call of a list may do that.
    """
    exact = [column for column in scope if column.kind != "mean"]
    is_total = placed and all(column.kind != "mean" for column in whole)
    ways = [_over_all, _by_range] if kind in ("int", "decimal", "double", "mean", "text") else [_over_all]
    if is_total and whole:
        ways += [_by_rows, _by_rows, _neighbour]
        ways += [_place] * 2 if kind == "int" else []
    ways += [_rank] * 2 if kind in RANKS and exact else []
    return str(w.one_of(ways)(w, kind, scope, whole))


def _over_all(w: Writer, kind: str, scope: Columns, whole: Columns) -> str:
    return f"{_aggregate(w, kind, scope)} OVER ({_partition(w, scope)})"


def _by_range(w: Writer, kind: str, scope: Columns, whole: Columns) -> str:
    """Peers are in the frame together."""
    exact = [column for column in scope if column.kind != "mean"]
    if not exact:
        return _over_all(w, kind, scope, whole)
    key = w.one_of(exact)
    frame = ""
    if w.maybe():
        edges = EDGES if key.kind in ("int", "double") else [edge for edge in EDGES if not edge[0].isdigit()]
        frame = f" RANGE BETWEEN {_edges(w, edges)}"
    return f"{_aggregate(w, kind, scope)} OVER ({_partition(w, scope)}ORDER BY {key.name} {direction(w)}{frame})"


def _by_rows(w: Writer, kind: str, scope: Columns, whole: Columns) -> str:
    call = _aggregate(w, kind, scope) if w.maybe() else _looked_up(w, w.one_of(["first_value", "last_value"]), w.value(kind, scope, 0))
    return f"{call} OVER ({_partition(w, scope)}ORDER BY {_total_order(w, whole)} ROWS BETWEEN {_edges(w, EDGES)})"


def _neighbour(w: Writer, kind: str, scope: Columns, whole: Columns) -> str:
    call = _looked_up(w, w.one_of(["lag", "lead"]), f"{w.value(kind, scope, 0)}{w.one_of(['', ', 1', ', 2'])}")
    return f"{call} OVER ({_partition(w, scope)}ORDER BY {_total_order(w, whole)})"


def _looked_up(w: Writer, function: str, arguments: str) -> str:
    if not w.once_in(3):
        return f"{function}({arguments})"
    return w.either(f"{function}({arguments}) IGNORE NULLS", f"{function}({arguments} IGNORE NULLS)")


def _place(w: Writer, kind: str, scope: Columns, whole: Columns) -> str:
    return f"{w.one_of(['row_number()', 'ntile(2)', 'ntile(3)'])} OVER ({_partition(w, scope)}ORDER BY {_total_order(w, whole)})"


def _rank(w: Writer, kind: str, scope: Columns, whole: Columns) -> str:
    key = w.one_of([column for column in scope if column.kind != "mean"])
    return f"{w.one_of(RANKS[kind])} OVER ({_partition(w, scope)}ORDER BY {key.name} {direction(w)})"


def _aggregate(w: Writer, kind: str, scope: Columns) -> str:
    if kind == "int" and w.maybe():
        return f"count({w.one_of(['*', *(column.name for column in scope)])})"
    if kind == "mean":
        return f"avg({w.value('int', scope, 0)})"
    functions = ["min", "max", "sum"] if kind in ("int", "decimal", "double") else ["min", "max"]
    return f"{w.one_of(functions)}({w.value(kind, scope, 0)})"


def _partition(w: Writer, scope: Columns) -> str:
    exact = [column.name for column in scope if column.kind != "mean"]
    return f"PARTITION BY {w.one_of(exact)} " if exact and w.maybe() else ""


def _total_order(w: Writer, columns: Columns) -> str:
    return totally(w, w.drawn(st.permutations(list(columns))))


def direction(w: Writer) -> str:
    return str(w.one_of(["ASC NULLS FIRST", "ASC NULLS LAST", "DESC NULLS FIRST", "DESC NULLS LAST"]))


def _edges(w: Writer, edges: Sequence[str]) -> str:
    """Of a frame that can hold rows: from an earlier place to a later one."""
    first = w.number(0, len(edges) - 2)
    return f"{edges[first]} AND {edges[w.number(max(first, 1), len(edges) - 1)]}"
