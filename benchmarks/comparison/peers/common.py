"""What every runner of a peer needs: the job it is given, the answers it may owe, and the line it ends with.

A runner is started as `python run.py JOB.json`, with `benchmarks` on its path.
Only the standard library is needed, and pyarrow when answers are asked for.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
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
    batch_rows: int
    selections: list[list[tuple[str, str, int | str]]]
    """Of w6: the conditions of each, (column, operator, constant)."""

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
        batch_rows=fields.get("batch_rows", 100_000),
        selections=fields.get("selections", []),
    )


def write_answers(path: str, tables: Iterable[Any]) -> int:
    """Writes Arrow tables of one schema as one Parquet file, and returns the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = pa.concat_tables(tables)
    pq.write_table(whole, path)
    return whole.num_rows


def result(started: float, answers: int | None, ended: float | None = None) -> None:
    """The last line on stdout; `started` and `ended` are of `time.perf_counter`."""
    seconds = (perf_counter() if ended is None else ended) - started
    print("RESULT " + json.dumps({"seconds": round(seconds, 6), "answers": answers}), flush=True)
