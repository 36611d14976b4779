"""Damaged files: one dead letter that names the file, whatever is wrong with it; the process lives."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.core.schema import Schema
from millstream.runtime.row_times import RowTimes
from millstream.spark.file_readers import FileReader

TYPES = {"ts": "TIMESTAMP", "k": "STRING", "l": "ARRAY<INT>", "st": "STRUCT<a:STRING>", "m": "MAP<STRING,INT>"}
TIMES = RowTimes("s", "ts", 0)
ROWS = pa.table(
    {
        "ts": pa.array([0, 1, 2], pa.timestamp("us")),
        "k": pa.array(["a", "b", "a"]).dictionary_encode(),
        "l": pa.array([[1], [2, 3], None], pa.list_(pa.int32())),
        "st": pa.array([{"a": "x"}, None, {"a": None}]),
        "m": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int32())),
    }
)


def arrow(table: pa.Table, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return sink.getvalue()


def read_flipped(directory: Path) -> None:
    """Each time another bit of the file is another; what is left of it must be rows and letters."""
    draw, path = random.Random(3), directory / "a.arrow"
    flat = Schema.of(ts="TIMESTAMP", k="STRING")
    texts = pa.table({"ts": ROWS.column("ts"), "k": ["a", "b", "c"]})
    for table, schema, step, compression in (
        (texts, flat, 1, None),
        (ROWS, Schema.of(**TYPES), 5, None),
        (ROWS, Schema.of(**TYPES), 9, "lz4"),
    ):
        data = arrow(table, compression)
        for place in range(0, len(data), step):
            path.write_bytes(data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :])
            part = FileReader("arrow", "s", schema).read(str(path), TIMES)
            part.rows.to_pylist()
            assert all(str(path) in letter.source for letter in part.rejected)


def test_no_bit_of_an_arrow_file_ends_the_process(tmp_path: Path) -> None:
    """In a process of its own, since it would go with it."""
    done = subprocess.run([sys.executable, __file__, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr[-2000:]) == (0, "")


@pytest.mark.parametrize("format_", ["arrow", "parquet"])
def test_a_file_with_a_column_twice(tmp_path: Path, format_: str) -> None:
    table = pa.table([ROWS.column("ts"), [1, 2, 3], [1, 2, 3]], names=["ts", "v", "v"])
    path = tmp_path / f"a.{format_}"
    if format_ == "arrow":
        path.write_bytes(arrow(table))
    else:
        pq.write_table(table, path)
    part = FileReader(format_, "s", Schema.of(ts="TIMESTAMP", v="INT")).read(str(path), TIMES)  # type: ignore[arg-type]
    assert part.rows.num_rows == 0
    (letter,) = part.rejected
    assert (letter.row, letter.source) == (None, str(path))
    assert letter.reason == 'the file cannot be read: the file has the column "v" 2 times'


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.list_(pa.string())], ids=str)
def test_text_that_is_not_utf8_spoils_its_row_alone(tmp_path: Path, type_: pa.DataType) -> None:
    texts = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
    column = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts) if pa.types.is_list(type_) else texts
    if pa.types.is_large_string(type_):
        column = texts.cast(pa.binary()).cast(pa.large_binary()).view(pa.large_string())
    (tmp_path / "a.arrow").write_bytes(arrow(pa.table({"ts": ROWS.column("ts"), "k": column})))
    schema = Schema.of(ts="TIMESTAMP", k="ARRAY<STRING>" if pa.types.is_list(type_) else "STRING")
    part = FileReader("arrow", "s", schema).read(str(tmp_path / "a.arrow"), TIMES)
    assert [letter.source for letter in part.rejected] == [f"{tmp_path}/a.arrow, row 1"]
    assert part.rows.num_rows == 2


if __name__ == "__main__":
    read_flipped(Path(sys.argv[1]))
