"""Files of a query's changelog, as executors write them: instant, diff, then the query's columns.

This is the hottest writer: every change of every answer passes here once.  Integers are delta-encoded
(sorted instants cost almost nothing), the rest as in parquet_file.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from millstream.core.schema import TIMESTAMP
from millstream.core.signed_batch import SignedBatch
from millstream.state.atomic import sync_file, writing
from millstream.state.fault import fault_point
from millstream.state.pace import AT_ONCE, Pace
from millstream.state.parquet_file import columns_with_nulls, merge_parquet, read_parquet, write_parquet
from millstream.state.timed_file import TimedFile

INSTANT, DIFF = "instant", "diff"
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class OutputFile(TimedFile):
    """What a tick's commit says of one file; min_ts and max_ts are those of `instant`."""


def output_columns(names: Sequence[str]) -> tuple[str, ...]:
    """The query's column names as a table on disk can have them: no two equal in any case, none with signs that Delta refuses.

    >>> output_columns(["sym", "sum(size)", "Sym", "diff"])
    ('sym', 'sum_size', 'Sym_2', 'diff_2')
    """
    taken, columns = {INSTANT, DIFF}, []
    for name in names:
        plain = re.sub(r"[ ,;{}()\n\t=.`]+", "_", name).strip("_") or "column"
        unique, count = plain, 1
        while unique.lower() in taken:
            count += 1
            unique = f"{plain}_{count}"
        taken.add(unique.lower())
        columns.append(unique)
    return tuple(columns)


def write_output(
    directory: str | Path, batches: Sequence[SignedBatch], columns: Sequence[str] | None = None, *, sync: bool = True
) -> OutputFile:
    """Writes changes, instants in order, no batch empty, under a name of their own, durable on return unless `sync_outputs` is to do it.

    `columns` come from `output_columns`.
    """
    assert min(map(len, batches), default=0), "an empty output is not worth a file"
    names = batches[0].rows.schema.names if columns is None else list(columns)
    rows = pa.concat_tables([_with_time(batch, [INSTANT, DIFF, *names]) for batch in batches])
    fault_point("output.before_write")
    path, size = write_parquet(Path(directory), rows, statistics=(INSTANT,))
    if sync:
        sync_outputs([Path(directory) / path])
    return OutputFile(path, None, len(rows), size, int(batches[0].instant[0]), int(batches[-1].instant[-1]))


def merge_outputs(directory: str | Path, segments: Sequence[Sequence[OutputFile]], pace: Pace = AT_ONCE) -> OutputFile:
    """One file with the changes of all, durable on return.  Segments stand in the order of time, and none reaches into another: memory is
    that of the largest, or of a row group."""
    files = list(chain.from_iterable(segments))
    nulls = set[str]().union(*(columns_with_nulls(Path(directory) / file.path) for file in files))
    parts = pace.over(in_order(pa.concat_tables([read_output(directory, file) for file in segment])) for segment in segments)
    fault_point("output.before_write")
    path, size = merge_parquet(Path(directory), parts, nulls=nulls, statistics=(INSTANT,))
    sync_outputs([Path(directory) / path])
    rows = sum(file.rows for file in files)
    return OutputFile(path, None, rows, size, min(file.min_ts for file in files), max(file.max_ts for file in files))


def in_order(rows: pa.Table) -> pa.Table:
    """By (instant, diff); changes that are equal in both keep the order they stand in."""
    key = rows.column(INSTANT).cast(pa.int64()).to_numpy() * 2 + (rows.column(DIFF).to_numpy() > 0)
    if (key[1:] >= key[:-1]).all():
        return rows
    return rows.take(pa.array(np.argsort(key, kind="stable")))


def sync_outputs(paths: Sequence[Path]) -> None:
    """Makes files durable, several at a time: a file system that is asked by many at once does it for all of them together."""
    with ThreadPoolExecutor(min(len(paths), _AT_ONCE)) if len(paths) > 1 else nullcontext() as pool:
        for _ in map(_sync, paths) if pool is None else pool.map(_sync, paths):
            fault_point("output.after_write")


def _sync(path: Path) -> None:
    with writing(path):
        sync_file(path)


def _with_time(batch: SignedBatch, names: list[str]) -> pa.Table:
    instant = pa.Array.from_buffers(TIMESTAMP, len(batch), [None, pa.py_buffer(batch.instant)])
    return pa.Table.from_arrays([instant, pa.array(batch.sign), *batch.rows.columns], names=names)


def read_output(
    directory: str | Path, file: OutputFile, columns: Sequence[str] | None = None, between: tuple[int, int] | None = None
) -> pa.Table:
    """`between` two instants (the first one excluded) more may be given than lies there, but nothing is missing."""
    if between is None:
        return read_parquet(Path(directory) / file.path, size=file.bytes, rows=file.rows, columns=columns)
    after, upto = between
    wanted = (INSTANT, lambda least, greatest: greatest > after and least <= upto)
    return read_parquet(Path(directory) / file.path, size=file.bytes, rows=file.rows, columns=columns, wanted=wanted)
