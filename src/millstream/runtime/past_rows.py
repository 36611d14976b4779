"""What a window of a stream held at an instant, read from the log: by definition, for a question that is answered once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.errors import InstantPassed, NotSupported
from millstream.core.instant import NEVER_BEFORE, Micros, format_instant
from millstream.core.signed_batch import Instants
from millstream.kernels.key_table import KeyTable
from millstream.plan.window import RowsWindow, TimeWindow, WindowSpec
from millstream.runtime.streams import OpenStream
from millstream.state.chunk import SEQ, TS, read_chunk

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


def rows_at(stream: OpenStream, window: WindowSpec, at: Micros) -> pa.Table:
    """In the order of (ts, arrival)."""
    schema = stream.entry.schema
    _check_known(stream, window, at)
    since = NEVER_BEFORE if window.history_us is None else max(at - window.history_us, NEVER_BEFORE)
    chunks = [chunk for chunk in stream.log.chunks_after(since - 1) if chunk.min_ts <= at]
    directory = stream.log.directory
    parts = [read_chunk(directory, chunk, [*schema.names, TS, SEQ], schema=schema) for chunk in chunks]
    if not parts:
        return schema.to_arrow().empty_table()
    rows = pa.concat_tables(parts).combine_chunks()
    ts, seq = rows.column(TS).to_numpy(), rows.column(SEQ).to_numpy()
    order = np.lexsort((seq, ts))
    order = order[ts[order] <= at]
    rows, ts = rows.select(schema.names).take(order), ts[order]
    return rows.filter(pa.array(_in_rows(window, rows, ts, at) if isinstance(window, RowsWindow) else _in_time(window, ts, at)))


def _check_known(stream: OpenStream, window: WindowSpec, at: Micros) -> None:
    """All that the window held is kept; one that never lets go holds what there is."""
    name = stream.entry.name
    if at > stream.frontier:
        upto = "nowhere yet" if stream.frontier == NEVER_BEFORE else f"only up to {format_instant(stream.frontier)}"
        raise NotSupported(f'stream "{name}" is final {upto}, not at {format_instant(at)}', hint="Ask AS OF NOW, or advance the stream.")
    if at < stream.log.whole_from:
        kept = format_instant(stream.log.whole_from)
        raise InstantPassed(f'stream "{name}" keeps its rows from {kept}: {format_instant(at)} is gone', hint=f"Ask for {kept} or later.")
    if window.history_us is None:
        return
    oldest = window.first_gone_after(at) if isinstance(window, TimeWindow) else at - window.history_us + 1
    if oldest < stream.log.whole_from:
        kept = format_instant(stream.log.whole_from)
        raise InstantPassed(
            f'stream "{name}" keeps its rows from {kept}: {window} reached back to {format_instant(oldest)} at {format_instant(at)}',
            hint="Ask for a later instant or with a shorter window; RETAIN keeps more.",
        )


def _in_time(window: TimeWindow, ts: Instants, at: Micros) -> Mask:
    kept: Mask = (window.enters(ts) <= at) & (window.gone(ts) > at)
    admitted = window.admits(ts)
    return kept if admitted is None else kept & admitted


def _in_rows(window: RowsWindow, rows: pa.Table, ts: Instants, at: Micros) -> Mask:
    """Rows are in order; the newest of each partition count from its end."""
    columns = [rows.column(name).combine_chunks() for name in window.partition_by]
    keys = KeyTable([column.type for column in columns]).encode(columns) if columns else np.zeros(len(ts), np.int64)
    by_key = np.argsort(keys, kind="stable")
    ends = np.searchsorted(keys[by_key], keys[by_key], side="right")
    from_end = np.empty(len(ts), np.int64)
    from_end[by_key] = ends - np.arange(len(ts))
    kept: Mask = from_end <= window.rows
    return kept if window.range_us is None else kept & (ts >= at - window.range_us)
