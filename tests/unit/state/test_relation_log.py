from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from millstream.core.errors import DuplicateColumn, InstantPassed
from millstream.core.instant import BEGINNING, NEVER_BEFORE
from millstream.core.schema import Schema
from millstream.state.location import Location
from millstream.state.relation_log import RelationLog
from unit.state.crash import run_until_killed

SYMBOLS = Schema.of(sym="STRING", sector="STRING")


def opened(location: Location) -> RelationLog:
    return RelationLog.open(location, "symbols", SYMBOLS)


def batch(*rows: tuple[str | None, str | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in zip(*rows, strict=True)], names=["sym", "sector"])


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def test_contents_are_the_net_bag_at_an_instant(location: Location) -> None:
    log = opened(location)
    log.append(batch(("A", "x"), ("B", "y"), ("A", "x")), 1, BEGINNING)
    log.append(batch(("A", "x"), ("B", "y"), ("B", "z")), np.array([-1, -1, 1], np.int8), 100)
    log.append(batch((None, None)), 1, 200)
    for log in (log, opened(location)):  # noqa: B020
        assert bag(log.contents(NEVER_BEFORE)) == Counter()
        assert bag(log.contents(99)) == Counter({("A", "x"): 2, ("B", "y"): 1})
        assert bag(log.contents(100)) == Counter({("A", "x"): 1, ("B", "z"): 1})
        assert bag(log.contents()) == Counter({("A", "x"): 1, ("B", "z"): 1, (None, None): 1})
        assert log.contents().schema.equals(SYMBOLS.to_arrow())


def test_rows_stay_in_the_order_they_came(location: Location) -> None:
    log = opened(location)
    log.append(batch(("C", "1"), ("A", "2"), ("B", "3")), 1, 1)
    log.append(batch(("A", "2"), ("A", "4")), np.array([-1, 1], np.int8), 2)
    assert log.contents().column("sector").to_pylist() == ["1", "3", "4"]


def test_changes_come_in_instant_order_with_their_signs(location: Location) -> None:
    log = opened(location)
    log.append(batch(("B", "y")), 1, 20)
    log.append(batch(("A", "x")), 1, 50)
    log.append(batch(("A", "x")), -1, 70)
    assert list(log.changes(20, 70).changes()) == [(50, 1, ("A", "x")), (70, -1, ("A", "x"))]
    assert list(log.changes(NEVER_BEFORE, 20).changes()) == [(20, 1, ("B", "y"))]
    assert len(log.changes(70, 1000)) == 0


def test_folding_keeps_contents_and_forgets_earlier_instants(location: Location) -> None:
    log = opened(location)
    for t in range(1, 11):
        log.append(batch((str(t), "x"), ("dup", "d")), 1, t)
        if t > 1:
            log.append(batch((str(t - 1), "x")), -1, t)
    before = {t: bag(log.contents(t)) for t in range(7, 12)}
    assert log.fold(7, even_if_small=True)
    assert not log.fold(7, even_if_small=True)
    for log in (log, opened(location)):  # noqa: B020
        assert {t: bag(log.contents(t)) for t in range(7, 12)} == before
        assert [change[0] for change in log.changes(7, 9).changes()] == [8, 8, 8, 9, 9, 9]
        assert log.base_instant == 7
        with pytest.raises(InstantPassed, match="no longer known"):
            log.contents(6)
        with pytest.raises(InstantPassed, match="no longer known"):
            log.changes(6, 9)
        with pytest.raises(InstantPassed, match="cannot change"):
            log.append(batch(("Z", "z")), 1, 7)
    assert log.fold(1000, even_if_small=True)
    assert bag(log.contents()) == before[11]
    assert len(log._table.index) == 1
    log.append(batch(("Z", "z")), 1, 1001)
    assert log.contents().num_rows == 12


def test_reading_does_not_grow_with_history(location: Location) -> None:
    """One row, replaced three hundred times and folded as the runtime does after each: few files are ever there to read."""
    log = opened(location)
    log.append(batch(("A", "0")), 1, 1)
    most = 0
    for t in range(2, 302):
        log.append(batch(("A", str(t - 2 if t > 2 else 0)), ("A", str(t - 1))), np.array([-1, 1], np.int8), t)
        log.fold(t)
        most = max(most, len(log._table.index))
    assert most <= 66
    assert bag(opened(location).contents()) == Counter({("A", "300"): 1})


def test_a_relation_that_is_emptied_folds_to_nothing(location: Location) -> None:
    log = opened(location)
    log.append(batch(("A", "x")), 1, 1)
    log.append(batch(("A", "x")), -1, 2)
    log.fold(5, even_if_small=True)
    assert log.contents().num_rows == 0
    assert opened(location).contents().num_rows == 0
    assert opened(location).base_instant == 5


def test_many_statements_at_one_instant_merge(location: Location) -> None:
    log = opened(location)
    for i in range(20):
        log.append(batch((str(i), "x")), 1, BEGINNING)
    log.append(batch(("0", "x")), -1, 5)
    assert log.compact() == 19
    for log in (log, opened(location)):  # noqa: B020
        assert log.contents(4).column("sym").to_pylist() == [str(i) for i in range(20)]
        assert log.contents(5).column("sym").to_pylist() == [str(i) for i in range(1, 20)]
    assert log.vacuum(grace_s=0) == 20


