"""The aggregates of AggregateOp, one small class per function."""

from __future__ import annotations

import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.core.schema import Schema, type_name
from millstream.kernels.sort_keys import is_sortable
from millstream.operators.aggregates.aggregate import Aggregate
from millstream.operators.aggregates.avg import DecimalAvgAgg, DoubleAvgAgg, IntegerAvgAgg
from millstream.operators.aggregates.count import CountAgg, CountRowsAgg
from millstream.operators.aggregates.min_max import Extremes, MaxAgg, MinAgg
from millstream.operators.aggregates.sum import DecimalSumAgg, DoubleSumAgg, IntegerSumAgg
from millstream.plan.logical import AggregateCall

__all__ = ["Aggregate", "aggregates_for"]


def aggregates_for(calls: tuple[AggregateCall, ...], schema: Schema) -> tuple[Aggregate, ...]:
    """New accumulators for these calls over an input of this schema."""
    extremes: dict[str, Extremes] = {}
    return tuple(_aggregate_for(call, schema, extremes) for call in calls)


def _aggregate_for(call: AggregateCall, schema: Schema, extremes: dict[str, Extremes]) -> Aggregate:
    if call.argument is None:
        if call.function == "count":
            return CountRowsAgg(call.type)
        raise NotSupported(f"{call.function}(*) is not supported")
    type_ = schema[call.argument].type
    match call.function:
        case "count":
            return CountAgg(call.type)
        case "sum" if pa.types.is_integer(type_):
            return IntegerSumAgg(call.type)
        case "sum" if pa.types.is_decimal(type_):
            return DecimalSumAgg(call.type)
        case "sum" if pa.types.is_floating(type_):
            return DoubleSumAgg(call.type)
        case "avg" if pa.types.is_integer(type_):
            return IntegerAvgAgg(call.type)
        case "avg" if pa.types.is_decimal(type_):
            return DecimalAvgAgg(call.type, type_)
        case "avg" if pa.types.is_floating(type_):
            return DoubleAvgAgg(call.type)
        case "min" | "max" if is_sortable(type_):
            first = call.argument not in extremes
            shared = extremes.setdefault(call.argument, Extremes(type_))
            return (MinAgg if call.function == "min" else MaxAgg)(call.type, shared, owner=first)
    raise NotSupported(f"{call.function} of {type_name(type_)} is not supported")
