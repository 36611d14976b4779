"""What stands above the soup in a plan, run over the rows of one invocation: the operators of standing queries, all at once.

Few of them care when rows came: FIRST, LAST, lists.  For the others all come at one instant, so that each group changes once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.core.signed_batch import Instants, SignedBatch
from millstream.operators.evaluator import Evaluator
from millstream.plan.physical import FilterStep, PhysicalPlan, ProjectStep, ReceiveExec, SourceExec
from millstream.runtime.circuit import Circuit
from millstream.runtime.results import net_rows


def finished(plan: PhysicalPlan, rows: pa.RecordBatch, came: Instants | None, evaluator: Evaluator) -> pa.RecordBatch:
    """Its fragments one after the other, all rows in one bucket.  `came` None: it does not matter when."""
    instants = np.zeros(rows.num_rows, np.int64)
    if came is not None:
        order = np.argsort(came, kind="stable")
        instants, rows = came[order], rows.take(pa.array(order))
    now = int(instants[-1]) if len(instants) else 0
    made: list[SignedBatch] = []
    for fragment in plan.fragments:
        circuit = Circuit(fragment.root, evaluator)
        given = [
            made[node.fragment] if isinstance(node, ReceiveExec) else _read(node, rows, instants, evaluator) for node in circuit.inputs
        ]
        made.append(circuit.step(given, now))
    answer = made[-1]
    return answer.rows if plan.append_only else net_rows(answer.rows, answer.sign)


def _read(source: SourceExec, rows: pa.RecordBatch, instants: Instants, evaluator: Evaluator) -> SignedBatch:
    """As a log would give them."""
    names = [name for _, name, _ in source.columns]
    read = pa.RecordBatch.from_arrays([rows.column(column) for column, _, _ in source.columns], names=names)
    for step in source.prefix:
        match step:
            case FilterStep():
                kept = evaluator.mask(read, step.predicate_sql)
                read, instants = read.filter(pa.array(kept)), instants[kept]
            case ProjectStep():
                read = evaluator.project(read, [(column.name, column.sql, column.type) for column in step.columns])
    return SignedBatch.arrivals(instants, read)
