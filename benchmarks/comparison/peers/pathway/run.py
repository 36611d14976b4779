"""Pathway.

The native CSV reader in streaming mode, 2 threads, at most a file's rows in flight (static mode would take all files as one
batch), on copies of the files with the header that it wants.  A streaming source never ends: the runner counts the rows of
each stream, and ends the process when all have gone through.  The threads share the files out, so rows come somewhat out of
order; the queries here do not depend on it, as nothing is forgotten.

w2  By minute first, and each minute is added to its ten windows; `windowby` would add each row to ten windows.
w3, w4  Interval joins without a cutoff, which would forget by the latest instant read and so needs order; the answer is
    the running relation.
w7  Sums since the beginning, likewise.
w1 is not here: `intervals_over` would join each row with all rows of its window.

At a pace rows come through connectors in Python, as whoever has live rows would write them: the engine takes them within milliseconds,
and looks for new files only every half a second.  All slices that are due are committed together, once it is done with the last ones, as
it is slower with many small commits: with one for each slice w2 fell behind.  But such a connector passes on some 200,000 rows a
second, so w7, of which there are more, gets its slices as files that appear.  Parsing is a part of it.  A slice's effect is there at the
end of the first instant at which its rows have been counted and the answers are known.
"""

import bisect
import os
import tempfile
import threading
from pathlib import Path
from time import perf_counter, sleep

os.environ["PATHWAY_THREADS"] = "2"

import pathway as pw
import pyarrow as pa

from comparison.peers import common

WORKLOADS = {"w2": "windows", "w3": "running", "w4": "running", "w7": "running"}

PACED = True
BY_FILES = ("w7",)
"""At a pace, with too many rows for a connector in Python."""
FIRST_SLICES = 20  # before the pace counts: until then it gets going
FILE_ROWS = 100_000
QUIET_S = 3.0  # after which a subscriber has seen the last answers


def columns(job: common.Job, stream: str) -> dict[str, type]:
    grp = {"grp": int} if (job.workload, stream) == ("w3", "a") else {}
    return {"ts": str, "key": str if job.string_keys else int, **grp, "value": int}


def copy_with_header(job: common.Job, work: Path) -> int:
    """Copies the files of all streams, and returns the number of rows."""
    rows = 0
    for stream, paths in job.streams.items():
        (work / stream).mkdir()
        header = ",".join(columns(job, stream)).encode() + b"\n"
        for second, path in enumerate(paths, start=1_700_000_000):
            content = Path(path).read_bytes()
            rows += content.count(b"\n")
            copy = work / stream / Path(path).name
            copy.write_bytes(header + content)
            os.utime(copy, (second, second))
    return rows


class Connector(pw.io.python.ConnectorSubject):
    """Hands on what it is given; the engine starts it, and it stays until the process ends."""

    def __init__(self, types: dict[str, type]) -> None:
        super().__init__()
        self.types, self.running = types, threading.Event()

    @property
    def _deletions_enabled(self) -> bool:
        return False

    def run(self) -> None:
        self.running.wait()

    def take(self, path: str) -> None:
        names, parsers = list(self.types), list(self.types.values())
        for line in Path(path).read_text().splitlines():
            self.next(**{name: parse(text) for name, parse, text in zip(names, parsers, line.split(","), strict=True)})


def read(job: common.Job, work: Path, stream: str, connector: Connector | None) -> pw.Table:
    """The rows of a stream, with `ts` in milliseconds since 1970."""
    schema = pw.schema_from_types(**columns(job, stream))
    if connector:
        rows = pw.io.python.read(connector, schema=schema, autocommit_duration_ms=None)
    else:
        rows = pw.io.csv.read(
            work / stream,
            schema=schema,
            mode="streaming",
            autocommit_duration_ms=10 if job.pace else 100,
            max_backlog_size=None if job.pace else FILE_ROWS // len(job.streams),
        )
    instant = pw.this.ts.dt.strptime("%Y-%m-%d %H:%M:%S.%f")
    return rows.with_columns(ts=pw.cast(int, instant.dt.timestamp(unit="ms")))


