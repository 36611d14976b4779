from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from millstream.core.errors import DataDamaged
from millstream.core.schema import Schema
from millstream.state.chunk import ChunkInfo, read_chunk, write_chunk
from millstream.state.sequence import sequence_numbers
from unit.state.rows import trades


def test_a_chunk_gives_back_what_was_written(tmp_path: Path) -> None:
    rows = trades([5, 3, 9], 4)
    chunk = write_chunk(tmp_path, rows)
    assert read_chunk(tmp_path, chunk).equals(rows)
    assert (chunk.rows, chunk.min_ts, chunk.max_ts, chunk.min_seq, chunk.max_seq) == (3, 3, 9, 4 << 32, (4 << 32) + 2)
    assert chunk.bytes == (tmp_path / chunk.path).stat().st_size


def test_a_bucket_is_a_folder_and_a_record_batch_is_a_chunk_too(tmp_path: Path) -> None:
    batch = trades([1]).to_batches()[0]
    chunk = write_chunk(tmp_path, batch, bucket=3)
    assert chunk.bucket == 3
    assert chunk.path.startswith("_bucket=3/")
    assert read_chunk(tmp_path, chunk, ["_ts", "sym"]).to_pydict() == {"_ts": [1], "sym": ["s1"]}


def test_the_info_survives_json(tmp_path: Path) -> None:
    chunk = write_chunk(tmp_path, trades([1]), bucket=0)
    assert ChunkInfo.from_json(chunk.to_json()) == chunk


def test_every_type_comes_back_with_its_declared_schema(tmp_path: Path) -> None:
    schema = Schema.of(
        a="INTERVAL", b="DECIMAL(20,3)", c="BOOLEAN", d="DATE", e="BINARY", f="ARRAY<INT>", g="MAP<STRING,BIGINT>",
        h="STRUCT<x:INT,y:STRING>", i="TIMESTAMP_NTZ", j="TINYINT", k="FLOAT", l="VOID", m="STRING",
    )  # fmt: skip
    values = [7, Decimal("1.5"), True, dt.date(2024, 2, 29), b"x", [1, None], [("k", 2)], {"x": 1, "y": "z"}, 5, -3, 0.5, None, "text"]
    columns = [pa.array([value, None], field.type) for value, field in zip(values, schema, strict=True)]
    rows = pa.table(
        [*columns, pa.array([1, 2]), pa.array([1, 2])], schema=pa.schema([*schema.to_arrow(), ("_ts", pa.int64()), ("_seq", pa.int64())])
    )
    assert read_chunk(tmp_path, write_chunk(tmp_path, rows), schema=schema).equals(rows)


def test_dictionaries_are_written_as_their_values(tmp_path: Path) -> None:
    rows = trades([1, 2, 3])
    coded = rows.set_column(1, "sym", rows.column("sym").dictionary_encode())
    assert read_chunk(tmp_path, write_chunk(tmp_path, coded)).equals(rows)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    chunk = write_chunk(tmp_path, trades([1]))
    (tmp_path / chunk.path).unlink()
    with pytest.raises(DataDamaged, match=chunk.path):
        read_chunk(tmp_path, chunk)


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    chunk = write_chunk(tmp_path, trades([1, 2]))
    path = tmp_path / chunk.path
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataDamaged, match=chunk.path):
        read_chunk(tmp_path, chunk)


def test_a_flipped_bit_in_the_rows_never_becomes_an_answer(tmp_path: Path) -> None:
    """Anywhere before the footer (Parquet has no checksum for that): the file is damaged, or the bit meant nothing."""
    rows = trades([int(ts) for ts in np.random.default_rng(1).integers(0, 10**9, 1000)])
    chunk = write_chunk(tmp_path, rows)
    path, whole = tmp_path / chunk.path, (tmp_path / chunk.path).read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    positions, damaged = range(4, footer, 37), 0
    for at in positions:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            assert read_chunk(tmp_path, chunk).equals(rows), f"byte {at}"
        except DataDamaged:
            damaged += 1
    assert damaged > 0.95 * len(positions)


def test_a_flipped_bit_in_the_footer_is_damage_or_leaves_the_values(tmp_path: Path) -> None:
    rows = trades(list(range(0, 400, 7)))
    chunk = write_chunk(tmp_path, rows)
    path, whole = tmp_path / chunk.path, (tmp_path / chunk.path).read_bytes()
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(footer, len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])
        try:
            read = read_chunk(tmp_path, chunk, ["_ts", "_seq"])
        except DataDamaged:
            continue
        assert read.equals(rows.select(["_ts", "_seq"])), f"byte {at}"


def test_sequence_numbers_order_ingests_then_partitions_then_rows() -> None:
    parts = [sequence_numbers(ingest, partition, 3, 4) for ingest in (1, 2) for partition in range(3)]
    numbers = np.concatenate(parts)
    assert (np.diff(numbers) > 0).all()
    assert sequence_numbers(5, 0, 1, 2).tolist() == [5 << 32, (5 << 32) + 1]


def test_more_rows_than_a_partition_has_numbers_for_are_refused() -> None:
    assert sequence_numbers(1, 1, 1 << 20, 1 << 12)[-1] == (1 << 32 | 1 << 12) + (1 << 12) - 1
    with pytest.raises(ValueError, match="smaller batches"):
        sequence_numbers(1, 0, 1 << 20, (1 << 12) + 1)
