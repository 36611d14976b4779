"""What stands above the soup in a plan, run over the rows of one invocation: the operators of standing queries, for one instant."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.signed_batch import SignedBatch
from millstream.operators.evaluator import Evaluator
from millstream.plan.physical import FilterStep, PhysicalPlan, ProjectStep, ReceiveExec, SourceExec
from millstream.runtime.circuit import Circuit
from millstream.runtime.results import net_rows

_INSTANT = 0
"""Which one does not matter: there is no other."""


def finished(plan: PhysicalPlan, rows: pa.RecordBatch, evaluator: Evaluator) -> pa.RecordBatch:
    """Its fragments one after the other, all rows in one bucket."""
    made: list[SignedBatch] = []
    for fragment in plan.fragments:
        circuit = Circuit(fragment.root, evaluator)
        given = [made[node.fragment] if isinstance(node, ReceiveExec) else _read(node, rows, evaluator) for node in circuit.inputs]
        made.append(circuit.step(given, _INSTANT))
    answer = made[-1]
    return answer.rows if plan.append_only else net_rows(answer.rows, answer.sign)


def _read(source: SourceExec, rows: pa.RecordBatch, evaluator: Evaluator) -> SignedBatch:
    """As a log would give them."""
    names = [name for _, name, _ in source.columns]
    read = pa.RecordBatch.from_arrays([rows.column(column) for column, _, _ in source.columns], names=names)
    for step in source.prefix:
        match step:
            case FilterStep():
                read = read.filter(pa.array(evaluator.mask(read, step.predicate_sql)))
            case ProjectStep():
                read = evaluator.project(read, [(column.name, column.sql, column.type) for column in step.columns])
    return SignedBatch.arrivals(np.full(read.num_rows, _INSTANT, np.int64), read)
