"""Values that Arrow holds and SQL's types do not are refused on every way in (db.insert's are in tests/bad_inputs/values.txt)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inline import open_inline
from millstream.core.errors import TypeMismatch
from millstream.core.schema import Schema
from millstream.core.value_ranges import refused
from millstream.language.catalog import StreamEntry
from millstream.runtime.row_times import RowTimes
from millstream.spark.file_readers import fast_file_reader

TYPES = "day DATE, ntz TIMESTAMP_NTZ, f FLOAT, m MAP<STRING,INT>, st STRUCT<a:INT>"
MAP = pa.map_(pa.string(), pa.int32())
BAD: list[tuple[str, Any, pa.Array]] = [
    ("day", 10**9, pa.array([10**9], pa.int32()).cast(pa.date32())),
    ("day", dt.datetime(2024, 1, 1, 12), pa.array([dt.datetime(2024, 1, 1, 12)])),
    ("ntz", 2**62, pa.array([2**62], pa.timestamp("us"))),
    ("f", 1e300, pa.array([1e300])),
    ("m", [("a", 1), ("a", 2)], pa.array([[("a", 1), ("a", 2)]], MAP)),
    ("st", {"a": 1, "b": 2}, pa.array([{"a": 1, "b": 2}])),
]


@pytest.mark.parametrize(("name", "value", "array"), BAD)
def test_relations_and_strict_streams_refuse_them(tmp_path: Path, name: str, value: Any, array: pa.Array) -> None:
    with open_inline(tmp_path) as db:
        db.execute(f"CREATE RELATION r (k INT PRIMARY KEY, {TYPES})")
        db.execute(f"CREATE STREAM s (ts TIMESTAMP, {TYPES}) TIMESTAMP BY ts ON ERROR FAIL")
        for target, key in (("r", "k"), ("s", "ts")):
            for rows in ([{key: 0, name: value}], {key: [0], name: [value]}, pa.table({key: [0], name: array})):
                with pytest.raises(TypeMismatch, match=f'column "{name}" of "{target}" takes .*: '):
                    db.insert(target, rows)
        assert db.execute("SELECT * FROM r").num_rows == 0


def test_sql_insert_refuses_them(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute(f"CREATE STREAM s (ts TIMESTAMP, {TYPES}) TIMESTAMP BY ts")
        with pytest.raises(TypeMismatch, match="too great"):
            db.execute("INSERT INTO s (ts, f) VALUES (TIMESTAMP '2024-01-01', 1e300)")


def entry(path: Path, types: dict[str, str], kind: str) -> StreamEntry:
    return StreamEntry("s", Schema.of(ts="TIMESTAMP", **types), "ts", format=kind, options={"path": str(path.parent)})


def test_csv_files_reject_them_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = ["2024-01-01,1.5", "0000-01-01,", ",1e300", ",-1e39", ",inf", "9999-12-31,x"]
    path.write_text("".join(f"1970-01-01 00:00:00,{line}\n" for line in lines))
    reader = fast_file_reader(entry(path, {"day": "DATE", "f": "FLOAT"}, "csv"))
    assert reader is not None
    part = reader.read(str(path), RowTimes("s", "ts", 0))
    assert part.rows.column("f").to_pylist() == [1.5, float("inf")]
    assert part.rows.schema.field("f").type == pa.float32()
    assert [(letter.source.split()[-1], letter.reason) for letter in part.rejected] == [
        ("2", "column \"day\" takes DATE, not '-719528 as date32[day]': it is outside the years 1 to 9999"),
        ("3", 'column "f" takes FLOAT, not 1e+300: it is too great'),
        ("4", 'column "f" takes FLOAT, not -1e+39: it is too great'),
        ("6", "column \"f\" takes FLOAT, not 'x'"),
    ]


def test_decimals_of_csv_files_with_too_many_digits_are_rejected_in_our_words(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    cells = ["1.5", "99999999.99", "9999999999", "-100000000", "1.555", "x", '"1,5"', "9" * 40, "1e40"]
    path.write_text("".join(f"1970-01-01,{cell}\n" for cell in cells))
    reader = fast_file_reader(entry(path, {"v": "DECIMAL(10,2)"}, "csv"))
    assert reader is not None
    part = reader.read(str(path), RowTimes("s", "ts", 0))
    assert part.rows.column("v").to_pylist() == [Decimal("1.50"), Decimal("99999999.99")]
    wanted = 'column "v" takes DECIMAL(10,2), not'
    assert [letter.reason for letter in part.rejected] == [
        f"{wanted} Decimal('9999999999.00'): it has more than 10 digits", f"{wanted} Decimal('-100000000.00'): it has more than 10 digits",
        *(f"{wanted} {cell!r}" for cell in ("1.555", "x", "1,5", "9" * 40, "1e40")),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "array"), BAD)
def test_parquet_files_reject_them(tmp_path: Path, name: str, value: Any, array: pa.Array) -> None:
    path = tmp_path / "a.parquet"
    values = pa.concat_arrays([pa.nulls(1, array.type), array])
    pq.write_table(pa.table({"ts": pa.array([0, 1], pa.timestamp("us")), name: values}), path)
    reader = fast_file_reader(
        entry(path, {name: next(each.split(maxsplit=1)[1] for each in TYPES.split(", ") if each.split()[0] == name)}, "parquet")
    )
    assert reader is not None
    part = reader.read(str(path), RowTimes("s", "ts", 0))
    assert part.rows.num_rows == 1
    assert [letter.source for letter in part.rejected] == [f"{path}, row 1"]


def test_the_places_of_slices_are_their_own() -> None:
    maps = pa.array([[("a", 1), ("a", 1)], None, [], [("b", 1), ("b", 1)], [("b", 1), ("c", 1)]], MAP)
    for start in range(5):
        (found,) = [places.tolist() for places, _ in refused(maps.slice(start), maps.slice(start))] or [[]]
        assert found == [place - start for place in (0, 3) if place >= start]
    lists = pa.array([[0], None, [], [1, 2**30]], pa.list_(pa.date32())).slice(1)
    assert [places.tolist() for places, _ in refused(lists, lists)] == [[2]]


def test_good_columns_are_looked_at_at_once() -> None:
    days = pa.array(np.arange(1000), pa.int32()).cast(pa.date32())
    assert list(refused(days, days)) == []
