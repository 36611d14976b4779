"""DuckDB as a stream system: a table for each stream's window, and the query once more after each batch.

A batch is a file, or a part of one where the job says `batch_rows`.  It is appended with `read_csv`, rows that left the
window are deleted, and the query runs over what the tables hold; the answers are handed over as an Arrow table, and
dropped unless they are asked for.  In memory, 2 threads.  The formulations are the fastest of those tried:

w1  The window function as one would write it sorts the whole window for each batch.  Instead, each row counts +value when
    it comes and -value when it leaves, after a line for each key with what the window held before the batch: the running
    sum sorts the batch and what leaves with it, a third of the rows and less, and is exact for integers.
w2  Rows are summed by minute and key on arrival; a window is the sum of its minutes.
w3  `max` needs only the greatest b of each key, so b is grouped before it is joined.
w4  The pairs (a, b) are counted by key, and c joined to the counts.
w6  The selections are rows of a table, a range of keys and a bound of values each, which each batch is joined with.

All are exact at the end of each batch.  What happens within a batch is seen by w1 and w2 only: DuckDB has no standing queries.
"""

from collections.abc import Iterator
from time import perf_counter

import duckdb

from comparison.peers import common

WORKLOADS = {"w1": "rows", "w2": "windows", "w3": "files", "w4": "files", "w6": "selected", "w7": "files"}

FILE_ROWS = 100_000
PACED = True  # a batch is what has come meanwhile

# $before and $now: the last instants of the batch before and of this one; {window} and {slide} are intervals
QUERIES = {
    "w1": """
        WITH changes AS (
            SELECT ts, key, value, 1 AS n, true AS asks FROM events WHERE ts > $before
            UNION ALL
            SELECT ts + {window} + INTERVAL 1 MICROSECOND, key, -value, -1, false FROM events WHERE ts < $now::TIMESTAMP - {window}
            UNION ALL
            SELECT TIMESTAMP '1970-01-01', key, sum(value), count(*), false FROM events WHERE ts <= $before GROUP BY key),
        running AS (
            SELECT ts, key, asks, sum(value) OVER sofar AS total, sum(n) OVER sofar AS n FROM changes
            WINDOW sofar AS (PARTITION BY key ORDER BY ts ROWS UNBOUNDED PRECEDING))
        SELECT ts, key, total::BIGINT AS total, n::BIGINT AS n FROM running WHERE asks""",
    "w2": """
        WITH ended AS (
            SELECT unnest(range(time_bucket({slide}, greatest($before, (SELECT min(ts) FROM events))) + {slide},
                                $now::TIMESTAMP + INTERVAL 1 MICROSECOND, {slide})) AS ts)
        SELECT ended.ts, key, sum(total)::BIGINT AS total, sum(n)::BIGINT AS n FROM ended, events
        WHERE events.ts >= ended.ts - {window} AND events.ts < ended.ts GROUP BY ALL""",
    "w3": """
        SELECT $batch::BIGINT AS file, grp, max(top) AS top
        FROM a JOIN (SELECT key, max(value) AS top FROM b GROUP BY key) USING (key) GROUP BY grp""",
    "w4": """
        SELECT $batch::BIGINT AS file, key, sum(value * pairs)::BIGINT AS total, sum(pairs)::BIGINT AS n
        FROM c JOIN (SELECT key, count(*) AS pairs FROM a JOIN b USING (key) GROUP BY key) USING (key) GROUP BY key""",
    "w6": """
        SELECT query, ts, key, value FROM events JOIN wanted ON key >= first AND key < beyond AND value < below WHERE ts > $before""",
    "w7": """
        SELECT $batch::BIGINT AS file, max(keys) AS top, count(*) AS bands FROM (
            SELECT band, count(*) AS keys FROM (SELECT sum(value)::BIGINT // 1000 AS band FROM events GROUP BY key) GROUP BY band)""",
}


def incoming(job: common.Job, rows: str) -> str:
    """The SELECT over new `rows` that gives the lines of its table."""
    if job.workload != "w2":
        return f"SELECT * FROM {rows}"
    minute = f"time_bucket(INTERVAL {job.slide_s} SECONDS, ts)"
    return f"SELECT {minute} AS ts, key, sum(value)::BIGINT AS total, count(*) AS n, max(ts) AS last FROM {rows} GROUP BY ALL"


def csv(job: common.Job, stream: str, path: str) -> str:
    columns = {"ts": "TIMESTAMP", "key": "VARCHAR" if job.string_keys else "BIGINT"}
    if (job.workload, stream) == ("w3", "a"):
        columns["grp"] = "BIGINT"
    columns["value"] = "BIGINT"
    # small buffers, so that both threads have a part of the file
    return f"read_csv('{path}', header=false, auto_detect=false, delim=',', buffer_size=1000000, columns={columns})"


