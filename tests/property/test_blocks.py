"""Rows of a stream that is not split: each is read in one bucket, always the same, whatever files they lie in and whatever is left out."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Field, Schema
from millstream.operators.evaluator import Evaluator
from millstream.plan.physical import Anywhere, SourceExec
from millstream.runtime.nodes import Profile
from millstream.runtime.source_reader import read_bucket
from millstream.state import parquet_file, sequence
from millstream.state.chunk import ChunkInfo, write_chunk
from millstream.state.compaction import merge_chunks
from millstream.state.sequence import block_starts, buckets_of, may_have, sequence_numbers
from property.examples import examples

SCHEMA = Schema((Field("v", pa.int64()),))
SOURCE = SourceExec("s", "stream", False, (("v", "v", pa.int64()),), (), SCHEMA, Anywhere(), False)
# (ingest, partition, rows, which of them stay)
PARTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 40), st.integers(1, 4)), min_size=1, max_size=6)


def _parts(drawn: list[tuple[int, int, int, int]]) -> list[np.ndarray]:
    longest = {(ingest, partition): (rows, nth) for ingest, partition, rows, nth in drawn}
    return [sequence_numbers(ingest, partition, 3, rows)[::nth] for (ingest, partition), (rows, nth) in sorted(longest.items())]


def _small(block: int, run: int, least: int) -> list[mock._patch[int]]:
    names = {"_BLOCK_BITS": block, "_RUN_BITS": run, "_LEAST_ROWS": least}
    return [mock.patch.object(sequence, name, value) for name, value in names.items()]


@settings(max_examples=examples(60))
@given(drawn=PARTS, buckets=st.integers(1, 4), block=st.integers(0, 3), more=st.integers(0, 2), least=st.integers(1, 5),
       after=st.integers(-1, 20), merged=st.booleans(), group=st.sampled_from([3, 8, 1 << 20]))  # fmt: skip
def test_each_row_is_read_in_its_bucket(
    drawn: list[tuple[int, int, int, int]], buckets: int, block: int, more: int, least: int, after: int, merged: bool, group: int
) -> None:
    one, two, three = _small(block, block + more, least)
    with one, two, three, mock.patch.object(parquet_file, "_ROW_GROUP", group), tempfile.TemporaryDirectory() as path:
        parts = _parts(drawn)
        chunks = [write_chunk(path, pa.table({"v": seq, "_ts": np.arange(len(seq)), "_seq": seq})) for seq in parts]
        if merged:
            chunks = [merge_chunks(path, chunks)]
        everything = np.concatenate(parts)
        seen_after = int(everything[min(after, len(everything) - 1)]) if after >= 0 else -1
        home = buckets_of(everything, buckets)
        assert set(home.tolist()) <= set(range(buckets))
        for bucket in range(buckets):
            did = Profile()
            found = [batch.rows.column(0).to_pylist() for batch in _read(path, chunks, bucket, buckets, seen_after, did)]
            mine = everything[(home == bucket) & (everything > seen_after)].tolist()
            assert [value for values in found for value in values] == mine
            assert did.entering == len(mine)


def _read(path: str, chunks: list[ChunkInfo], bucket: int, buckets: int, after: int, did: Profile) -> list[object]:
    return list(read_bucket(SOURCE, path, chunks, bucket, buckets, Evaluator(), after, did))


@given(buckets=st.integers(1, 9), first=st.integers(0, 1 << 40), rows=st.integers(1, 60), block=st.integers(0, 4), more=st.integers(0, 3))
def test_who_may_have_rows_has_some(buckets: int, first: int, rows: int, block: int, more: int) -> None:
    one, two, three = _small(block, block + more, 1)
    with one, two, three:
        seq = np.arange(first, first + rows)
        first_block = np.arange(first >> block << block, ((first + rows - 1) >> block) + 1 << block)
        for bucket in range(buckets):
            assert may_have(bucket, buckets, first, first + rows - 1) == bool((buckets_of(first_block, buckets) == bucket).any())
        assert [seq[start] >> block for start in block_starts(seq)] == sorted({int(s) >> block for s in seq} - {first >> block})


def test_a_million_rows_are_dealt_evenly_and_small_ingests_too() -> None:
    for buckets in (2, 3, 8):
        many = np.bincount(buckets_of(sequence_numbers(7, 1, 4, 1_000_000), buckets), minlength=buckets)
        assert many.max() - many.min() <= 1 << 15
        firsts = np.bincount([buckets_of(sequence_numbers(n, 0, 1, 1), buckets)[0] for n in range(3000)], minlength=buckets)
        assert firsts.min() > 2400 / buckets


def test_small_ingests_share_row_groups() -> None:
    seq = np.concatenate([sequence_numbers(n, 0, 1, 10) for n in range(10_000)])
    cuts = [0, *block_starts(seq), len(seq)]
    assert min(stop - start for start, stop in pairwise(cuts[:-1])) >= 1 << 14


def test_a_bucket_leaves_out_what_others_read(tmp_path: Path) -> None:
    seq = sequence_numbers(1, 0, 1, 200_000)
    chunk = write_chunk(tmp_path, pa.table({"v": seq, "_ts": seq, "_seq": seq}))
    with mock.patch.object(parquet_file.pq.ParquetFile, "read_row_groups", autospec=True, side_effect=_counted) as reads:
        _read(str(tmp_path), [chunk], 0, 2, -1, Profile())
    assert len(reads.call_args.args[1]) in (3, 4)  # of 7


_counted = parquet_file.pq.ParquetFile.read_row_groups
