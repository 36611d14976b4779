"""A PSoup that keeps nothing but the rows, and random queries for it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.kernels.comparison_keys import OPERATORS
from millstream.kernels.predicate_index import Factor
from millstream.psoup.query import Aggregate, Clause, ColumnOf, Condition, JoinFactor, Now, Query, Selection, Source, window_at
from property.histories import Bag, aggregate_slow, bag, sort_key, values

Row = tuple[Any, ...]
COMPARE = {"<": operator.lt, "<=": operator.le, "=": operator.eq, ">=": operator.ge, ">": operator.gt}
STREAMS = {"r": Schema.of(a="INT", b="BIGINT", x="DOUBLE", s="STRING"), "q": Schema.of(c="INT", x="DOUBLE", s="STRING", t="TIMESTAMP")}


def a_is_even(rows: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.array([value is not None and value % 2 == 0 for value in rows.column("a").to_pylist()], np.bool_)


@dataclass
class SlowSoup:
    """The definition: all rows of all sources, those in the window, those that satisfy everything."""

    rows: dict[str, list[tuple[Micros, Row]]] = field(default_factory=lambda: {name: [] for name in STREAMS})

    def answer(self, query: Query, now: Micros) -> Bag:
        clause = query.clause
        begin, end = window_at(query, now)
        inside = [[row for ts, row in self.rows[source.stream] if begin <= ts <= end] for source in clause.sources]
        kept = [_named(clause, rows) for rows in product(*inside)]
        kept = [each for each in kept if _satisfies(clause, each)]
        if query.aggregates:
            return _aggregated(query, kept)
        rows = [tuple(each[of] for _, of in query.select) for each in kept]
        return bag(_distinct(rows) if query.distinct else rows)


def _named(clause: Clause, rows: Sequence[Row]) -> dict[ColumnOf, Any]:
    return {
        ColumnOf(source.name, name): value
        for source, row in zip(clause.sources, rows, strict=True)
        for name, value in zip(STREAMS[source.stream].names, row, strict=True)
    }


def _satisfies(clause: Clause, row: Mapping[ColumnOf, Any]) -> bool:
    for each in clause.factors:
        if not _compare(row[ColumnOf(each.source, each.factor.column)], each.factor.op, each.factor.constant):
            return False
    for join in clause.joins:
        right = row[join.right]
        if not _compare(row[join.left], join.op, right if right is None or not join.plus else right + join.plus):
            return False
    return all(_listed(condition, row) for condition in clause.conditions)


def _compare(left: Any, op: str, right: Any) -> bool:
    if left is None or right is None:
        return False
    if isinstance(left, float) != isinstance(right, float):
        left, right = float(left), float(right)
    return bool(COMPARE[op](sort_key(left), sort_key(right)))


def _listed(condition: Condition, row: Mapping[ColumnOf, Any]) -> bool:
    """What `conditions()` draws."""
    value = [row[of] for _, of in condition.reads]
    if condition.holds is a_is_even:
        return value[0] is not None and value[0] % 2 == 0
    return None not in value and (value[0] > 0 if len(value) == 1 else value[0] + value[1] < 4)


def _distinct(rows: list[Row]) -> list[Row]:
    return list({key: row for row in rows for key in [next(iter(bag([row])))]}.values())


def _aggregated(query: Query, kept: list[dict[ColumnOf, Any]]) -> Bag:
    from millstream.plan.logical import AggregateCall

    types = {ColumnOf(s.name, f.name): f for s in query.clause.sources for f in STREAMS[s.stream]}
    results = {"count": pa.int64(), "avg": pa.float64()}
    calls, columns = [], []
    for place, call in enumerate(query.aggregates):
        type_ = types[call.of].type if call.of is not None else pa.int64()
        sums = pa.float64() if pa.types.is_floating(type_) else pa.int64()
        result = results.get(call.function, sums if call.function == "sum" else type_)
        calls.append(AggregateCall(call.name, call.function, f"c{place}" if call.of is not None else None, result))
        columns.append((f"c{place}", type_, call.of))
    from millstream.core.schema import Field

    schema = Schema(tuple(Field(name, type_) for name, type_, _ in columns))
    rows = [tuple(each[of] if of is not None else 1 for _, _, of in columns) for each in kept]
    return aggregate_slow(rows, schema, (), tuple(calls))


# --- random ones ------------------------------------------------------------------------------


def cells(type_: pa.DataType) -> st.SearchStrategy[Any]:
    """Few values, so that rows meet; sums of these doubles are exact."""
    if pa.types.is_float64(type_):
        return st.sampled_from([1.0, 2.0, 0.5, 0.0, -0.0, -1.5, None, float("nan")])
    if pa.types.is_int64(type_):
        return st.sampled_from([1, 2, 0, 3, -1, 2, None, 2**63 - 1, -(2**63)])
    if pa.types.is_integer(type_):
        return st.sampled_from([1, 2, 3, 0, -1, None])
    if pa.types.is_string(type_):
        return st.sampled_from(["a", "b", "", "ab", "é", None])
    return values(type_)


def rows_of(stream: str) -> st.SearchStrategy[Row]:
    return st.tuples(*(cells(field.type) for field in STREAMS[stream]))


@st.composite
def clauses(draw: st.DrawFn) -> Clause:
    kinds = [("r",), ("q",), ("r", "q"), ("q", "r"), ("r", "r"), ("r", "q", "r")]
    streams = draw(st.sampled_from([*kinds, ("r", "q")]))
    sources = tuple(Source(f"{stream}{place}", stream) for place, stream in enumerate(streams))
    factors = []
    for source in draw(st.lists(st.sampled_from(sources), max_size=draw(st.sampled_from([0, 1, 1, 3])))):
        field_ = draw(st.sampled_from(STREAMS[source.stream].fields))
        factors.append(Selection(source.name, Factor(field_.name, draw(st.sampled_from(OPERATORS)), draw(cells(field_.type)))))
    joins = [draw(join_factors(sources[place], sources[place + 1])) for place in range(len(sources) - 1)]
    conditions = draw(st.lists(st.sampled_from(_conditions(sources)), max_size=1)) if draw(st.booleans()) else []
    return Clause(sources, tuple(factors), tuple(join for join in joins if join is not None), tuple(conditions))


@st.composite
def join_factors(draw: st.DrawFn, left: Source, right: Source) -> JoinFactor | None:
    """A pair of columns that can be compared; sometimes none, and all rows meet all."""
    integers, doubles, strings = {"r": ["a", "b"], "q": ["c"]}, {"r": ["x"], "q": ["x"]}, {"r": ["s"], "q": ["s"]}
    op = draw(st.sampled_from(OPERATORS))
    kind = draw(st.sampled_from(["integers", "integers", "doubles", "mixed", "strings", "none"]))
    plus: Any = draw(st.sampled_from([0, 0, 1, -2]))
    if kind == "none":
        return None
    if kind == "strings":
        op, plus = "=", 0
    by_kind = {"integers": (integers, integers), "doubles": (doubles, doubles), "mixed": (integers, doubles), "strings": (strings, strings)}
    lefts, rights = by_kind[kind]
    names = draw(st.sampled_from(lefts[left.stream])), draw(st.sampled_from(rights[right.stream]))
    if plus and names == ("b", "b"):
        plus = 0  # beyond 64 bits the definition here is not that of the engine
    plus = plus if names[1] != "b" else 0
    factor = JoinFactor(ColumnOf(left.name, names[0]), op, ColumnOf(right.name, names[1]), plus)
    swapped = JoinFactor(factor.right, factor.op, factor.left, factor.plus if names[0] != "b" else 0)
    return draw(st.sampled_from([factor, swapped]))


def _conditions(sources: Sequence[Source]) -> list[Condition]:
    column = {"r": "a", "q": "c"}
    first = ColumnOf(sources[0].name, column[sources[0].stream])
    found = [Condition((("a", first),), a_is_even), Condition((("v", first),), '"v" > 0')]
    if len(sources) > 1:
        second = ColumnOf(sources[1].name, column[sources[1].stream])
        found.append(Condition((("v", first), ("w", second)), '"v" + "w" < 4'))
    return found


def windows() -> st.SearchStrategy[tuple[Any, Any]]:
    """Snapshots, landmarks, sliding windows."""
    instants, lengths = st.integers(0, 12), st.sampled_from([3, 6, 20, 1, 0])
    snapshot = st.tuples(instants, instants).map(sorted).map(tuple)
    landmark = st.tuples(st.integers(0, 5), st.sampled_from([0, 1, 3]).map(Now))
    sliding = st.tuples(lengths, st.sampled_from([0, 0, 1, 2])).map(lambda both: (Now(max(both)), Now(min(both))))
    return st.one_of(snapshot, landmark, sliding, sliding)


@st.composite
def queries(draw: st.DrawFn, some: st.SearchStrategy[Clause] | None = None) -> Query:
    clause = draw(some if some is not None else clauses())
    columns = [ColumnOf(source.name, name) for source in clause.sources for name in STREAMS[source.stream].names]
    begin, end = draw(windows())
    if draw(st.booleans()):
        select = tuple((f"o{place}", of) for place, of in enumerate(draw(st.lists(st.sampled_from(columns), min_size=1, max_size=3))))
        return Query(clause, select, begin, end, distinct=draw(st.booleans()))
    numbers = [of for of in columns if of.column in "abcx"]
    calls = [Aggregate("n", "count")]
    for place, function in enumerate(draw(st.lists(st.sampled_from(["count", "sum", "avg", "min", "max"]), max_size=3))):
        calls.append(Aggregate(f"f{place}", function, draw(st.sampled_from(numbers if function in ("sum", "avg") else columns))))  # type: ignore[arg-type]
    return Query(clause, (), begin, end, aggregates=tuple(calls))


def batch_of(stream: str, rows: Sequence[Row]) -> pa.RecordBatch:
    schema = STREAMS[stream]
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema.to_arrow())


def answer_bag(answer: pa.RecordBatch) -> Bag:
    return bag(tuple(row) for row in zip(*(column.to_pylist() for column in answer.columns), strict=True))
