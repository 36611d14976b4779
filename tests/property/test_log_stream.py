"""A stream's log through random lives: commits, replays, advances, merging, retention, reopening; against a plain list."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millstream.core.instant import NEVER_BEFORE
from millstream.core.schema import TIMESTAMP, Schema
from millstream.runtime.dead_letters import DeadLetter, letters_table
from millstream.state.chunk import read_chunk, write_chunk
from millstream.state.frontier import Frontier, frontiers_before
from millstream.state.location import Location
from millstream.state.sequence import sequence_numbers
from millstream.state.stream_log import StreamLog

SCHEMA = Schema.of(ts="TIMESTAMP")
SLACK_US = 3


class LogLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.rows: list[tuple[int, int]] = []  # (ts, seq) of every accepted row
        self.late: list[int] = []
        self.rejected: list[str] = []
        self.horizon = NEVER_BEFORE
        self.frontier = NEVER_BEFORE
        self.batch = -1
        self.open()

    def open(self) -> None:
        self.location = Location.open(self.root, buckets=1)
        self.log = StreamLog.open(self.location, "s", SCHEMA, timestamp_by="ts", slack_us=SLACK_US)

    def teardown(self) -> None:
        self.location.close()
        shutil.rmtree(self.root)

    @rule(ts=st.lists(st.integers(0, 40), min_size=1, max_size=6), replay=st.booleans(), letters=st.lists(st.text(max_size=3), max_size=2))
    def ingest(self, ts: list[int], *, replay: bool, letters: list[str]) -> None:
        stamps, start = np.array(ts, np.int64), self.log.frontier
        seq = sequence_numbers(self.log.begin().ingest_number, 0, 1, len(ts))
        before = frontiers_before(stamps, start)
        late = stamps <= before
        table = pa.table({"ts": pa.array(stamps, TIMESTAMP), "_ts": stamps, "_seq": seq})
        accepted = table.filter(pa.array(~late))
        chunks = [write_chunk(self.log.directory, accepted)] if accepted.num_rows else []
        behind = table.append_column("_frontier", pa.array(before)).filter(pa.array(late))
        late_chunks = [write_chunk(self.log.late_directory, behind)] if behind.num_rows else []
        batch = self.batch if replay and self.batch >= 0 else self.batch + 1
        table = letters_table([DeadLetter(text, "reason", "source") for text in letters], 0)
        table = table.append_column("_ts", pa.array([0] * len(letters), pa.int64())).append_column(
            "_seq", pa.array(seq[:1].repeat(len(letters)))
        )
        rejected = [write_chunk(self.log.rejected_directory, table)] if letters else []
        done = self.log.commit(chunks, late_chunks, start.after_rows(max(ts)), rejected, batch=("source", batch))
        assert done == (batch > self.batch)
        if done:
            self.batch = batch
            self.rows += zip(stamps[~late].tolist(), seq[~late].tolist(), strict=True)
            self.late += stamps[late].tolist()
            self.rejected += letters
            self.frontier = max([self.frontier, *(t - SLACK_US - 1 for t in ts)])

    @rule(ts=st.integers(-5, 45))
    def advance(self, ts: int) -> None:
        self.log.advance(self.log.frontier.after_advance(ts))
        self.frontier = max(self.frontier, ts)

    @rule()
    def compact(self) -> None:
        self.log.compact(fan_in=2)

    @rule(back=st.integers(0, 20))
    def retain(self, back: int) -> None:
        """Never beyond the frontier, as the runtime does it."""
        horizon = self.log.frontier.value - back
        self.log.retain(horizon)
        self.horizon = max(self.horizon, horizon)

    @rule(grace_s=st.sampled_from([0.0, 600.0]))
    def vacuum(self, grace_s: float) -> None:
        self.log.vacuum(grace_s=grace_s)

    @rule(checkpoint=st.booleans())
    def reopen(self, *, checkpoint: bool) -> None:
        if checkpoint:
            self.log._table.log.checkpoint()
        self.log.close()
        self.location.close()
        self.open()

    @invariant()
    def the_log_holds_the_rows(self) -> None:
        found: list[tuple[int, int]] = []
        for chunk in self.log.chunks_after(NEVER_BEFORE):
            table = read_chunk(self.log.directory, chunk)
            rows = list(zip(table["_ts"].to_pylist(), table["_seq"].to_pylist(), strict=True))
            assert (min(rows)[0], max(rows)[0], len(rows)) == (chunk.min_ts, chunk.max_ts, chunk.rows)
            assert (min(seq for _, seq in rows), max(seq for _, seq in rows)) == (chunk.min_seq, chunk.max_seq)
            found += rows
        assert len(set(found)) == len(found) == self.log.rows_total
        assert set(found) <= set(self.rows)
        assert {row for row in self.rows if row[0] >= self.horizon} <= set(found)
        assert (self.log.rows_accepted, self.log.late_total) == (len(self.rows), len(self.late))

    @invariant()
    def the_letters_are_there_once(self) -> None:
        chunks = self.log.rejected_chunks()
        found = [text for chunk in chunks for text in read_chunk(self.log.rejected_directory, chunk).column("row").to_pylist()]
        assert sorted(found) == sorted(self.rejected)
        assert self.log.rejected_total == len(self.rejected)

    @invariant()
    def the_frontier_is_where_it_should_be(self) -> None:
        assert self.log.frontier.value == self.frontier
        assert isinstance(self.log.frontier, Frontier)


LogLife.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestLogLife = LogLife.TestCase
