"""Every aggregate from its definition, over the rows of a history and the instants at which they came.

What `histories.aggregate_slow` has for rows alone, here for aggregates that also ask when: of equal values
in a group the one that came first leaves first, and inside an instant rows enter before rows leave.
"""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from millstream.core.instant import BEGINNING, Micros
from millstream.operators.aggregate import AggregateOp
from millstream.plan.logical import AggregateCall
from property.histories import (
    Bag,
    Change,
    History,
    Row,
    assert_netted,
    bag,
    call_slow,
    comparable,
    comparable_row,
    contents_at,
    no_input,
    run,
    sort_key,
)

Arguments = tuple[Any, ...]
"""The values of a call's columns in one row."""
Timed = list[tuple[Micros, Arguments]]
"""A group's rows, with the instant at which each came."""


def order(value: Any) -> Any:
    """NULL before all."""
    return (0,) if value is None else (1, sort_key(value))


def in_time(rows: Timed) -> list[Any]:
    """The first arguments by when they came, ties by value; a second one says which rows count."""
    counted = [(instant, row) for instant, row in rows if len(row) == 1 or row[1] is True]
    return [row[0] for _, row in sorted(counted, key=lambda entry: (entry[0], order(entry[1][0])))]


def beside(rows: Timed) -> list[Any]:
    """x by (y, x), without the rows whose y is NULL."""
    counted = [row for _, row in rows if row[1] is not None]
    return [x for x, _ in sorted(counted, key=lambda row: (order(row[1]), order(row[0])))]


def variance(call: AggregateCall, rows: Timed) -> float | None:
    """From exact sums, rounded once and then divided."""
    values = [row[0] for _, row in rows if row[0] is not None]
    n = len(values)
    others = n - 1 if call.function.endswith("samp") else n
    if others <= 0:
        return None
    if not all(abs(value) <= 1e150 for value in values):
        return math.nan
    exact = list(map(Fraction, values))
    found = float(n * sum(x * x for x in exact) - sum(exact) ** 2) / (float(n) * others)
    return math.sqrt(found) if call.function.startswith("stddev") else found


def present(rows: Timed) -> list[Any]:
    return [row[0] for _, row in rows if row[0] is not None]


def percentile(call: AggregateCall, rows: Timed) -> Any:
    values = sorted(present(rows), key=order)
    if not values:
        return None
    one = _discrete if call.function == "percentile_approx" else _interpolated
    found = [one(values, fraction) for fraction in call.parameters]
    return found if pa.types.is_list(call.type) else found[0]


def _discrete(values: list[Any], fraction: float) -> Any:
    return values[max(math.ceil(fraction * len(values)) - 1, 0)]


def _interpolated(values: list[float], fraction: float) -> float:
    position = (len(values) - 1) * fraction
    low, high = values[math.floor(position)], values[math.ceil(position)]
    if comparable(low) == comparable(high):
        return low
    return (math.ceil(position) - position) * low + (position - math.floor(position)) * high


def bits(operation: Callable[[int, int], int]) -> Callable[[AggregateCall, Timed], int | None]:
    return lambda call, rows: functools.reduce(operation, present(rows)) if present(rows) else None


def collected(rows: Timed) -> list[Any]:
    return [value for value in in_time(rows) if value is not None]


def once(rows: Timed) -> list[Any]:
    return sorted({comparable(value): value for value in present(rows)}.values(), key=order)


def mode(call: AggregateCall, rows: Timed) -> Any:
    """The value with most copies; of several the least, or the greatest if the parameter says so."""
    copies = Counter(comparable(value) for value in present(rows))
    often = [value for value in once(rows) if copies[comparable(value)] == max(copies.values())]
    return (often[-1] if call.parameters[0] else often[0]) if often else None


def ordered(call: AggregateCall, rows: Timed) -> list[Any]:
    """The first column by the others, ties by value; a parameter is 2 if its column descends, and 1 more if NULLs come first."""
    counted = sorted((row for _, row in rows if row[0] is not None), key=lambda row: order(row[0]))
    for i, direction in reversed(list(enumerate(call.parameters, start=1))):
        there = sorted((row for row in counted if row[i] is not None), key=lambda row: order(row[i]), reverse=direction >= 2)
        nulls = [row for row in counted if row[i] is None]
        counted = nulls + there if direction % 2 else there + nulls
    return [row[0] for row in counted]


