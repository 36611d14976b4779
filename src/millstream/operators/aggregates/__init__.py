"""The aggregates of AggregateOp, one small class per function; `aggregate_for` finds the one for a call."""

from __future__ import annotations

import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.operators.aggregates.aggregate import Aggregate
from millstream.operators.aggregates.count import CountAgg, CountRowsAgg
from millstream.operators.aggregates.sum import IntegerSumAgg
from millstream.plan.logical import AggregateCall

__all__ = ["Aggregate", "aggregate_for"]


def aggregate_for(call: AggregateCall, argument: pa.DataType | None) -> Aggregate:
    """A new accumulator for `call` over a column of this type (None for count(*))."""
    match call.function:
        case "count" if argument is None:
            return CountRowsAgg(call.type)
        case "count":
            return CountAgg(call.type)
        case "sum" if pa.types.is_integer(argument):
            return IntegerSumAgg(call.type)
    raise NotSupported(f"aggregate {call.function}({argument or '*'}) is not supported")
