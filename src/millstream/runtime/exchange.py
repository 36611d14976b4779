"""Files between stages: an Arrow file with one record batch per bucket, read by memory map, gone after the tick.

Rows of the log travel as (_ts, _seq, columns); changes between fragments as (_ts, _sign, columns).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from millstream.core.errors import DataDamaged
from millstream.core.signed_batch import Instants, SignedBatch, Signs, merge_by_instant
from millstream.kernels.hashing import bucket_of, hash_columns, split_by_bucket
from millstream.plan.physical import ByKey, Distribution
from millstream.runtime.stage_clock import CLOCK, timed
from millstream.state.atomic import writing
from millstream.state.fault import fault_point

TS_COLUMN = "_ts"
SEQ_COLUMN = "_seq"
SIGN_COLUMN = "_sign"
_READ, _KEPT = "read", "kept"


class ArrivedRows(NamedTuple):
    """Rows of a stream's log: when they happened, and their places in the order of arrival."""

    ts: Instants
    seq: Instants
    rows: pa.RecordBatch


def write_rows(path: str, by_bucket: Sequence[ArrivedRows], read: int) -> None:
    """`read`: of how many rows of the log these are left."""
    counts = {_READ: str(read), _KEPT: str(sum(len(arrived.ts) for arrived in by_bucket))}
    _write(path, [_with_columns(arrived.rows, {TS_COLUMN: arrived.ts, SEQ_COLUMN: arrived.seq}) for arrived in by_bucket], counts)


@timed("decode")
def read_rows(path: str, bucket: int) -> tuple[ArrivedRows, int, int]:
    """The rows of a bucket; how many of the log were read for all buckets, and how many are left."""
    batch = _read(path, bucket)
    counts = batch.schema.metadata
    rows = ArrivedRows(batch.column(0).to_numpy(), batch.column(1).to_numpy(), batch.select(batch.schema.names[2:]))
    return rows, int(counts[_READ.encode()]), int(counts[_KEPT.encode()])


def write_changes(path: str, changes: SignedBatch, spread: Distribution, buckets: int) -> None:
    """Split the changes of a fragment for the next stage."""
    with CLOCK.stage("split"):
        if isinstance(spread, ByKey):
            owner = bucket_of(hash_columns([changes.rows.column(name) for name in spread.columns]), buckets)
        else:
            owner = np.zeros(len(changes), np.int32)
        order, offsets = split_by_bucket(owner, buckets)
        sorted_changes = changes.take(order)
    parts = [sorted_changes.slice(int(offsets[b]), int(offsets[b + 1])) for b in range(buckets)]
    _write(path, [_with_columns(part.rows, {TS_COLUMN: part.instant, SIGN_COLUMN: part.sign}) for part in parts])


@timed("decode")
def read_changes(paths: Sequence[str], bucket: int, empty: SignedBatch) -> SignedBatch:
    """What all fragments of the stage before have sent to this bucket, in instant order."""
    parts = [empty]
    for path in paths:
        batch = _read(path, bucket)
        if batch.num_rows:
            rows = batch.select(batch.schema.names[2:])
            parts.append(SignedBatch(batch.column(0).to_numpy(), batch.column(1).to_numpy(), rows))
    return merge_by_instant(parts)


def write_contents(path: str, rows: pa.RecordBatch) -> None:
    _write(path, [rows])


def read_contents(path: str) -> pa.RecordBatch:
    return _read(path, 0)


def _with_columns(rows: pa.RecordBatch, extra: Mapping[str, Instants | Signs]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*map(pa.array, extra.values()), *rows.columns], names=[*extra, *rows.schema.names])


@timed("write")
def _write(path: str, batches: Sequence[pa.RecordBatch], metadata: Mapping[str, str] = MappingProxyType({})) -> None:
    fault_point("exchange.before_write")
    with writing(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, batches[0].schema.with_metadata(dict(metadata))) as writer:
            for batch in batches:
                writer.write_batch(batch)
    fault_point("exchange.after_write")


def _read(path: str, bucket: int) -> pa.RecordBatch:
    try:
        return pa.ipc.open_file(pa.memory_map(path)).get_batch(bucket)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataDamaged(f"the exchange file {path} cannot be read: {error}", hint="Restart: the tick will be done again.") from error
