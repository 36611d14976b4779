"""The operators alone: GROUP BY over a sliding window, on one core, without reading or writing anything.

Every arrival makes the oldest row leave, so the window holds five rows per group and each change alters an
answer: about two rows come out for each change that goes in.  A change is one signed row into the operator.
Answers are checked against Arrow's own group_by, at the end and at instants between, before times count.
Times are processor time of the step alone, the best of several: other load on the machine does not count.

    python benchmarks/kernels.py [--changes 500000]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch, concat
from millstream.operators.aggregate import AggregateOp
from millstream.plan.logical import AggregateCall
from report import machine, write_table

ROWS_PER_GROUP = 5
ROWS_PER_INSTANT = 4
STEPS = 8

COUNT = AggregateCall("n", "count", None, pa.int64())
SUM = AggregateCall("s", "sum", "v", pa.int64())
AVG = AggregateCall("a", "avg", "v", pa.float64())
DOUBLE_SUM = AggregateCall("d", "sum", "x", pa.float64())
DECIMAL_SUM = AggregateCall("m", "sum", "money", pa.decimal128(20, 2))
MIN, MAX = AggregateCall("lo", "min", "v", pa.int64()), AggregateCall("hi", "max", "v", pa.int64())
STRING_MIN = AggregateCall("first", "min", "text", pa.string())


@dataclass(frozen=True)
class Case:
    name: str
    key: pa.DataType
    groups: int
    calls: tuple[AggregateCall, ...]


CASES = [
    Case("count, sum; BIGINT key", pa.int64(), 10_000, (COUNT, SUM)),
    Case("count, sum; BIGINT key", pa.int64(), 1_000_000, (COUNT, SUM)),
    Case("count, sum; STRING key", pa.string(), 10_000, (COUNT, SUM)),
    Case("count, sum; STRING key", pa.string(), 1_000_000, (COUNT, SUM)),
    Case("count, sum; no key", pa.int64(), 1, (COUNT, SUM)),
    Case("sum of DOUBLE; BIGINT key", pa.int64(), 10_000, (DOUBLE_SUM,)),
    Case("sum of DECIMAL; BIGINT key", pa.int64(), 10_000, (DECIMAL_SUM,)),
    Case("avg; BIGINT key", pa.int64(), 10_000, (AVG,)),
    Case("min, max; BIGINT key", pa.int64(), 10_000, (MIN, MAX)),
    Case("min, max; BIGINT key", pa.int64(), 1_000_000, (MIN, MAX)),
    Case("min, max of 50,000 rows; no key", pa.int64(), 1, (MIN, MAX)),
    Case("min of STRING; BIGINT key", pa.int64(), 10_000, (STRING_MIN,)),
]


class Feed:
    """Rows at random, and the changes that a window over the last `window` of them makes."""

    def __init__(self, case: Case, changes: int) -> None:
        rng = np.random.default_rng(7)
        self.window = ROWS_PER_GROUP * (case.groups if case.groups > 1 else 10_000)
        rows = self.window + changes // 2 * STEPS
        key = pa.array(rng.integers(0, case.groups, rows))
        values = rng.integers(0, 1_000_000, rows)
        columns: dict[str, pa.Array] = {
            "k": key if case.key == pa.int64() else pa.array([f"key-{i:07d}" for i in range(case.groups)]).take(key),
            "v": pa.array(values),
        }
        arguments = {call.argument for call in case.calls}
        if "x" in arguments:
            columns["x"] = pa.array(values / 100)
        if "money" in arguments:
            columns["money"] = pa.array(values).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(10, 2))
        if "text" in arguments:
            columns["text"] = pa.array(values).cast(pa.string())
        self.rows = pa.RecordBatch.from_pydict(columns)
        self.ts = np.arange(rows) // ROWS_PER_INSTANT

    def filling(self) -> SignedBatch:
        return SignedBatch.arrivals(self.ts[: self.window], self.rows.slice(0, self.window))

    def sliding(self, step: int, changes: int) -> SignedBatch:
        """The changes of one step: a row enters, the oldest leaves."""
        enters = self.window + step * (changes // 2) + np.arange(changes // 2)
        places = np.stack([enters - self.window, enters], axis=1).reshape(-1)
        signs = np.tile(np.array([-1, 1], np.int8), changes // 2)
        return SignedBatch(np.repeat(self.ts[enters], 2), signs, self.rows.take(pa.array(places)))

    def last_rows(self, now: int) -> pa.Table:
        """What the window holds once all rows up to an instant are in."""
        upto = int(np.searchsorted(self.ts, now, side="right"))
        return pa.Table.from_batches([self.rows.slice(upto - self.window, self.window)])


def expected(rows: pa.Table, case: Case) -> pa.Table:
    arrow = {"count": "count_all", "avg": "mean"}
    wanted = [([] if call.argument is None else call.argument, arrow.get(call.function, call.function)) for call in case.calls]
    grouped = rows.group_by(["k"] if case.groups > 1 else []).aggregate(wanted)
    names = [f"{argument}_{function}" if argument else function for argument, function in wanted]
    return grouped.select((["k"] if case.groups > 1 else []) + names)


def assert_same(ours: pa.Table, theirs: pa.Table) -> None:
    theirs = theirs.rename_columns(ours.column_names)
    order = [(name, "ascending") for name in ours.column_names]
    ours, theirs = ours.sort_by(order), theirs.cast(ours.schema).sort_by(order)
    for name, mine, other in zip(ours.column_names, ours.columns, theirs.columns, strict=True):
        if pa.types.is_floating(mine.type):
            np.testing.assert_allclose(mine.to_numpy(), other.to_numpy(), rtol=1e-9, err_msg=name)
        else:
            assert mine.equals(other), f"column {name} differs"


def net_of(changes: SignedBatch, now: int) -> pa.Table:
    """The relation that the changes up to an instant add up to."""
    past = int(np.searchsorted(changes.instant, now, side="right"))
    rows = pa.Table.from_batches([changes.rows.slice(0, past)]).append_column("sign", pa.array(changes.sign[:past].astype(np.int64)))
    names = changes.rows.schema.names
    net = rows.group_by(names).aggregate([("sign", "sum")])
    present = net.filter(pa.compute.not_equal(net["sign_sum"], 0))
    assert pa.compute.min_max(present["sign_sum"]).as_py() == {"min": 1, "max": 1}, "a group has more than one row"
    return present.select(names)


def check(case: Case, feed: Feed, changes: int) -> float:
    """Every answer is the right one; rows out per change."""
    operator = operator_for(case, feed)
    out = [operator.start(), operator.step(feed.filling(), 0)]
    for step in range(STEPS):
        batch = feed.sliding(step, changes)
        out.append(operator.step(batch, int(batch.instant[-1])))
    last = int(feed.ts[-1])
    assert_same(pa.Table.from_batches([operator.contents(lambda: feed.rows)]), expected(feed.last_rows(last), case))
    for now in (last, last - changes // 5, last - changes // 3):
        assert_same(net_of(concat(out), now), expected(feed.last_rows(now), case))
    return len(out[-1]) / changes


def measure(case: Case, feed: Feed, changes: int) -> float:
    """Changes per second."""
    operator = operator_for(case, feed)
    operator.step(feed.filling(), 0)
    seconds = []
    for step in range(STEPS):
        batch = feed.sliding(step, changes)
        began = time.thread_time()
        operator.step(batch, int(batch.instant[-1]))
        seconds.append(time.thread_time() - began)
    return changes / min(seconds)


def operator_for(case: Case, feed: Feed) -> AggregateOp:
    return AggregateOp(Schema.from_arrow(feed.rows.schema), ("k",) if case.groups > 1 else (), case.calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=500_000, help="per step")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    arguments = parser.parse_args()
    rows = []
    for case in CASES:
        if arguments.only in case.name:
            feed = Feed(case, arguments.changes)
            out, rate = check(case, feed, arguments.changes), measure(case, feed, arguments.changes)
            rows.append([case.name, f"{case.groups:,}", f"{rate / 1e6:.1f} M", f"{1e9 / rate:.0f} ns", f"{out:.2f}"])
            print(*rows[-1], sep="  ", flush=True)
    if not arguments.only:
        header = ["GROUP BY", "groups", "changes/s", "per change", "rows out per change"]
        write_table("kernels", "AggregateOp on one core", header, rows, machine())


if __name__ == "__main__":
    main()
