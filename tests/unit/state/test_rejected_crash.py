"""kill -9 around the commit of a batch with dead letters: they are there exactly if its rows are, and once."""

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
from millstream.core.schema import TIMESTAMP
from millstream.state.chunk import write_chunk
from millstream.state.stream_log import StreamLog
from unit.state.rows import TRADES, trades
log = StreamLog.open(location, "trades", TRADES, timestamp_by="ts")
for batch in range(4):
    number = log.begin().ingest_number
    chunk = write_chunk(log.directory, trades([100 * batch + 50], number))
    late = [write_chunk(log.late_directory, trades([batch], number, frontier=log.frontier.value))] if batch else []
    letter = pa.table({"row": [str(batch)], "reason": ["x"], "source": ["y"], "at": pa.array([batch], TIMESTAMP), "_ts": [batch],
                       "_seq": np.array([number << 32])})
    log.commit([chunk], late, log.frontier.after_rows(100 * batch + 50), [write_chunk(log.rejected_directory, letter)],
               batch=("source", batch))
""".replace("{tests!r}", repr(str(Path(__file__).parents[2])))


# commits: the log 1, letters 2; then for each batch the log, the late rows, the letters: 3 4 5, 6 7 8, 9 10 11
@pytest.mark.parametrize(
    ("fault", "batches"),
    [
        ("delta.before_commit:1", 0),
        ("stream.before_late:1", 1),
        ("delta.before_commit:2", 1),
        ("delta.after_commit:2", 1),
        ("delta.before_commit:6", 2),
        ("delta.after_commit:6", 3),
        ("stream.before_late:3", 3),
        ("delta.before_commit:7", 3),
        ("delta.before_commit:8", 3),
        ("delta.after_commit:8", 3),
        ("delta.after_commit:9", 4),
    ],
)
def test_letters_are_there_exactly_if_their_batch_is(tmp_path: Path, fault: str, batches: int) -> None:
    run_until_killed(tmp_path, fault, INGEST)
    with Location.open(tmp_path, buckets=2) as location:
        log = StreamLog.open(location, "trades", TRADES, timestamp_by="ts")
        rows = [ts for chunk in log.chunks_after(NEVER_BEFORE) for ts in read_chunk(log.directory, chunk).column("_ts").to_pylist()]
        letters = [row for chunk in log.rejected_chunks() for row in read_chunk(log.rejected_directory, chunk).column("row").to_pylist()]
        assert rows == [100 * batch + 50 for batch in range(batches)]
        assert letters == [str(batch) for batch in range(batches)]
        assert (log.rows_accepted, log.rejected_total) == (batches, batches)
        if batches:
            assert {path.name for path in log.rejected_directory.glob("*.parquet")} == {chunk.path for chunk in log.rejected_chunks()}
