"""Bytewax, columnar.

Items are whole Arrow tables: a file is parsed by Arrow, cut into two buckets of keys, and each bucket has its own stateful
logic on one of two workers.  Single rows as items would cost Python calls for each; here there are
a few for each file.

w1  By hand in numpy: see `sliding_sums`.
w2  By hand in Arrow: sums by minute and key, and a window is the sum of its minutes.  The windowing operators of Bytewax
    take single rows and would update ten windows for each.
What is timed is so mostly Arrow and numpy.  The joins and w7 are not here: they would be all by hand as well, as the join
operators take single rows and there are no retractions.

At a pace each slice is a file, read when it is due, and an item; its effect is there when the sink has the answers of both buckets.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from time import perf_counter

import bytewax.operators as op
import pyarrow as pa
import pyarrow.compute as pc
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.run import cli_main

from comparison.peers import common
from comparison.peers.sliding_sums import SlidingSums, halves, read_rows

WORKLOADS = {"w1": "rows", "w2": "windows"}
PACED = True


class FilesPartition(StatefulSourcePartition[pa.Table, int]):
    def __init__(self, job: common.Job) -> None:
        self.paths, self.string_keys = iter(job.streams["events"]), job.string_keys

    def next_batch(self) -> Iterable[pa.Table]:
        path = next(self.paths, None)
        if path is None:
            raise StopIteration
        return [read_rows(path, string_keys=self.string_keys)]

    def snapshot(self) -> int:
        return 0


class SlicesPartition(FilesPartition):
    """The same at a pace: a file is there for the taking when it is due, and not before."""

    def __init__(self, job: common.Job, dues: list[float]) -> None:
        super().__init__(job)
        self.dues, self.started = dues, datetime.now(UTC)
        self.due = perf_counter()

    def next_batch(self) -> Iterable[pa.Table]:
        rows = super().next_batch()
        self.dues.append(self.due + len(self.dues) * common.SLICE)
        return rows

    def next_awake(self) -> datetime:
        return self.started + len(self.dues) * timedelta(seconds=common.SLICE)


class Files(FixedPartitionedSource[pa.Table, int]):
    def __init__(self, job: common.Job) -> None:
        self.job = job
        self.dues: list[float] = []
        """Of the slices, if rows come at a pace."""

    def list_parts(self) -> list[str]:
        return ["all"]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> FilesPartition:
        return SlicesPartition(self.job, self.dues) if self.job.pace else FilesPartition(self.job)


def buckets(rows: pa.Table) -> list[tuple[str, tuple[pa.Table, int]]]:
    """The two halves of a file by the name of their bucket, each with the last instant of the whole file."""
    last = rows["ts"].cast(pa.int64())[-1].as_py()
    return [(str(bucket), (half, last)) for bucket, half in enumerate(halves(rows))]


class Logic(StatefulBatchLogic[tuple[pa.Table, int], pa.Table, None]):
    """One bucket: `step` answers a part of a file with a table."""

    def on_batch(self, values: list[tuple[pa.Table, int]]) -> tuple[list[pa.Table], bool]:
        return [self.step(*part) for part in values], StatefulBatchLogic.RETAIN

    def snapshot(self) -> None:
        return None


class Sliding(Logic):
    def __init__(self, job: common.Job) -> None:
        self.sums = SlidingSums(job.window_s * 1_000_000)

    def step(self, rows: pa.Table, last: int) -> pa.Table:
        return pa.table(self.sums.step(rows))


class Hopping(Logic):
    def __init__(self, job: common.Job) -> None:
        self.window_us, self.slide_us = job.window_s * 1_000_000, job.slide_s * 1_000_000
        self.key_type = pa.string() if job.string_keys else pa.int64()
        columns = {"ts": pa.timestamp("us"), "key": self.key_type, "total": pa.int64(), "n": pa.int64()}
        self.nothing = pa.schema(columns).empty_table()
        self.panes: dict[int, list[pa.Table]] = {}
        self.next_end: int | None = None

    def step(self, rows: pa.Table, last: int) -> pa.Table:
        at = rows["ts"].cast(pa.int64())
        pane = pc.multiply(pc.divide(at, self.slide_us), self.slide_us)
        sums = pa.table({"pane": pane, "key": rows["key"].cast(self.key_type), "value": rows["value"]})
        sums = sums.group_by(["pane", "key"], use_threads=False).aggregate([("value", "sum"), ("value", "count")])
        sums = sums.rename_columns(["pane", "key", "total", "n"])
        for start in pc.unique(pane).to_pylist():
            self.panes.setdefault(start, []).append(sums.filter(pc.equal(sums["pane"], start)))
        if self.next_end is None:
            self.next_end = min(self.panes) + self.slide_us
        answers = [self.nothing]
        while self.next_end <= last:
            answers.append(self.close(self.next_end))
            self.panes.pop(self.next_end - self.window_us, None)
            self.next_end += self.slide_us
        return pa.concat_tables(answers)

    def close(self, end: int) -> pa.Table:
        parts = [part for start, parts in self.panes.items() if end - self.window_us <= start < end for part in parts]
        sums = pa.concat_tables(parts).group_by("key", use_threads=False).aggregate([("total", "sum"), ("n", "sum")])
        ended = pa.repeat(pa.scalar(end, pa.timestamp("us")), len(sums))
        return pa.table([ended, *sums.select(["key", "total_sum", "n_sum"]).columns], names=["ts", "key", "total", "n"])


class AnswersPartition(StatelessSinkPartition[tuple[str, pa.Table]]):
    def __init__(self, answers: "Answers") -> None:
        self.answers = answers

    def write_batch(self, items: list[tuple[str, pa.Table]]) -> None:
        for bucket, table in items:
            self.answers.counts.append(len(table))
            self.answers.told[bucket].append(perf_counter())
            if self.answers.wanted:
                self.answers.tables.append(table)


class Answers(DynamicSink[tuple[str, pa.Table]]):
    """Counts the answers of all workers, and keeps them if they are wanted."""

    def __init__(self, *, wanted: bool) -> None:
        self.wanted, self.counts, self.tables = wanted, [], []
        self.told: dict[str, list[float]] = defaultdict(list)
        """When, by bucket: each answers every file, if only with no rows."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> AnswersPartition:
        return AnswersPartition(self)


def main() -> None:
    job = common.job(WORKLOADS)
    logic = {"w1": Sliding, "w2": Hopping}[job.workload]
    answers = Answers(wanted=job.answers is not None)
    flow = Dataflow(job.workload)
    source = Files(job)
    files = op.input("files", flow, source)
    parts = op.flat_map("buckets", files, buckets)
    op.output("answers", op.stateful_batch("window", parts, lambda _: logic(job)), answers)
    started = perf_counter()
    cli_main(flow, workers_per_process=2)
    ended = perf_counter()
    if job.answers:
        common.write_answers(job.answers, answers.tables)
    common.result(started, sum(answers.counts), ended, delays(source.dues, answers) if job.pace else None)


def delays(dues: list[float], answers: Answers) -> list[float]:
    return [max(told) - due for due, *told in zip(dues, *answers.told.values(), strict=True)]


main()
