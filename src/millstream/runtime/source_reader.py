"""Rows of the log as a fragment's source wants them: decoded, filtered, projected, split by bucket.

One function does the whole way for a chunk.  A map stage runs it once per chunk for all buckets and
leaves files; a small tick, or a worker that rebuilds its cache, runs it on the spot for its own
bucket.  Both give the same rows in the same order, that of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.signed_batch import Instants
from millstream.kernels.hashing import bucket_of, hash_columns, split_by_bucket
from millstream.operators.evaluator import Evaluator
from millstream.plan.physical import Anywhere, ByKey, FilterStep, ProjectStep, Single, SourceExec
from millstream.state.chunk import SEQ, TS, ChunkInfo, read_chunk

_SPREAD_SHIFT = 14
"""Rows that arrive together stay together: 2**14 consecutive sequence numbers share a bucket."""

Timed = tuple[Instants, pa.RecordBatch]


def read_bucket(
    source: SourceExec, table_dir: str, chunks: Sequence[ChunkInfo], bucket: int, buckets: int, evaluator: Evaluator
) -> Iterator[Timed]:
    """The bucket's rows, in arrival order, with their timestamps."""
    mine = [chunk for chunk in chunks if not source.split_at_ingest or chunk.bucket == bucket]
    parts = (_of_bucket(source, table_dir, chunk, bucket, buckets, evaluator) for chunk in mine)
    if all(earlier.max_seq < later.min_seq for earlier, later in pairwise(mine)):
        for ts, rows, _ in parts:
            yield ts, rows
        return
    # merged chunks reach over others: only the sequence numbers know who came first
    found = list(parts)
    order = np.argsort(np.concatenate([seq for _, _, seq in found]), kind="stable")
    yield np.concatenate([ts for ts, _, _ in found])[order], pa.concat_batches([rows for _, rows, _ in found]).take(pa.array(order))


def _of_bucket(
    source: SourceExec, table_dir: str, chunk: ChunkInfo, bucket: int, buckets: int, evaluator: Evaluator
) -> tuple[Instants, pa.RecordBatch, Instants]:
    ts, rows, seq = _prepared(source, table_dir, chunk, evaluator)
    if source.split_at_ingest or isinstance(source.distribution, Single) or buckets == 1:
        return ts, rows, seq
    mine = _buckets(source, rows, seq, buckets) == bucket
    return ts[mine], rows.filter(pa.array(mine)), seq[mine]


def split_chunk(source: SourceExec, table_dir: str, chunk: ChunkInfo, buckets: int, evaluator: Evaluator) -> list[Timed]:
    """The chunk's rows for every bucket."""
    ts, rows, seq = _prepared(source, table_dir, chunk, evaluator)
    order, offsets = split_by_bucket(_buckets(source, rows, seq, buckets), buckets)
    ts, rows = ts[order], rows.take(pa.array(order))
    return [(ts[offsets[b] : offsets[b + 1]], rows.slice(offsets[b], offsets[b + 1] - offsets[b])) for b in range(buckets)]


def _prepared(source: SourceExec, table_dir: str, chunk: ChunkInfo, evaluator: Evaluator) -> tuple[Instants, pa.RecordBatch, Instants]:
    wanted = [column for column, _ in source.columns]
    table = read_chunk(table_dir, chunk, [*wanted, TS, SEQ])
    ts, seq = table.column(TS).to_numpy(), table.column(SEQ).to_numpy()
    arrays = [table.column(column).combine_chunks() for column in wanted]
    rows = pa.RecordBatch.from_arrays([_plain(array) for array in arrays], names=[name for _, name in source.columns])
    for step in source.prefix:
        match step:
            case FilterStep():
                mask = evaluator.mask(rows, step.predicate_sql)
                if not mask.all():
                    rows, ts, seq = rows.filter(pa.array(mask)), ts[mask], seq[mask]
            case ProjectStep():
                rows = evaluator.project(rows, [(column.name, column.sql, column.type) for column in step.columns])
    return ts, rows, seq


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def _buckets(source: SourceExec, rows: pa.RecordBatch, seq: Instants, buckets: int) -> npt.NDArray[np.int32]:
    match source.distribution:
        case ByKey(columns):
            return bucket_of(hash_columns([rows.column(name) for name in columns]), buckets)
        case Anywhere():
            return bucket_of(hash_columns([pa.array(seq >> _SPREAD_SHIFT)]), buckets)
        case Single():
            return np.zeros(rows.num_rows, np.int32)