FUNCTIONS: dict[str, Callable[[AggregateCall, Timed], Any]] = {
    "first": lambda call, rows: next(iter(in_time(rows)), None),
    "last": lambda call, rows: next(reversed(in_time(rows)), None),
    "min_by": lambda call, rows: next(iter(beside(rows)), None),
    "max_by": lambda call, rows: next(reversed(beside(rows)), None),
    "collect_list": lambda call, rows: collected(rows),
    "collect_set": lambda call, rows: once(rows),
    "mode": mode,
    "collect_ordered": ordered,
    "bit_and": bits(operator.and_),
    "bit_or": bits(operator.or_),
    "bit_xor": bits(operator.xor),
    "percentile": percentile,
    "percentile_approx": percentile,
    **dict.fromkeys(["var_samp", "var_pop", "stddev_samp", "stddev_pop"], variance),
}


def answer(call: AggregateCall, rows: Timed) -> Any:
    if call.where is not None:
        rows = [(instant, row[:-1]) for instant, row in rows if row[-1] is True]
    if call.distinct:
        kept = {comparable_row(row): (instant, row) for instant, row in reversed(rows) if None not in row}
        rows = [(instant, row[:1]) for instant, row in kept.values()]
    if call.function in FUNCTIONS:
        return FUNCTIONS[call.function](call, rows)
    return call_slow(call, [row[0] if row else 1 for _, row in rows])


def timed_rows(history: History, now: Micros, keys: Sequence[int], columns: Sequence[int]) -> dict[Row, Timed]:
    """The rows of each group at an instant."""
    groups: dict[Row, Timed] = {}
    for instant, sign, row in sorted(history.changes, key=lambda change: (change[0], -change[1])):
        if instant > now:
            continue
        members = groups.setdefault(comparable_row(tuple(row[i] for i in keys)), [])
        arguments = tuple(row[i] for i in columns)
        if sign > 0:
            members.append((instant, arguments))
        else:
            members.pop(next(i for i, (_, other) in enumerate(members) if comparable(other) == comparable(arguments)))
    return {key: members for key, members in groups.items() if members}


def aggregates_at(history: History, now: Micros, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> Bag:
    """GROUP BY at an instant, recomputed from nothing."""
    names = history.schema.names
    places = [names.index(key) for key in keys]
    columns = [timed_rows(history, now, places, [names.index(name) for name in call.columns]) for call in calls]
    if not keys:
        return bag([tuple(answer(call, column.get((), [])) for call, column in zip(calls, columns, strict=True))])
    present = timed_rows(history, now, places, places)
    return bag(
        rows[0][1] + tuple(answer(call, column[key]) for call, column in zip(calls, columns, strict=True)) for key, rows in present.items()
    )


def check(history: History, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> None:
    """The changes add up to the definition at every instant, are netted, and do not show the cuts."""

    def changes(history: History) -> list[Change]:
        running = AggregateOp(history.schema, keys, calls)
        return [*running.start().changes(), *run(running, history)]

    cut = changes(history)
    assert_netted(cut)
    for now in [BEGINNING, *history.instants()]:
        assert contents_at(cut, now) == aggregates_at(history, now, keys, calls)
    assert repr(cut) == repr(changes(history.uncut())), "cuts show in the changes"


def check_saved(history: History, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> None:
    """An operator that is saved and loaded between all steps gives the same changes and contents."""
    lasting = AggregateOp(history.schema, keys, calls)
    for batch, frontier in history.steps():
        loaded = AggregateOp(history.schema, keys, calls)
        loaded.load(lasting.save())
        expected = lasting.step(batch, frontier)
        assert repr(list(loaded.step(batch, frontier).changes())) == repr(list(expected.changes()))
        assert loaded.state_rows() == lasting.state_rows()
        contents = bag(tuple(row.values()) for row in loaded.contents(no_input).to_pylist())
        assert contents == aggregates_at(history, frontier, keys, calls)
        lasting = loaded
