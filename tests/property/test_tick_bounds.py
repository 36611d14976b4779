"""A backlog is worked off in bounded steps: no row is skipped, none is fed twice, ingests stay whole."""

from __future__ import annotations

import tempfile
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import open_inline
from millstream.core.instant import GONE_NEVER
from millstream.runtime import tick
from millstream.state.chunk import ChunkInfo
from property.examples import examples


@st.composite
def backlogs(draw: st.DrawFn) -> list[ChunkInfo]:
    """Chunks of several ingests; those of one ingest have interleaved sequence numbers, as a split by key leaves them."""
    chunks = []
    for ingest in range(draw(st.integers(0, 8))):
        for part in range(draw(st.integers(1, 3))):
            low = draw(st.integers(1, 40))
            span = draw(st.integers(0, 10))
            first = (ingest << 32) + part
            chunks.append(ChunkInfo(f"{ingest}-{part}", part, draw(st.integers(1, 1_500_000)), 1, low, low + span, first, first + 1000))
    return chunks


@given(backlogs(), st.integers(1, 3_000_000))
def test_bounded_prefix(chunks: list[ChunkInfo], most_rows: int) -> None:
    taken, bound = tick._bounded(chunks, 0, most_rows)
    assert list(taken) == chunks[: len(taken)]
    rest = chunks[len(taken) :]
    if not rest:
        assert bound == GONE_NEVER
        return
    assert bound > 0
    assert all(chunk.min_ts > bound for chunk in rest), "a row at or before the frontier was left behind"
    assert max(chunk.max_seq for chunk in taken) < min(chunk.min_seq for chunk in rest), "an ingest was torn apart"
    assert sum(chunk.rows for chunk in taken) >= most_rows
    assert all(a.min_seq <= b.min_seq for a, b in pairwise(chunks))


@given(backlogs(), st.integers(0, 60))
def test_the_prefix_that_reaches_an_instant(chunks: list[ChunkInfo], upto: int) -> None:
    taken = tick._reaching(chunks, upto)
    assert list(taken) == chunks[: len(taken)]
    rest = chunks[len(taken) :]
    assert all(chunk.min_ts > upto for chunk in rest), "a row at or before the instant was left behind"
    if taken and rest:
        assert max(chunk.max_seq for chunk in taken) < min(chunk.min_seq for chunk in rest), "an ingest was torn apart"


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=4)), max_size=8
    ),
    st.integers(1, 6),
)
@settings(max_examples=examples(25))
def test_rows_that_were_there_before_the_first_tick_come_in_steps_too(
    pieces: list[tuple[str, list[tuple[int, int]]]], most_rows: int
) -> None:
    found = []
    for most in (most_rows, tick.MOST_ROWS):
        with tempfile.TemporaryDirectory() as path, pytest.MonkeyPatch.context() as patch, open_inline(path, buckets=2) as db:
            patch.setattr(tick, "MOST_ROWS", most)
            for stream in "ab":
                db.execute(f"CREATE STREAM {stream} (ts TIMESTAMP, k INT) TIMESTAMP BY ts PARTITION BY k")
            query = db.execute(
                "CREATE QUERY q AS SELECT a.k, count(*) AS n FROM a [RANGE 2 SECONDS] JOIN b [RANGE 3 SECONDS] ON a.k = b.k GROUP BY a.k"
            )
            now = 0
            for stream, rows in pieces:
                db.insert(stream, [((now + step) * 1_000_000, k) for step, k in sorted(rows)])
                now += 4
            db.advance((now + 10) * 1_000_000)
            db.flush()
            found.append((sorted(query.changes().to_pylist(), key=repr), query.frontier))
            steps = query.stats()["ticks"]
            assert steps == 1 or most == most_rows
            of_each = [sum(len(rows) for stream, rows in pieces if stream == each) for each in "ab"]
            if most == most_rows == 1 and max(of_each) > 4:  # more than one insert of a stream
                assert steps > 1
    assert found[0] == found[1]
