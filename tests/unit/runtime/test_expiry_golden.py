"""The worked examples of the four ways to expire: what each answers at every tick, and what flows for it.

A window of 5 ticks holds what arrived at T for T, ..., T + 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.core.instant import BEGINNING, EXACT
from millstream.core.signed_batch import SignedBatch
from millstream.plan.expiry import Expiry
from millstream.runtime.nodes import ExpireNode, PairNode
from millstream.runtime.schedulers import SchedulerName
from operator_circuits import Circuits

DDL = (
    "CREATE STREAM s1 (ts TIMESTAMP, item BIGINT, price BIGINT) TIMESTAMP BY ts",
    "CREATE STREAM s2 (ts TIMESTAMP, item BIGINT, price BIGINT) TIMESTAMP BY ts",
    "CREATE RELATION favorite (item BIGINT)",
)
COUNT = "SELECT count(*) AS n FROM s1 [RANGE 5 MICROSECONDS EXCLUSIVE] AS s JOIN favorite AS f ON s.item = f.item"
PAIRS = "FROM s1 [RANGE {} MICROSECONDS EXCLUSIVE] AS a JOIN s2 [RANGE {} MICROSECONDS EXCLUSIVE] AS b ON a.item = b.item"
MAX, ROWS = f"SELECT max(b.price) AS m {PAIRS}", f"SELECT b.price {PAIRS}"
EXACTLY: tuple[Expiry, ...] = ("negative", "time_message", "piggyback")
ARRIVALS = [(t, item, 0) for t, item in enumerate([4, 5, 5, 1, 4, 2, 7, 2, 3, 4, 5])]

Row = tuple[int, int, int]


class Running:
    """One query's circuit, fed tick by tick or all at once."""

    def __init__(self, sql: str, expiry: Expiry, inputs: Mapping[str, Sequence[Row]], scheduler: SchedulerName = "fifo") -> None:
        self._circuits = Circuits([*DDL, f"CREATE QUERY q AS {sql} WITH EXPIRY {expiry}"], scheduler)
        self._inputs = {"s1": inputs.get("s1", ()), "s2": inputs.get("s2", ()), "favorite": [(BEGINNING, 4, 0), (BEGINNING, 5, 0)]}
        self._at = BEGINNING - 1
        self.changes: list[tuple[int, int, tuple[Any, ...]]] = []

    def to(self, t: int) -> None:
        arrived = {name: [row for row in rows if self._at < row[0] <= t] for name, rows in self._inputs.items()}
        self.changes += self._circuits.step({name: batch_of(rows) for name, rows in arrived.items()}, t).changes()
        self._at = t

    def answers(self, last: int) -> list[Counter[Any]]:
        found = []
        for t in range(last + 1):
            bag: Counter[Any] = Counter()
            for instant, sign, row in self.changes:
                bag[row] += sign if instant <= t else 0
            found.append(+bag)
        return found

    def nodes(self, kind: type[Any]) -> list[Any]:
        return [node for node in self._circuits.nodes if isinstance(node, kind)]


def batch_of(rows: Sequence[Row]) -> SignedBatch:
    ts = pa.array([row[0] for row in rows], pa.timestamp("us", tz="UTC"))
    others = [pa.array([row[i] for row in rows], pa.int64()) for i in (1, 2)]
    columns = pa.RecordBatch.from_arrays([ts, *others], names=["ts", "item", "price"])
    return SignedBatch.arrivals(np.array([row[0] for row in rows], np.int64), columns)


def ran(sql: str, expiry: Expiry, inputs: Mapping[str, Sequence[Row]], last: int, *, at_once: bool = False) -> Running:
    run = Running(sql, expiry, inputs)
    for t in [last] if at_once else range(last + 1):
        run.to(t)
    return run


def counts(run: Running, last: int) -> list[int]:
    return [next(iter(bag))[0] for bag in run.answers(last)]


RIGHT = [1, 2, 3, 3, 4, 3, 2, 1, 1, 1, 2, 2, 2, 2, 1, 0]
LATE = [1, 2, 3, 3, 4, 4, 4, 4, 4, 1, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("expiry", "expected"), [*((expiry, RIGHT) for expiry in EXACTLY), ("input_triggered", LATE)])
def test_favourite_items_are_counted_at_every_tick(expiry: Expiry, expected: list[int], at_once: bool) -> None:
    assert counts(ran(COUNT, expiry, {"s1": ARRIVALS}, 15, at_once=at_once), 15) == expected


@pytest.mark.parametrize("expiry", EXACTLY)
def test_the_same_arrivals_a_tick_later(expiry: Expiry) -> None:
    later = [(t + 1, item, price) for t, item, price in ARRIVALS]
    assert counts(ran(COUNT, expiry, {"s1": later}, 12), 12) == [0, 1, 2, 3, 3, 4, 3, 2, 1, 1, 1, 2, 2]


