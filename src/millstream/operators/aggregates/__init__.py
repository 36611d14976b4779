"""The aggregates of AggregateOp, one small class per function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.core.schema import Schema, type_name
from millstream.kernels.sort_keys import SortKeys, is_sortable
from millstream.operators.aggregates.aggregate import Aggregate
from millstream.operators.aggregates.avg import DecimalAvgAgg, DoubleAvgAgg, IntegerAvgAgg
from millstream.operators.aggregates.bits import BitAgg
from millstream.operators.aggregates.by_order import Beside, InTime, MaxByAgg, MinByAgg
from millstream.operators.aggregates.collect import CollectListAgg, CollectOrderedAgg, CollectSetAgg
from millstream.operators.aggregates.count import CountAgg, CountRowsAgg
from millstream.operators.aggregates.distinct import DistinctAgg
from millstream.operators.aggregates.distinct_values import DistinctValues
from millstream.operators.aggregates.ends import Ends
from millstream.operators.aggregates.min_max import Extremes, MaxAgg, MinAgg
from millstream.operators.aggregates.mode import Occurrences
from millstream.operators.aggregates.percentile import PercentileAgg, Ranks
from millstream.operators.aggregates.sum import DecimalSumAgg, DoubleSumAgg, IntegerSumAgg
from millstream.operators.aggregates.variance import Moments, VarianceAgg
from millstream.plan.logical import AggregateCall

__all__ = ["Aggregate", "aggregates_for"]

S = TypeVar("S")

_VARIANCES = frozenset(["var_samp", "var_pop", "stddev_samp", "stddev_pop"])


def aggregates_for(calls: tuple[AggregateCall, ...], schema: Schema, *, append_only: bool = False) -> tuple[Aggregate, ...]:
    """New accumulators for these calls over an input of this schema; with `append_only` no row ever leaves it."""
    maker = _Maker(schema, append_only=append_only)
    return tuple(map(maker.aggregate, calls))


class _Maker:
    """Makes the aggregates of one operator, and what several of them share."""

    def __init__(self, schema: Schema, *, append_only: bool) -> None:
        self._schema = schema
        self._append_only = append_only
        self._shared: dict[tuple[Any, ...], Any] = {}

    def aggregate(self, call: AggregateCall) -> Aggregate:
        if call.argument is None:
            if call.function == "count":
                return CountRowsAgg(call.type)
            raise NotSupported(f"{call.function}(*) is not supported")
        types = [self._schema[name].type for name in call.columns]
        if call.distinct:
            values, owner = self._share(
                ("distinct", *call.arguments), lambda: DistinctValues(types[: len(call.arguments)], append_only=self._append_only)
            )
            # they see other values, so they share with one another only
            inner, _ = self._share(("inside distinct", *call.columns), lambda: _Maker(self._schema, append_only=self._append_only))
            if call.where is not None:
                values.add_way(call.where)
            return DistinctAgg(inner.aggregate(replace(call, more=(), distinct=False, where=None)), values, call.where, owner=owner)
        made = _number(call, types[0]) or self._variance(call, types[0]) or self._ordered(call, types)
        if made is None:
            raise NotSupported(f"{call.function} of {type_name(types[0])} is not supported")
        return made

    def _variance(self, call: AggregateCall, type_: pa.DataType) -> Aggregate | None:
        if call.function not in _VARIANCES or not pa.types.is_floating(type_):
            return None
        moments, owner = self._share(("moments", call.argument), Moments)
        root, sample = call.function.startswith("stddev"), call.function.endswith("samp")
        return VarianceAgg(call.type, moments, owner=owner, sample=sample, root=root)

    def _ordered(self, call: AggregateCall, types: list[pa.DataType]) -> Aggregate | None:
        """Those that keep values in order."""
        if not is_sortable(types[0]):
            return None
        match call.function:
            case "min" | "max":
                kept: type[Ends] | type[Extremes] = Ends if self._append_only else Extremes
                extremes, owner = self._share(("extremes", call.argument), lambda: kept(SortKeys(types[0])))
                return (MinAgg if call.function == "min" else MaxAgg)(call.type, extremes, owner=owner)
            case "min_by" | "max_by" if is_sortable(types[1]):
                beside, owner = self._share(("beside", *call.columns), lambda: Beside(types[0], types[1]))
                return (MinByAgg if call.function == "min_by" else MaxByAgg)(call.type, beside, owner=owner)
            case "first" | "last":
                in_time, owner = self._share(("in time", *call.columns), lambda: InTime(types[0]))
                return (MinByAgg if call.function == "first" else MaxByAgg)(call.type, in_time, owner=owner)
            case "mode":
                greatest = bool(call.parameters and call.parameters[0])
                often, owner = self._share(("mode", call.argument, greatest), lambda: Occurrences(types[0], turned=not greatest))
                return (MaxByAgg if greatest else MinByAgg)(call.type, often, owner=owner)
            case "collect_list":
                return CollectListAgg(call.type)
            case "collect_ordered":
                return CollectOrderedAgg(call.type, [(number >= 2, number % 2 == 1) for number in call.parameters])
            case "collect_set":
                return CollectSetAgg(call.type)
            case "percentile" | "percentile_approx":
                ranks, owner = self._share(("ranks", call.argument), lambda: Ranks(SortKeys(types[0])))
                discrete = call.function == "percentile_approx"
                return PercentileAgg(call.type, ranks, call.parameters, owner=owner, discrete=discrete)
        return None

    def _share(self, key: tuple[Any, ...], make: Callable[[], S]) -> tuple[S, bool]:
        """What aggregates with this key share, and whether this is the first of them."""
        first = key not in self._shared
        if first:
            self._shared[key] = make()
        return self._shared[key], first


def _number(call: AggregateCall, type_: pa.DataType) -> Aggregate | None:
    """Those from which a value can be taken away again."""
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
        case "bit_and" | "bit_or" | "bit_xor" if pa.types.is_integer(type_):
            return BitAgg(call.type, call.function)
    return None
