"""The tables open in other tools, without Millstream."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.state.changelog import Changelog, write_output
from millstream.state.chunk import write_chunk
from millstream.state.location import Location
from millstream.state.stream_log import StreamLog
from unit.state.rows import TRADES, ingest, trades


def delta_rows(directory: Path) -> pa.Table:
    return DeltaTable(str(directory)).to_pyarrow_table()


def sorted_rows(table: pa.Table) -> list[dict[str, object]]:
    return table.sort_by("_seq").to_pylist()


def filled(location: Location, name: str, *, partitioned: bool) -> StreamLog:
    log = StreamLog.open(location, name, TRADES, timestamp_by="ts", partition_by=["sym"] if partitioned else [])
    for batch in range(9):
        ingest(log, [10 * batch, 10 * batch + 3], bucket=batch % 2 if partitioned else None)
    return log


@pytest.mark.parametrize("name", ["trades", "odd name/ß%"])
@pytest.mark.parametrize("partitioned", [False, True])
def test_a_stream_is_a_delta_table(location: Location, name: str, *, partitioned: bool) -> None:
    log = filled(location, name, partitioned=partitioned)
    expected = [row for batch in range(9) for row in trades([10 * batch, 10 * batch + 3], batch + 1).to_pylist()]
    if partitioned:
        expected = [{**row, "_bucket": i // 2 % 2} for i, row in enumerate(expected)]
    assert sorted_rows(delta_rows(log.directory)) == expected
    assert pl.read_delta(str(log.directory)).sort("_seq").to_dicts() == expected
    dataset = DeltaTable(str(log.directory)).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("trades", dataset)
        assert connection.sql("SELECT count(*), sum(size) FROM trades WHERE _ts >= 40").fetchall() == [(10, 615)]
    # after everything that rearranges or drops files, the table is still whole
    log.compact(fan_in=4)
    log.retain(20)
    log._table.log.checkpoint()
    kept = sum(chunk.rows for chunk in log.chunks_after(-1))
    assert len(delta_rows(log.directory)) == pl.read_delta(str(log.directory)).height == kept


def test_late_rows_are_a_delta_table(location: Location) -> None:
    log = filled(location, "trades", partitioned=False)
    log.commit([], [write_chunk(log.late_directory, trades([1, 2], 50, frontier=82))], log.frontier)
    assert delta_rows(log.late_directory).select(["_ts", "_frontier"]).to_pydict() == {"_ts": [1, 2], "_frontier": [82, 82]}


def test_a_changelog_is_a_delta_table(location: Location) -> None:
    log = Changelog.open(location, "hot", [Field("sym", pa.string()), Field("sym", pa.string())])
    for tick in range(9):
        rows = pa.RecordBatch.from_pydict({"a": ["x", "y"], "b": ["u", None]})
        log.publish(
            tick, [write_output(log.directory, [SignedBatch(np.array([tick, tick]), np.array([-1, 1], np.int8), rows)], log.columns)]
        )
    log.compact()
    outside = pl.read_delta(str(log.directory)).sort("instant", "diff")
    assert outside.columns == ["instant", "diff", "sym", "sym_2"]
    assert outside.rows() == [tuple(row) for row in zip(*(column.to_pylist() for column in log.read().columns), strict=True)]


def test_every_type_is_readable_from_outside(location: Location) -> None:
    schema = Schema.of(
        ts="TIMESTAMP", a="INTERVAL", b="DECIMAL(20,3)", c="ARRAY<STRUCT<x:INT>>", d="MAP<STRING,INT>", e="TIMESTAMP_NTZ",
        f="BINARY", g="VOID", h="DATE",
    )  # fmt: skip
    log = StreamLog.open(location, "s", schema, timestamp_by="ts")
    values = [5, 7, 1, [{"x": 3}], [("k", 4)], 9, b"z", None, 20000]
    columns = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    rows = pa.table(
        [*columns, pa.array([5]), pa.array([1 << 32])], schema=pa.schema([*schema.to_arrow(), ("_ts", pa.int64()), ("_seq", pa.int64())])
    )
    log.commit([write_chunk(log.directory, rows)], [], log.frontier.after_rows(5))
    outside = delta_rows(log.directory).to_pylist()[0]
    assert (outside["a"], outside["c"], outside["d"], outside["f"], outside["g"]) == (7, [{"x": 3}], [("k", 4)], b"z", None)


def test_stats_let_outsiders_skip_files(location: Location) -> None:
    log = filled(location, "trades", partitioned=False)
    actions = pa.table(DeltaTable(str(log.directory)).get_add_actions(flatten=True))
    assert sorted(zip(actions["min._ts"].to_pylist(), actions["max._ts"].to_pylist(), strict=True)) == [
        (10 * b, 10 * b + 3) for b in range(9)
    ]
    assert sum(actions["num_records"].to_pylist()) == 18