def test_a_row_that_follows_a_message_tells_it_instead() -> None:
    """COUNT reads three messages, then a row that tells of the end at its own tick, whose message was purged, then a plain one."""
    run = Running(COUNT, "piggyback", {"s1": [(t + 1, item, price) for t, item, price in ARRIVALS]})
    read = []
    for t in range(12):
        (expire,) = run.nodes(ExpireNode)
        before = expire.profile.messages
        run.to(t)
        read.append(expire.profile.messages - before)
    assert read == [0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0]


FIGURE_4 = {"s1": [(1, 6, 0)], "s2": [(2, 6, 10), (3, 6, 30), (4, 6, 20)]}


@pytest.mark.parametrize("expiry", EXACTLY)
def test_the_greatest_price_of_a_join(expiry: Expiry) -> None:
    found = [next(iter(bag))[0] for bag in ran(MAX.format(5, 5), expiry, FIGURE_4, 6).answers(6)]
    assert found == [None, None, 10, 30, 30, 30, None]


def test_one_message_ends_what_takes_three_negative_tuples() -> None:
    negative, told = (ran(MAX.format(5, 5), expiry, FIGURE_4, 6).nodes(PairNode)[0].profile for expiry in ("negative", "time_message"))
    assert (negative.sent_entering, negative.sent_leaving, negative.sent_messages) == (3, 3, 0)
    assert (told.sent_entering, told.sent_leaving, told.sent_messages) == (3, 0, 1)


def test_nothing_is_told_of_a_row_with_which_no_result_ends() -> None:
    run = Running(ROWS.format(5, 5), "time_message", {"s1": [(1, 7, 0)], "s2": [(3, 7, 1)]})
    told = []
    for t in range(10):
        before = run.nodes(PairNode)[0].profile.sent_messages
        run.to(t)
        told += [t] * (run.nodes(PairNode)[0].profile.sent_messages - before)
    assert told == [6]


@pytest.mark.parametrize("expiry", EXACTLY)
def test_windows_of_different_length(expiry: Expiry) -> None:
    inputs = {"s1": [(0, 1, 0)], "s2": [(1, 1, 20), (8, 1, 30)]}
    expected = [set(), *[{(20,)}] * 3, *[set()] * 4, *[{(30,)}] * 2, *[set()] * 3]
    run = ran(ROWS.format(10, 3), expiry, inputs, 12)
    assert [set(bag) for bag in run.answers(12)] == expected
    if expiry == "time_message":
        assert run.nodes(PairNode)[0].profile.sent_messages == 2  # at 4 and at 10


def test_time_never_comes_from_a_clock() -> None:
    """A row that is delayed on its way: the sum without it, after an older one has left, is never an answer."""
    rows = [(0, 1, 5), (1, 1, 1), (2, 1, 3), (3, 1, 4), (4, 1, 7)]
    sums = "SELECT sum(price) AS s FROM s1 [RANGE 5 MICROSECONDS EXCLUSIVE]"
    for expiry in EXACTLY:
        run = Running(sums, expiry, {"s1": rows})
        run.to(3)  # the clock goes on to 7, but nothing says that no row at 4 is to come
        run.to(7)
        assert [next(iter(bag))[0] for bag in run.answers(5)] == [5, 6, 9, 13, 20, 15]
        assert [instant for instant, _, _ in run.changes] == sorted(instant for instant, _, _ in run.changes)


@pytest.mark.parametrize("scheduler", ["fifo", "round_robin", "greedy", "chain"])
def test_messages_are_purged_only_where_rows_pile_up(scheduler: SchedulerName) -> None:
    """Tick by tick, a row goes through the whole plan before the next comes: then nothing is there to take a message off."""
    rows = {"s1": [(t, t % 3, 0) for t in range(40)], "s2": [(t, (t + 1) % 3, t) for t in range(40)]}
    handled = {}
    expiries: tuple[Expiry, ...] = ("time_message", "piggyback")
    for expiry in expiries:
        for at_once in (False, True):
            run = Running(MAX.format(5, 7), expiry, rows, scheduler)
            for t in [60] if at_once else range(61):
                run.to(t)
            handled[expiry, at_once] = sum(node.profile.messages for node in run.nodes(ExpireNode))
    assert handled["piggyback", True] <= 1 < handled["time_message", True] == handled["time_message", False]


def test_a_join_with_too_many_pairs_takes_them_back_itself() -> None:
    rows = {"s1": [(t, 0, 0) for t in range(20)], "s2": [(t, 0, t) for t in range(20)]}
    expected = ran(MAX.format(9, 9), "negative", rows, 40).answers(40)
    run = Running(MAX.format(9, 9), "piggyback", rows)
    (join,) = run.nodes(PairNode)
    join.operator._most_ending = 30
    for t in range(41):
        run.to(t)
    assert run.answers(40) == expected
    assert join.operator._until(np.zeros(1, np.int64), np.zeros(1, np.int64)).tolist() == [EXACT]
    assert run.nodes(ExpireNode)[0].state.state_rows() == 0
