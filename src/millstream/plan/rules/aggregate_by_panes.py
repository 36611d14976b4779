"""A window that moves by steps takes in, and lets go of, all rows of a step at once: they can be added up before.

    SELECT k, count(*), sum(v) FROM s [RANGE 10 MINUTES SLIDE 1 MINUTE] GROUP BY k

    Aggregate by k: count(*), sum(v)        Aggregate by k: sum(n), sum(t)
      Window                           =>     Window
        Source s                                Source s, count(*) AS n, sum(v) AS t by k over each minute

The window then holds a row for each group and minute instead of all rows.  And whatever the length of the window is, the source is the
same: windows of many lengths over one stream read it once, and add it up once (shared_reading.py).

Only what gives the very same answer is moved: sums of doubles are the nearest to the exact sum, which a sum of rounded sums is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from millstream.core.schema import Field, Schema
from millstream.plan.duckdb_sql import duckdb_type, quoted
from millstream.plan.logical import AggregateCall
from millstream.plan.physical import AggregateExec, ComputedColumn, Exec, Panes, PartialCall, ProjectExec, SourceExec, WindowExec
from millstream.plan.window import TimeWindow

_WHOLE = 38
"""Digits of an exact sum of many decimals."""
_MOST_DIGITS = 28
"""With more, the sum of a pane might not fit, and wrap."""
_COUNT = PartialCall("_part", "count", None, pa.int64())


def aggregate_by_panes(node: AggregateExec) -> Exec:
    """The same node, if it does not fit."""
    window, slide_us = node.input, _whole_steps_us(node.input)
    if slide_us is None:
        return node
    assert isinstance(window, WindowExec)
    assert isinstance(window.input, SourceExec)
    source, rows = window.input, window.input.schema
    partial = [_partial(f"_part{place}", call, rows) for place, call in enumerate(node.calls)]
    if None in partial or not all(_groups(rows[key].type) for key in node.keys):
        return node
    return _moved(node, window, source, [call for call in partial if call is not None], slide_us)


def moves_by_panes(window: Exec) -> Exec:
    """Something that moves whenever the window does: the rows of a step move together, and one for all of them is enough."""
    slide_us = _whole_steps_us(window)
    if slide_us is None:
        return window
    assert isinstance(window, WindowExec)
    assert isinstance(window.input, SourceExec)
    added = _added(window.input, (), (_COUNT,), slide_us)
    return replace(window, input=added, schema=added.schema)


def _whole_steps_us(window: Exec) -> int | None:
    """The length of its steps, if it is a window over a stream that is made of whole ones."""
    if not isinstance(window, WindowExec) or not isinstance(window.spec, TimeWindow) or window.says_until:
        return None
    source, spec = window.input, window.spec
    if not isinstance(source, SourceExec) or source.kind != "stream" or any(step.calls for step in source.prefix):
        return None
    if spec.slide_us is None or spec.length_us is None or spec.length_us % spec.slide_us or not spec.length_us:
        return None
    return None if spec.delay_us or spec.since is not None or spec.until is not None else spec.slide_us


def _added(source: SourceExec, keys: tuple[str, ...], calls: tuple[PartialCall, ...], slide_us: int) -> SourceExec:
    rows = source.schema
    schema = Schema((*(rows[key] for key in keys), *(Field(call.name, call.type) for call in calls)))
    return replace(source, schema=schema, panes=Panes(slide_us, keys, calls, rows))


def _moved(node: AggregateExec, window: WindowExec, source: SourceExec, partial: Sequence[PartialCall], slide_us: int) -> Exec:
    rows = source.schema
    added = _added(source, node.keys, tuple(partial) or (_COUNT,), slide_us)  # that there is a group may be all that is asked
    final = tuple(map(_final, node.calls, partial))
    whole = Schema(tuple(Field(call.name, call.type) for call in final))
    above = AggregateExec(
        replace(window, input=added, schema=added.schema), node.keys, final, Schema((*(rows[key] for key in node.keys), *whole))
    )
    shown = [ComputedColumn(key, quoted(key), rows[key].type) for key in node.keys]
    shown += [ComputedColumn(call.name, _shown(call, found, node.keys), call.type) for call, found in zip(node.calls, final, strict=True)]
    if all(column.sql == quoted(column.name) for column in shown):
        return above
    return ProjectExec(above, tuple(shown), node.schema)


def _partial(name: str, call: AggregateCall, rows: Schema) -> PartialCall | None:
    if call.distinct or call.more or call.parameters:
        return None
    if call.function == "count":
        return PartialCall(name, "count", call.argument, pa.int64())
    if call.argument is None:
        return None
    type_ = rows[call.argument].type
    if call.function == "sum" and (pa.types.is_integer(type_) or (pa.types.is_decimal128(type_) and type_.precision <= _MOST_DIGITS)):
        # what does not fit BIGINT is not added up yet (runtime/pane_store.py)
        return PartialCall(name, "sum", call.argument, pa.int64() if pa.types.is_integer(type_) else pa.decimal128(_WHOLE, type_.scale))
    if call.function in ("min", "max") and _ordered(type_):
        return PartialCall(name, "min" if call.function == "min" else "max", call.argument, type_)
    return None


def _final(call: AggregateCall, partial: PartialCall) -> AggregateCall:
    function = "sum" if call.function == "count" else call.function
    # beyond BIGINT the sum is NULL, but only if it is there in the end
    type_ = partial.type if function == "sum" and pa.types.is_integer(call.type) else call.type
    return AggregateCall(call.name, function, partial.name, type_)


def _shown(call: AggregateCall, final: AggregateCall, keys: Sequence[str]) -> str:
    name = quoted(call.name)
    if call.function == "count" and not keys:  # there is a group even if it has no rows
        return f"coalesce({name}, CAST('0' AS BIGINT))"
    return name if final.type == call.type else f"TRY_CAST({name} AS {duckdb_type(call.type)})"


def _groups(type_: pa.DataType) -> bool:
    """Arrow can group by it, and finds equal what is equal."""
    return bool(pa.types.is_string(type_) or pa.types.is_boolean(type_) or _ordered(type_))


def _ordered(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_date32(type_) or pa.types.is_timestamp(type_) or pa.types.is_decimal128(type_))