def test_a_change_before_one_that_is_there_is_refused(location: Location) -> None:
    log = opened(location)
    log.append(batch(("A", "x")), 1, 1)
    log.append(batch(("A", "x")), -1, 20)
    for log in (log, opened(location)):  # noqa: B020
        with pytest.raises(InstantPassed, match=r"cannot change at .*00\.000010Z: a change at .*00\.000020Z is there already"):
            log.append(batch(("A", "x")), -1, 10)
        assert [change[0] for change in log.changes(NEVER_BEFORE, 100).changes()] == [1, 20]


def test_changes_at_the_instant_of_the_last_one_are_taken(location: Location) -> None:
    log = opened(location)
    log.append(batch(("A", "x")), 1, 20)
    log = opened(location)
    log.append(batch(("A", "x")), -1, 20)
    log.append(batch(("B", "y")), 1, 20)
    assert bag(log.contents(20)) == Counter({("B", "y"): 1})


def test_changes_stay_in_order_over_folds_and_merges(location: Location) -> None:
    log = opened(location)
    for i in range(4):
        log.append(batch((str(i), "x")), 1, 1)
        log.append(batch((str(i), "y")), 1, 1)
    log.append(batch(("A", "x"), ("B", "x")), 1, 50)
    log.fold(10, even_if_small=True)
    log.compact(fan_in=2)
    for log in (log, opened(location)):  # noqa: B020
        with pytest.raises(InstantPassed, match="is there already"):
            log.append(batch(("Z", "z")), 1, 49)
    log.append(batch(("Z", "z")), 1, 50)
    assert log.contents().num_rows == 11


def test_every_type_can_be_deleted_again(location: Location) -> None:
    schema = Schema.of(
        a="INTERVAL", b="DECIMAL(20,3)", c="ARRAY<STRUCT<x:INT>>", d="MAP<STRING,INT>", e="DOUBLE", f="BINARY", g="VOID", h="TIMESTAMP"
    )
    log = RelationLog.open(location, "r", schema)
    values = [7, 1, [{"x": 3}], [("k", 4)], float("nan"), b"z", None, 5]
    rows = pa.RecordBatch.from_arrays(
        [pa.array([v, None, v], f.type) for v, f in zip(values, schema, strict=True)], schema=schema.to_arrow()
    )
    log.append(rows, 1, 1)
    log.append(rows.slice(0, 1), -1, 2)
    assert RelationLog.open(location, "r", schema).contents().schema.equals(schema.to_arrow())
    assert log.contents().column("a").cast(pa.int64()).to_pylist() == [7, None]
    log.append(rows.slice(1, 2), -1, 3)
    assert log.contents().num_rows == 0


def test_a_relation_is_a_delta_table(location: Location) -> None:
    log = opened(location)
    log.append(batch(("A", "x")), 1, 5)
    log.append(batch(("A", "x")), -1, 6)
    rows = DeltaTable(str(log.directory)).to_pyarrow_table().sort_by("_seq").drop_columns(["_seq"])
    assert rows.to_pylist() == [
        {"sym": "A", "sector": "x", "_instant": 5, "_diff": 1},
        {"sym": "A", "sector": "x", "_instant": 6, "_diff": -1},
    ]


def test_a_relation_cannot_have_the_logs_own_columns(location: Location) -> None:
    with pytest.raises(DuplicateColumn, match="_DIFF"):
        RelationLog.open(location, "r", Schema.of(_DIFF="INT"))


CHANGING = """
from millstream.state.relation_log import RelationLog
log = RelationLog.open(location, "symbols", Schema.of(sym="STRING", sector="STRING"))
row = pa.RecordBatch.from_pydict({"sym": ["A"], "sector": ["x"]})
for t in (1, 2, 3):
    log.append(row, 1, t)
log.append(row, -1, 4)
log.fold(4, even_if_small=True)
log.append(row, 1, 5)
log.append(row, 1, 5)
log.compact(fan_in=2)
"""


@pytest.mark.parametrize(
    ("fault", "copies"),
    [
        ("delta.before_commit:4", 3),
        ("delta.after_commit:4", 2),
        ("relation.folded", 2),
        ("retired.listed:1", 2),
        ("delta.after_commit:5", 2),
        ("delta.after_commit:6", 3),
        ("relation.merged", 4),
        ("delta.after_commit:8", 4),
    ],
)
def test_a_crash_leaves_the_relation_before_or_after(tmp_path: Path, fault: str, copies: int) -> None:
    run_until_killed(tmp_path, fault, CHANGING)
    with Location.open(tmp_path, buckets=2) as location:
        log = opened(location)
        assert bag(log.contents()) == Counter({("A", "x"): copies})
        log.vacuum(grace_s=0)
        assert {path.name for path in log.directory.glob("*.parquet")} == {chunk.path for chunk in log._table.index}
