"""A Delta table that others may read and write: the batches of a sink are in it once."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from inline import open_inline
from millstream.core.instant import NEVER_BEFORE
from millstream.core.schema import TIMESTAMP, Field
from millstream.core.secrets import Options
from millstream.runtime.sinks.delta import DeltaSink
from millstream.runtime.sinks.sink import SinkTarget

CHANGES = pa.table(
    {"instant": pa.array([1, 2], TIMESTAMP), "diff": pa.array([1, -1], pa.int8()), "sum(v)": [1, 2], "v": pa.array([3, None], pa.int64())}
)


def target(path: Path, owner: str = "me") -> SinkTarget:
    fields = (Field("sum(v)", pa.int64()), Field("v", pa.int64()))
    return SinkTarget("o", "delta", Options(path=str(path)), owner, fields)


def test_the_position_is_in_the_commit(tmp_path: Path) -> None:
    sink = DeltaSink(target(tmp_path / "t"))
    assert sink.position() == NEVER_BEFORE
    sink.deliver(CHANGES, 2)
    sink.deliver(CHANGES, 7)
    assert DeltaSink(target(tmp_path / "t")).position() == 7
    assert DeltaSink(target(tmp_path / "t", "somebody else")).position() == NEVER_BEFORE
    table = DeltaTable(str(tmp_path / "t"))
    assert table.to_pyarrow_table().num_rows == 4
    assert table.to_pyarrow_table().column_names == ["instant", "diff", "sum_v", "v"]


def test_of_two_that_believe_to_be_the_same_one_delivers(tmp_path: Path) -> None:
    first, second = DeltaSink(target(tmp_path / "t")), DeltaSink(target(tmp_path / "t"))
    first.deliver(CHANGES, 2)
    with pytest.raises(Exception, match=r"(?i)transaction|conflict|concurrent|version"):
        second.deliver(CHANGES, 2)
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 2
    assert DeltaSink(target(tmp_path / "t")).position() == 2


def test_others_may_append(tmp_path: Path) -> None:
    sink = DeltaSink(target(tmp_path / "t"))
    write_deltalake(str(tmp_path / "t"), CHANGES.rename_columns(["instant", "diff", "sum_v", "v"]), mode="append")
    sink.deliver(CHANGES, 2)
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table().num_rows == 4


def test_another_reader_reads_it(tmp_path: Path) -> None:
    """The log by its protocol, the files by DuckDB: nothing of deltalake's."""
    with open_inline(tmp_path / "db") as db:
        db.execute(
            "CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts; CREATE QUERY q AS SELECT v, v * 1.5 AS w FROM s [RANGE 2 MICROSECONDS]"
        )
        db.execute(f"CREATE SINK o FROM q INTO 'delta' OPTIONS (path '{tmp_path / 't'}')")
        for t in range(20):
            db.insert("s", [(t, t)])
            db.flush()
        log = duckdb.read_json(f"{tmp_path}/t/_delta_log/*.json", format="newline_delimited", union_by_name=True)
        files = [path for (path,) in log.select("add.path").fetchall() if path]
        rows = duckdb.read_parquet([f"{tmp_path}/t/{path}" for path in files]).order("instant, diff, v")
        wanted = db.query("q").changes().sort_by([("instant", "ascending"), ("diff", "ascending"), ("v", "ascending")])
        assert [row[1:] for row in rows.fetchall()] == [tuple(row.values())[1:] for row in wanted.to_pylist()]
        assert log.select("max(txn.version)").fetchall() == [(db.query("q").frontier - NEVER_BEFORE,)]
