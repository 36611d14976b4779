"""Each kernel compiles for one signature, whoever owns the memory: compiling takes seconds, on every worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch
from millstream.kernels import (
    asof_matching,
    bit_counts,
    code_table,
    collected,
    comparison_keys,
    decimal_sum,
    ends,
    extremes,
    float_sum,
    integer_sum,
    interner,
    join_lists,
    matched_copies,
    moments,
    multiplicity,
    netting,
    pair_keys,
    pane_groups,
    predicate_blocks,
    ranked_tree,
    ranks,
    row_lists,
    row_treap,
    slots,
)  # fmt: skip
from millstream.kernels.predicate_index import Factor, PredicateIndex
from millstream.kernels.ranked_tree import RankedTree
from millstream.operators.aggregate import AggregateOp
from millstream.operators.asof_join import AsOfJoinOp
from millstream.operators.evaluator import Evaluator
from millstream.operators.join import JoinOp
from millstream.operators.net import NetOp
from millstream.operators.rows_window import RowsWindowOp
from millstream.operators.set_operation import SetOperationOp
from millstream.plan.logical import AggregateCall, JoinKey, Match
from millstream.plan.sort_key_sql import sort_key_sql
from millstream.plan.window import RowsWindow
from property.histories import no_input

MODULES = (
    asof_matching, bit_counts, code_table, collected, comparison_keys, decimal_sum, ends, extremes, float_sum, integer_sum, interner,
    join_lists, matched_copies, moments, multiplicity, netting, pair_keys, pane_groups, predicate_blocks, ranked_tree, ranks,
    row_lists, row_treap, slots,
)  # fmt: skip
SCHEMA = Schema.of(k="STRING", j="INT", i="BIGINT", x="DOUBLE", d="DECIMAL(9,2)")
CALLS = (
    *(
        AggregateCall(f"{function}_{argument}", function, argument, pa.type_for_alias(type_) if isinstance(type_, str) else type_)
        for function, argument, type_ in [
            ("count", None, "int64"), ("count", "i", "int64"), ("sum", "i", "int64"), ("avg", "i", "float64"), ("min", "i", "int64"),
            ("max", "k", "string"), ("sum", "x", "float64"), ("sum", "d", pa.decimal128(19, 2)), ("avg", "d", pa.decimal128(13, 6)),
            ("var_pop", "x", "float64"), ("bit_or", "i", "int64"), ("first", "k", "string"), ("last", "i", "int64"),
            ("collect_list", "i", pa.list_(pa.int64())), ("collect_set", "k", pa.list_(pa.string())),
        ]
    ),
    AggregateCall("distinct_k", "count", "k", pa.int64(), distinct=True),
    AggregateCall("min_by_k_i", "min_by", "k", pa.string(), ("i",)),
    AggregateCall("max_by_i_k", "max_by", "i", pa.int64(), ("k",)),
    AggregateCall("median_x", "percentile", "x", pa.float64(), parameters=(0.5,)),
)  # fmt: skip


def signatures() -> dict[str, int]:
    compiled = {}
    for module in MODULES:
        for name, function in vars(module).items():
            is_kernel = getattr(function, "signatures", None) and function.__module__ == module.__name__
            if is_kernel and not function.targetoptions.get("forceinline"):  # what is inlined has one for each literal it is given
                compiled[f"{module.__name__}.{name}"] = len(function.signatures)
    return compiled


def batch(*, nulls: bool, own: bool) -> SignedBatch:
    """The same few changes, in numpy's or in foreign memory, with NULLs or without, as slices or not."""
    values: list[Any] = [None if nulls else 1, 2, 3, 3]
    arrays = [pa.array([None if v is None else str(v) for v in values])]
    arrays += [pa.array(values, pa.int64()).cast(field.type) for field in SCHEMA.fields[1:4]]
    arrays += [pa.array(values, pa.int64()).cast(pa.decimal128(19, 0)).cast(pa.decimal128(9, 2))]
    rows = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.to_arrow())
    instant, sign = np.array([1, 1, 2, 2]), np.array([1, 1, 1, 1], np.int8)
    if own:
        return SignedBatch(instant, sign, rows).slice(1, 4)
    return SignedBatch(np.frombuffer(instant.tobytes(), np.int64), np.frombuffer(sign.tobytes(), np.int8), rows)


