"""Many standing queries over one stream: a thousand selections against ten, a hundred windows that differ in their length against one.

    python benchmarks/standing_queries.py [selections | windows] [--spark]

In one process without Spark unless asked for; each case in a process of its own.  A tick is everything from the rows in the log to the
committed changes; the median of ticks counts, by the clock.  What comes after, when somebody looks at the answers, is timed apart.  The
answers of some of the queries are checked against DuckDB before anything counts.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time

import duckdb
import numpy as np
import pyarrow as pa

import millstream
from in_process import InProcess
from millstream.api import Database
from millstream.state.location import Location
from report import goal, machine, write_table

SECOND, MINUTE = 1_000_000, 60_000_000
KEYS = 1_000
SELECTION_ROWS, SELECTION_TICKS = 20_000, 25
WINDOW_ROWS, WINDOW_TICKS = 2_000_000, 12
FEWER_ROWS = 500_000
SLIDING_ROWS = 20_000
WARM = 5


def main(parts: list[str], *, spark: bool) -> None:
    rows, goals = [], []
    for part, measured in (("selections", selections), ("windows", windows)):
        if part in parts:
            found, reached = measured(spark=spark)
            rows += found
            goals += reached
    where = "on Spark" if spark else "in one process, 1 bucket"
    name = "standing_queries" + ("_spark" if spark else "")
    write_table(name, "Many standing queries over one stream", ["case", "time", "ratio"], rows, f"{where}; {machine()}", goals)


def selections(*, spark: bool) -> tuple[list[list[str]], list[str]]:
    ten, thousand = (case("selections", count, True, spark) for count in (10, 1_000))
    apart = case("selections", 10, False, spark)
    ratio, added = thousand["tick"] / ten["tick"], thousand["added"]
    return [
        [f"a tick of {SELECTION_ROWS:,} rows, 10 selections together", _ms(ten["tick"]), "1"],
        ["... 1,000 selections together", _ms(thousand["tick"]), f"{ratio:.2f}"],
        ["... 10 selections, each by itself (share_selections=False)", _ms(apart["tick"]), f"{apart['tick'] / ten['tick']:.2f}"],
        ["one more selection, from CREATE QUERY to its answer, 1,000 standing", _ms(added), ""],
        [f"the changes of {SELECTION_TICKS} ticks of 1,000 selections into their own tables", _ms(thousand["brought"]), ""],
        ["... of one of them, when somebody looks", _ms(thousand["looked"]), ""],
    ], [
        goal(f"1,000 standing selections cost at most 3 times the time of 10: {ratio:.2f}", reached=ratio <= 3),
        goal(f"one more takes effect in less than 500 ms: {added * 1e3:.0f} ms", reached=added < 0.5),
    ]  # fmt: skip


def windows(*, spark: bool) -> tuple[list[list[str]], list[str]]:
    one, hundred = (case("windows", count, True, spark) for count in (1, 100))
    ratio = hundred["tick"] / one["tick"]
    few, many = (case("windows of fewer rows", count, True, spark) for count in (1, 100))
    alone, sixteen = (case("sliding", count, True, spark) for count in (1, 16))
    return [
        [f"a tick of {WINDOW_ROWS:,} rows, one window [RANGE 60 MINUTES SLIDE 1 MINUTE]", _ms(one["tick"]), "1"],
        ["... 100 windows of 1 to 100 minutes", _ms(hundred["tick"]), f"{ratio:.2f}"],
        [f"a tick of {FEWER_ROWS:,} rows, one such window", _ms(few["tick"]), "1"],
        ["... 100 such windows", _ms(many["tick"]), f"{many['tick'] / few['tick']:.2f}"],
        [f"a tick of {SLIDING_ROWS:,} rows, one window [RANGE 60 MINUTES], a change with every row", _ms(alone["tick"]), "1"],
        ["... 16 windows of 4 to 64 minutes", _ms(sixteen["tick"]), f"{sixteen['tick'] / alone['tick']:.2f}"],
    ], [
        goal(f"100 windowed aggregates that differ only in their length cost at most 5 times one: {ratio:.2f}", reached=ratio <= 5),
        f"Each window that moves by steps tells {2 * KEYS:,} changes in a tick, durably: with fewer rows that is what is paid for. A window"
        " without SLIDE tells a change with every row that comes and goes, for each of the queries: nothing but the rows can be shared.",
    ]  # fmt: skip


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"


def case(what: str, count: int, share: bool, spark: bool) -> dict[str, float]:
    told = json.dumps({"what": what, "count": count, "share": share, "spark": spark})
    done = subprocess.run([sys.executable, __file__, "--case", told], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- one case, in its own process


def run_case(what: str, count: int, share: bool, spark: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory, opened(directory, share=share, spark=spark) as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, k INT, v INT) TIMESTAMP BY ts")
        if what == "selections":
            return run_selections(db, count)
        sliding = what == "sliding"
        lengths = [60] if count == 1 else [4 * (i + 1) if sliding else 100 * (i + 1) // count for i in range(count)]
        step = "" if sliding else " SLIDE 1 MINUTE"
        for number, minutes in enumerate(lengths):
            asked = f"SELECT k, count(*) AS n, sum(v) AS t, max(v) AS hi FROM s [RANGE {minutes} MINUTES{step}] GROUP BY k"
            db.execute(f"CREATE QUERY q{number} AS {asked}")
        feed = Feed(db, {"windows": WINDOW_ROWS, "sliding": SLIDING_ROWS}.get(what, FEWER_ROWS), MINUTE)
        seconds = [feed.tick() for _ in range(WINDOW_TICKS)][WARM:]
        for number in {0, count // 2, count - 1}:
            feed.check_window(f"q{number}", lengths[number], inclusive=sliding)
        return {"tick": statistics.median(seconds)}


def run_selections(db: Database, count: int) -> dict[str, float]:
    for number in range(count):
        db.execute(f"CREATE QUERY q{number} AS SELECT k, v FROM s [RANGE 10 SECONDS] WHERE k = {number} AND v > {number % 500}")
    feed = Feed(db, SELECTION_ROWS, SECOND)
    seconds = [feed.tick() for _ in range(SELECTION_TICKS)][WARM:]
    began = time.perf_counter()
    db.execute("CREATE QUERY more AS SELECT k, v FROM s [RANGE 10 SECONDS] WHERE k = 7 AND v > 300")
    rows = db.query("more").result().num_rows
    added = time.perf_counter() - began
    assert rows == len(feed.chosen(7, 300)), "the newcomer's answer"
    began = time.perf_counter()
    db.query("q3").changes()
    looked = time.perf_counter() - began
    began = time.perf_counter()
    db._engine.families.bring_over(all_=True)
    brought = time.perf_counter() - began
    for number in {0, 1, count // 2, count - 1}:
        found = sorted(tuple(row.values()) for row in db.query(f"q{number}").result().to_pylist())
        assert found == feed.chosen(number, number % 500), f"the answer of q{number}"
    return {"tick": statistics.median(seconds), "added": added, "looked": looked, "brought": brought}


class Feed:
    """Rows of random keys and values, spread over a span of time in each tick."""

    def __init__(self, db: Database, rows: int, span: int) -> None:
        self._db, self._rows, self._span = db, rows, span
        self._chance, self._ticks = np.random.default_rng(1), 0
        self._told: list[pa.Table] = []

    def tick(self) -> float:
        low = self._ticks * self._span
        ts = np.sort(self._chance.integers(low + 1, low + self._span, self._rows))
        stamps = pa.array(ts, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        k, v = (self._chance.integers(0, KEYS, self._rows).astype(np.int32) for _ in range(2))
        table = pa.table({"ts": stamps, "k": k, "v": v})
        self._told.append(table)
        self._db.insert("s", table)
        self._ticks += 1
        self._db.advance("s", self._ticks * self._span)
        began = time.perf_counter()
        while self._db._engine.tick() is not None:
            pass
        return time.perf_counter() - began

    def chosen(self, k: int, v: int) -> list[tuple[int, int]]:
        low = self._ticks * self._span - 10 * SECOND
        sql = f"SELECT k, v FROM told WHERE k = {k} AND v > {v} AND epoch_us(ts) >= {low} ORDER BY ALL"
        return self._asked(sql)

    def check_window(self, name: str, minutes: int, *, inclusive: bool) -> None:
        low, at = self._ticks * self._span - minutes * MINUTE, self._ticks * self._span
        inside = f"epoch_us(ts) >= {low} AND epoch_us(ts) < {at + inclusive}"
        sql = f"SELECT k, count(*), sum(v), max(v) FROM told WHERE {inside} GROUP BY k ORDER BY ALL"
        found = sorted(tuple(row.values()) for row in self._db.query(name).result().to_pylist())
        assert found == self._asked(sql), f"the answer of {name}"

    def _asked(self, sql: str) -> list[tuple[int, ...]]:
        told = pa.concat_tables(self._told)  # noqa: F841 - DuckDB finds it by its name
        return [tuple(map(int, row)) for row in duckdb.sql(sql).fetchall()]


def opened(directory: str, *, share: bool, spark: bool) -> Database:
    if spark:
        return millstream.connect(directory, tick_interval=None, share_selections=share)
    return Database(Location.open(directory, buckets=1), InProcess(), share_selections=share)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        print(json.dumps(run_case(**json.loads(sys.argv[2]))))
    else:
        main(
            [part for part in ("selections", "windows") if part in sys.argv[1:]] or ["selections", "windows"],
            spark="--spark" in sys.argv[1:],
        )