def append_batches(db: duckdb.DuckDBPyConnection, job: common.Job) -> Iterator[None]:
    """Appends batch after batch to the tables of the streams, and stops after each."""
    for paths in job.files():
        if job.batch_rows >= FILE_ROWS:
            for stream, path in paths.items():
                db.execute(f"INSERT INTO {stream} {incoming(job, csv(job, stream, path))}")
            yield
            continue
        for stream, path in paths.items():
            db.execute(f"CREATE OR REPLACE TEMP TABLE {stream}_file AS FROM {csv(job, stream, path)}")
        before = "1970-01-01"
        for (last,) in last_instants(db, job):
            for stream in paths:
                part = f"{stream}_file WHERE ts > '{before}' AND ts <= '{last}'"
                db.execute(f"INSERT INTO {stream} {incoming(job, part)}")
            before = last
            yield


def append_when_due(db: duckdb.DuckDBPyConnection, job: common.Job, delays: list[float]) -> Iterator[None]:
    """The same at a pace: all files that are due are a batch.  How long each has waited when its batch is answered goes to `delays`."""
    for due in common.due_together(job.files()):
        for stream in job.streams:
            for _, paths in due:
                db.execute(f"INSERT INTO {stream} {incoming(job, csv(job, stream, paths[stream]))}")
        yield
        delays += [perf_counter() - since for since, _ in due]


def last_instants(db: duckdb.DuckDBPyConnection, job: common.Job) -> list[tuple[str]]:
    """Where to cut a file, over all streams, into batches."""
    instants = " UNION ALL ".join(f"SELECT ts FROM {stream}_file" for stream in job.streams)
    numbered = f"SELECT ts, (row_number() OVER (ORDER BY ts) - 1) // {job.batch_rows} AS batch FROM ({instants})"
    return db.execute(f"SELECT max(ts)::VARCHAR FROM ({numbered}) GROUP BY batch ORDER BY batch").fetchall()


def create_wanted(db: duckdb.DuckDBPyConnection, job: common.Job) -> None:
    """The selections of w6.  Text keys are of one length, so what begins with one and goes on is just beyond it."""
    lines = []
    for number, conditions in enumerate(job.selections):
        bounds = {(column, op): constant for column, op, constant in conditions}
        only = bounds.get(("key", "="))
        beyond = bounds.get(("key", "<")) if only is None else only + "!" if job.string_keys else only + 1
        lines.append((number, bounds.get(("key", ">="), only), beyond, bounds.get(("value", "<"), 1 << 62)))
    key = "VARCHAR" if job.string_keys else "BIGINT"
    db.execute(f"CREATE TABLE wanted (query BIGINT, first {key}, beyond {key}, below BIGINT)")
    db.executemany("INSERT INTO wanted VALUES (?, ?, ?, ?)", lines)


def main() -> None:
    job = common.job(WORKLOADS)
    window, slide = f"INTERVAL {job.window_s} SECONDS", f"INTERVAL {job.slide_s} SECONDS"
    query = QUERIES[job.workload].format(window=window, slide=slide)
    db = duckdb.connect(config={"threads": 2})
    started = perf_counter()
    for stream, paths in job.streams.items():
        db.execute(f"CREATE TABLE {stream} AS {incoming(job, csv(job, stream, paths[0]))} LIMIT 0")
    if job.workload == "w6":
        create_wanted(db, job)
    instant = "last" if job.workload == "w2" else "ts"
    newest = " UNION ALL ".join(f"SELECT max({instant}) AS last FROM {stream}" for stream in job.streams)
    before, answers, kept, delays = "1970-01-01", 0, [], []
    for batch, _ in enumerate(append_when_due(db, job, delays) if job.pace else append_batches(db, job)):
        ((now,),) = db.execute(f"SELECT max(last)::VARCHAR FROM ({newest})").fetchall()
        # rows of w1 and w2 ask about windows that end within the batch, and w6 about the batch
        oldest = before if job.workload in ("w1", "w2", "w6") else now
        for stream in job.streams:
            db.execute(f"DELETE FROM {stream} WHERE ts < TIMESTAMP '{oldest}' - {window}")
        named = {"before": before, "now": now, "batch": batch}
        answer = db.sql(query, params={name: value for name, value in named.items() if f"${name}" in query}).to_arrow_table()
        answers += answer.num_rows
        if job.answers:
            kept.append(answer)
        before = now
    ended = perf_counter()
    if job.answers:
        common.write_answers(job.answers, kept)
    common.result(started, answers, ended, delays or None)


main()
