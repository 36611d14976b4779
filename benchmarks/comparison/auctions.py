"""Workload w5: thirteen queries of Nexmark, each a workload of its own by its name; their events as files, and the right answers.

What the queries ask, how Millstream is asked and what is right stand in benchmarks/nexmark.  Rows are events of all three kinds, ten
thousand in a second of event time, but a query is given only the streams that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from comparison.data import FILE_ROWS, Data
from comparison.workloads import Variant, Workload
from nexmark.check import Check
from nexmark.generator import Events, generate
from nexmark.queries import QUERIES as ASKED
from nexmark.queries import SCHEMA, question

EVENTS_A_SECOND, CHECK_EVENTS_A_SECOND = 10_000, 1000
INSTANTS = 6
"""At so many, beside the ends of files, what follows from changes is compared."""
SLACK_US = 60_000_000
"""Of `closing`: what our q6 says is final only so long after."""
STREAMS = {
    **dict.fromkeys(("q0", "q1", "q2", "q5", "q7", "q15", "q16", "q17", "q18"), ("bid",)),
    **dict.fromkeys(("q3", "q8"), ("person", "auction")),
    **dict.fromkeys(("q4", "q6"), ("auction", "bid")),
}


def schema(stream: str) -> dict[str, str]:
    """The columns of a stream and their types, as schema.cql says them."""
    said = re.search(rf"CREATE STREAM {stream} \((.*?)\)", SCHEMA, re.DOTALL)
    assert said, stream
    return dict(column.split() for column in said[1].split(","))


@dataclass(frozen=True)
class Query(Workload):
    """A query of Nexmark as a workload: its streams, windows and sizes are those of Nexmark, so it has no variants."""

    @property
    def full_after(self) -> int:
        return self.window_s * EVENTS_A_SECOND

    def columns(self, stream: str) -> dict[str, str]:
        return schema(stream)

    def varied(self, variant: Variant) -> Workload:
        if variant != "base":
            raise ValueError(f"{self.name} is as Nexmark has it: there is no variant {variant} of it")
        return self


def _query(name: str) -> Query:
    streams = {stream: tuple(schema(stream)) for stream in STREAMS[name]}
    title = f"Nexmark, {question(name)[0].lower()}{question(name)[1:].rstrip('.')}"
    window_s = max(map(int, re.findall(r"RANGE (\d+) SECONDS", ASKED[name])), default=0)
    return Query(name, title, streams, window_s, 0, ASKED[name], size=0.5 if "bid" in streams else 2)


QUERIES = {name: _query(name) for name in sorted(STREAMS, key=lambda name: int(name[1:]))}
ALL_OF_THEM = "w5"
ALL_TITLE = f"Nexmark: {', '.join(QUERIES)}, each a workload of its own"


class EventData(Data):
    """The events as files of CSV; a file is a piece of the history with random numbers of its own, so none needs the one before."""

    def __init__(
        self, directory: Path, query: Workload, *, events_a_second: int = EVENTS_A_SECOND, file_rows: int = FILE_ROWS, seed: int = 0
    ) -> None:
        super().__init__(directory, query, file_rows=file_rows, seed=seed)
        self._events_a_second = events_a_second

    def _is_made(self, number: int) -> bool:
        """Other queries may have had other streams made."""
        return all(self._made(stream, number).exists() for stream in self._workload.streams)

    def _make(self, number: int) -> None:
        events = generate(
            self._file_rows,
            seed=[self._seed, number],
            first=number * self._file_rows,
            events_per_second=self._events_a_second,
            with_bids="bid" in self._workload.streams,
        )
        for stream in self._workload.streams:
            path = self._made(stream, number)
            path.parent.mkdir(parents=True, exist_ok=True)
            half = path.with_suffix(".half")
            csv.write_csv(_as_text(getattr(events, stream)), half, csv.WriteOptions(include_header=False, quoting_style="none"))
            half.rename(path)


def _as_text(table: pa.Table) -> pa.Table:
    """Instants to the millisecond, as all peers can read them."""
    columns = [
        pc.strftime(column.cast(pa.timestamp("ms")), "%Y-%m-%d %H:%M:%S") if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, table.column_names)


class EventAnswers:
    """The right answers of batch/q*.sql beside those of a system, which are in the order of columns of that file, and are

    changes   what changed and when, from which the answer at any instant follows: ours
    rows      a row for each that the query gives, without its instant
    windows   the same with the end of the window before it
    running   the relation after all events
    """

    def __init__(self, query: Workload, files: Mapping[str, Sequence[Path]]) -> None:
        self._name = query.name
        tables = {stream: read_events(stream, paths) for stream, paths in files.items()}
        absent = {stream: read_events(stream, []) for stream in ("person", "auction", "bid") if stream not in files}
        self._check = Check(Events(**tables, **absent))
        counts = [len(paths) for paths in files.values()]
        ends = (read_events(stream, [path])["ts"] for stream, paths in files.items() for path in paths)
        latest = np.array([pc.max(each).value for each in ends]).reshape(len(files), counts[0])
        self._ends: list[int] = latest.max(axis=0).tolist()

    def differences(self, shape: str, answers: Path) -> int:
        """How many rows one has and the other has not."""
        told = pq.read_table(answers)
        if shape == "changes":
            return sum(self._differences_at(told, now) for now in self._instants())
        right = self._check.answer(self._name, self._ends[-1])
        has_instant = right.column_names[0] == "instant"
        if shape == "windows":  # of the others it is not told when a system gives them
            ended = f"SELECT * FROM told WHERE #1::TIMESTAMP <= make_timestamp({self._ends[-1]})"
            return _unequal(told, ended, right)
        return _unequal(told, "SELECT * FROM told", right.drop_columns(["instant"]) if has_instant else right)

    def _instants(self) -> list[int]:
        """Of the last file it is not told yet what is final."""
        behind = SLACK_US if self._name == "q6" else 0
        last = self._ends[-2] - behind
        drawn = np.random.default_rng(0).integers((self._ends[0] + last) // 2, last, INSTANTS)
        return [now for now in self._ends[:-1] if now <= last] + drawn.tolist()

    def _differences_at(self, changes: pa.Table, now: int) -> int:
        is_stream = self._check.answer(self._name, now).column_names[0] == "instant"
        return sum(abs(ours - right) for ours, right, *_ in self._check.differences(self._name, changes, now, is_stream=is_stream))


def read_events(stream: str, paths: Sequence[Path]) -> pa.Table:
    types = {"BIGINT": pa.int64(), "STRING": pa.string(), "TIMESTAMP": pa.timestamp("us")}
    columns = {name: types[kind] for name, kind in schema(stream).items()}
    read, convert = csv.ReadOptions(column_names=list(columns)), csv.ConvertOptions(column_types=columns)
    empty = pa.schema(columns).empty_table()
    table = pa.concat_tables([empty, *(csv.read_csv(path, read, convert_options=convert) for path in paths)])
    return table.cast(pa.schema({name: pa.timestamp("us", "UTC") if pa.types.is_timestamp(t) else t for name, t in columns.items()}))


def _unequal(told: pa.Table, selected: str, right: pa.Table) -> int:
    if told.num_columns != right.num_columns:
        return max(told.num_rows, right.num_rows, 1)
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    columns = [f"c{i}" for i in range(right.num_columns)]
    database.register("told", told.rename_columns(columns))
    database.register("correct", right.rename_columns(columns))
    types = [row[1] for row in database.sql("DESCRIBE correct").fetchall()]
    cast = ", ".join(f"{column}::{kind} AS {column}" for column, kind in zip(columns, types, strict=True))
    database.execute(f"CREATE TABLE ours AS SELECT {cast} FROM ({selected})")
    ((count,),) = database.sql(
        "SELECT (SELECT count(*) FROM (FROM ours EXCEPT ALL FROM correct)) + (SELECT count(*) FROM (FROM correct EXCEPT ALL FROM ours))"
    ).fetchall()
    return int(count)
