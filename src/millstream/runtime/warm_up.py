"""A few rows through the operators that most queries use, so that a worker's first tick is like any other.

Loading the compiled kernels takes a second or two in a new process; compiling them, the first time on a machine, ten.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.kernels.hashing import bucket_of, hash_columns, split_by_bucket
from millstream.kernels.pane_groups import PaneGroups
from millstream.operators.aggregate import AggregateOp
from millstream.operators.evaluator import Evaluator
from millstream.operators.join import JoinOp
from millstream.operators.net import NetOp
from millstream.operators.pair_extremes import PairExtremesOp
from millstream.operators.product_sums import ProductSumsOp
from millstream.operators.rows_window import RowsWindowOp
from millstream.plan.logical import AggregateCall, JoinKey
from millstream.plan.physical import ProductCall
from millstream.plan.window import RowsWindow
from millstream.runtime.csv_plain import plain_table

_SCHEMA = Schema.of(k="STRING", i="BIGINT", x="DOUBLE")
_OTHER = Schema.of(other_k="STRING", other_i="BIGINT", other_x="DOUBLE")
_CALLS = tuple(
    AggregateCall(f"{function}_{argument}", function, argument, type_)
    for function, argument, type_ in [
        ("count", None, pa.int64()), ("sum", "i", pa.int64()), ("avg", "i", pa.float64()), ("min", "i", pa.int64()),
        ("sum", "x", pa.float64()), ("max", "x", pa.float64()),
    ]
)  # fmt: skip


def warm_up(evaluator: Evaluator) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array(["a", "b"]), pa.array([1, 2]), pa.array([0.5, None])], schema=_SCHEMA.to_arrow())
    changes = SignedBatch(np.zeros(2, np.int64), np.array([-1, 1], np.int8), rows)
    arrivals = SignedBatch.arrivals(np.zeros(2, np.int64), rows)
    departures = SignedBatch(np.ones(2, np.int64), np.full(2, -1, np.int8), rows)
    evaluator.mask(rows, '"i" > 0')
    split_by_bucket(bucket_of(hash_columns(rows.columns), 2), 2)
    NetOp(_SCHEMA).step(changes, 0)
    for keys in (("k",), ("i",), ("k", "i"), ()):
        aggregate = AggregateOp(_SCHEMA, keys, _CALLS)
        aggregate.step(arrivals, 0)
        aggregate.step(departures, 1)  # the first window that ends is not to wait either
    AggregateOp(_SCHEMA, ("k",), _CALLS, append_only=True).step(arrivals, 0)
    for key in ("k", "i"):
        join = JoinOp(_SCHEMA, _OTHER, [JoinKey(key, f"other_{key}")], Schema((*_SCHEMA, *_OTHER)), with_ends=True, most_ending=1 << 10)
        other = arrivals.with_rows(rows.rename_columns(list(_OTHER.names)))
        join.step(arrivals, other, 0)
        join.step(arrivals, other, 1)
    _warm_up_joins_without_pairs(arrivals)
    panes = PaneGroups(arrivals.instant, np.zeros(2, np.int64), 1)
    for function in ("sum", "count"):
        panes.added_up(rows.column("i"), function)
    plain_table(pa.BufferReader(b"a,1,0.5\n"), _SCHEMA, header=False, delimiter=",")
    RowsWindowOp(_SCHEMA, RowsWindow("ROWS 1", 1, ("k",))).step(arrivals, 0)


def _warm_up_joins_without_pairs(arrivals: SignedBatch) -> None:
    ending = replace(arrivals, until=np.ones(len(arrivals), np.int64))
    other = arrivals.rows.rename_columns(list(_OTHER.names))
    for key in ("k", "i"):
        greatest = (AggregateCall("top", "max", "other_i", pa.int64()),)
        output = Schema((_SCHEMA[key], Field("top", pa.int64())))
        extremes = PairExtremesOp(_SCHEMA, _OTHER, [JoinKey(key, f"other_{key}")], (key,), greatest, output)
        extremes.step(ending, ending.with_rows(other), 0)
        calls = (ProductCall("count", -1, "", pa.int64()), ProductCall("sum", 1, "other_i", pa.int64()))
        output = Schema((_SCHEMA[key], *(Field(call.function, call.type) for call in calls)))
        ProductSumsOp((_SCHEMA, _OTHER), ((key,), (f"other_{key}",)), calls, output).step(arrivals, arrivals.with_rows(other))
