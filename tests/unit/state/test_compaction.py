from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from millstream.core.instant import NEVER_BEFORE
from millstream.state.chunk import ChunkInfo, read_chunk, write_chunk
from millstream.state.compaction import merge_chunks, plan_compaction
from millstream.state.location import Location
from millstream.state.merge_plan import plan_merges
from millstream.state.stream_log import StreamLog
from unit.state.rows import TRADES, ingest, trades


def opened(location: Location) -> StreamLog:
    return StreamLog.open(location, "trades", TRADES, timestamp_by="ts", partition_by=["sym"])


def rows_of(log: StreamLog) -> pa.Table:
    return pa.concat_tables([read_chunk(log.directory, chunk) for chunk in log.chunks_after(NEVER_BEFORE)]).sort_by("_seq")


def test_merging_keeps_rows_stats_and_buckets_apart(location: Location) -> None:
    log = opened(location)
    for i in range(16):
        ingest(log, [10 * i + 7, 10 * i], bucket=i % 2)
    before, frontier, version = rows_of(log), log.frontier, log.version
    assert log.compact() == 14
    for log in (log, opened(location)):  # noqa: B020
        assert rows_of(log).equals(before)
        assert [(c.bucket, c.rows, c.min_ts, c.max_ts) for c in log.chunks_after(NEVER_BEFORE)] == [(0, 16, 0, 147), (1, 16, 10, 157)]
        assert (log.frontier, log.version, log.rows_total, log.rows_accepted) == (frontier, version + 2, 32, 32)
        assert log.begin().ingest_number == 17
    assert log.compact() == 0


def test_a_reader_that_holds_a_replaced_chunk_can_read_it_for_the_grace_period(location: Location) -> None:
    log = opened(location)
    chunks = [ingest(log, [i], bucket=0) for i in range(8)]
    log.compact()
    log.vacuum(now_s=None)
    assert [read_chunk(log.directory, chunk).num_rows for chunk in chunks] == [1] * 8
    assert log.vacuum(grace_s=0) == 8
    assert rows_of(log).num_rows == 8


def test_merging_is_not_a_change_of_the_data(location: Location) -> None:
    log = opened(location)
    for i in range(8):
        ingest(log, [i], bucket=0)
    log.compact()
    commit = (log.directory / "_delta_log" / f"{log.version:020d}.json").read_text()
    assert commit.count('"dataChange":false') == 9
    assert '"dataChange":true' not in commit


def test_late_chunks_merge_too_and_keep_their_horizon(location: Location) -> None:
    log = opened(location)
    ingest(log, [1000], bucket=0)
    for i in range(8):
        log.commit([], [write_chunk(log.late_directory, trades([i], 10 + i, frontier=999))], log.frontier)
    assert log.compact() == 7
    (chunk,) = log.late_chunks()
    assert read_chunk(log.late_directory, chunk).column("_ts").to_pylist() == list(range(8))
    assert chunk.max_ts == 999
    assert opened(location).late_chunks() == [chunk]


def test_chunks_that_left_meanwhile_are_not_brought_back(location: Location) -> None:
    log = opened(location)
    old = [ingest(log, [i], bucket=0) for i in range(8)]
    merged = merge_chunks(log.directory, old)
    log.retain(100)
    assert log._replaced(log._table, old, merged) == 0
    assert log.chunks_after(NEVER_BEFORE) == []
    assert not (log.directory / merged.path).exists()


def test_spans_of_time_stay_apart_so_that_retention_can_drop_them(location: Location) -> None:
    log = opened(location)
    for i in range(40):
        ingest(log, [10 * i], bucket=0)
    assert log.compact(span_us=100) == 36
    assert [chunk.max_ts for chunk in log.chunks_after(NEVER_BEFORE)] == [90, 190, 290, 390]
    assert log.retain(200) == 2
    assert rows_of(log).column("_ts").to_pylist() == list(range(200, 400, 10))


def test_chunks_that_a_reader_has_not_passed_stay_as_they_are(location: Location) -> None:
    log = opened(location)
    chunks = [ingest(log, [i], bucket=0) for i in range(12)]
    assert log.compact(upto_seq=chunks[8].max_seq) == 8
    assert log.chunks_after(NEVER_BEFORE)[1:] == chunks[9:]


def test_large_chunks_are_left_alone(tmp_path: Path) -> None:
    chunks = [ChunkInfo(str(i), None, 1, size, i, i, i, i) for i, size in enumerate([9 << 20] + [1000] * 8)]
    assert plan_compaction(chunks) == [chunks[1:]]


def test_the_plan_of_the_docstring() -> None:
    k, m = 1 << 10, 1 << 20
    assert plan_merges([9 * m, 4 * m, 1 * m, 300 * k, 200 * k, 100 * k, 70 * k, 60 * k, 60 * k, 50 * k, 50 * k]) == [(2, 11)]


def test_a_run_ends_where_the_merged_file_would_be_too_large() -> None:
    assert plan_merges([3000] * 20, small_bytes=4000, target_bytes=16_000, fan_in=4) == [(15, 20), (10, 15), (5, 10), (0, 5)]
