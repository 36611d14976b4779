"""Is an answer right?  Each workload's question asked once more, of DuckDB, over all rows at once, in the form in which a system answers.

rows, rows_open   an answer for every row; the window with its older end, or without it
windows           an answer for every window
files             the relation after each file
changes           what changed and when, from which the relation at any instant follows: ours
running, tumbling of systems that cannot forget: over all that came so far; of every minute by itself
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import numpy as np

from comparison.workloads import Workload, selections

INSTANTS = 40
"""At so many the relation that follows from changes is compared."""


class Answers:
    def __init__(self, workload: Workload, files: Mapping[str, Sequence[Path]]) -> None:
        self._workload = workload
        self._database = duckdb.connect()
        self._ends: list[int] = []
        for stream, paths in files.items():
            names = ", ".join(f"'{path}'" for path in paths)
            types = ", ".join(f"'{name}': '{kind.replace('STRING', 'VARCHAR')}'" for name, kind in workload.columns(stream).items())
            self._database.execute(
                f"CREATE TABLE {stream} AS SELECT *, parse_filename(filename, true)[6:]::INT AS file "
                f"FROM read_csv([{names}], header = false, columns = {{{types}}}, filename = true)"
            )
        streams = " UNION ALL ".join(f"SELECT ts, file FROM {stream}" for stream in files)
        ends = self._database.sql(f"SELECT epoch_us(max(ts)) FROM ({streams}) GROUP BY file ORDER BY file").fetchall()
        self._ends = [end for (end,) in ends]

    def differences(self, shape: str, answers: Path) -> int:
        """How many lines one has and the other has not."""
        told = f"SELECT * FROM read_parquet('{answers}')"
        if shape == "changes":
            return self._differences_of_arrivals(told) if self._workload.name == "w6" else self._differences_of_changes(told)
        columns, right = self._right(shape)
        if shape in ("windows", "tumbling"):  # of the others it is not told when a system gives them
            last = f"make_timestamp({self._ends[-1]})"
            told, right = (f"SELECT * FROM ({each}) WHERE ts <= {last}" for each in (told, right))
        return self._unequal(f"SELECT {columns} FROM ({told})", f"SELECT {columns} FROM ({right})")

    def differences_at_the_end(self, answer: Path) -> int:
        """The same for the relation when the first stream has ended, of which the files of the last window are enough."""
        columns, ended = (
            self._relation_columns,
            " UNION ALL ".join(f"SELECT epoch_us(max(ts)) FROM {each}" for each in self._workload.streams),
        )
        now = min(end for (end,) in self._database.sql(ended).fetchall())
        return self._unequal(f"SELECT {columns} FROM read_parquet('{answer}')", f"SELECT {columns} FROM ({self._relation(now)})")

    def _differences_of_arrivals(self, told: str) -> int:
        """Each row that is wanted arrives once, when its time has come; the last ones are not final yet."""
        columns, right = self._right("selected")
        arrived = f"SELECT {columns}, instant::TIMESTAMP AS instant, diff FROM ({told})"
        wanted = f"SELECT {columns}, ts AS instant, 1 AS diff FROM ({right}) WHERE ts < make_timestamp({self._ends[-1]})"
        return self._unequal(f"SELECT * FROM ({arrived}) WHERE instant < make_timestamp({self._ends[-1]})", wanted)

    def _differences_of_changes(self, changes: str) -> int:
        self._database.execute(f"CREATE OR REPLACE TEMP TABLE changes AS SELECT * REPLACE (instant::TIMESTAMP AS instant) FROM ({changes})")
        columns = self._relation_columns
        instants = np.random.default_rng(0).integers(self._ends[0] // 2 + self._ends[-1] // 2, self._ends[-1], INSTANTS)
        wrong = 0
        for now in [*self._ends[:-1], *instants.tolist()]:
            so_far = f"FROM changes WHERE instant <= make_timestamp({now}) GROUP BY {columns}"
            told = f"SELECT {columns}, sum(diff) AS times {so_far} HAVING times <> 0"
            wrong += self._unequal(told, f"SELECT {columns}, 1 AS times FROM ({self._relation(now)})")
        if self._workload.name == "w1":
            final = f"ts < make_timestamp({self._ends[-1]})"
            arrivals = "SELECT instant AS ts, key, total, n FROM changes WHERE diff > 0 AND epoch_us(instant) % 1000 = 0"
            wrong += self._unequal(f"SELECT * FROM ({arrivals}) WHERE {final}", f"SELECT * FROM ({self._rows('closed')}) WHERE {final}")
        return wrong

    def _unequal(self, told: str, right: str) -> int:
        ((count,),) = self._database.sql(
            f"SELECT (SELECT count(*) FROM (({told}) EXCEPT ALL ({right}))) + (SELECT count(*) FROM (({right}) EXCEPT ALL ({told})))"
        ).fetchall()
        return int(count)

    @property
    def _relation_columns(self) -> str:
        return {"w1": "key, total, n", "w2": "key, total, n", "w3": "grp, top", "w4": "key, total, n", "w7": "top, bands"}[
            self._workload.name
        ]

    def _right(self, shape: str) -> tuple[str, str]:
        columns = self._relation_columns if shape != "selected" else ""
        match shape:
            case "rows" | "rows_open":
                return f"ts, {columns}", self._rows("closed" if shape == "rows" else "open")
            case "windows":
                return f"ts, {columns}", self._windows()
            case "files":
                after = [f"SELECT {file}::BIGINT AS file, * FROM ({self._relation(end)})" for file, end in enumerate(self._ends)]
                return f"file, {columns}", " UNION ALL ".join(after)
            case "selected":
                return "query, ts, key, value", self._selected()
            case "running":
                return columns, self._without_forgetting("")
            case "tumbling":
                return f"ts, {columns}", self._without_forgetting("time_bucket(INTERVAL 60 SECOND, ts) + INTERVAL 60 SECOND AS ts, ")
        raise AssertionError(shape)

    def _selected(self) -> str:
        """Conditions of one kind at once: the constants of all are a table, as a thousand SELECTs would take DuckDB minutes."""
        kinds: dict[str, list[str]] = {}
        for number, conditions in enumerate(selections(self._workload)):
            kind = " AND ".join(f"{column} {op} c{place}" for place, (column, op, _) in enumerate(conditions))
            kinds.setdefault(kind, []).append(f"({number}::BIGINT, {', '.join(repr(constant) for _, _, constant in conditions)})")
        parts = []
        for kind, rows in kinds.items():
            names = ", ".join(f"c{place}" for place in range(kind.count(" AND ") + 1))
            parts.append(f"SELECT query, ts, key, value FROM events JOIN (VALUES {', '.join(rows)}) AS wanted(query, {names}) ON {kind}")
        return " UNION ALL ".join(parts)

    def _rows(self, older_end: str) -> str:
        width = self._workload.window_s * 1_000_000 - (older_end == "open")
        return (
            "SELECT ts, key, sum(value) OVER w::BIGINT AS total, count(*) OVER w AS n FROM events "
            f"WINDOW w AS (PARTITION BY key ORDER BY ts RANGE BETWEEN INTERVAL {width} MICROSECONDS PRECEDING AND CURRENT ROW)"
        )

    def _windows(self) -> str:
        slide, width = self._workload.slide_s, self._workload.window_s
        return (
            f"SELECT make_timestamp((first + i) * {slide}000000) AS ts, key, sum(value)::BIGINT AS total, count(*) AS n "
            f"FROM (SELECT *, epoch_us(ts) // {slide}000000 + 1 AS first FROM events), range({width // slide}) AS s(i) GROUP BY ALL"
        )

    def _relation(self, now: int) -> str:
        """The exact answer at the instant."""
        since = now - self._workload.window_s * 1_000_000
        within = "{}.ts BETWEEN " + f"make_timestamp({since}) AND make_timestamp({now})"
        match self._workload.name:
            case "w1":
                return f"SELECT key, sum(value)::BIGINT AS total, count(*) AS n FROM events WHERE {within.format('events')} GROUP BY key"
            case "w2":
                slide = self._workload.slide_s * 1_000_000
                end = now // slide * slide
                start = end - self._workload.window_s * 1_000_000
                return (
                    "SELECT key, sum(value)::BIGINT AS total, count(*) AS n FROM events "
                    f"WHERE ts >= make_timestamp({start}) AND ts < make_timestamp({end}) GROUP BY key"
                )
            case "w3":
                return (
                    "SELECT a.grp, max(b.value) AS top FROM a JOIN b ON a.key = b.key "
                    f"WHERE {within.format('a')} AND {within.format('b')} GROUP BY a.grp"
                )
            case "w4":
                return (
                    "SELECT a.key, sum(c.value)::BIGINT AS total, count(*) AS n FROM a JOIN b ON a.key = b.key JOIN c ON b.key = c.key "
                    f"WHERE {within.format('a')} AND {within.format('b')} AND {within.format('c')} GROUP BY a.key"
                )
            case "w7":
                return _bands(f"WHERE {within.format('events')}")
        raise AssertionError(self._workload.name)

    def _without_forgetting(self, bucket: str) -> str:
        apart = f"INTERVAL {self._workload.window_s} SECONDS"
        match self._workload.name:
            case "w3":
                pairs = (
                    "SELECT greatest(a.ts, b.ts) AS ts, grp, b.value FROM a JOIN b ON a.key = b.key "
                    f"WHERE a.ts <= b.ts + {apart} AND b.ts <= a.ts + {apart}"
                )
                return f"SELECT {bucket} grp, max(value) AS top FROM ({pairs}) GROUP BY ALL"
            case "w4":
                triples = (
                    "SELECT greatest(a.ts, b.ts, c.ts) AS ts, a.key, c.value FROM a JOIN b ON a.key = b.key JOIN c ON b.key = c.key "
                    f"WHERE greatest(a.ts, b.ts, c.ts) <= least(a.ts, b.ts, c.ts) + {apart}"
                )
                return f"SELECT {bucket} key, sum(value)::BIGINT AS total, count(*) AS n FROM ({triples}) GROUP BY ALL"
            case "w7":
                return _bands("")
        raise AssertionError(self._workload.name)


def _bands(where: str) -> str:
    sums = f"SELECT sum(value) // 1000 AS band FROM events {where} GROUP BY key"
    return f"SELECT max(n) AS top, count(*) AS bands FROM (SELECT count(*) AS n FROM ({sums}) GROUP BY band)"
