"""Queries run by their circuits alone, in this process and one bucket: no Spark, no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.signed_batch import SignedBatch, concat
from millstream.language.catalog import Catalog
from millstream.language.parser import parse_one
from millstream.language.statements import CreateQuery, CreateRelation, CreateStream
from millstream.operators.evaluator import Evaluator
from millstream.operators.row_wise import FilterOp, ProjectOp
from millstream.plan.physical import FilterStep, ReceiveExec, SourceExec
from millstream.runtime.circuit import Circuit
from millstream.runtime.compile import Compiled, compile_query
from millstream.runtime.nodes import Node
from millstream.runtime.schedulers import SchedulerName, new_scheduler
from millstream.runtime.substeps import MOST_ROWS, substeps


def compiled_queries(statements: Sequence[str]) -> dict[str, Compiled]:
    """The plans of all queries of the statements, in order."""
    catalog, found = Catalog.empty(), dict[str, Compiled]()
    for text in statements:
        match statement := parse_one(text):
            case CreateStream():
                catalog = catalog.with_stream(statement)
            case CreateRelation():
                catalog = catalog.with_relation(statement)
            case CreateQuery():
                compiled = compile_query(statement.select, catalog, statement.text, expiry=statement.expiry)
                is_stream = compiled.bound.is_stream
                catalog = catalog.with_query(statement, compiled.fields, compiled.stored_as, is_stream=is_stream)
                found[statement.name] = compiled
    return found


class Circuits:
    """All queries of the statements, in order; the last one's changes are what a step gives."""

    def __init__(self, statements: Sequence[str], scheduler: SchedulerName = "fifo") -> None:
        evaluator = Evaluator()
        self._queries = {name: _Query(compiled, evaluator, scheduler) for name, compiled in compiled_queries(statements).items()}

    def step(self, inputs: Mapping[str, SignedBatch], frontier: Micros) -> SignedBatch:
        """`inputs` by the names of streams and relations, sorted by instant."""
        known = dict(inputs)
        for name, query in self._queries.items():
            known[name] = query.step(known, frontier)
        return known[name]

    @property
    def nodes(self) -> list[Node]:
        """All operators, each behind those that it reads."""
        return [node for query in self._queries.values() for circuit in query.circuits for node in circuit.nodes]


class _Query:
    def __init__(self, compiled: Compiled, evaluator: Evaluator, scheduler: SchedulerName) -> None:
        self._compiled = compiled
        self._evaluator = evaluator
        self.circuits = [Circuit(part.root, evaluator, scheduler=new_scheduler(scheduler)) for part in compiled.physical.fragments]

    def step(self, known: Mapping[str, SignedBatch], frontier: Micros) -> SignedBatch:
        sent: list[SignedBatch] = []
        for circuit in self.circuits:
            batches = [
                sent[node.fragment] if isinstance(node, ReceiveExec) else self._prepared(node, known[node.name], frontier)
                for node in circuit.inputs
            ]
            sent.append(concat([circuit.step(part, upto) for part, upto in substeps(batches, frontier, MOST_ROWS)]))
        changes = sent[-1]
        return changes.with_rows(changes.rows.rename_columns(list(self._compiled.stored_as)))

    def _prepared(self, source: SourceExec, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        """As a worker reads them from the log: the columns that are needed, through the row-wise steps."""
        columns = [batch.rows.column(name) for name, _, _ in source.columns]
        schema = pa.schema([pa.field(name, type_) for _, name, type_ in source.columns])
        batch = batch.with_rows(pa.RecordBatch.from_arrays(columns, schema=schema))
        for step in source.prefix:
            if isinstance(step, FilterStep):
                batch = FilterOp(source.schema, step.predicate_sql, self._evaluator).step(batch, frontier)
            else:
                batch = ProjectOp(source.schema, step.columns, self._evaluator).step(batch, frontier)
        return batch
