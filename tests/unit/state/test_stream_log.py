from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from millstream.core.errors import DataDamaged, DuplicateColumn
from millstream.core.instant import NEVER_BEFORE
from millstream.core.schema import Schema
from millstream.state import delta_log
from millstream.state.chunk import read_chunk, write_chunk
from millstream.state.delta_check import version_path
from millstream.state.frontier import Frontier
from millstream.state.location import Location
from millstream.state.stream_log import StreamLog
from unit.state.rows import TRADES, ingest, trades


def opened(location: Location, **options: object) -> StreamLog:
    return StreamLog.open(location, "trades", TRADES, timestamp_by="ts", **options)  # type: ignore[arg-type]


def stamps(log: StreamLog, after: int = NEVER_BEFORE) -> list[int]:
    return [ts for chunk in log.chunks_after(after) for ts in read_chunk(log.directory, chunk, ["_ts"]).column(0).to_pylist() if ts > after]


def test_what_was_committed_is_there_after_reopening(location: Location) -> None:
    log = opened(location, slack_us=2)
    first, second = ingest(log, [1, 2]), ingest(log, [5, 4])
    again = opened(location, slack_us=2)
    assert again.chunks_after(NEVER_BEFORE) == [first, second] == log.chunks_after(NEVER_BEFORE)
    assert again.frontier == log.frontier == Frontier(5, None, 2)
    assert (again.version, again.rows_total, again.bytes_total) == (2, 4, first.bytes + second.bytes)
    assert again.begin().ingest_number == 3


def test_chunks_after_leaves_out_what_lies_behind_and_ahead(location: Location) -> None:
    log = opened(location)
    chunks = [ingest(log, [start, start + 5]) for start in (0, 10, 20)]
    assert log.chunks_after(5) == chunks[1:]
    assert log.chunks_after(4) == chunks
    assert log.chunks_after(4, up_to=9) == chunks[:1]
    assert log.chunks_after(25) == []


def test_a_batch_of_a_source_is_committed_once(location: Location) -> None:
    log = opened(location)
    ingest(log, [1], batch=("kafka", 7))
    for log in (log, opened(location)):  # noqa: B020
        assert log.is_committed("kafka", 7)
        assert log.is_committed("kafka", 3)
        assert not log.is_committed("kafka", 8)
        assert not log.is_committed("files", 0)
        replayed = write_chunk(log.directory, trades([1], 9))
        assert log.commit([replayed], [], log.frontier, batch=("kafka", 7)) is False
        assert not (log.directory / replayed.path).exists()
        assert stamps(log) == [1]


def test_batches_stay_known_after_a_checkpoint_and_many_commits(location: Location) -> None:
    log = opened(location)
    for batch in range(130):
        log.commit([], [], Frontier(batch), batch=("source", batch))
    log.close()
    assert list(log.directory.glob("_delta_log/*.checkpoint.parquet"))
    again = opened(location)
    assert again.is_committed("source", 129)
    assert not again.is_committed("source", 130)
    assert again.frontier.max_ts == 129


def test_late_rows_are_in_the_late_table_and_not_in_the_log(location: Location) -> None:
    log = opened(location)
    ingest(log, [100])
    number = log.begin().ingest_number
    chunk = write_chunk(log.directory, trades([200], number))
    late = write_chunk(log.late_directory, trades([50, 60], number, frontier=99))
    assert log.commit([chunk], [late], log.frontier.after_rows(200))
    for log in (log, opened(location)):  # noqa: B020
        assert stamps(log) == [100, 200]
        assert (log.late_total, log.rows_accepted) == (2, 2)
        (found,) = log.late_chunks()
        assert read_chunk(log.late_directory, found).select(["_ts", "_frontier"]).to_pydict() == {"_ts": [50, 60], "_frontier": [99, 99]}


def test_an_advance_is_durable_and_never_goes_back(location: Location) -> None:
    log = opened(location)
    log.advance(log.frontier.after_advance(50))
    log.advance(Frontier(None, 20, 0))
    assert opened(location).frontier.value == log.frontier.value == 50
    ingest(log, [80])
    log.advance(log.frontier.after_advance(70))
    assert opened(location).frontier.value == log.frontier.value == 79


def test_a_commit_with_an_older_frontier_does_not_undo_an_advance(location: Location) -> None:
    log = opened(location)
    before = log.frontier
    log.advance(before.after_advance(50))
    log.commit([write_chunk(log.directory, trades([60]))], [], before.after_rows(60))
    assert log.frontier == Frontier(60, 50, 0)


