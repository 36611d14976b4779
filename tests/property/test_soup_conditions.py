"""Conditions taken apart for the indexes of a soup hold for the same rows as the text that they come from.

The other side is that text as one expression over all pairs of rows, evaluated row by row.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.language.binder import bind_query
from millstream.language.catalog import Catalog
from millstream.language.parser import parse, parse_one
from millstream.operators.evaluator import Evaluator
from millstream.plan.duckdb_sql import to_duckdb
from millstream.plan.logical import Filter, Plan, children
from millstream.psoup.from_plan import Planned, planned
from millstream.psoup.query import VARIANTS
from millstream.psoup.soup import Soup

TYPES = {
    "i": "INT", "h": "SMALLINT", "l": "BIGINT", "d": "DOUBLE", "f": "FLOAT", "s": "STRING", "t": "TIMESTAMP", "n": "DECIMAL(6,2)",
    "b": "BOOLEAN",
}  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, 2, -1, 2**31 - 1, -(2**31), None], "h": [0, 1, 2, 2**15 - 1, -(2**15), None],
    "l": [0, 1, 2, 2**63 - 1, -(2**63), 2**53 + 1, 2**31, None],
    "d": [0.0, -0.0, 1.0, 1.5, float("nan"), float("inf"), float("-inf"), 2.0**53, 1e300, None],
    "f": [0.0, -0.0, 1.5, float("nan"), 0.1, None],
    "s": ["", "a", "b", "ab", None], "t": [0, 1_000_000, 2_000_000, -1, None],
    "n": [Decimal("0.00"), Decimal("1.50"), Decimal("2.00"), None],
    "b": [True, False, None],
}  # fmt: skip
CONSTANTS: dict[str, list[str]] = {
    "i": ["0", "1", "2147483647", "-2147483648", "2147483648", "1.5", "2L", "NULL", "1 + 1", "CAST(2 AS SMALLINT)", "CAST(1 AS DOUBLE)"],
    "h": ["0", "1", "32767", "40000", "2L", "1.5"], "l": ["0", "1", "9223372036854775807", "9007199254740993", "1.5", "NULL", "1e0"],
    "d": ["0.0", "-0.0", "1.5", "2", "CAST('NaN' AS DOUBLE)", "1e300", "CAST(0.1 AS FLOAT)", "NULL", "9007199254740993"],
    "f": ["0.0", "1.5", "0.1", "CAST(0.1 AS FLOAT)", "1", "CAST('NaN' AS FLOAT)"],
    "s": ["'a'", "''", "'ab'", "NULL", "'A'", "concat('a', 'b')"],
    "t": ["TIMESTAMP '1970-01-01T00:00:01Z'", "TIMESTAMP '1970-01-01T00:00:00Z' + INTERVAL 1 SECOND", "DATE '1970-01-01'"],
    "n": ["0", "1.5", "1.50", "1.505", "2L", "1e0"], "b": ["true", "false", "NULL"],
}  # fmt: skip
PLUS: dict[str, list[str]] = {
    "i": ["1", "-1", "2147483647", "0", "1L", "1.5", "NULL"], "h": ["CAST(1 AS SMALLINT)", "1"], "l": ["1", "9223372036854775807", "0"],
    "d": ["1", "0.5D", "1e300", "CAST('NaN' AS DOUBLE)"], "f": ["1", "CAST(0.5 AS FLOAT)"],
    "t": ["INTERVAL 1 SECOND", "INTERVAL -2 DAYS", "INTERVAL 1 MONTH"],
    "n": ["1", "0.50"],
}  # fmt: skip
NUMBERS = ("i", "h", "l", "d", "f", "n")
OPERATORS = ["<", "<=", "=", ">=", ">", "<>", "<=>"]

COLUMNS = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
BOTH = ", ".join(f"{source}_{name} {type_}" for source in "rq" for name, type_ in TYPES.items())
CATALOG = Catalog.empty()
for _statement in parse(
    f"CREATE STREAM r (ts TIMESTAMP, {COLUMNS}) TIMESTAMP BY ts; CREATE STREAM q (ts TIMESTAMP, {COLUMNS}) TIMESTAMP BY ts;"
    f"CREATE STREAM both (ts TIMESTAMP, {BOTH}) TIMESTAMP BY ts"
):
    CATALOG = CATALOG.with_stream(_statement)  # type: ignore[arg-type]
EVALUATOR = Evaluator()


def columns(source: str, name: str) -> st.SearchStrategy[str]:
    """A column, sometimes in another type."""
    plain = st.just(f"{source}.{name}")
    casts = st.sampled_from([f"CAST({source}.{name} AS {TYPES[other]})" for other in NUMBERS])
    return plain | plain | casts if name in NUMBERS else plain


@st.composite
def selections(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(TYPES)))
    column = draw(columns(draw(st.sampled_from("rq")), name))
    constant, op = draw(st.sampled_from(CONSTANTS[name])), draw(st.sampled_from(OPERATORS))
    kind = draw(st.sampled_from(["plain", "plain", "turned", "not", "between"]))
    match kind:
        case "turned":
            return f"{constant} {op} {column}"
        case "not":
            return f"NOT ({column} {op} {constant})"
        case "between":
            return f"{column} BETWEEN {constant} AND {draw(st.sampled_from(CONSTANTS[name]))}"
        case _:
            return f"{column} {op} {constant}"


@st.composite
def joins(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(TYPES)))
    other = draw(st.sampled_from(NUMBERS)) if name in NUMBERS else name
    left, right = draw(st.sampled_from([("r", "q"), ("q", "r"), ("r", "r")]))
    moved = draw(columns(right, other))
    if other in PLUS and draw(st.booleans()):
        plus = draw(st.sampled_from(PLUS[other]))
        moved = draw(st.sampled_from([f"({moved} + {plus})", f"{moved} - {plus}", f"{plus} + {moved}"]))
    sides = [draw(columns(left, name)), moved]
    if draw(st.booleans()):
        sides.reverse()
    return f" {draw(st.sampled_from(OPERATORS))} ".join(sides)


OTHERS = (0.0, 0.0, "", 0, None, None)
ROW = st.tuples(*(st.sampled_from(VALUES[name]) for name in TYPES))
Rows = list[tuple[Any, ...]]


def batch(rows: Rows, prefix: str = "") -> pa.RecordBatch:
    schema = Schema.of(**{f"{prefix}{name}": type_ for name, type_ in TYPES.items()}).to_arrow()
    return pa.RecordBatch.from_arrays([pa.array([row[i] for row in rows], field.type) for i, field in enumerate(schema)], schema=schema)


def stamped(rows: Rows) -> pa.RecordBatch:
    ts = pa.array(range(len(rows)), pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays([ts, *batch(rows).columns], names=["ts", *TYPES])


def expected(text: str, pairs: list[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> list[bool]:
    renamed = text.replace("r.", "r_").replace("q.", "q_")
    bound = bind_query(parse_one(f"SELECT ts FROM both [NOW] WHERE {renamed}").select, CATALOG, "")  # type: ignore[union-attr]
    given_ = pa.RecordBatch.from_arrays(
        [*batch([r for r, _ in pairs]).columns, *batch([q for _, q in pairs]).columns], names=[f"{s}_{n}" for s in "rq" for n in TYPES]
    )
    return list(EVALUATOR.mask(given_, to_duckdb(_filter(bound.plan).predicate)))


def _filter(plan: Plan) -> Filter:
    return plan if isinstance(plan, Filter) else _filter(children(plan)[0])


def answer(plan: Planned, variant: Any, r: Rows, q: Rows, cut: int) -> Counter[tuple[int, int]]:
    soup = Soup(variant, evaluator=EVALUATOR)
    for name, rows in (("r", r), ("q", q)):
        soup.add_stream(name, CATALOG.stream(name).schema)
        soup.insert(name, stamped(rows[:cut]), np.arange(len(rows[:cut])))
    number = soup.register(plan.query)
    for name, rows in (("q", q), ("r", r)):
        if rows[cut:]:
            later = stamped(rows).slice(cut)
            soup.insert(name, later, np.arange(cut, len(rows)))
    found = soup.invoke(number, 1000)
    return Counter(zip(*(column.cast(pa.int64()).to_pylist() for column in found.columns), strict=True))


@settings(max_examples=300, deadline=None)
@given(
    conditions=st.lists(selections() | joins(), min_size=1, max_size=3), r=st.lists(ROW, max_size=5), q=st.lists(ROW, max_size=5),
    cut=st.integers(0, 5),
)  # fmt: skip
@example(["r.i < q.i + 2147483647"], [(0, 0, 0, 0.0, 0.0, "", 0, None, None)], [(1, 0, 0, 0.0, 0.0, "", 0, None, None)], 0)
@example(["r.l = q.d"], [(0, 0, 2**53 + 1, 0.0, 0.0, "", 0, None, None)], [(1, 0, 0, 2.0**53, 0.0, "", 0, None, None)], 0)
@example(["CAST(r.l AS DOUBLE) = CAST(q.l AS DOUBLE)"], [(0, 0, 2**53 + 1, *OTHERS)], [(1, 0, 2**53, *OTHERS)], 0)
@example(["CAST(r.l AS INT) >= q.i"], [(0, 0, 2**32, *OTHERS)], [(0, 0, 2**53, *OTHERS)], 0)
@example(["CAST(r.l AS INT) > 0"], [(0, 0, 2**32, *OTHERS)], [(0, 0, 2**53, *OTHERS)], 0)
@example(["r.f = 0.1"], [(0, 0, 0, 0.0, 0.1, "", 0, None, None)], [(1, 0, 0, 0.0, 0.1, "", 0, None, None)], 0)
def test_conditions_taken_apart_say_the_same(conditions: list[str], r: Rows, q: Rows, cut: int) -> None:
    text = " AND ".join(conditions)
    sql = f"SELECT r.ts AS a, q.ts AS b FROM r, q WHERE {text}"
    bound = bind_query(parse_one(sql).select, CATALOG, sql)  # type: ignore[union-attr]
    pairs = list(product(enumerate(r), enumerate(q)))
    holds = expected(text, [(one, other) for (_, one), (_, other) in pairs])
    wanted = Counter((a, b) for ((a, _), (b, _)), kept in zip(pairs, holds, strict=True) if kept)
    for variant in VARIANTS:
        assert answer(planned(bound, variant), variant, r, q, cut) == wanted, (variant, sql)


def test_the_parts_go_where_they_should() -> None:
    def places(text: str) -> tuple[int, int, int]:
        sql = f"SELECT r.ts FROM r, q WHERE {text}"
        clause = planned(bind_query(parse_one(sql).select, CATALOG, sql), "partial").query.clause  # type: ignore[union-attr]
        return len(clause.factors), len(clause.joins), len(clause.conditions)

    indexed = ["r.i < 5", "5 >= r.i", "r.i = 2L", "r.d < 1", "r.s >= 'b'", "r.n = 1.50 + 0.00", "NOT (r.i < 5)", "r.b = true", "r.f < 1.5D"]
    assert {text: places(text) for text in indexed[:5] + indexed[6:]} == dict.fromkeys(indexed[:5] + indexed[6:], (1, 0, 0))
    assert places("r.i BETWEEN 1 AND 60 * 60") == (2, 0, 0)
    assert places("r.i = 1 AND 1 < 2 AND r.i = 1") == (1, 0, 0), "each once, and nothing of what is always true"
    joined = ["r.i = q.i", "r.i < q.l", "r.l >= q.d", "r.s = q.s", "r.t <= q.t + INTERVAL 5 SECONDS", "q.d - 1 > r.d", "r.n < q.n"]
    assert {text: places(text) for text in joined} == dict.fromkeys(joined, (0, 1, 0))
    assert places("r.i < q.i + 5") == (1, 1, 0), "and what keeps the sum within INT"
    listed = ["r.s < q.s", "r.i + q.i = 5", "r.s LIKE 'a%'", "r.i < r.h", "r.i = 1 OR q.i = 1", "r.i <=> q.i", "r.i < 1.5", "1 > 2",
              "r.t < q.t + INTERVAL 1 MONTH"]  # fmt: skip
    assert {text: places(text) for text in listed} == dict.fromkeys(listed, (0, 0, 1))
