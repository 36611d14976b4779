"""RSTREAM: cases found by random tests, by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.rstream import RStreamOp

SCHEMA = Schema.of(n="INT")


def batch(*changes: tuple[int, int, int]) -> SignedBatch:
    rows = pa.RecordBatch.from_arrays([pa.array([n for _, _, n in changes], pa.int32())], names=["n"])
    return SignedBatch(np.array([at for at, _, _ in changes], np.int64), np.array([sign for _, sign, _ in changes], np.int8), rows)


def test_moments_over_an_empty_relation_emit_nothing() -> None:
    op = RStreamOp(SCHEMA)
    assert list(op.step(batch(), [batch((1, 1, 0), (2, -1, 0))]).changes()) == []


def test_every_copy_is_emitted_at_every_moment_while_it_is_there() -> None:
    op = RStreamOp(SCHEMA)
    first = op.step(batch((1, 1, 7), (1, 1, 7), (3, -1, 7)), [batch((1, 1, 0), (2, 1, 0), (3, 1, 0))])
    assert [(at, row) for at, _, row in first.changes()] == [(1, (7,)), (1, (7,)), (2, (7,)), (2, (7,)), (3, (7,))]
    second = op.step(batch((5, -1, 7)), [batch((4, 1, 0), (5, 1, 0))])
    assert [(at, row) for at, _, row in second.changes()] == [(4, (7,))]
    assert op.state_rows() == 0


def test_the_relation_survives_a_snapshot() -> None:
    op, again = RStreamOp(SCHEMA), RStreamOp(SCHEMA)
    op.step(batch((1, 1, 7)), [batch((1, 1, 0))])
    again.load(op.save())
    moments = [batch((2, 1, 0))]
    assert list(again.step(batch(), moments).changes()) == list(op.step(batch(), moments).changes()) == [(2, 1, (7,))]
