"""ROLLUP, CUBE and GROUPING SETS: one Aggregate for each set of keys over the same rows, all their groups in one relation.

    GROUP BY ROLLUP(a, b)       Union
                                  Project a, b, ..              Aggregate by a, b
                                  Project a, NULL AS b, ..      Aggregate by a
                                  Project NULL AS a, NULL AS b  Aggregate by a constant: as in Spark, no row over nothing

grouping(b) is 1 where b is NULL because it is not in the set; grouping_id() has such a bit for every key, the last key's lowest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp

from millstream.language.scalar_casts import cast
from millstream.language.typed import Typed, bind_over
from millstream.plan.expression import Expr, Named, column
from millstream.plan.logical import Aggregate, AggregateCall, Plan, Project, Union

GROUPING, GROUPING_ID = pa.int8(), pa.int64()
_ALL = "_all rows"


def groups_of(rows: Plan, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> Aggregate:
    """One row per group; where nothing is asked of the one group without keys, its rows are counted, for a row has columns."""
    return Aggregate(rows, keys, calls if keys or calls else (AggregateCall("_rows", "count", None, pa.int64()),))


def union_of_sets(
    rows: Plan,
    keys: Sequence[str],
    sets: Sequence[Sequence[str]],
    calls: tuple[AggregateCall, ...],
    flags: Mapping[str, tuple[Sequence[str], pa.DataType]],
    columns: Typed,
) -> Plan:
    """The groups of all sets.  `flags` are the columns of grouping(..) and grouping_id(..), with the keys that they tell of."""

    def constant(tree: exp.Expr, type_: pa.DataType) -> Expr:
        return cast(bind_over(tree, columns, ""), type_)

    def groups(chosen: Sequence[str]) -> Plan:
        shown = []
        for key in keys:
            type_ = rows.schema[key].type
            shown.append(Named(key, column(key, type_) if key in chosen else constant(exp.null(), type_)))
        shown += [Named(call.name, column(call.name, call.type)) for call in calls]
        shown += [Named(name, constant(exp.Literal.number(_missing(told, chosen)), type_)) for name, (told, type_) in flags.items()]
        if keys and not chosen:
            return Project(Aggregate(_with_constant(rows, constant(exp.Literal.number(0), GROUPING)), (_ALL,), calls), tuple(shown))
        return Project(groups_of(rows, tuple(dict.fromkeys(chosen)), calls), tuple(shown))

    return Union(tuple(map(groups, sets)))


def _with_constant(rows: Plan, value: Expr) -> Plan:
    """The rows under one more key that is the same for all."""
    return Project(rows, (*(Named(field.name, column(field.name, field.type)) for field in rows.schema), Named(_ALL, value)))


def _missing(keys: Sequence[str], chosen: Sequence[str]) -> int:
    """A bit for each key, set where the key is not among the chosen."""
    bits = 0
    for key in keys:
        bits = 2 * bits + (key not in chosen)
    return bits
