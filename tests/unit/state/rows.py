"""Small streams for the tests of the state folder."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.core.schema import TIMESTAMP, Schema
from millstream.state.chunk import ChunkInfo, write_chunk
from millstream.state.sequence import sequence_numbers
from millstream.state.stream_log import StreamLog

TRADES = Schema.of(ts="TIMESTAMP", sym="STRING", size="INT")


def trades(ts: Sequence[int], ingest: int = 1, *, frontier: int | None = None) -> pa.Table:
    """One row per timestamp, as an executor stamps them."""
    stamps = np.array(ts, np.int64)
    columns = {
        "ts": pa.array(stamps, TIMESTAMP),
        "sym": pa.array([f"s{t % 3}" for t in ts], pa.string()),
        "size": pa.array(stamps % 100, pa.int32()),
        "_ts": stamps,
        "_seq": sequence_numbers(ingest, 0, 1, len(ts)),
    }
    if frontier is not None:
        columns["_frontier"] = np.full(len(ts), frontier, np.int64)
    return pa.table(columns)


def ingest(log: StreamLog, ts: Sequence[int], *, bucket: int | None = None, batch: tuple[str, int] | None = None) -> ChunkInfo:
    """Writes and commits one chunk without late rows."""
    chunk = write_chunk(log.directory, trades(ts, log.begin().ingest_number), bucket=bucket)
    log.commit([chunk], [], log.frontier.after_rows(max(ts)), batch=batch)
    return chunk
