"""A backlog is worked off in bounded steps: no row is skipped, none is fed twice, ingests stay whole."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.instant import GONE_NEVER
from millstream.runtime import tick
from millstream.state.chunk import ChunkInfo


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
