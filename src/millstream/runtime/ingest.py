"""Rows become part of a stream's log: stamped, judged late or not, split, written as immutable chunks; dead letters beside them.

The same function serves the driver (db.insert, one partition) and executors (a source's batch, one
call per partition).  It only writes files; they exist once the driver's commit names them.
Partitions of one batch, and the files in one, arrive together: a row is judged by the frontier
before the batch and by the rows before it in its own part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from millstream.core.errors import SourceFailed, StorageFailed
from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants
from millstream.kernels.hashing import bucket_of, hash_columns, split_by_bucket
from millstream.language.statements import OnError
from millstream.runtime.dead_letters import DeadLetter, Part, letters_table
from millstream.runtime.row_times import RowTimes, stamps
from millstream.state.atomic import remove_file
from millstream.state.chunk import ChunkInfo, bucket_label, write_chunk
from millstream.state.frontier import Frontier, late_mask
from millstream.state.sequence import sequence_numbers


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
    rejected_dir: str
    ingest_number: int
    partitions: int
    frontier: Frontier
    times: RowTimes
    on_error: OnError


@dataclass(frozen=True)
class PartitionReport:
    partition: int
    chunks: tuple[ChunkInfo, ...]
    late: tuple[ChunkInfo, ...]
    max_ts: Micros | None  # of the rows that were not late
    rejected: tuple[ChunkInfo, ...] = ()
    first_reason: str = ""  # of a rejection


def write_partition(plan: IngestPlan, partition: int, parts: Sequence[Part]) -> PartitionReport:
    """The rows of a part stand in arrival order, each with a time; parts arrive side by side, as the files of a batch do."""
    letters = [letter for part in parts for letter in part.rejected]
    if letters and plan.on_error == "fail":
        raise refusal(plan.stream, letters[0])
    report = _write_rows(plan, partition, [part.rows for part in parts])
    if not letters:
        return report
    try:
        return replace(report, rejected=(_write_letters(plan, partition, letters),), first_reason=str(letters[0]))
    except StorageFailed:
        _delete(plan.stream_dir, report.chunks)
        _delete(plan.late_dir, report.late)
        raise


def refusal(stream: str, letter: DeadLetter) -> SourceFailed:
    return SourceFailed(
        f'stream "{stream}" cannot take {letter}',
        hint="Correct or remove it and start again; a stream with ON ERROR REJECT keeps such rows aside and goes on.",
    )


def _write_rows(plan: IngestPlan, partition: int, parts: Sequence[pa.Table]) -> PartitionReport:
    rows = pa.concat_tables(parts)
    if rows.num_rows == 0:
        return PartitionReport(partition, (), (), None)
    seq = sequence_numbers(plan.ingest_number, partition, plan.partitions, rows.num_rows)
    ts = stamps(rows, plan.timestamp_by)
    late = np.concatenate([late_mask(stamps(part, plan.timestamp_by), plan.frontier) for part in parts])
    late_chunks: tuple[ChunkInfo, ...] = ()
    if late.any():
        late_chunks = (_write_late(plan, rows.filter(pa.array(late)), ts[late], seq[late]),)
        rows, ts, seq = rows.filter(pa.array(~late)), ts[~late], seq[~late]
    if len(ts) == 0:
        return PartitionReport(partition, (), late_chunks, None)
    try:
        return PartitionReport(partition, _write_chunks(plan, rows, ts, seq), late_chunks, int(ts.max()))
    except StorageFailed:
        _delete(plan.late_dir, late_chunks)
        raise


def _write_chunks(plan: IngestPlan, rows: pa.Table, ts: Instants, seq: Instants) -> tuple[ChunkInfo, ...]:
    table = _stamped(rows, ts, seq)
    if not plan.partition_by:
        return (write_chunk(plan.stream_dir, table),)
    keys = [table.column(name).combine_chunks() for name in plan.partition_by]
    order, offsets = split_by_bucket(bucket_of(hash_columns(keys), plan.buckets), plan.buckets)
    table = table.take(pa.array(order))
    chunks: list[ChunkInfo] = []
    try:
        for b in np.flatnonzero(np.diff(offsets)).tolist():
            part = table.slice(offsets[b], offsets[b + 1] - offsets[b])
            chunks.append(write_chunk(plan.stream_dir, part, bucket=bucket_label(b, plan.buckets)))
    except StorageFailed:
        _delete(plan.stream_dir, chunks)
        raise
    return tuple(chunks)


def _delete(directory: str, chunks: Sequence[ChunkInfo]) -> None:
    """Of a part that could not be written as a whole."""
    for chunk in chunks:
        remove_file(Path(directory) / chunk.path)


def _write_late(plan: IngestPlan, rows: pa.Table, ts: Instants, seq: Instants) -> ChunkInfo:
    table = _stamped(rows, ts, seq).append_column("_frontier", pa.array(np.full(len(ts), plan.frontier.value, np.int64)))
    return write_chunk(plan.late_dir, table)


def _write_letters(plan: IngestPlan, partition: int, letters: Sequence[DeadLetter]) -> ChunkInfo:
    """Their time is that of the wall clock: of theirs nothing is known."""
    seq = sequence_numbers(plan.ingest_number, partition, plan.partitions, len(letters))
    now = np.full(len(letters), plan.times.now, np.int64)
    return write_chunk(plan.rejected_dir, _stamped(letters_table(letters, plan.times.now), now, seq))


def _stamped(rows: pa.Table, ts: Instants, seq: Instants) -> pa.Table:
    return rows.append_column("_ts", pa.array(ts)).append_column("_seq", pa.array(seq))
