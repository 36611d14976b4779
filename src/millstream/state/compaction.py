"""Merging small chunks of a log: which, and how.  The commit is the log's.

`merge_chunks` needs only the file system, so it may run on an executor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from millstream.state.chunk import SEQ, TS, ChunkInfo, placed, read_chunk
from millstream.state.merge_plan import FAN_IN, SMALL_BYTES, TARGET_BYTES, plan_merges
from millstream.state.pace import AT_ONCE, Pace
from millstream.state.parquet_file import columns_with_nulls, merge_parquet


def plan_compaction(
    chunks: Iterable[ChunkInfo],
    *,
    apart: Callable[[ChunkInfo], object] = lambda chunk: chunk.bucket,
    small_bytes: int = SMALL_BYTES,
    target_bytes: int = TARGET_BYTES,
    fan_in: int = FAN_IN,
) -> list[list[ChunkInfo]]:
    """Groups of chunks, near in the given order and equal in what keeps them `apart`, to be one chunk each."""
    together: dict[object, list[ChunkInfo]] = defaultdict(list)
    for chunk in chunks:
        together[apart(chunk)].append(chunk)
    return [
        group[start:stop]
        for group in together.values()
        for start, stop in plan_merges([chunk.bytes for chunk in group], small_bytes=small_bytes, target_bytes=target_bytes, fan_in=fan_in)
    ]


def merge_chunks(directory: str | Path, chunks: Sequence[ChunkInfo], *, time_column: str = TS, pace: Pace = AT_ONCE) -> ChunkInfo:
    """One new chunk with the rows of all, in arrival order; times and _seq stay as they are.  Memory is that of a row group."""
    bucket = chunks[0].bucket
    nulls = set[str]().union(*(columns_with_nulls(Path(directory) / chunk.path) for chunk in chunks))
    parts = pace.over(read_chunk(directory, chunk) for chunk in sorted(chunks, key=lambda chunk: chunk.min_seq))
    path, size = placed(directory, bucket, lambda folder: merge_parquet(folder, parts, nulls=nulls, statistics=(time_column, SEQ)))
    rows = sum(chunk.rows for chunk in chunks)
    # not from the rows: bounds of late chunks are those of the frontier, which only their commits know
    min_ts, max_ts = min(chunk.min_ts for chunk in chunks), max(chunk.max_ts for chunk in chunks)
    return ChunkInfo(
        path, bucket, rows, size, min_ts, max_ts, min(chunk.min_seq for chunk in chunks), max(chunk.max_seq for chunk in chunks)
    )
