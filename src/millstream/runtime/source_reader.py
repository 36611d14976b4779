"""Rows of a log as a fragment's source wants them: decoded, filtered, projected, split by bucket.

The logs of streams, relations and queries differ only in the names of the columns that say when, in which order and
with which sign.  One function does the whole way for a chunk.  A map stage runs it once per chunk for all buckets and
leaves files; a small tick, or a worker that rebuilds its cache, runs it on the spot for its own
bucket.  Both give the same rows in the same order, that of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.instant import BEGINNING, Micros
from millstream.core.signed_batch import Instants, SignedBatch, Signs
from millstream.kernels.hashing import bucket_of, hash_columns, split_by_bucket
from millstream.operators.evaluator import Evaluator
from millstream.plan.logical import SourceKind
from millstream.plan.physical import Anywhere, ByKey, FilterStep, ProjectStep, Single, SourceExec
from millstream.runtime.exchange import ArrivedRows, read_rows
from millstream.runtime.messages import SourceFeed
from millstream.runtime.nodes import Profile
from millstream.runtime.stage_clock import CLOCK, timed
from millstream.state import file_columns, output_file
from millstream.state.chunk import SEQ, TS, ChunkInfo, bucket_label, is_split_into, read_chunk
from millstream.state.disk_types import cast_columns
from millstream.state.parquet_file import MayHave
from millstream.state.sequence import buckets_of, may_have


@dataclass(frozen=True)
class _LogColumns:
    """What a kind of log calls its own columns; where there is no sign, rows only arrive; where there is no order, time is the order."""

    instant: str
    order: str | None
    sign: str | None


_LOGS: dict[SourceKind, _LogColumns] = {
    "stream": _LogColumns(TS, SEQ, None),
    "relation": _LogColumns(file_columns.INSTANT, SEQ, file_columns.DIFF),
    "query": _LogColumns(output_file.INSTANT, None, output_file.DIFF),
}


@dataclass(frozen=True)
class _Rows:
    """Rows of a log with their instants, their places in the order of arrival, and their signs."""

    ts: Instants
    seq: Instants
    sign: Signs
    rows: pa.RecordBatch

    def filtered(self, kept: npt.NDArray[np.bool_]) -> _Rows:
        if kept.all():
            return self
        return _Rows(self.ts[kept], self.seq[kept], self.sign[kept], self.rows.filter(pa.array(kept)))

    def batch(self) -> SignedBatch:
        return SignedBatch(self.ts, self.sign, self.rows)


class FeedReader:
    """Reads feeds for one bucket."""

    def __init__(self, bucket: int, buckets: int, evaluator: Evaluator) -> None:
        self._bucket = bucket
        self._buckets = buckets
        self._evaluator = evaluator

    def read(self, feed: SourceFeed, after: int, before: Micros | None, did: Profile) -> list[SignedBatch]:
        """The rows with greater sequence numbers than `after` and timestamps before `before` (None: any), as they arrived.

        What is read, and what passes the filters, is counted in `did`; what every bucket reads is counted in the first.
        """
        chunks = [chunk for chunk in feed.chunks if chunk.max_seq > after and (before is None or chunk.min_ts < before)]
        found = [self._exchanged(path, after, did) for path in feed.exchange]
        found += read_bucket(feed.read, feed.table_dir, chunks, self._bucket, self._buckets, self._evaluator, after, did)
        return found if before is None else [batch.filter(batch.instant < before) for batch in found]

    def _exchanged(self, path: str, after: int, did: Profile) -> SignedBatch:
        arrived, read, kept = read_rows(path, self._bucket)
        if self._bucket == 0:
            did.entering += read
            did.sent_entering += kept
        return SignedBatch.arrivals(arrived.ts, arrived.rows).filter(arrived.seq > after)


def read_bucket(
    source: SourceExec,
    table_dir: str,
    chunks: Sequence[ChunkInfo],
    bucket: int,
    buckets: int,
    evaluator: Evaluator,
    after: int,
    did: Profile,
) -> Iterator[SignedBatch]:
    """The bucket's rows with greater sequence numbers than `after`, in arrival order, with their timestamps."""
    mine = [chunk for chunk in chunks if not _is_split(source, chunk, buckets) or chunk.bucket == bucket_label(bucket, buckets)]
    parts = (_of_bucket(source, table_dir, chunk, bucket, buckets, evaluator, after, did) for chunk in mine)
    if not source.ties_by_value and all(earlier.max_seq < later.min_seq for earlier, later in pairwise(mine)):
        for part in parts:
            yield part.batch()
        return
    # chunks reach over others: only the sequence numbers know who came first
    found = list(parts)
    if found:
        rows = pa.concat_batches([part.rows for part in found])
        order = _arrival_order(np.concatenate([part.seq for part in found]), rows if source.ties_by_value else None)
        ts, sign = np.concatenate([part.ts for part in found]), np.concatenate([part.sign for part in found])
        yield SignedBatch(ts, sign, rows).take(order)


