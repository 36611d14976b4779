"""A workload's query as one circuit: its fragments in one piece, since nothing is exchanged between processes here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from millstream.core.instant import BEGINNING, LAST
from millstream.core.signed_batch import SignedBatch
from millstream.operators.evaluator import Evaluator
from millstream.operators.row_wise import ProjectOp
from millstream.plan.expiry import Expiry
from millstream.plan.physical import AggregateExec, Exec, Fragment, ProjectExec, ProjectStep, ReceiveExec, SourceExec
from millstream.runtime.circuit import Circuit
from millstream.runtime.schedulers import Scheduler
from operator_circuits import compiled_queries
from papers.incremental.workloads import Ints, Workload


def circuit_of(workload: Workload, expiry: Expiry, scheduler: Scheduler | None = None) -> Circuit:
    compiled = compiled_queries([*workload.statements, f"CREATE QUERY q AS {workload.sql} WITH EXPIRY {expiry}"])["q"]
    return Circuit(_in_one_piece(compiled.physical.fragments), Evaluator(), scheduler=scheduler)


def inputs_of(circuit: Circuit, workload: Workload) -> list[SignedBatch]:
    """All rows of each input, as the circuit reads them."""
    return [_rows(source, workload) for source in circuit.inputs if isinstance(source, SourceExec)]


def _in_one_piece(fragments: Sequence[Fragment]) -> Exec:
    root = fragments[0].root
    for fragment in fragments[1:]:
        root = _reading(fragment.root, root)
    return root


def _reading(node: Exec, below: Exec) -> Exec:
    """The same, reading this instead of what another fragment sends."""
    match node:
        case ReceiveExec():
            return below
        case AggregateExec() | ProjectExec():
            return replace(node, input=_reading(node.input, below))
        case _:
            raise NotImplementedError(f"the experiments have no {type(node).__name__} behind an exchange")


def _rows(source: SourceExec, workload: Workload) -> SignedBatch:
    if source.name == "favourites":
        return _batch(source, np.full(len(workload.favourites), BEGINNING, np.int64), {"item": workload.favourites})
    ts, columns = workload.streams[source.name]
    return _batch(source, ts, {"ts": ts, **columns})


def _batch(source: SourceExec, instant: Ints, columns: dict[str, Ints]) -> SignedBatch:
    schema = pa.schema([pa.field(name, type_) for _, name, type_ in source.columns])
    arrays = [pa.array(columns[name]).cast(type_) for name, _, type_ in source.columns]
    batch = SignedBatch.arrivals(instant, pa.RecordBatch.from_arrays(arrays, schema=schema))
    for step in source.prefix:
        assert isinstance(step, ProjectStep), "the queries of the experiments have no conditions"
        batch = ProjectOp(source.schema, step.columns, Evaluator()).step(batch, LAST)
    return batch
