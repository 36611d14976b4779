"""A relation from elsewhere equals one whose user writes, at the same moments, what was found there."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.runtime.relation_changes import difference
from property.examples import examples
from unit.pulls.other_side import SCHEMA, OtherSide
from unit.runtime.manual_clock import ManualClock

KEYS = st.sampled_from(["a", "b", None])
ROWS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 2))), max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("there"), ROWS),
        st.tuples(st.just("row"), KEYS),
        st.tuples(st.just("time"), st.integers(1, 4)),
        st.tuples(st.just("fails"), st.none()),
        st.tuples(st.just("caches are lost"), st.none()),
    ),
    max_size=12,
)
DDL = "CREATE STREAM s (ts TIMESTAMP, k STRING) TIMESTAMP BY ts"
QUERY = "CREATE QUERY q AS SELECT s.k, r.v FROM s [RANGE 3 MICROSECONDS], r WHERE s.k <=> r.k"


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), ()]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def bag(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@given(ROWS, ROWS)
def test_a_difference_leads_from_one_bag_to_the_other_and_nothing_else(held: list[Any], wanted: list[Any]) -> None:
    leaving, entering = difference(table(held), table(wanted))
    assert bag(leaving) == Counter(held) - Counter(wanted)
    assert bag(entering) == Counter(wanted) - Counter(held)


@settings(max_examples=examples(8))
@given(ROWS, STEPS)
def test_what_is_found_elsewhere_is_as_good_as_written_here(first: list[Any], steps: list[tuple[str, Any]]) -> None:
    clock, runner, now = ManualClock(), InlineRunner(), 0
    with tempfile.TemporaryDirectory() as directory, open_inline(
        Path(directory, "pulled"), clock=clock.clock, runner=runner
    ) as pulled, open_inline(Path(directory, "written"), clock=clock.clock) as written:  # fmt: skip
        other = OtherSide(pulled, first)
        pulled.execute(f"{DDL}; CREATE RELATION r (k STRING, v INT) FROM 'elsewhere'; {QUERY}")
        written.execute(f"{DDL}; CREATE RELATION r (k STRING, v INT)")
        written.insert("r", first)
        written.execute(QUERY)
        for step, what in steps:
            if step == "there":
                other.rows, other.fails = what, None
                continue
            if step == "fails":
                other.fails = OSError("away")
                continue
            if step == "caches are lost":
                runner.lose_caches()
                continue
            now += 1 if step == "row" else what
            clock.seconds += 100
            for db in (pulled, written):
                if step == "row":
                    db.insert("s", [(now, what)])
                db.advance("s", now)
            if other.fails is None:
                written.execute("DELETE FROM r")
                written.insert("r", other.rows)
            for db in (pulled, written):
                db.flush()
        assert net_changes(pulled) == net_changes(written)


def net_changes(db: Database) -> dict[tuple[Any, ...], int]:
    """How many copies of each row come or go at each instant."""
    db.advance("s", 1_000)
    db.flush()
    net: Counter[tuple[Any, ...]] = Counter()
    for row in db.query("q").changes().to_pylist():
        net[row["instant"], row["k"], row["v"]] += row["diff"]
    return {key: count for key, count in net.items() if count}