def _arrival_order(seq: Instants, rows: pa.RecordBatch | None) -> Instants:
    """By sequence number; equal ones by the values of these rows, from left to right."""
    if rows is None:
        return np.argsort(seq, kind="stable")
    keys: list[pa.Array] = [pa.array(seq)]
    for column in rows.columns:
        if column.null_count:
            keys.append(column.is_valid())  # NULL is the least; Arrow would put NaN beside it, which is the greatest
        if not pa.types.is_nested(column.type):
            keys.append(column)
    table = pa.table(keys, names=[f"{i}" for i in range(len(keys))])
    order: Instants = pc.sort_indices(table, [(name, "ascending") for name in table.column_names]).to_numpy().astype(np.int64)
    return order


def _of_bucket(
    source: SourceExec, table_dir: str, chunk: ChunkInfo, bucket: int, buckets: int, evaluator: Evaluator, after: int, did: Profile
) -> _Rows:
    is_split = _is_split(source, chunk, buckets)
    is_dealt = isinstance(source.distribution, Anywhere) and not is_split  # the bucket of a row is known before it is read

    def is_wanted(least: int, greatest: int) -> bool:
        return greatest > after and (not is_dealt or may_have(bucket, buckets, least, greatest))

    part = _decoded(source, table_dir, chunk, is_wanted)
    part = part if chunk.min_seq > after else part.filtered(part.seq > after)
    if is_split:
        return _counted(source, part, evaluator, did)
    if is_dealt:
        return _counted(source, part.filtered(_buckets(source, part, buckets) == bucket), evaluator, did)
    for_all = did if bucket == 0 else Profile()
    if isinstance(source.distribution, Single) or buckets == 1:
        return _counted(source, part, evaluator, for_all)
    part = _counted(source, part, evaluator, for_all)
    return part.filtered(_buckets(source, part, buckets) == bucket)


def _counted(source: SourceExec, part: _Rows, evaluator: Evaluator, did: Profile) -> _Rows:
    did.took(part.sign)
    part = _prepared(source, part, evaluator)
    did.sent(part.sign)
    return part


def _is_split(source: SourceExec, chunk: ChunkInfo, buckets: int) -> bool:
    """Whether all its rows are in one bucket; not if it was written when the stream had another number of them."""
    return source.split_at_ingest and is_split_into(chunk.bucket, buckets)


def split_chunk(source: SourceExec, table_dir: str, chunk: ChunkInfo, buckets: int, evaluator: Evaluator) -> list[ArrivedRows]:
    """The rows of a stream's chunk for every bucket."""
    part = _prepared(source, _decoded(source, table_dir, chunk), evaluator)
    with CLOCK.stage("split"):
        order, offsets = split_by_bucket(_buckets(source, part, buckets), buckets)
        ts, seq, rows = part.ts[order], part.seq[order], part.rows.take(pa.array(order))
    return [ArrivedRows(ts[start:stop], seq[start:stop], rows.slice(start, stop - start)) for start, stop in pairwise(map(int, offsets))]


@timed("filter")
def _prepared(source: SourceExec, part: _Rows, evaluator: Evaluator) -> _Rows:
    """Filtered and projected."""
    for step in source.prefix:
        match step:
            case FilterStep():
                mask = evaluator.mask(part.rows, step.predicate_sql, step.calls)
                part = part if mask.all() else part.filtered(mask)
            case ProjectStep():
                rows = evaluator.project(part.rows, [(column.name, column.sql, column.type) for column in step.columns], step.calls)
                part = replace(part, rows=rows)
    return part


@timed("decode")
def _decoded(source: SourceExec, table_dir: str, chunk: ChunkInfo, is_wanted: MayHave | None = None) -> _Rows:
    """Without some of the rows whose sequence numbers are not wanted, where there are any."""
    own = _LOGS[source.kind]
    extra = [name for name in (own.instant, own.order, own.sign) if name is not None]
    columns = [*(column for column, _, _ in source.columns), *extra]
    table = read_chunk(table_dir, chunk, columns, wanted=is_wanted if own.order is not None else None)
    ts = table.column(own.instant).cast(pa.int64()).to_numpy()
    seq = table.column(own.order).to_numpy() if own.order is not None else ts - BEGINNING
    sign = table.column(own.sign).to_numpy() if own.sign is not None else np.ones(len(ts), np.int8)
    declared = pa.schema([pa.field(name, type_) for _, name, type_ in source.columns])
    values = cast_columns(table.select([column for column, _, _ in source.columns]), declared).columns
    return _Rows(ts, seq, sign, pa.RecordBatch.from_arrays([_plain(array) for array in values], schema=declared))


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


@timed("split")
def _buckets(source: SourceExec, part: _Rows, buckets: int) -> npt.NDArray[np.int32]:
    match source.distribution:
        case ByKey(columns):
            return bucket_of(hash_columns([part.rows.column(name) for name in columns]), buckets)
        case Anywhere():
            return buckets_of(part.seq, buckets)
        case Single():
            return np.zeros(len(part.ts), np.int32)
