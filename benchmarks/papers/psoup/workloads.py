"""The paper's generator (its table 1): tuples of small integers, and queries of 1 to 8 factors over them.

Values are uniform in 0 to 255.  A constant is a multiple of 32 with probability 0.2, otherwise uniform, so that some constants are
those of many queries.  A tuple's timestamp is its number; a window of n tuples is then [BEGIN NOW - (n - 1) END NOW].
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.kernels.comparison_keys import Operator
from millstream.kernels.predicate_index import Factor
from millstream.psoup.marks import Structure
from millstream.psoup.query import Clause, ColumnOf, JoinFactor, Now, Query, Selection, Source, Variant
from millstream.psoup.soup import Soup

Ints = npt.NDArray[np.int64]
GREATEST = 255
COLUMNS = tuple("abcdefgh")
SCHEMA = Schema.of(**dict.fromkeys(COLUMNS, "INT"))
INEQUALITIES: tuple[Operator, ...] = ("<", "<=", ">=", ">")
Kind = Literal["equality", "interval", "inequality"]


class Generator:
    def __init__(self, seed: int = 7) -> None:
        self._random = np.random.default_rng(seed)

    def tuples(self, many: int) -> pa.RecordBatch:
        columns = [pa.array(self._random.integers(0, GREATEST + 1, many).astype(np.int32)) for _ in COLUMNS]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA.to_arrow())

    def selection(self, kind: Kind, predicates: int, window: int) -> Query:
        """So many predicates on as many columns."""
        columns = self._random.choice(COLUMNS, predicates, replace=False)
        factors = [Selection("r", factor) for column in columns for factor in self._predicate(str(column), kind)]
        return windowed(Query(Clause((Source("r", "r"),), tuple(factors)), (("a", ColumnOf("r", "a")),)), window)

    def join(self, window: int) -> Query:
        """A factor on each side, and one between them: R.a op S.b +/- c."""
        factors = [Selection(name, self._predicate("c", "inequality")[0]) for name in ("r", "s")]
        op = INEQUALITIES[int(self._random.integers(0, len(INEQUALITIES)))]
        plus = int(self._random.choice([-1, 1])) * self._constant()
        joins = (JoinFactor(ColumnOf("r", "a"), op, ColumnOf("s", "b"), plus),)
        clause = Clause((Source("r", "r"), Source("s", "s")), tuple(factors), joins)
        return windowed(Query(clause, (("a", ColumnOf("r", "a")), ("b", ColumnOf("s", "b")))), window)

    def _predicate(self, column: str, kind: Kind) -> list[Factor]:
        constant = self._constant()
        if kind == "equality":
            return [Factor(column, "=", constant)]
        if kind == "inequality":
            return [Factor(column, INEQUALITIES[int(self._random.integers(0, len(INEQUALITIES)))], constant)]
        return [Factor(column, ">=", constant), Factor(column, "<=", constant + int(self._random.integers(0, GREATEST + 1)))]

    def _constant(self) -> int:
        if self._random.random() < 0.2:
            return 32 * int(self._random.integers(0, 8))
        return int(self._random.integers(0, GREATEST + 1))


def windowed(query: Query, tuples: int) -> Query:
    return replace(query, begin=Now(tuples - 1), end=Now())


def soup_of(
    variant: Variant, window: int, streams: Sequence[str] = ("r",), *, shared: bool = True, structure: Structure = "smaller"
) -> Soup:  # fmt: skip
    soup = Soup(variant, shared=shared, structure=structure, retention_us=window - 1)
    for name in streams:
        soup.add_stream(name, SCHEMA)
    return soup


def response_ms(soup: Soup, numbers: Sequence[int], rounds: int = 5) -> float:
    """Mean time of an invocation; of several rounds over all queries, the fastest."""
    return 1000 * fastest(lambda: [soup.invoke(number) for number in numbers], rounds) / len(numbers)


def fastest(work: Callable[[], object], rounds: int) -> float:
    """Processor time in seconds: others may be using the machine too."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)
