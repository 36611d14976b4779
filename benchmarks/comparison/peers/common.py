"""What every runner of a peer needs: the job it is given, the answers it may owe, and the line it ends with.

A runner is started as `python run.py JOB.json`, with `benchmarks` on its path.
Only the standard library is needed, and pyarrow when answers are asked for.
"""

import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep
from typing import Any


@dataclass(frozen=True)
class Job:
    """One run: the files of each stream in time order, and what to compute over them."""

    workload: str
    streams: dict[str, list[str]]
    window_s: int
    slide_s: int
    string_keys: bool
    answers: str | None
    last: str | None
    """Where our answer at the end of a timed run goes, once the time is taken."""
    scratch: str
    """A directory for what it has to keep; to delete it is not its business."""
    batch_rows: int
    selections: list[list[tuple[str, str, int | str]]]
    """Of w6: the conditions of each, (column, operator, constant)."""
    columns: dict[str, dict[str, str]]
    """Of each stream: their types, BIGINT, STRING or TIMESTAMP, by their names, in the order of the files."""
    one_file: dict[str, str]
    """Of each stream: all of its files as one, for whoever says ONE_FILE."""
    pace: float | None
    """Rows a second; None: as fast as it can."""

    def files(self) -> Iterator[dict[str, str]]:
        """The n-th file of each stream, by the name of the stream; they cover the same time."""
        for paths in zip(*self.streams.values(), strict=True):
            yield dict(zip(self.streams, paths, strict=True))


def job(workloads: Iterable[str]) -> Job:
    """The job named on the command line; the runner ends here if it has no such workload."""
    fields = json.loads(Path(sys.argv[1]).read_text())
    if fields["workload"] not in workloads:
        sys.exit(f"this peer does not run {fields['workload']}")
    return Job(
        workload=fields["workload"],
        streams=fields["streams"],
        window_s=fields.get("window_s", 600),
        slide_s=fields.get("slide_s", 60),
        string_keys=fields.get("string_keys", False),
        answers=fields.get("answers"),
        last=fields.get("last"),
        scratch=fields["scratch"],
        batch_rows=fields.get("batch_rows", 100_000),
        selections=fields.get("selections", []),
        columns=fields.get("columns", {}),
        one_file=fields.get("one_file", {}),
        pace=fields.get("pace"),
    )


def write_answers(path: str, tables: Iterable[Any]) -> int:
    """Writes Arrow tables of one schema as one Parquet file, and returns the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = pa.concat_tables(tables)
    pq.write_table(whole, path)
    return whole.num_rows


MEASURED = "measured"
"""A file in the scratch directory: what a runner does once it is there, such as to tell its last answer, is not measured."""
SLICE = 0.05
"""Where rows come at a pace, so many seconds of them come at once."""


def slices(tables: dict[str, Any], pace: float) -> Iterator[dict[str, Any]]:
    """The rows of each stream, as Arrow tables, cut into what comes together; of all streams together so many rows a second."""
    total = sum(table.num_rows for table in tables.values())
    count = max(1, int(total / (pace * SLICE)))
    for i in range(count):
        yield {
            stream: table.slice(table.num_rows * i // count, table.num_rows * (i + 1) // count - table.num_rows * i // count)
            for stream, table in tables.items()
        }


def paced(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[float, dict[str, Any]]]:
    """Each slice when it is due, with that time: whoever is not ready then is late for it."""
    started = perf_counter()
    for i, tables in enumerate(rows):
        due = started + i * SLICE
        while (early := due - perf_counter()) > 0:
            sleep(early)
        yield due, tables


def due_together(rows: Iterable[dict[str, Any]]) -> Iterator[list[tuple[float, dict[str, Any]]]]:
    """All slices that are due by now and were not yet, with their times; waits until there is one."""
    started, waiting = perf_counter(), deque(enumerate(rows))
    while waiting:
        while (early := started + waiting[0][0] * SLICE - perf_counter()) > 0:
            sleep(early)
        now, due = perf_counter(), []
        while waiting and started + waiting[0][0] * SLICE <= now:
            number, tables = waiting.popleft()
            due.append((started + number * SLICE, tables))
        yield due


def result(started: float, answers: int | None, ended: float | None = None, delays: Sequence[float] | None = None) -> None:
    """The last line on stdout; `started` and `ended` are of `time.perf_counter`, `delays` in seconds."""
    seconds = (perf_counter() if ended is None else ended) - started
    told = {"seconds": round(seconds, 6), "answers": answers}
    if delays is not None:
        settled = sorted(delays[len(delays) // 4 :])  # without what it takes to get going
        told |= {"p50": settled[len(settled) // 2], "p99": settled[len(settled) * 99 // 100]}
    print("RESULT " + json.dumps(told), flush=True)
