"""What OVER looks at for a change: its own rows and those that see them, however many the partition holds."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.over import OverOp
from millstream.operators.over_sums import Aggregates
from millstream.operators.over_targets import Room
from millstream.plan.ordering import WHOLE, Frame, OverCall, SortKey
from property.histories import bag, contents_at
from property.over_slow import over_slow

SCHEMA = Schema.of(n="BIGINT", x="BIGINT")
BIGINT, INT, DOUBLE = pa.int64(), pa.int32(), pa.float64()
RUNNING, UP_TO_PEERS = Frame("rows", None, 0), Frame("range", None, 0)
GREATEST = 1_000

CALLS = {
    "sum": OverCall("r", "sum", "x", BIGINT, UP_TO_PEERS),
    "sum of rows before": OverCall("r", "sum", "x", BIGINT, Frame("rows", None, -2)),
    "count": OverCall("r", "count", "x", BIGINT, UP_TO_PEERS),
    "count of rows": OverCall("r", "count", None, BIGINT, UP_TO_PEERS),
    "avg": OverCall("r", "avg", "x", DOUBLE, RUNNING),
    "min": OverCall("r", "min", "x", BIGINT, RUNNING),
    "max": OverCall("r", "max", "x", BIGINT, UP_TO_PEERS),
    "first_value": OverCall("r", "first_value", "x", BIGINT, UP_TO_PEERS),
    "last_value": OverCall("r", "last_value", "x", BIGINT, UP_TO_PEERS),
    "rank": OverCall("r", "rank", None, INT, RUNNING),
    "dense_rank": OverCall("r", "dense_rank", None, INT, RUNNING),
    "row_number": OverCall("r", "row_number", None, INT, RUNNING),
    "lag": OverCall("r", "lag", "x", BIGINT, Frame("rows", -1, -1)),
    "bounded sum": OverCall("r", "sum", "x", BIGINT, Frame("rows", -3, 0)),
}
SAME_FOR_ALL = {
    "max": OverCall("r", "max", "x", BIGINT, WHOLE),
    "first_value": OverCall("r", "first_value", "x", BIGINT, WHOLE),
    "nth_value": OverCall("r", "nth_value", "x", BIGINT, WHOLE, 3),
    "least key": OverCall("r", "min", "n", BIGINT, Frame("range", None, None)),
}


class Watched:
    """An operator over one partition, how many rows it has looked at in a step, and what it has said."""

    def __init__(self, call: OverCall, rows: int) -> None:
        self.call, self.held, self.changes = call, [(n, GREATEST if n == 0 else n % 7) for n in range(rows)], []
        self.operator = OverOp(SCHEMA, (), (SortKey("n"),), (call,))
        self.instant = 0
        self.step(self.held, 1)

    def step(self, rows: list[tuple[int, int]], sign: int) -> int:
        """The rows looked at."""
        self.instant += 1
        columns = [pa.array([row[i] for row in rows], BIGINT) for i in range(2)]
        batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA.to_arrow())
        looked = 0
        seen, add = Room.seen, Aggregates.add

        def watched_seen(room: Room, progress: Any) -> Any:
            nonlocal looked
            found = seen(room, progress)
            looked += len(found.targets) + len(found.context)
            return found

        def watched_add(aggregates: Aggregates, changes: Any, codes: Any) -> Any:
            nonlocal looked
            looked += len(codes)
            return add(aggregates, changes, codes)

        signs = np.full(len(rows), sign, np.int8)
        with patch.object(Room, "seen", watched_seen), patch.object(Aggregates, "add", watched_add):
            out = self.operator.step(SignedBatch(np.full(len(rows), self.instant), signs, batch), self.instant)
        self.changes += out.changes()
        return looked

    def enter(self, row: tuple[int, int]) -> int:
        self.held = [*self.held, row]
        return self.step([row], 1)

    def leave(self, row: tuple[int, int]) -> int:
        self.held = [other for other in self.held if other != row]
        return self.step([row], -1)

    def assert_right(self) -> None:
        expected = over_slow(self.held, SCHEMA, (), (SortKey("n"),), (self.call,))
        assert contents_at(self.changes, self.instant) == bag(expected)


@pytest.mark.parametrize("name", CALLS)
def test_a_row_at_the_end_costs_the_same_in_every_partition(name: str) -> None:
    looked = {rows: Watched(CALLS[name], rows).enter((rows, 5)) for rows in (50, 3_000)}
    assert looked[3_000] == looked[50] <= 20


@pytest.mark.parametrize("name", SAME_FOR_ALL)
def test_what_stays_the_same_for_all_rows_costs_the_same_in_every_partition(name: str) -> None:
    for place in (20, -1):
        looked = {}
        for rows in (50, 3_000):
            watched = Watched(SAME_FOR_ALL[name], rows)
            at = place if place > 0 else rows
            looked[rows] = watched.enter((at, 5)) + watched.leave((at, 5))
            assert Counter(sign for instant, sign, _ in watched.changes if instant > 1) == Counter({1: 1, -1: 1})
        assert looked[3_000] == looked[50] <= 20


@pytest.mark.parametrize("name", CALLS)
def test_a_row_in_the_middle_costs_those_behind_it(name: str) -> None:
    looked = {}
    for rows in (50, 3_000):
        watched = Watched(CALLS[name], rows)
        looked[rows] = watched.enter((rows - 10, 9)) + watched.leave((rows - 10, 9))
    assert looked[3_000] == looked[50] <= 2 * 6 * 12


@pytest.mark.parametrize("name", CALLS)
def test_rows_come_and_go_at_both_ends_and_in_between(name: str) -> None:
    watched = Watched(CALLS[name], 60)
    for i in range(20):
        watched.enter((60 + i // 2, i))
        watched.leave((i, GREATEST if i == 0 else i % 7))
        watched.enter((40, 100 + i))
    watched.assert_right()


@pytest.mark.parametrize("name", SAME_FOR_ALL)
def test_the_same_for_all_rows_until_it_changes(name: str) -> None:
    watched = Watched(SAME_FOR_ALL[name], 40)
    for i in range(10):
        watched.enter((40 + i, 5 * i))
        watched.leave((i, GREATEST if i == 0 else i % 7))
        watched.enter((20, 2_000 - i))
        watched.assert_right()