def test_retained_is_what_reaches_the_horizon(location: Location) -> None:
    log = opened(location)
    chunks = [ingest(log, [start, start + 9]) for start in (0, 10, 20)]
    assert log.retain(19) == 1
    for log in (log, opened(location)):  # noqa: B020
        assert log.chunks_after(NEVER_BEFORE) == chunks[1:]
        assert (log.rows_total, log.rows_accepted) == (4, 6)
    assert log.frontier.max_ts == 29


def test_dropped_files_stay_for_the_grace_period_even_over_a_reopening(location: Location) -> None:
    log = opened(location)
    chunk = ingest(log, [1])
    ingest(log, [50])
    log.retain(10)
    assert log.vacuum() == 0
    log = opened(location)
    assert read_chunk(log.directory, chunk).num_rows == 1
    assert log.vacuum(grace_s=0) == 1
    assert not (log.directory / chunk.path).exists()
    assert opened(location).vacuum(grace_s=0) == 0


def test_late_rows_are_retained_by_when_they_came(location: Location) -> None:
    log = opened(location)
    ingest(log, [1000])
    log.commit([], [write_chunk(log.late_directory, trades([5], 2, frontier=999))], log.frontier)
    log.retain(999)
    assert len(log.late_chunks()) == 1
    log.retain(1001)
    assert log.late_chunks() == []
    assert log.late_total == 1


def test_files_that_no_commit_names_go_at_the_next_open(location: Location) -> None:
    log = opened(location, partition_by=["sym"])
    kept = ingest(log, [1], bucket=1)
    orphan = write_chunk(log.directory, trades([2]), bucket=0)
    late_orphan = write_chunk(log.late_directory, trades([2], frontier=3))
    again = opened(location, partition_by=["sym"])
    assert not (log.directory / orphan.path).exists()
    assert not (log.late_directory / late_orphan.path).exists()
    assert again.chunks_after(NEVER_BEFORE) == [kept]
    assert kept.bucket == 1
    assert again.late_chunks() == []


@pytest.mark.parametrize("column", ["_ts", "_SEQ", "_bucket", "_frontier"])
def test_a_stream_cannot_have_the_logs_own_columns(location: Location, column: str) -> None:
    with pytest.raises(DuplicateColumn, match=column):
        StreamLog.open(location, "s", Schema.of(**{column: "INT"}), timestamp_by=column)


def test_a_table_with_other_columns_is_refused(location: Location) -> None:
    opened(location)
    with pytest.raises(DataDamaged, match="other columns"):
        StreamLog.open(location, "trades", Schema.of(ts="TIMESTAMP"), timestamp_by="ts")


def test_a_damaged_table_is_named(location: Location) -> None:
    log = opened(location)
    ingest(log, [1])
    (log.directory / "_delta_log" / f"{1:020d}.json").write_text("{")
    with pytest.raises(DataDamaged, match="trades"):
        opened(location)


def test_another_writer_is_noticed_and_nothing_is_changed(location: Location) -> None:
    log = opened(location)
    ingest(log, [1])
    Path(log.directory / "_delta_log" / f"{2:020d}.json").write_text(json.dumps({"commitInfo": {"operation": "OPTIMIZE"}}) + "\n")
    chunk = write_chunk(log.directory, trades([2]))
    with pytest.raises(DataDamaged, match="somebody else"):
        log.commit([chunk], [], log.frontier.after_rows(2))
    assert (stamps(log), log.frontier.max_ts) == ([1], 1)
    assert opened(location).frontier.max_ts == 1


@pytest.mark.parametrize("other", [0, 1, 3])
def test_a_commit_that_is_another_ones_is_damaged(location: Location, other: int) -> None:
    """Its checksum is right, and its rows would be there twice or not at all."""
    log = opened(location)
    for at in (1, 2, 3):
        ingest(log, [at])
    commits = log.directory / "_delta_log"
    shutil.copy(commits / f"{other:020d}.json", commits / f"{2:020d}.json")
    with pytest.raises(DataDamaged, match=rf'{2:020d}\.json" is damaged: it is that of version {other}'):
        opened(location)


def test_a_commit_of_another_table_is_damaged(location: Location) -> None:
    log, other = opened(location), StreamLog.open(location, "quotes", TRADES, timestamp_by="ts")
    ingest(log, [1])
    ingest(other, [1])
    shutil.copy(version_path(other.directory, 1), version_path(log.directory, 1))
    with pytest.raises(DataDamaged, match=r'0001\.json" is damaged: it is that of table streams/quotes'):
        opened(location)


def test_a_table_of_before_commits_named_it_is_read(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_log, "table_name", lambda _: None)
    ingest(opened(location), [1])
    monkeypatch.undo()
    assert stamps(opened(location)) == [1]
