"""Chunks of a stream's log: immutable Parquet files that executors write and a later commit of the driver names.

Nothing here knows the driver or a commit; these functions run anywhere that sees the shared file system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.schema import Schema
from millstream.state.atomic import sync_file, writing
from millstream.state.disk_types import cast_columns
from millstream.state.fault import fault_point
from millstream.state.parquet_file import MayHave, read_parquet, write_parquet
from millstream.state.sequence import block_starts
from millstream.state.timed_file import TimedFile

TS, SEQ, BUCKET, FRONTIER = "_ts", "_seq", "_bucket", "_frontier"
_MOST_BUCKETS = 10_000


def bucket_label(bucket: int, buckets: int) -> int:
    """What chunks of one bucket are marked with: 20001 is bucket 1 of 2.  The number of buckets may change, files stay what they are."""
    assert 0 <= bucket < buckets < _MOST_BUCKETS
    return buckets * _MOST_BUCKETS + bucket


def is_split_into(label: int | None, buckets: int) -> bool:
    """Whether a chunk with this mark holds rows of one bucket only, of so many."""
    return label is not None and label // _MOST_BUCKETS == buckets


@dataclass(frozen=True, slots=True)
class ChunkInfo(TimedFile):
    """What a commit says of one chunk."""

    min_seq: int
    max_seq: int


def write_chunk(directory: str | Path, rows: pa.Table | pa.RecordBatch, *, bucket: int | None = None, time_column: str = TS) -> ChunkInfo:
    """Writes `rows` (the stream's columns, _ts and _seq; at least one row) under a name of their own, durable on return.

    `bucket` is their label, if they are all of one bucket; otherwise each block that goes to a bucket as a whole is a row group.
    """
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    assert table.num_rows, "an empty chunk is not worth a file"
    blocks = block_starts(table.column(SEQ).to_numpy()) if bucket is None else []
    path, size = placed(directory, bucket, lambda folder: write_parquet(folder, table, statistics=(time_column, SEQ), groups_at=blocks))
    min_ts, max_ts = _extremes(table, time_column)
    min_seq, max_seq = _extremes(table, SEQ)
    return ChunkInfo(path, bucket, table.num_rows, size, min_ts, max_ts, min_seq, max_seq)


def placed(directory: str | Path, bucket: int | None, write: Callable[[Path], tuple[str, int]]) -> tuple[str, int]:
    """Path and size of what `write` leaves in the folder of this label, durable."""
    folder = "" if bucket is None else f"{BUCKET}={bucket}/"
    kind = Path(directory).parent.name
    fault_point("chunk.before_write", kind)
    name, size = write(Path(directory, folder))
    path = folder + name
    with writing(Path(directory) / path):
        sync_file(Path(directory) / path)
    fault_point("chunk.after_write", kind)
    return path, size


def read_chunk(
    directory: str | Path,
    info: ChunkInfo,
    columns: Sequence[str] | None = None,
    *,
    schema: Schema | None = None,
    wanted: MayHave | None = None,
) -> pa.Table:
    """The chunk's rows as written.  With `schema` its columns get the declared types back (INTERVAL and VOID have others on disk).

    `wanted` may leave out rows, by their sequence numbers.
    """
    by_seq = None if wanted is None else (SEQ, wanted)
    rows = read_parquet(Path(directory) / info.path, size=info.bytes, rows=info.rows, columns=columns, wanted=by_seq)
    if schema is None:
        return rows
    types = {field.name: field.type for field in schema}
    return cast_columns(rows, pa.schema([pa.field(field.name, types.get(field.name, field.type)) for field in rows.schema]))


def _extremes(rows: pa.Table, column: str) -> tuple[int, int]:
    found = pc.min_max(rows.column(column)).as_py()
    return found["min"], found["max"]
