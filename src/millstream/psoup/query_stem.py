"""The query SteM: all standing clauses, by what they want of each stream.

What a clause wants of one of its sources alone is a term.  For each stream there is a predicate index over the terms' factors, and a
predicate list: conditions that no index can hold, tried on the rows that the index leaves.  Without sharing every term is tried by
itself, factor by factor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.core.schema import Schema
from millstream.kernels.arrow_buffers import plain, valid_mask
from millstream.kernels.comparison_keys import ComparisonKeys, Interval
from millstream.kernels.compiled import Ints
from millstream.kernels.predicate_index import Factor, PredicateIndex
from millstream.kernels.sliding_array import SlidingArray
from millstream.psoup.query import Clause, Condition, Mask

Holds = Callable[[Condition, pa.RecordBatch], Mask]
"""Decides a condition for a batch that has the columns it reads, under the names it reads them."""


@dataclass
class _Stream:
    index: PredicateIndex | _OneByOne
    conditions: dict[int, tuple[Condition, ...]] = field(default_factory=dict)


class QueryStem:
    """Terms have numbers, which rise with those of their clauses."""

    def __init__(self, holds: Holds, *, shared: bool) -> None:
        self._holds = holds
        self._shared = shared
        self._streams: dict[str, _Stream] = {}
        self._terms: dict[int, list[int]] = {}
        self._clause = SlidingArray()
        self._position = SlidingArray()

    def add_stream(self, name: str, schema: Schema) -> None:
        types = {field.name: field.type for field in schema}
        self._streams[name] = _Stream(PredicateIndex(types) if self._shared else _OneByOne(types))

    def insert(self, number: int, clause: Clause) -> None:
        self._terms[number] = []
        for position, source in enumerate(clause.sources):
            stream, term = self._streams[source.stream], self._clause.stop
            stream.index.add(term, clause.factors_of(position))
            if conditions := clause.conditions_of(position):
                stream.conditions[term] = conditions
            self._terms[number].append(term)
            self._clause.append(np.array([number]))
            self._position.append(np.array([position]))

    def remove(self, number: int, clause: Clause) -> None:
        for source, term in zip(clause.sources, self._terms.pop(number), strict=True):
            self._streams[source.stream].index.remove(term)
            self._streams[source.stream].conditions.pop(term, None)
        oldest = next(iter(self._terms.values()))[0] if self._terms else self._clause.stop
        self._clause.drop_before(oldest)
        self._position.drop_before(oldest)

    def probe(self, stream: str, rows: pa.RecordBatch) -> tuple[Ints, Ints, Ints]:
        """(row, clause, position) of all that is wanted, in order of clauses, positions and rows."""
        here = self._streams[stream]
        found, terms = here.index.probe(rows)
        if here.conditions:
            kept = np.ones(len(found), np.bool_)
            for term, conditions in here.conditions.items():
                mine = slice(int(np.searchsorted(terms, term, "left")), int(np.searchsorted(terms, term, "right")))
                if mine.start < mine.stop:
                    kept[mine] = self._mask(conditions, rows, found[mine])
            found, terms = found[kept], terms[kept]
        at = terms - self._clause.first
        return found, self._clause.values[at], self._position.values[at]

    def _mask(self, conditions: Sequence[Condition], rows: pa.RecordBatch, mine: Ints) -> Mask:
        mask, some = np.ones(len(mine), np.bool_), rows.take(pa.array(mine))
        for condition in conditions:
            mask &= self._holds(condition, reading(condition, some))
        return mask


def reading(condition: Condition, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of rows of its only source, under the names by which the condition reads them."""
    return pa.RecordBatch.from_arrays([rows.column(of.column) for _, of in condition.reads], names=[name for name, _ in condition.reads])


class _OneByOne:
    """In place of the index: every selection is tried on the batch by itself."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self._types = types
        self._selections: dict[int, list[tuple[str, ComparisonKeys, Interval]]] = {}

    def add(self, number: int, factors: Sequence[Factor]) -> None:
        keys = [ComparisonKeys(self._types[factor.column]) for factor in factors]
        intervals = [key.interval(factor.op, factor.constant) for key, factor in zip(keys, factors, strict=True)]
        self._selections[number] = [(factor.column, key, box) for factor, key, box in zip(factors, keys, intervals, strict=True)]

    def remove(self, number: int) -> None:
        del self._selections[number]

    def probe(self, rows: pa.RecordBatch) -> tuple[Ints, Ints]:
        found = [np.flatnonzero(_mask(rows, factors)) for factors in self._selections.values()]
        numbers = np.fromiter(self._selections, np.int64, len(self._selections))
        return np.concatenate([*found, np.empty(0, np.int64)]), np.repeat(numbers, [len(each) for each in found])


def _mask(rows: pa.RecordBatch, factors: Sequence[tuple[str, ComparisonKeys, Interval]]) -> Mask:
    mask = np.ones(rows.num_rows, np.bool_)
    for name, keys, (low, high) in factors:
        array = plain(rows.column(name))
        found, valid = keys.keys(array), valid_mask(array)
        mask &= (found >= low) & (found <= high)
        if len(valid):
            mask &= valid == 1
    return mask