def w2(job: common.Job, events: pw.Table) -> pw.Table:
    slide_ms = job.slide_s * 1000
    rows = events.select(pw.this.key, pw.this.value, pane=pw.this.ts // slide_ms)
    panes = rows.groupby(rows.key, rows.pane).reduce(rows.key, rows.pane, total=pw.reducers.sum(rows.value), n=pw.reducers.count())
    shifts = range(1, job.window_s // job.slide_s + 1)
    parts = panes.select(pw.this.key, pw.this.total, pw.this.n, end=pw.make_tuple(*[pw.this.pane + shift for shift in shifts]))
    parts = parts.flatten(parts.end)
    windows = parts.groupby(parts.key, parts.end).reduce(
        parts.key, parts.end, total=pw.reducers.sum(parts.total), n=pw.reducers.sum(parts.n)
    )
    return windows.select(ts=pw.this.end * slide_ms, key=pw.this.key, total=pw.this.total, n=pw.this.n)


def w3(job: common.Job, a: pw.Table, b: pw.Table) -> pw.Table:
    near = pw.temporal.interval(-job.window_s * 1000, job.window_s * 1000)
    pairs = a.interval_join(b, a.ts, b.ts, near, a.key == b.key).select(a.grp, b.value)
    return pairs.groupby(pairs.grp).reduce(pairs.grp, top=pw.reducers.max(pairs.value))


def w4(job: common.Job, a: pw.Table, b: pw.Table, c: pw.Table) -> pw.Table:
    window_ms = job.window_s * 1000
    near = pw.temporal.interval(-window_ms, window_ms)
    pairs = a.interval_join(b, a.ts, b.ts, near, a.key == b.key).select(
        a.key, first=pw.if_else(a.ts < b.ts, a.ts, b.ts), last=pw.if_else(a.ts < b.ts, b.ts, a.ts)
    )
    # c within the window of the later row, and then not too late for the earlier one
    triples = pairs.interval_join(c, pairs.last, c.ts, near, pairs.key == c.key).select(pairs.key, pairs.first, c.ts, c.value)
    triples = triples.filter(pw.this.ts - pw.this.first <= window_ms)
    return triples.groupby(triples.key).reduce(triples.key, total=pw.reducers.sum(triples.value), n=pw.reducers.count())


def w7(job: common.Job, events: pw.Table) -> pw.Table:
    keys = events.groupby(events.key).reduce(total=pw.reducers.sum(events.value))
    keys = keys.select(band=pw.this.total // 1000)
    bands = keys.groupby(keys.band).reduce(members=pw.reducers.count())
    return bands.reduce(top=pw.reducers.max(pw.this.members), bands=pw.reducers.count())


def main() -> None:
    job = common.job(WORKLOADS)
    ram_disk = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=ram_disk) as folder:
        work = Path(folder)
        started = perf_counter()
        expected = copy_with_header(job, work)
        connectors: dict[str, Connector] = {}
        if job.pace and job.workload not in BY_FILES:
            connectors = {stream: Connector(columns(job, stream)) for stream in job.streams}
        if job.pace:
            hold_back(job, work)
        streams = [read(job, work, stream, connectors.get(stream)) for stream in job.streams]
        answers = globals()[job.workload](job, *streams)
        final: dict[object, dict] = {}
        if job.answers:
            pw.io.subscribe(answers, on_change=lambda key, row, time, is_addition: keep(final, key, row, is_addition=is_addition))
        else:
            pw.io.null.write(answers)
        done = threading.Event()
        told = watch(streams, answers, expected, done)
        failures: list[Exception] = []
        threading.Thread(target=run_engine, args=(done, failures), daemon=True).start()
        dues = come_at_pace(job, work, connectors, expected, told) if job.pace else []
        done.wait()
        if failures:
            raise failures[0]
        ended = perf_counter()
        if job.answers:
            sleep(QUIET_S)
            rows = pa.Table.from_pylist(list(final.values()))
            if "ts" in rows.column_names:
                rows = rows.set_column(0, "ts", rows["ts"].cast(pa.timestamp("ms")).cast(pa.timestamp("us")))
            common.write_answers(job.answers, [rows])
    common.result(started, len(final) if job.answers else None, ended, delays(dues, told, expected) if job.pace else None)
    os._exit(0)


def hold_back(job: common.Job, work: Path) -> None:
    """The files that have been copied are not to be seen yet."""
    for stream in job.streams:
        (work / stream).rename(work / f"{stream}-coming")
        (work / stream).mkdir()


def come_at_pace(
    job: common.Job, work: Path, connectors: dict[str, Connector], expected: int, told: list[tuple[float, int]]
) -> list[float]:
    """Hands over slice after slice, and returns when each was due."""
    slices = list(job.files())
    each = expected // len(slices)

    def come(together: list[dict[str, str]]) -> None:
        for stream, path in (named for paths in together for named in paths.items()):
            if stream in connectors:
                connectors[stream].take(path)
            else:
                (work / f"{stream}-coming" / Path(path).name).rename(work / stream / Path(path).name)
        for connector in connectors.values():
            connector.commit()

    come(slices[:FIRST_SLICES])
    wait_for(told, each * FIRST_SLICES)
    dues: list[float] = []
    for together in common.due_together(slices[FIRST_SLICES:]):
        come([paths for _, paths in together])
        dues += [due for due, _ in together]
        if connectors:
            wait_for(told, each * (FIRST_SLICES + len(dues)))
    return dues


def wait_for(told: list[tuple[float, int]], rows: int) -> None:
    while not told or told[-1][1] < rows:
        sleep(0.001)


def delays(dues: list[float], told: list[tuple[float, int]], expected: int) -> list[float]:
    """To the end of the first instant that includes all rows up to those of the slice; there are as many in each."""
    each = expected // (len(dues) + FIRST_SLICES)
    counts = [rows for _, rows in told]
    return [told[bisect.bisect_left(counts, (FIRST_SLICES + number) * each)][0] - due for number, due in enumerate(dues, start=1)]


def run_engine(done: threading.Event, failures: list[Exception]) -> None:
    try:
        pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    except Exception as failure:
        failures.append(failure)
    done.set()


def keep(final: dict[object, dict], key: object, row: dict, *, is_addition: bool) -> None:
    if is_addition:
        final[key] = row
    elif final.get(key) == row:
        del final[key]


def watch(streams: list[pw.Table], answers: pw.Table, expected: int, done: threading.Event) -> list[tuple[float, int]]:
    """Sets `done` when all rows have been read and their effect on the answers is known.  Until then, at the end of each instant, adds to
    what it returns the time, and of how many rows that is so.

    The number of answers is watched along with that of the rows: it makes the end of an instant wait for the answers.
    """
    counts = [stream.reduce(rows=pw.reducers.count(), weight=1) for stream in streams]
    counts.append(answers.reduce(rows=pw.reducers.count(), weight=0))
    both = pw.Table.concat_reindex(*counts)
    read = both.reduce(rows=pw.reducers.sum(pw.this.rows * pw.this.weight))
    seen = {"rows": 0}
    told: list[tuple[float, int]] = []

    def change(key, row, time, is_addition) -> None:
        if is_addition:
            seen["rows"] = row["rows"]

    def time_end(time) -> None:
        told.append((perf_counter(), seen["rows"]))
        if seen["rows"] == expected:
            done.set()

    pw.io.subscribe(read, on_change=change, on_time_end=time_end)
    return told


main()
