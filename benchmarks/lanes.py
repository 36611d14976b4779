"""How much the ticks of the others suffer while a query catches up with 10,000,000 rows of the past.

    python benchmarks/lanes.py

A stream with history, and a light query over it that gets a small batch every 0.3 s; measured is how long each takes until its effect is
committed.  First alone; then while another query, created with START AT the beginning, catches up beside it; then while it does so in
front, as all queries would without a second lane.  The answer of the one that catches up is checked against batch SQL over the log.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import millstream
from millstream.api import Database
from millstream.runtime import engine
from report import goal, machine, write_table

ROWS, BATCH, KEYS, STEP_US = 10_000_000, 1_000_000, 1_000, 1_000
LIVE_ROWS, EVERY_S, ALONE_S = 1_000, 0.3, 20.0
MOST = 2.0  # seconds: beside, no tick is later than this
HEAVY = "SELECT k, count(*) AS n, sum(v) AS total, min(v) AS least FROM s [RANGE 1 HOUR] GROUP BY k"


def main() -> None:
    delays = {}
    for how, many_rows in (("beside the others", engine.MANY_ROWS), ("in front, with the others", 1 << 60)):
        engine.MANY_ROWS = many_rows
        with tempfile.TemporaryDirectory() as directory, millstream.connect(Path(directory) / "db") as db:
            fill(db)
            feed = Feed(db)
            delays.setdefault("alone", feed.run_for(lambda began: time.monotonic() - began < ALONE_S))
            delays[how] = while_another_catches_up(db, feed)
            check(db)
    rows = [
        [how, f"{len(found):,}", f"{np.median(found):.2f} s", f"{np.quantile(found, 0.99):.2f} s", f"{max(found):.2f} s"]
        for how, found in delays.items()
    ]
    beside, front = delays["beside the others"], delays["in front, with the others"]
    goals = [
        goal(f"no batch waits longer than {MOST:.0f} s while a query catches up: {max(beside):.2f} s", reached=max(beside) < MOST),
        goal(
            f"the longest wait is {max(front) / max(beside):.0f} times as long without a second lane", reached=max(front) > 2 * max(beside)
        ),
    ]
    note = f"{ROWS:,} rows of the past, {LIVE_ROWS:,} new rows every {EVERY_S} s; {machine()}"
    write_table(
        "lanes", "Ticks while another query catches up", ["the other query", "batches", "median", "99 %", "longest"], rows, note, goals
    )


def fill(db: Database) -> None:
    db.execute("CREATE STREAM s (ts TIMESTAMP, k BIGINT, v BIGINT) TIMESTAMP BY ts")
    rng = np.random.default_rng(0)
    for start in range(0, ROWS, BATCH):
        db.insert("s", table(rng, start, BATCH))
    db.execute("CREATE QUERY light AS SELECT count(*) AS n FROM s [RANGE 1 SECOND]")
    db.flush()


def table(rng: np.random.Generator, start: int, rows: int) -> pa.Table:
    ts = pa.array((start + np.arange(rows)) * STEP_US, pa.timestamp("us", "UTC"))
    return pa.table({"ts": ts, "k": rng.integers(0, KEYS, rows), "v": rng.integers(0, 1 << 30, rows)})


class Feed:
    """Small batches, and how long each takes until the light query is there."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._rng = np.random.default_rng(1)
        self.rows = ROWS

    def run_for(self, goes_on: Callable[[float], bool]) -> list[float]:
        found, began, light = [], time.monotonic(), self._db.query("light")
        while goes_on(began):
            started = time.monotonic()
            self._db.insert("s", table(self._rng, self.rows, LIVE_ROWS))
            self.rows += LIVE_ROWS
            upto = (self.rows - 1) * STEP_US - 1
            while light.frontier < upto:
                self._db._engine.await_progress(light._running, light.frontier)
            found.append(time.monotonic() - started)
            time.sleep(max(0.0, EVERY_S - found[-1]))
        return found


def while_another_catches_up(db: Database, feed: Feed) -> list[float]:
    done = threading.Event()

    def create() -> None:
        db.execute(f"CREATE QUERY heavy START AT TIMESTAMP '1970-01-01T00:00:00.000001Z' AS {HEAVY}")
        heavy = db.query("heavy")
        while heavy.frontier < ROWS * STEP_US - 1:
            db._engine.await_progress(heavy._running, heavy.frontier)
        done.set()

    threading.Thread(target=create, daemon=True).start()
    return feed.run_for(lambda _: not done.is_set())


def check(db: Database) -> None:
    db.flush()
    now = db.query("heavy").frontier
    expected = db.execute(
        "SELECT k, count(*) AS n, sum(v) AS total, min(v) AS least FROM s [RANGE 1 HOUR] "
        f"AS OF TIMESTAMP '{np.datetime64(now, 'us')}Z' GROUP BY k ORDER BY k"
    )
    assert isinstance(expected, pa.Table)
    assert db.query("heavy").result(at=now).sort_by("k").equals(expected.cast(db.query("heavy").result().schema))


if __name__ == "__main__":
    main()
