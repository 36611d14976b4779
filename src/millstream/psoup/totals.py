"""count, sum, avg, min and max over what a window holds, from ranked trees or from the values themselves.

Trees stand over the combinations of a clause, so queries with the same clause share them, whatever their windows.  Types and NULLs are
Spark's: a sum of integers that BIGINT cannot hold is NULL, decimals round half up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

from millstream.core.instant import Micros
from millstream.kernels.ranked_tree import RankedTree
from millstream.psoup.combinations import CombinationRuns
from millstream.psoup.query import Aggregate, ColumnOf, Function

_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
_MOST_DIGITS = 38


@dataclass(frozen=True)
class Total:
    """Of one column over some rows: of the values that are not NULL."""

    count: int
    sum: int | float
    """Of decimals, the unscaled one."""
    least: pa.Array
    greatest: pa.Array

    @staticmethod
    def of_stretch(tree: RankedTree, start: int, stop: int) -> Total:
        found = tree.ask([start], [stop])
        sum_ = float(found.doubles()[0]) if pa.types.is_floating(tree.type) else found.integers()[0]
        return Total(int(found.count[0]), sum_, tree.values(found.least, found.count), tree.values(found.greatest, found.count))

    @staticmethod
    def of_values(values: pa.Array) -> Total:
        tree = RankedTree(values.type)
        tree.append(values)
        return Total.of_stretch(tree, 0, len(values))

    @staticmethod
    def together(parts: Sequence[Total]) -> Total:
        if len(parts) == 1:
            return parts[0]
        least = Total.of_values(pa.concat_arrays([part.least for part in parts])).least
        greatest = Total.of_values(pa.concat_arrays([part.greatest for part in parts])).greatest
        return Total(sum(part.count for part in parts), sum(part.sum for part in parts), least, greatest)


def totals_of(runs: CombinationRuns, columns: Sequence[ColumnOf], begin: Micros, end: Micros) -> tuple[int, dict[ColumnOf, Total]] | None:
    """The number of combinations in a window and the total of each column, from the trees.

    None if some combination of the window's stretch ends only after it: then a stretch is not the window.
    """
    rows = 0
    parts: dict[ColumnOf, list[Total]] = {column: [] for column in columns}
    for run in runs:
        start, stop = run.stretch(begin, end)
        if not run.all_until(end, start, stop):
            return None
        rows += stop - start
        for column in columns:
            parts[column].append(Total.of_stretch(run.trees[column], start, stop))
    return (rows, {column: Total.together(found) for column, found in parts.items()}) if rows else None


def answer(calls: Sequence[Aggregate], rows: int, totals: dict[ColumnOf, Total]) -> pa.RecordBatch:
    """One row."""
    arrays = [pa.array([rows], pa.int64()) if call.of is None else _finished(call.function, totals[call.of]) for call in calls]
    return pa.RecordBatch.from_arrays(arrays, names=[call.name for call in calls])


def _finished(function: Function, total: Total) -> pa.Array:
    type_ = total.least.type
    match function:
        case "count":
            return pa.array([total.count], pa.int64())
        case "min":
            return total.least
        case "max":
            return total.greatest
        case "sum":
            return _sum(total, type_)
        case "avg":
            return _avg(total, type_)


def _sum(total: Total, type_: pa.DataType) -> pa.Array:
    if pa.types.is_floating(type_):
        return pa.array([total.sum if total.count else None], pa.float64())
    if pa.types.is_decimal(type_):
        result = pa.decimal128(min(type_.precision + 10, _MOST_DIGITS), type_.scale)
        return _decimal(Decimal(int(total.sum)).scaleb(-type_.scale, _EXACT) if total.count else None, result)
    fits = total.count and -(2**63) <= total.sum < 2**63
    return pa.array([total.sum if fits else None], pa.int64())


def _avg(total: Total, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_decimal(type_):
        return pa.array([float(total.sum) / total.count if total.count else None], pa.float64())
    scale = min(type_.scale + 4, _MOST_DIGITS)
    result = pa.decimal128(min(type_.precision + 4, _MOST_DIGITS), scale)
    if not total.count or abs(total.sum) >= 10 ** min(type_.precision + 10, _MOST_DIGITS):
        return pa.nulls(1, result)
    whole, rest = divmod(abs(int(total.sum)) * 10 ** (scale - type_.scale), total.count)
    whole += 2 * rest >= total.count
    return _decimal(Decimal(whole if total.sum >= 0 else -whole).scaleb(-scale, _EXACT), result)


def _decimal(value: Decimal | None, type_: pa.DataType) -> pa.Array:
    """NULL if it has more digits than the type."""
    fits = value is not None and abs(value.scaleb(type_.scale, _EXACT)) < 10**type_.precision
    return pa.array([value if fits else None], type_)
