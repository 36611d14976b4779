"""How a clause is evaluated: over rows that are there, or as a composite on its way through the SteMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from millstream.kernels.compiled import Ints
from millstream.operators.evaluator import Evaluator
from millstream.psoup.combinations import Combinations
from millstream.psoup.data_stem import DataStem
from millstream.psoup.joining import Composite, Pairs, Visit, next_position
from millstream.psoup.query import Clause, Condition, Mask
from millstream.psoup.query_stem import QueryStem, reading


class Conditions:
    """Decides what stands in predicate lists.  One evaluator serves all."""

    def __init__(self, evaluator: Evaluator | None) -> None:
        self._evaluator = evaluator

    def __call__(self, condition: Condition, rows: pa.RecordBatch) -> Mask:
        if callable(condition.holds):
            return np.asarray(condition.holds(rows), np.bool_)
        if self._evaluator is None:
            self._evaluator = Evaluator()
        return self._evaluator.mask(rows, condition.holds)


class Evaluation:
    def __init__(self, stems: Mapping[str, DataStem], queries: QueryStem, holds: Conditions) -> None:
        self._stems, self._queries, self._holds = stems, queries, holds

    def stems_of(self, clause: Clause) -> list[DataStem]:
        return [self._stems[source.stream] for source in clause.sources]

    def rows_of(self, clause: Clause, position: int, first: int, stop: int) -> Ints:
        """The ids in a stretch that a clause wants of one of its sources, as far as that source alone decides."""
        stem = self._stems[clause.sources[position].stream]
        ids = stem.probe(clause.factors_of(position), first, stop)
        return self._listed(clause, position, ids)

    def start(self, number: int, clause: Clause, stretches: Sequence[tuple[int, int]]) -> Composite:
        """A clause on its way, having found its rows of the source that leaves fewest."""
        stems = self.stems_of(clause)
        sizes = [stem.estimate(clause.factors_of(each), *stretches[each]) for each, stem in enumerate(stems)]
        position = sizes.index(min(sizes))
        ids = self.rows_of(clause, position, *stretches[position])
        return Composite((number,), {position: ids}, np.ones((len(ids), 1), np.bool_), tuple(stretches))

    def visit(self, composite: Composite, clause: Clause) -> Composite:
        """One more source; `clause` is any of the composite's, which are all of one shape."""
        position = next_position(composite, clause)
        visit = Visit(clause, self.stems_of(clause), composite, position)
        pairs, wanted = (
            self._one_query(composite, clause, visit) if len(composite.clauses) == 1 else self._several(composite, clause, visit)
        )
        before = set(composite.rows)
        composite = composite.extended(position, pairs, wanted)
        for condition in clause.conditions:
            places = {clause.names.index(source) for source in condition.sources}
            if len(places) > 1 and places <= {*before, position} and not places <= before:
                composite = composite.kept(self._holds(condition, self._read(condition, clause, composite)))
        return composite

    def combinations(self, composite: Composite, place: int, clause: Clause) -> Combinations:
        """What the place-th clause of a composite gets, once this has been everywhere."""
        wanted = composite.wanted[:, place]
        ids = np.stack([composite.rows[position][wanted] for position in range(len(composite.stretches))], axis=1)
        return combinations_of(ids, self.stems_of(clause))

    def from_scratch(self, clause: Clause, stretches: Sequence[tuple[int, int]]) -> Combinations:
        """All results of a clause over stretches of its sources, with indexes but without anything kept."""
        composite = self.start(-1, clause, stretches)
        while composite.interests:
            composite = self.visit(composite, clause)
        return self.combinations(composite, 0, clause).in_order()

    def _listed(self, clause: Clause, position: int, ids: Ints) -> Ints:
        stem = self._stems[clause.sources[position].stream]
        for condition in clause.conditions_of(position):
            if len(ids):
                ids = ids[self._holds(condition, reading(condition, stem.take(ids, sorted({of.column for _, of in condition.reads}))))]
        return ids

    def _one_query(self, composite: Composite, clause: Clause, visit: Visit) -> tuple[Pairs, Mask]:
        position = visit.position
        stem, factors = self._stems[clause.sources[position].stream], clause.factors_of(position)
        if visit.cost_of_index() <= visit.cost_of_merging(stem.estimate(factors, visit.first, visit.stop)):
            place, ids = visit.by_index()
            unique, inverse = np.unique(ids, return_inverse=True)
            kept = np.isin(unique, self._listed(clause, position, unique[stem.holds(factors, unique)]))[inverse]
            place, ids = place[kept], ids[kept]
        else:
            place, ids = visit.by_merging(self.rows_of(clause, position, visit.first, visit.stop))
        return (place, ids), composite.wanted[place]

    def _several(self, composite: Composite, clause: Clause, visit: Visit) -> tuple[Pairs, Mask]:
        """Join factors once for all clauses; then the query SteM says who wants which of the rows that were met."""
        stem = self._stems[clause.sources[visit.position].stream]
        if visit.cost_of_index() <= visit.cost_of_merging(visit.stop - visit.first):
            place, ids = visit.by_index()
        else:
            place, ids = visit.by_merging(np.arange(visit.first, visit.stop))
        unique, inverse = np.unique(ids, return_inverse=True)
        rows, clauses, positions = self._queries.probe(stem.stream, stem.take(unique, stem.schema.names))
        order = np.argsort(composite.clauses)
        ours = np.array(composite.clauses)[order]
        at = np.minimum(np.searchsorted(ours, clauses), len(ours) - 1)
        here = (positions == visit.position) & (ours[at] == clauses)
        theirs = np.zeros((len(unique), len(ours)), np.bool_)
        theirs[rows[here], order[at[here]]] = True
        wanted = composite.wanted[place] & theirs[inverse]
        some = wanted.any(axis=1)
        return (place[some], ids[some]), wanted[some]

    def _read(self, condition: Condition, clause: Clause, composite: Composite) -> pa.RecordBatch:
        stems, arrays = self.stems_of(clause), []
        for _, of in condition.reads:
            position = clause.names.index(of.source)
            arrays.append(stems[position].values(of.column, composite.rows[position]))
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in condition.reads])


def combinations_of(ids: Ints, stems: Sequence[DataStem]) -> Combinations:
    """(combinations, sources) of ids, with their instants."""
    if not len(ids):
        return Combinations.none(len(stems))
    if len(stems) == 1:
        ts = stems[0].ts(ids[:, 0])
        return Combinations(ids, ts, ts)
    instants = np.stack([stem.ts(ids[:, position]) for position, stem in enumerate(stems)], axis=1)
    return Combinations(ids, instants.min(axis=1), instants.max(axis=1))