def test_one_signature_per_kernel() -> None:
    """In a process of its own: what other tests had compiled would be counted too."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def as_of(key: str, other: Schema, tie_sql: str | None) -> AsOfJoinOp:
    match = Match("x", ">=", "other_x")
    return AsOfJoinOp(
        SCHEMA, other, [JoinKey(key, f"other_{key}")], match, tie_sql, Schema((*SCHEMA, *other)), Evaluator(), keeps_left=False
    )


def index_and_trees(rows: pa.RecordBatch) -> None:
    index = PredicateIndex({field.name: field.type for field in SCHEMA})
    index.add(1, [Factor("k", "=", "3"), Factor("i", ">", 1)])
    index.add(2, [Factor("x", "<", 5.0), Factor("d", ">=", 1), Factor("k", "<", "3")])
    index.add(3, [])
    assert len(index.probe(rows)[0]) > 0
    for column in rows.columns:
        tree = RankedTree(column.type)
        tree.append(column)
        tree.append(pa.concat_arrays([column] * 20))
        tree.drop_before(2)
        assert tree.ask([2, 3], [60, 4]).count[0] > 0


def aggregate(keys: tuple[str, ...], arrivals: SignedBatch, *, append_only: bool) -> None:
    operator = AggregateOp(SCHEMA, keys, CALLS, append_only=append_only)
    changes = operator.step(arrivals, 2)
    saved = {name: np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape) for name, array in operator.save().items()}
    loaded = AggregateOp(SCHEMA, keys, CALLS, append_only=append_only)
    loaded.load(saved)
    assert loaded.contents(no_input).num_rows == operator.contents(no_input).num_rows > 0
    NetOp(operator.schema).step(changes, 2)


def panes(arrivals: SignedBatch) -> None:
    groups = pane_groups.PaneGroups(arrivals.instant, np.zeros(len(arrivals), np.int64), 1)
    for function in ("sum", "count", "count_all"):
        assert len(groups.added_up(arrivals.rows.column("i"), function)) == 2


def use_every_kernel() -> None:
    for nulls in (False, True):
        for own in (False, True):
            index_and_trees(batch(nulls=nulls, own=own).rows)
            panes(batch(nulls=nulls, own=own))
    for keys in [("k",), ("j",), ("k", "j"), ()]:
        for nulls in (False, True):
            for own in (False, True):
                for append_only in (False, True):
                    aggregate(keys, batch(nulls=nulls, own=own), append_only=append_only)
    other = Schema(tuple(Field(f"other_{field.name}", field.type) for field in SCHEMA))
    for key in ("k", "j"):
        for nulls in (False, True):
            for own in (False, True):
                changes = batch(nulls=nulls, own=own)
                renamed = changes.with_rows(changes.rows.rename_columns(list(other.names)))
                join = JoinOp(SCHEMA, other, [JoinKey(key, f"other_{key}")], Schema((*SCHEMA, *other)))
                assert len(join.step(changes, renamed)) > 0
                loaded_join = JoinOp(SCHEMA, other, [JoinKey(key, f"other_{key}")], Schema((*SCHEMA, *other)))
                loaded_join.load(join.save())
                assert len(loaded_join.step(changes, renamed)) > 0
                for tie_sql in (None, sort_key_sql(other.fields)):
                    asof = [as_of(key, other, tie_sql) for _ in range(2)]
                    assert len(asof[0].step(changes, renamed)) > 0
                    asof[1].load(asof[0].save())
                    assert len(asof[1].step(changes, renamed)) > 0
                sets = [SetOperationOp(SCHEMA, "except") for _ in range(2)]
                assert len(sets[0].step(changes, changes.slice(0, 1))) > 0
                sets[1].load(sets[0].save())
                sets[1].step(changes, changes.with_signs(-changes.sign).slice(0, 1))
                window = RowsWindowOp(SCHEMA, RowsWindow("ROWS 1", 1, (key,)))
                assert len(window.step(changes, 2)) > 0
                loaded_window = RowsWindowOp(SCHEMA, RowsWindow("ROWS 1", 1, (key,)))
                loaded_window.load(window.save())
    several = {name: count for name, count in signatures().items() if count > 1}
    assert not several, several
    assert {"millstream.kernels.extremes.track_extremes", "millstream.kernels.ends.track_ends"} <= set(signatures())


if __name__ == "__main__":
    use_every_kernel()
