"""Files are merged a row group at a time: same rows, same order, same columns without NULLs, and little memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.core.signed_batch import SignedBatch
from millstream.state import parquet_file
from millstream.state.chunk import ChunkInfo, read_chunk, write_chunk
from millstream.state.compaction import merge_chunks
from millstream.state.output_file import OutputFile, in_order, merge_outputs, read_output, write_output

FILES, ROWS = 40, 5_000
ALL_BYTES = FILES * ROWS * 8 * 4
"""Of four columns of integers."""


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "_ROW_GROUP", 7_000)


@pytest.fixture
def pool() -> Iterator[pa.MemoryPool]:
    """Counts what Arrow takes."""
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(counting)
    yield counting
    pa.set_memory_pool(usual)


def chunk(directory: Path, number: int, nulls: bool = False) -> ChunkInfo:
    at = np.arange(number * ROWS, (number + 1) * ROWS)
    values = pa.array(at % 97, mask=at % 5 == 0) if nulls else pa.array(at % 97)
    return write_chunk(directory, pa.table({"k": at % 1000, "v": values, "_ts": at // 3, "_seq": at}), bucket=20001)


def output(directory: Path, number: int, bucket: int) -> OutputFile:
    """Two buckets have the same instants."""
    instant = np.repeat(np.arange(number * ROWS, (number + 1) * ROWS, 2), 2)
    sign = np.tile(np.array([-1, 1], np.int8), ROWS // 2)
    rows = pa.record_batch({"k": pa.array(instant % 1000 * 2 + bucket), "v": pa.array(np.arange(ROWS))})
    return write_output(directory, [SignedBatch(instant, sign, rows)])


def groups_of(path: Path) -> list[int]:
    metadata = pq.read_metadata(path)
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


@pytest.mark.usefixtures("small_groups")
def test_chunks_stay_what_they_are(tmp_path: Path) -> None:
    chunks = [chunk(tmp_path, number, nulls=number == 3) for number in range(6)]
    merged = merge_chunks(tmp_path, list(reversed(chunks)))
    assert read_chunk(tmp_path, merged).equals(pa.concat_tables([read_chunk(tmp_path, each) for each in chunks]))
    path = tmp_path / merged.path
    assert (merged.bucket, merged.rows, merged.bytes) == (20001, 6 * ROWS, path.stat().st_size)
    assert (merged.min_ts, merged.max_ts, merged.min_seq, merged.max_seq) == (0, (6 * ROWS - 1) // 3, 0, 6 * ROWS - 1)
    assert groups_of(path) == [7000, 7000, 7000, 7000, 2000]
    assert {field.name: field.nullable for field in pq.read_schema(path)} == {"k": False, "v": True, "_ts": False, "_seq": False}


@pytest.mark.usefixtures("small_groups")
def test_a_file_of_several_row_groups_is_cut_anew(tmp_path: Path) -> None:
    large = merge_chunks(tmp_path, [chunk(tmp_path, number) for number in range(4)])
    merged = merge_chunks(tmp_path, [large, chunk(tmp_path, 4)])
    assert groups_of(tmp_path / merged.path) == [7000, 7000, 7000, 4000]
    assert read_chunk(tmp_path, merged).column("_seq").to_pylist() == list(range(5 * ROWS))


@pytest.mark.usefixtures("small_groups")
def test_changes_stand_in_the_order_in_which_they_were_read(tmp_path: Path) -> None:
    segments = [[output(tmp_path, number, bucket) for bucket in (0, 1)] for number in range(5)]
    merged = merge_outputs(tmp_path, segments)
    before = pa.concat_tables([read_output(tmp_path, file) for segment in segments for file in segment])
    assert read_output(tmp_path, merged).equals(in_order(before).combine_chunks())
    assert (merged.rows, merged.min_ts, merged.max_ts) == (10 * ROWS, 0, 5 * ROWS - 2)
    assert groups_of(tmp_path / merged.path) == [7000] * 7 + [1000]


@pytest.mark.usefixtures("small_groups")
def test_they_are_never_all_in_memory(tmp_path: Path, pool: pa.MemoryPool) -> None:
    chunks = [chunk(tmp_path / "chunks", number) for number in range(FILES)]
    segments = [[output(tmp_path / "outputs", number, 0)] for number in range(FILES)]
    written = pool.max_memory()
    merge_chunks(tmp_path / "chunks", chunks)
    merge_outputs(tmp_path / "outputs", segments)
    assert pool.max_memory() < max(written, ALL_BYTES // 4)
