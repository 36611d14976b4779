"""Queues between operators: what is taken of what was put, whole instants or all."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.instant import NEVER_BEFORE
from millstream.core.schema import Schema
from millstream.runtime.queues import Queue
from property.histories import signed_batch

SCHEMA = Schema.of(v="INT")


def filled(parts: list[list[int]]) -> Queue:
    queue, number = Queue(SCHEMA), 0
    for part in parts:
        queue.put(
            signed_batch(SCHEMA, [(instant, 1, (number + i,)) for i, instant in enumerate(part)]), part[0] - 1 if part else queue.upto
        )
        number += len(part)
    return queue


@given(st.lists(st.integers(0, 5), max_size=12), st.lists(st.integers(0, 12), max_size=3), st.lists(st.integers(-1, 6), max_size=4))
def test_every_change_comes_out_once_and_in_order(instants: list[int], cuts: list[int], takes: list[int]) -> None:
    instants.sort()
    bounds = [0, *sorted(min(cut, len(instants)) for cut in cuts), len(instants)]
    queue = filled([instants[start:stop] for start, stop in pairwise(bounds)])
    assert queue.rows == queue.most_rows == len(instants)
    out = []
    for upto in sorted(takes):
        taken = queue.take(upto)
        assert all(instant <= upto for instant in taken.instant)
        out += list(taken.changes())
        assert queue.rows == len(instants) - len(out)
        assert queue.instant_of(0) == (instants[len(out)] if len(out) < len(instants) else None)
    out += list(queue.take_all().changes())
    assert out == [(instant, 1, (i,)) for i, instant in enumerate(instants)]
    assert queue.rows == 0


def test_how_far_the_sender_has_come() -> None:
    queue = Queue(SCHEMA)
    assert queue.upto == NEVER_BEFORE
    queue.put(signed_batch(SCHEMA, []), 7)
    assert (queue.upto, queue.rows, len(queue.take_all())) == (7, 0, 0)
