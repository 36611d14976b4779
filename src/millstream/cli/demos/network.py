"""The network demo: three continuous queries over a simulated feed that changes its behaviour.

The feed is replayed faster than it happened: `SPEED` seconds of event time for each second on the wall.
Rows go in through `insert`, a block of one event second at a time; ticks run in the background at their
own pace.  This module drives; `network_screen.py` draws, `network_summary.py` tells how it went.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from millstream.api import Database, Query
from millstream.cli.demos.live_answer import LiveAnswer
from millstream.cli.demos.network_feed import SLACK_MS, NetworkFeed
from millstream.core.instant import BEGINNING, NEVER_BEFORE, UNITS, Micros

SPEED = 4
FLOWS_PER_EVENT_SECOND = 5_000
TALKER_BYTES = 20_000_000
ALARM_FLOWS = 30
REFRESH_S = 0.5

STREAM = f"""
CREATE STREAM flows (ts TIMESTAMP, src STRING, dst STRING, port INT, service STRING, bytes BIGINT, refused BOOLEAN)
  TIMESTAMP BY ts SLACK {SLACK_MS} MILLISECONDS
"""
QUERIES = {
    "talkers": f"""\
SELECT src, sum(bytes) AS bytes, count(*) AS flows
FROM flows [RANGE 10 SECONDS]
GROUP BY src HAVING sum(bytes) > {TALKER_BYTES}""",
    "alarms": f"""\
SELECT src, count(*) AS refused
FROM flows [RANGE 10 SECONDS]
WHERE refused GROUP BY src HAVING count(*) > {ALARM_FLOWS}""",
    "services": """\
SELECT service, count(*) AS flows, sum(bytes) AS bytes
FROM flows [RANGE 5 SECONDS SLIDE 5 SECONDS]
GROUP BY service""",
}


@dataclass
class Progress:
    """What the screen shows; everything in it was measured, nothing planned."""

    phase: str = ""
    rows: int = 0
    wall_s: float = 0.0
    newest: Micros = 0
    frontier: Micros = NEVER_BEFORE
    late: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    answers: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.wall_s if self.wall_s else 0.0

    @property
    def lag(self) -> str:
        """How far the answers are behind the newest row, in event time; the slack is part of it."""
        return f"{max(0, self.newest - self.frontier) / UNITS['SECOND']:.1f} s" if self.frontier > BEGINNING else "-"


def start(db: Database) -> dict[str, Query]:
    db.execute(STREAM)
    queries = {}
    for name, sql in QUERIES.items():
        query = db.execute(f"CREATE QUERY {name} AS {sql}")
        assert isinstance(query, Query)
        queries[name] = query
    return queries


def rehearse(db: Database) -> None:
    """The same job in small, in a database of its own: workers start and kernels are loaded before the clock runs."""
    start(db)
    for block in NetworkFeed(seconds=12, flows_per_second=200).blocks():
        db.insert("flows", block)
    db.flush()


def drive(db: Database, queries: dict[str, Query], feed: NetworkFeed, show: Callable[[Progress], None]) -> Progress:
    """Feeds everything, at its pace or as fast as rows are accepted, and shows how it goes; returns the last state."""
    progress = Progress()
    answers = {name: LiveAnswer(query) for name, query in queries.items()}
    started = time.perf_counter()
    shown = 0.0
    for second, block in enumerate(feed.blocks()):
        progress.rows += db.insert("flows", block)
        progress.newest = max(progress.newest, int(block["ts"].cast(pa.int64()).to_numpy().max()))
        progress.wall_s = time.perf_counter() - started
        if progress.wall_s - shown >= REFRESH_S:
            _look(db, queries, answers, feed, progress)
            show(progress)
            shown = progress.wall_s
        time.sleep(max(0.0, (second + 1) / SPEED - (time.perf_counter() - started)))
    # the feed is over: no row will come any more, so the last answers are final too
    db.advance("flows", progress.newest)
    db.flush()
    progress.wall_s = time.perf_counter() - started
    _look(db, queries, answers, feed, progress)
    show(progress)
    return progress


def _look(db: Database, queries: dict[str, Query], answers: dict[str, LiveAnswer], feed: NetworkFeed, progress: Progress) -> None:
    db.check()
    progress.phase = feed.phase(progress.newest)
    progress.frontier = min(query.frontier for query in queries.values())
    progress.late = db.streams()[0].late
    for name, query in queries.items():
        progress.changes[name] = query.stats()["changes"]
        progress.answers[name] = answers[name].table()
