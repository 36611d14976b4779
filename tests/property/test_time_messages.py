"""Queues with time messages, piggybacked or not: whatever has ended is told when its instant is read, and nothing is told too early."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.instant import NEVER_BEFORE
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.runtime.queues import PiggybackQueue, Queue

SCHEMA = Schema((Field("v", pa.int64()),))

Put = tuple[list[int], list[int], int]  # instants of rows, those of messages, and how far the reader goes then, as steps from its last stop


@st.composite
def histories(draw: st.DrawFn) -> list[Put]:
    """In the order of time: whatever a put holds is not before what the puts before it held, and no message comes twice."""
    puts, after, last = [], 0, -1
    for _ in range(draw(st.integers(1, 6))):
        instants = st.lists(st.integers(after, after + 6), max_size=4).map(sorted)
        rows, messages = draw(instants), sorted({message for message in draw(instants) if message > last})
        after, last = max([after, *rows, *messages]), max([last, *messages])
        puts.append((rows, messages, draw(st.integers(0, 7))))
    return puts


def batch_of(rows: list[int]) -> SignedBatch:
    values = pa.RecordBatch.from_arrays([pa.array(rows, pa.int64())], schema=SCHEMA.to_arrow())
    return SignedBatch.arrivals(np.array(rows, np.int64), values)


@pytest.mark.parametrize("kind", [Queue, PiggybackQueue])
@given(history=histories())
def test_all_that_has_ended_is_told_when_its_instant_is_read(kind: type[Queue], history: list[Put]) -> None:
    queue, stop = kind(SCHEMA), 0
    waiting: set[int] = set()
    for rows, messages, steps in history:
        queue.put(batch_of(rows), NEVER_BEFORE, np.array(messages, np.int64))
        waiting |= set(messages)
        stop += steps
        queue.take(stop)
        told, taken = queue.take_messages(stop)
        ended = {message for message in waiting if message <= stop}
        waiting -= ended
        assert max(told.tolist(), default=NEVER_BEFORE) >= max(ended, default=NEVER_BEFORE)
        assert all(instant <= stop for instant in told)
        assert taken <= len(ended)
        if kind is Queue:
            assert (set(told.tolist()), taken) == (ended, len(ended))


@given(history=histories())
def test_no_message_waits_before_a_row(history: list[Put]) -> None:
    """What is followed by a row is told by that row: only the messages behind the last row are handled as messages, and as one."""
    queue = PiggybackQueue(SCHEMA)
    for rows, messages, _ in history:
        queue.put(batch_of(rows), NEVER_BEFORE, np.array(messages, np.int64))
    last_row = max((row for rows, _, _ in history for row in rows), default=-1)
    behind = any(message > last_row for _, messages, _ in history for message in messages)
    _, taken = queue.take_messages(100)
    assert taken <= 1
    assert taken >= behind
