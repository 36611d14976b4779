"""What the live queries over a stream need of those who feed it, so that nobody samples, sends and stores what nobody wants.

    q1   ... WHERE temp > 30            WITH RATE 1 PER SECOND     ┐
    q2   ... WHERE room = 7             WITH RATE 10 PER SECOND    ┘   at most 10 a second, temp > 30 or room = 7, columns ts, room, temp

A proxy of Fjords (Madden and Franklin, section 4) asks its sensor for that: the greatest of the rates, all that any query needs, and
nothing at all when there is no query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.language.catalog import StreamEntry
from millstream.operators.evaluator import Evaluator
from millstream.plan.needed_rows import needed_by_any
from millstream.plan.physical import SourceExec
from millstream.plan.rate import Rate
from millstream.runtime.relation_rows import one_batch


@dataclass(frozen=True)
class Demand:
    """Equal demands ask for the same.

    `rate` is in samples a second: the greatest that a query asks for, None if one takes all it can get, 0 if there is no query.
    `predicate` is SQL (DuckDB's) over the stream's columns: a row for which it is not true is needed by no query; None: any row is.
    `columns` are those that some query reads, the stream's time always among them.
    """

    queries: int
    rate: float | None
    predicate: str | None
    columns: tuple[str, ...]

    def wanted(self, rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """For each row, with the stream's columns, whether some query needs it."""
        if self.predicate is None or not self.queries:
            return np.full(rows.num_rows, self.queries > 0)
        batch = rows if isinstance(rows, pa.RecordBatch) else one_batch(rows)
        return self._evaluator.mask(batch, self.predicate)

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator()


@dataclass(frozen=True)
class Reader:
    """A live query: what it reads of the stream, and how often it wants to hear from it."""

    sources: Sequence[SourceExec]
    rate: Rate | None = None


def demand_of(entry: StreamEntry, readers: Iterable[Reader]) -> Demand:
    known = list(readers)
    sources = [source for reader in known for source in reader.sources]
    read = {entry.timestamp_by, *(log for source in sources for log, _, _ in source.columns)}
    rates = [None if reader.rate is None else reader.rate.per_second for reader in known]
    rate = None if None in rates else max((each for each in rates if each is not None), default=0.0)
    return Demand(len(known), rate, needed_by_any(sources), tuple(name for name in entry.schema.names if name in read))
