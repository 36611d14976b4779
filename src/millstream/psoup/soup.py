"""The soup: streams of rows and of queries meet, and what they make is kept until somebody asks.

    offer_rows, offer_query ─► new pool ──┐
                                          ├─► step: rows and clauses enter their SteM and probe the others;
           ┌─────────► temporary pool ────┘         composites visit the next SteM on their interest list
           └──────────────────────────────────────┘

The temporary pool is emptied before the next entry of the new pool is begun, so all effects of an older row or query are there before
any of a newer one: an answer is always that of the queries and rows up to some entry (stream-prefix consistency).

    none        nothing is kept; an invocation runs the clause over the data SteMs
    partial     which rows satisfied the clause is kept; an invocation applies the window
    complete    what is in the window is kept too, at every arrival
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.core.errors import AlreadyExists, QueryNotFound, StreamNotFound, did_you_mean
from millstream.core.instant import GONE_NEVER, NEVER_BEFORE, Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import Instants
from millstream.kernels.compiled import Ints
from millstream.kernels.key_table import KeyTable
from millstream.kernels.sliding_array import SlidingArray
from millstream.operators.evaluator import Evaluator
from millstream.psoup.clauses import Conditions, Evaluation, combinations_of
from millstream.psoup.combinations import CombinationRuns, Combinations, Values
from millstream.psoup.current import Current
from millstream.psoup.data_stem import DataStem, Names
from millstream.psoup.joining import Composite
from millstream.psoup.marks import Marks, Structure
from millstream.psoup.query import Clause, ColumnOf, Query, Variant, check, window_at
from millstream.psoup.query_stem import QueryStem
from millstream.psoup.totals import Total, answer, totals_of


@dataclass(frozen=True)
class _Arrival:
    stream: str
    rows: pa.RecordBatch
    ts: Instants


@dataclass(frozen=True)
class _Registration:
    number: int
    query: Query


@dataclass
class _Standing:
    """A clause in the query SteM, and who uses it."""

    number: int
    clause: Clause
    queries: set[int] = field(default_factory=set)
    currents: dict[int, Current] = field(default_factory=dict)
    runs: CombinationRuns | None = None
    """Of a join, its results; of a clause over one stream, there are any only if something is aggregated."""


_JOINS, _FOLLOWED = 1, 2
"""Kinds of clauses: it reads several streams; somebody wants to know of each new result."""


class Soup:
    """`shared`: with the predicate index.  `retention_us`: rows that are older than the newest by more are let go."""

    def __init__(
        self, variant: Variant = "partial", *, shared: bool = True, structure: Structure = "smaller",
        retention_us: Micros | None = None, evaluator: Evaluator | None = None,
    ) -> None:  # fmt: skip
        self._variant, self._structure, self._retention_us = variant, structure, retention_us
        self._names = Names()
        self._stems: dict[str, DataStem] = {}
        self._marks: dict[str, Marks] = {}
        holds = Conditions(evaluator)
        self._query_stem = QueryStem(holds, shared=shared)
        self._evaluation = Evaluation(self._stems, self._query_stem, holds)
        self._new: deque[_Arrival | _Registration] = deque()
        self._temporary: deque[Composite] = deque()
        self._queries: dict[int, Query] = {}
        self._entered: set[int] = set()
        self._windows: dict[int, _Standing] = {}
        self._clauses: dict[Clause, _Standing] = {}
        self._standing: dict[int, _Standing] = {}
        self._to_settle: list[int] = []
        self._followed: dict[int, _Standing] = {}
        self._kinds = SlidingArray(np.uint8)  # by the number of a clause
        self._due: list[tuple[Micros, int]] = []  # a heap; some say what has been done already
        self._newest: dict[str, Micros] = {}
        self._next = 0
        self.clock: Micros = NEVER_BEFORE
        """The timestamp of the newest row."""
        self.retained_since: Micros = NEVER_BEFORE
        """Rows with earlier timestamps have been let go."""

    # --- what clients call --------------------------------------------------------------------

    def add_stream(self, name: str, schema: Schema) -> None:
        if name in self._stems:
            raise AlreadyExists(f'stream "{name}" exists already')
        self._stems[name] = DataStem(name, schema, self._names)
        self._marks[name] = Marks(self._structure)
        self._query_stem.add_stream(name, schema)

    def register(self, query: Query) -> int:
        """A standing query; it sees the rows that are there already."""
        number = self.offer_query(query)
        self.run()
        return number

    def unregister(self, number: int) -> None:
        self._finish(number)
        del self._queries[number]
        self._entered.discard(number)
        standing = self._windows.pop(number, None)
        if standing is not None:
            standing.queries.discard(number)
            standing.currents.pop(number, None)
            if not standing.queries:
                self._remove(standing)

    def insert(self, stream: str, rows: pa.RecordBatch, ts: Instants) -> None:
        """Rows in the order of their timestamps, none before those that came earlier."""
        self.offer_rows(stream, rows, ts)
        self.run()

    def invoke(self, number: int, now: Micros | None = None, since: Micros = NEVER_BEFORE) -> pa.RecordBatch:
        """What the query's window holds at an instant, that of the newest row if none is given; rows before `since` do not count."""
        return self.invoke_timed(number, now, since)[0]

    def invoke_timed(self, number: int, now: Micros | None = None, since: Micros = NEVER_BEFORE) -> tuple[pa.RecordBatch, Instants]:
        """The same, and since when each row has been part of the clause's results; nothing is said of aggregates."""
        self._finish(number)
        query, now = self._queries[number], self.clock if now is None else now
        begin, end = window_at(query, now)
        begin = max(begin, since)
        if query.aggregates:
            return self._aggregated(number, query, begin, end), np.zeros(1, np.int64)
        return self._projected(query, self._results(number, query, now, begin, end))

    def is_complete(self, number: int, now: Micros | None = None) -> bool:
        """No row has been let go that the window would hold."""
        self._finish(number)
        return window_at(self._queries[number], self.clock if now is None else now)[0] >= self.retained_since

    def expire(self, before: Micros, stream: str | None = None) -> None:
        """Let go of rows with earlier timestamps, of all streams or of one, and of all that they are part of."""
        self._settle_all()
        if stream is None:
            self.retained_since = max(self.retained_since, before)
        for name in self._stems if stream is None else (stream,):
            self._stems[name].expire(before)
            self._marks[name].drop_before(self._stems[name].first)
        for standing in self._followed.values():
            if stream is not None and stream not in (source.stream for source in standing.clause.sources):
                continue
            if standing.runs is not None:
                standing.runs.drop_before(before)
            for current in standing.currents.values():
                current.drop_before(before)
        used: dict[pa.DataType, list[Ints]] = {}
        for stem in self._stems.values():
            for type_, keys in stem.names_in_use():
                used.setdefault(type_, []).append(keys)
        self._names.sweep(used)

    def storage(self) -> dict[str, int]:
        """Rows kept, clauses standing, and bytes of results."""
        runs = sum(standing.runs.nbytes for standing in self._standing.values() if standing.runs is not None)
        currents = sum(current.nbytes for standing in self._standing.values() for current in standing.currents.values())
        return {
            "rows": sum(stem.stop - stem.first for stem in self._stems.values()), "clauses": len(self._standing),
            "marks_bytes": sum(marks.nbytes for marks in self._marks.values()) + runs, "current_bytes": currents,
        }  # fmt: skip

    # --- the pools ----------------------------------------------------------------------------

    def offer_query(self, query: Query) -> int:
        """Into the new pool; the number by which it will be known."""
        check(query, {name: stem.schema for name, stem in self._stems.items()})
        self._next += 1
        self._queries[self._next] = query
        self._new.append(_Registration(self._next, query))
        return self._next

    def offer_rows(self, stream: str, rows: pa.RecordBatch, ts: Instants) -> None:
        """Into the new pool."""
        if stream not in self._stems:
            raise StreamNotFound(f'stream "{stream}" does not exist', hint=did_you_mean(stream, self._stems) or "Add it first.")
        ts = np.asarray(ts, np.int64)
        self._stems[stream].check(rows, ts, self._newest.get(stream))
        if len(ts):
            self._newest[stream] = int(ts[-1])
            self._new.append(_Arrival(stream, rows, ts))

    def step(self) -> bool:
        """One entry of a pool, the temporary one first; false if there is none."""
        if self._temporary:
            self._visit(self._temporary.popleft())
        elif self._new:
            match self._new.popleft():
                case _Arrival() as arrival:
                    self._arrive(arrival)
                case _Registration(number, query):
                    self._enter(number, query)
        else:
            return False
        if not self._temporary:
            self._settle()
        return True

    @property
    def is_busy(self) -> bool:
        """Some effects of the last entry are not there yet."""
        return bool(self._temporary)

    def run(self) -> None:
        """Until nothing is left to do."""
        while self.step():
            pass

    def _finish(self, number: int) -> None:
        """What has been begun; and what came before a query, if that has not been begun."""
        if number not in self._queries:
            raise QueryNotFound(f"query {number} does not exist", hint="It may have been unregistered.")
        while self._temporary or number not in self._entered:
            self.step()

    def _settle_all(self) -> None:
        while self._temporary:
            self.step()

    # --- entries ------------------------------------------------------------------------------

    def _enter(self, number: int, query: Query) -> None:
        self._entered.add(number)
        if (query.variant or self._variant) == "none":
            return
        standing = self._clauses.get(query.clause)
        if standing is None:
            standing = self._insert(query.clause)
        standing.queries.add(number)
        self._windows[number] = standing
        self._to_settle.append(number)

    def _insert(self, clause: Clause) -> _Standing:
        """Into the query SteM, and on its way through the rows that are there."""
        standing = _Standing(self._kinds.stop, clause)
        self._kinds.append(np.array([_JOINS if len(clause.sources) > 1 else 0]))
        self._clauses[clause] = self._standing[standing.number] = standing
        self._query_stem.insert(standing.number, clause)
        stretches = [(stem.first, stem.stop) for stem in self._evaluation.stems_of(clause)]
        if len(clause.sources) == 1:
            self._marks[clause.sources[0].stream].mark_history(standing.number, self._evaluation.rows_of(clause, 0, *stretches[0]))
        else:
            standing.runs = CombinationRuns(clause.names, self._values_of(clause))
            self._follow(standing)
            self._temporary.append(self._evaluation.start(standing.number, clause, stretches))
        return standing

    def _arrive(self, arrival: _Arrival) -> None:
        stem = self._stems[arrival.stream]
        first = stem.stop
        stem.insert(arrival.rows, arrival.ts)
        self.clock = max(self.clock, int(arrival.ts[-1]))
        rows, clauses, positions = self._query_stem.probe(arrival.stream, arrival.rows)
        ids = first + rows
        kinds = self._kinds.values[clauses - self._kinds.first]
        single, followed = kinds & _JOINS == 0, kinds & _FOLLOWED != 0
        self._marks[arrival.stream].mark(first, stem.stop, clauses[single], ids[single])
        self._advance()
        self._tell(ids[followed], clauses[followed], positions[followed], first)

    def _tell(self, ids: Ints, clauses: Ints, positions: Ints, first: int) -> None:
        """New rows of clauses that join, or whose results somebody wants to know of."""
        if not len(ids):
            return
        cuts = np.flatnonzero((np.diff(clauses) != 0) | (np.diff(positions) != 0)) + 1
        bundles: dict[tuple[object, int], list[tuple[_Standing, Ints]]] = {}
        for mine, start in zip(np.split(ids, cuts), [0, *cuts.tolist()], strict=True):
            standing, position = self._standing[int(clauses[start])], int(positions[start])
            if len(standing.clause.sources) == 1:
                self._found(standing, combinations_of(mine.reshape(-1, 1), self._evaluation.stems_of(standing.clause)))
            else:
                bundles.setdefault((standing.clause.shape, position), []).append((standing, mine))
        for (_, position), wanting in bundles.items():
            self._temporary.append(self._bundle(position, wanting, first))

    def _bundle(self, position: int, wanting: Sequence[tuple[_Standing, Ints]], first: int) -> Composite:
        """New rows of one source, for all clauses of one shape.

        If the source's stream is read twice, new rows meet each other once: those before this source have only old rows for it.
        """
        clause = wanting[0][0].clause
        stems, stream = self._evaluation.stems_of(clause), clause.sources[position].stream
        stretches = [
            (stem.first, first if each < position and clause.sources[each].stream == stream else stem.stop)
            for each, stem in enumerate(stems)
        ]
        ids = np.unique(np.concatenate([mine for _, mine in wanting]))
        wanted = np.zeros((len(ids), len(wanting)), np.bool_)
        for place, (_, mine) in enumerate(wanting):
            wanted[np.searchsorted(ids, mine), place] = True
        return Composite(tuple(standing.number for standing, _ in wanting), {position: ids}, wanted, tuple(stretches))

    def _visit(self, composite: Composite) -> None:
        clause = self._standing[composite.clauses[0]].clause
        composite = self._evaluation.visit(composite, clause)
        if composite.interests:
            self._temporary.append(composite)
            return
        for place, number in enumerate(composite.clauses):
            self._found(self._standing[number], self._evaluation.combinations(composite, place, clause))

    def _found(self, standing: _Standing, more: Combinations) -> None:
        if standing.runs is not None:
            standing.runs.add(more)
        for number, current in standing.currents.items():
            current.add(more, self.clock)
            self._schedule(number, current)

    def _follow(self, standing: _Standing) -> None:
        self._followed[standing.number] = standing
        self._kinds.values[standing.number - self._kinds.first] |= _FOLLOWED

    def _remove(self, standing: _Standing) -> None:
        """The last query of a clause is gone."""
        del self._clauses[standing.clause], self._standing[standing.number]
        self._followed.pop(standing.number, None)
        self._query_stem.remove(standing.number, standing.clause)
        if len(standing.clause.sources) == 1:
            self._marks[standing.clause.sources[0].stream].forget(standing.number)
        self._kinds.drop_before(next(iter(self._standing), self._kinds.stop))

    # --- after an entry -----------------------------------------------------------------------

    def _settle(self) -> None:
        """All effects of an entry are there: what queries keep for themselves can be made of them, and old rows can go."""
        for number in self._to_settle:
            query, standing = self._queries[number], self._windows[number]
            if query.aggregates:
                self._plant(standing, query)
            elif (query.variant or self._variant) == "complete":
                current = standing.currents[number] = Current(query, len(query.clause.sources), self.clock)
                current.add(self._all_results(standing), self.clock)
                self._schedule(number, current)
                self._follow(standing)
        self._to_settle.clear()
        if self._retention_us is not None and self.clock - self._retention_us > self.retained_since:
            self.expire(self.clock - self._retention_us)

    def _plant(self, standing: _Standing, query: Query) -> None:
        if standing.runs is None:
            runs = CombinationRuns(standing.clause.names, self._values_of(standing.clause))
            runs.add(self._all_results(standing))
            standing.runs = runs
        standing.runs.plant(query.columns)
        self._follow(standing)

    def _advance(self) -> None:
        """Rows leave and enter the windows that are kept up to date."""
        while self._due and self._due[0][0] <= self.clock:
            due, number = heapq.heappop(self._due)
            current = self._windows[number].currents.get(number) if number in self._windows else None
            if current is not None and due == current.scheduled:
                current.advance(max(self.clock, current.now))  # somebody may have asked for a later instant
                current.scheduled = GONE_NEVER
                self._schedule(number, current)

    def _schedule(self, number: int, current: Current) -> None:
        due = current.due
        if due < current.scheduled:
            current.scheduled = due
            heapq.heappush(self._due, (due, number))

    # --- answers ------------------------------------------------------------------------------

    def _all_results(self, standing: _Standing) -> Combinations:
        if standing.runs is not None:
            return standing.runs.between(-GONE_NEVER, GONE_NEVER)
        (stem,) = self._evaluation.stems_of(standing.clause)
        return self._marked(standing, stem.first, stem.stop)

    def _marked(self, standing: _Standing, first: int, stop: int) -> Combinations:
        ids = self._marks[standing.clause.sources[0].stream].of(standing.number, first, stop)
        return combinations_of(ids.reshape(-1, 1), self._evaluation.stems_of(standing.clause))

    def _results(self, number: int, query: Query, now: Micros, begin: Micros, end: Micros) -> Combinations:
        standing = self._windows.get(number)
        current = standing.currents.get(number) if standing is not None else None
        if current is not None and now >= current.now and begin <= window_at(query, now)[0]:
            current.advance(now)
            self._schedule(number, current)
            return current.combinations
        stretches = [stem.ids_between(begin, end) for stem in self._evaluation.stems_of(query.clause)]
        if standing is None:
            return self._evaluation.from_scratch(query.clause, stretches)
        if len(stretches) == 1:
            return self._marked(standing, *stretches[0])
        assert standing.runs is not None
        return standing.runs.between(begin, end)

    def _aggregated(self, number: int, query: Query, begin: Micros, end: Micros) -> pa.RecordBatch:
        standing = self._windows.get(number)
        if standing is not None:
            assert standing.runs is not None
            found = totals_of(standing.runs, query.columns, begin, end)
            if found is not None:
                return answer(query.aggregates, *found)
        results = self._results(number, query, end, begin, end)
        values, names = self._values_of(query.clause), query.clause.names
        totals = {of: Total.of_values(values(of, results.ids[:, names.index(of.source)])) for of in query.columns}
        return answer(query.aggregates, len(results), totals)

    def _projected(self, query: Query, results: Combinations) -> tuple[pa.RecordBatch, Instants]:
        """Columns, and duplicates out, only now."""
        values, names = self._values_of(query.clause), query.clause.names
        columns = [values(of, results.ids[:, names.index(of.source)]) for _, of in query.select]
        rows = pa.RecordBatch.from_arrays(columns, names=[name for name, _ in query.select])
        if not query.distinct:
            return rows, results.latest
        codes = KeyTable([column.type for column in columns]).encode(columns)
        kept = np.sort(np.unique(codes, return_index=True)[1])
        return rows.take(pa.array(kept)), results.latest[kept]

    def _values_of(self, clause: Clause) -> Values:
        stems = dict(zip(clause.names, self._evaluation.stems_of(clause), strict=True))

        def values(of: ColumnOf, ids: Ints) -> pa.Array:
            return stems[of.source].values(of.column, ids)

        return values
