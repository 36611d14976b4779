"""Rows become part of a stream's log: stamped, judged late or not, split, written as immutable chunks.

The same function serves the driver (db.insert, one partition) and executors (a source's batch, one
call per partition).  It only writes files; they exist once the driver's commit names them.
Partitions of one batch, and the files in one, arrive together: a row is judged by the frontier
before the batch and by the rows before it in its own part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.instant import BEGINNING, LAST, Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants
from millstream.kernels.hashing import bucket_of, hash_columns, split_by_bucket
from millstream.state.chunk import ChunkInfo, bucket_label, write_chunk
from millstream.state.frontier import Frontier, late_mask
from millstream.state.stream_log import sequence_numbers


@dataclass(frozen=True)
class IngestPlan:
    """All that an executor has to know to write its part of a batch."""

    stream: str
    schema: Schema
    timestamp_by: str
    partition_by: tuple[str, ...]
    buckets: int
    stream_dir: str
    late_dir: str
    ingest_number: int
    partitions: int
    frontier: Frontier


@dataclass(frozen=True)
class PartitionReport:
    partition: int
    chunks: tuple[ChunkInfo, ...]
    late: tuple[ChunkInfo, ...]
    max_ts: Micros | None  # of the rows that were not late


def write_partition(plan: IngestPlan, partition: int, parts: Sequence[pa.Table]) -> PartitionReport:
    """`parts` have the stream's columns and types, each in arrival order; they arrive side by side, as files of a batch do."""
    rows = pa.concat_tables(parts)
    if rows.num_rows == 0:
        return PartitionReport(partition, (), (), None)
    seq = sequence_numbers(plan.ingest_number, partition, plan.partitions, rows.num_rows)
    ts, _ = _stamps(rows, plan.timestamp_by)
    late = np.concatenate([_late(plan, part) for part in parts])
    late_chunks: tuple[ChunkInfo, ...] = ()
    if late.any():
        late_chunks = (_write_late(plan, rows.filter(pa.array(late)), ts[late], seq[late]),)
        rows, ts, seq = rows.filter(pa.array(~late)), ts[~late], seq[~late]
    if len(ts) == 0:
        return PartitionReport(partition, (), late_chunks, None)
    return PartitionReport(partition, _write_chunks(plan, rows, ts, seq), late_chunks, int(ts.max()))


def _late(plan: IngestPlan, part: pa.Table) -> npt.NDArray[np.bool_]:
    """A row without a timestamp that can be said belongs to no instant: it goes where late rows go."""
    ts, known = _stamps(part, plan.timestamp_by)
    late = ~known
    late[known] = late_mask(ts[known], plan.frontier)
    return late


def _write_chunks(plan: IngestPlan, rows: pa.Table, ts: Instants, seq: Instants) -> tuple[ChunkInfo, ...]:
    table = _stamped(rows, ts, seq)
    if not plan.partition_by:
        return (write_chunk(plan.stream_dir, table),)
    keys = [table.column(name).combine_chunks() for name in plan.partition_by]
    order, offsets = split_by_bucket(bucket_of(hash_columns(keys), plan.buckets), plan.buckets)
    table = table.take(pa.array(order))
    return tuple(
        write_chunk(plan.stream_dir, table.slice(offsets[b], offsets[b + 1] - offsets[b]), bucket=bucket_label(b, plan.buckets))
        for b in range(plan.buckets)
        if offsets[b + 1] > offsets[b]
    )


def _write_late(plan: IngestPlan, rows: pa.Table, ts: Instants, seq: Instants) -> ChunkInfo:
    table = _stamped(rows, ts, seq).append_column("_frontier", pa.array(np.full(len(ts), plan.frontier.value, np.int64)))
    return write_chunk(plan.late_dir, table)


def _stamped(rows: pa.Table, ts: Instants, seq: Instants) -> pa.Table:
    return rows.append_column("_ts", pa.array(ts)).append_column("_seq", pa.array(seq))


def _stamps(rows: pa.Table, timestamp_by: str) -> tuple[Instants, npt.NDArray[np.bool_]]:
    """Each row's instant, 0 where it has none, and whether it has one: NULL and what lies outside the years 1 to 9999 are none."""
    stamps = rows.column(timestamp_by)
    micros: Instants = stamps.cast(pa.timestamp("us", stamps.type.tz)).cast(pa.int64()).fill_null(0).to_numpy()
    known = np.asarray(pc.is_valid(stamps)) & (micros >= BEGINNING) & (micros <= LAST)
    return np.where(known, micros, 0), known
