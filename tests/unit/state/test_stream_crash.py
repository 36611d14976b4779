"""kill -9 between any two file operations of the stream log leaves the state before or the state after."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.core.instant import NEVER_BEFORE
from millstream.state.chunk import read_chunk
from millstream.state.location import Location
from millstream.state.stream_log import StreamLog
from unit.state.crash import run_until_killed
from unit.state.rows import TRADES

INGEST = """
sys.path.insert(0, {tests!r})
from millstream.state.chunk import write_chunk
from millstream.state.stream_log import StreamLog
from unit.state.rows import TRADES, trades
log = StreamLog.open(location, "trades", TRADES, timestamp_by="ts")
for batch in range(10):
    number = log.begin().ingest_number
    chunk = write_chunk(log.directory, trades([100 * batch + 50], number))
    late = [write_chunk(log.late_directory, trades([batch], number, frontier=log.frontier.value))] if batch else []
    log.commit([chunk], late, log.frontier.after_rows(100 * batch + 50), batch=("source", batch))
log.advance(log.frontier.after_advance(5000))
log.compact()
log.retain(10_000)
log.vacuum(grace_s=0)
""".replace("{tests!r}", repr(str(Path(__file__).parents[2])))

# commits: the log's at 1, 2, 4, 6, ... and after each but the first the late table's
AFTER_THREE = ([50, 150, 250], [1, 2], 249)
AFTER_FOUR = ([50, 150, 250, 350], [1, 2, 3], 349)
AFTER_ALL = (list(range(50, 1000, 100)), list(range(1, 10)), 949)
ADVANCED = (AFTER_ALL[0], AFTER_ALL[1], 5000)
RETAINED = ([], AFTER_ALL[1], 5000)
NOTHING = ([], [], 5000)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("delta.before_commit:6", AFTER_THREE),
        ("atomic.before_link:6", AFTER_THREE),
        ("atomic.after_link:6", AFTER_FOUR),
        ("delta.after_commit:6", AFTER_FOUR),
        ("stream.before_late:4", AFTER_FOUR),
        ("delta.before_commit:7", AFTER_FOUR),
        ("delta.after_commit:7", AFTER_FOUR),
        ("stream.before_late:2", ([50, 150], [1], 149)),  # the late table does not exist yet
        ("atomic.before_replace@_advanced.json", AFTER_ALL),
        ("stream.merged:1", ADVANCED),
        ("retired.listed:1", ADVANCED),
        ("delta.after_commit:21", ADVANCED),  # the log's chunks are merged
        ("retired.listed:2", ADVANCED),
        ("delta.after_commit:22", ADVANCED),  # the late table's too
        ("retired.listed:3", ADVANCED),
        ("delta.after_commit:23", RETAINED),  # retention has dropped the log's chunks
        ("delta.after_commit:24", NOTHING),  # and the late ones
        ("retired.deleted:1", NOTHING),
    ],
)
def test_a_crash_leaves_the_state_before_or_after(tmp_path: Path, fault: str, expected: tuple[list[int], list[int], int]) -> None:
    run_until_killed(tmp_path, fault, INGEST)
    with Location.open(tmp_path, buckets=2) as location:
        log = StreamLog.open(location, "trades", TRADES, timestamp_by="ts")
        rows = [ts for chunk in log.chunks_after(NEVER_BEFORE) for ts in read_chunk(log.directory, chunk).column("_ts").to_pylist()]
        late = [ts for chunk in log.late_chunks() for ts in read_chunk(log.late_directory, chunk).column("_ts").to_pylist()]
        assert (rows, late, log.frontier.value) == expected
        accepted = len(rows) if rows else 10
        assert (log.rows_accepted, log.late_total) == (accepted, accepted - 1)
        assert log.is_committed("source", accepted - 1)
        assert not log.is_committed("source", accepted)
        log.vacuum(grace_s=0)
        for directory, chunks in ((log.directory, log.chunks_after(NEVER_BEFORE)), (log.late_directory, log.late_chunks())):
            assert {path.name for path in directory.glob("*.parquet")} == {chunk.path for chunk in chunks}
            assert not list(directory.rglob(".tmp-*"))
