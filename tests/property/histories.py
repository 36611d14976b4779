"""Random histories of changes, random cuts into steps, and the slow definitions that operators are held against.

A history is what an operator may meet: rows of small domains (so that keys, values and whole rows
collide), NULLs, the corner values of each type, several changes at one instant in any order, rows
that leave in any order, groups that empty and come back.  Nothing here is fast, and nothing is
shared with the code under test.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.operators.operator import Operator
from millstream.plan.logical import AggregateCall
from millstream.plan.window import TimeWindow

Row = tuple[Any, ...]
Change = tuple[Micros, int, Row]

EXACT = Context(prec=200)

# --- values -----------------------------------------------------------------------------------


def values(type_: pa.DataType, *, nulls: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type: mostly from a small domain, sometimes a corner of it."""
    some = _values(type_)
    return st.one_of(st.none(), some, some, some) if nulls else some


def _values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_boolean(type_):
        return st.booleans()
    if pa.types.is_integer(type_):
        top = 2 ** (type_.bit_width - 1)
        return st.one_of(st.integers(-2, 3), st.integers(-2, 3), st.sampled_from([top - 1, -top, top // 2, 100]))
    if pa.types.is_float32(type_):
        return st.sampled_from([0.0, -0.0, 0.5, 0.75, -3.0, 2.0**-149, 2.0**127, math.inf, -math.inf, math.nan])
    if pa.types.is_floating(type_):
        corners = [
            0.0,
            -0.0,
            0.1,
            0.2,
            1e300,
            -1e300,
            1.7e308,
            -1.7e308,
            5e-324,
            2.5e-310,
            1e16,
            1e70,
            -1e-70,
            math.inf,
            -math.inf,
            math.nan,
        ]
        return st.one_of(st.sampled_from([0.1, 0.2, 0.7, -1.3, 3.0]), st.sampled_from(corners), st.floats(width=64))
    if pa.types.is_decimal(type_):
        top = 10**type_.precision - 1
        unscaled = st.one_of(st.integers(-2, 3), st.sampled_from([top, -top, top // 3, 7]).map(lambda n: n), st.integers(-top, top))
        return unscaled.map(lambda n: EXACT.scaleb(Decimal(n), -type_.scale))
    if pa.types.is_date(type_):
        return st.sampled_from([dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31)])
    if pa.types.is_timestamp(type_):
        zone = dt.UTC if type_.tz else None
        return st.sampled_from(
            [dt.datetime(1970, 1, 1, tzinfo=zone), dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=zone), dt.datetime(1900, 1, 1, tzinfo=zone)]
        )
    if pa.types.is_string(type_):
        return st.sampled_from(["", "a", "b", "ab", "a\0", "é", "z", "🂡", "prefix-1", "prefix-1-long", "prefix-1-long-2", "prefix-1-lonG"])
    if pa.types.is_binary(type_):
        return st.sampled_from([b"", b"\0", b"\xff", b"12345678", b"123456789"])
    if pa.types.is_list(type_):
        return st.lists(values(type_.value_type), max_size=2)
    if pa.types.is_map(type_):
        items = st.tuples(values(type_.key_type, nulls=False), values(type_.item_type))
        return st.lists(items, max_size=2, unique_by=lambda item: item[0])
    if pa.types.is_struct(type_):
        return st.fixed_dictionaries({field.name: values(field.type) for field in type_})
    if pa.types.is_null(type_):
        return st.none()
    raise AssertionError(f"no values for {type_}")


def rows_of(schema: Schema) -> st.SearchStrategy[Row]:
    return st.tuples(*(values(field.type) for field in schema))


# --- histories --------------------------------------------------------------------------------


@dataclass(frozen=True)
class History:
    """Changes in instant order, and where they are cut into steps."""

    schema: Schema
    changes: tuple[Change, ...]
    cuts: frozenset[Micros]  # a step ends at each of these instants

    def steps(self) -> list[tuple[SignedBatch, Micros]]:
        """(batch, frontier) for each step; frontiers rise, and every change lies in (last frontier, frontier]."""
        last = self.changes[-1][0] if self.changes else 0
        frontiers, steps, taken = sorted(self.cuts | {last}), [], 0
        for frontier in frontiers:
            upto = sum(change[0] <= frontier for change in self.changes)
            steps.append((signed_batch(self.schema, self.changes[taken:upto]), frontier))
            taken = upto
        return steps

    def uncut(self) -> History:
        return History(self.schema, self.changes, frozenset())

    def instants(self) -> list[Micros]:
        return sorted({change[0] for change in self.changes})

    def rows_at(self, now: Micros) -> list[Row]:
        """The rows present at an instant."""
        return list(contents_at(self.changes, now).values())


def signed_batch(schema: Schema, changes: Sequence[Change]) -> SignedBatch:
    columns = [pa.array([change[2][i] for change in changes], field.type) for i, field in enumerate(schema)]
    rows = pa.RecordBatch.from_arrays(columns, schema=schema.to_arrow())
    return SignedBatch(np.array([c[0] for c in changes], np.int64), np.array([c[1] for c in changes], np.int8), rows)


@st.composite
def histories(draw: st.DrawFn, schema: Schema, *, rows: st.SearchStrategy[Row] | None = None, size: int = 25) -> History:
    """Rows enter and leave, several at one instant; a row may leave before it enters, inside the instant."""
    rows = rows if rows is not None else rows_of(schema)
    leaving = st.integers(-3, 3)  # one of the oldest, or one that has just come
    move = st.tuples(st.sampled_from([0, 0, 1, 1, 3]), st.one_of(rows, rows, leaving))
    length = draw(st.integers(0, size))  # left to itself, hypothesis draws short lists
    moves = draw(st.lists(move, min_size=length, max_size=length))
    changes: list[Change] = []
    present: list[Row] = []
    now = draw(st.integers(-5, 5))
    for gap, row in moves:
        now += gap
        if isinstance(row, tuple):
            present.append(row)
            changes.append((now, 1, row))
        elif present:
            changes.append((now, -1, present.pop(row % len(present))))
    if draw(st.booleans()):
        changes.sort(key=lambda change: (change[0], change[1]))  # leave before others enter, as windows have it
    cuts = draw(st.frozensets(st.sampled_from(sorted({c[0] for c in changes})))) if changes else frozenset()
    return History(schema, tuple(changes), cuts)


# --- running and comparing --------------------------------------------------------------------


def run(operator: Operator, history: History) -> list[Change]:
    """All that comes out, step by step."""
    return [change for batch, frontier in history.steps() for change in operator.step(batch, frontier).changes()]


def no_input() -> pa.RecordBatch:
    """The input's contents, for an operator that answers from its own state."""
    raise AssertionError("asked for the input's contents")


def comparable(value: Any) -> Any:
    """The value such that Python's == is SQL's grouping: NaN equals itself, -0.0 is 0.0; distinct types stay distinct."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(map(comparable, value))
    if isinstance(value, dict):
        return tuple((name, comparable(part)) for name, part in sorted(value.items()))
    return value


def comparable_row(row: Row) -> Row:
    return tuple(map(comparable, row))


class Bag(Counter[Row]):
    """Rows by what they compare as; `values()` gives the rows themselves."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[Row, list[Row]] = {}

    def change(self, sign: int, row: Row) -> None:
        key = comparable_row(row)
        self[key] += sign
        if self[key] == 0:
            del self[key]
        self._rows.setdefault(key, []).append(row)

    def values(self) -> list[Row]:  # type: ignore[override]
        return [self._rows[key][0] for key, count in self.items() for _ in range(count)]


def contents_at(changes: Iterable[Change], now: Micros) -> Bag:
    """The bag that the changes up to an instant add up to."""
    bag = Bag()
    for instant, sign, row in changes:
        if instant <= now:
            bag.change(sign, row)
    assert all(count > 0 for count in Counter.values(bag)), f"negative rows at {now}: {bag}"
    return bag


def bag(rows: Iterable[Row]) -> Bag:
    result = Bag()
    for row in rows:
        result.change(1, row)
    return result


def bag_of(rows: pa.RecordBatch) -> Bag:
    return bag(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def assert_netted(changes: Sequence[Change]) -> None:
    """Instants do not fall, and no row both enters and leaves at one instant."""
    instants = [change[0] for change in changes]
    assert instants == sorted(instants)
    signs: dict[tuple[Micros, Row], set[int]] = {}
    for instant, sign, row in changes:
        signs.setdefault((instant, comparable_row(row)), set()).add(sign)
    assert all(len(both) == 1 for both in signs.values()), "a row enters and leaves at one instant"


# --- the slow definitions ---------------------------------------------------------------------


def window_slow(rows: Sequence[tuple[Micros, Row]], now: Micros, window: TimeWindow) -> Bag:
    """The rows in a time-based window, from the definition of its kind (design: the table of windows)."""
    length = window.length_us
    if window.slide_us is not None:
        assert length is not None
        now -= now % window.slide_us
        return bag(row for ts, row in rows if now - length <= ts < now)
    now -= window.delay_us
    kept = [(ts, row) for ts, row in rows if (window.since is None or ts >= window.since) and (window.until is None or ts <= window.until)]
    if length is None:
        return bag(row for ts, row in kept if ts <= now)
    return bag(row for ts, row in kept if ts <= now < ts + length - window.delay_us)


def aggregate_slow(rows: Sequence[Row], schema: Schema, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> Bag:
    """GROUP BY recomputed from nothing, in exact arithmetic."""
    positions = [schema.names.index(key) for key in keys]
    groups: dict[Row, list[Row]] = {} if keys else {(): []}
    for row in rows:
        groups.setdefault(comparable_row(tuple(row[i] for i in positions)), []).append(row)
    result = []
    for members in groups.values():
        key = tuple(members[0][i] for i in positions)
        arguments = [[row[schema.names.index(call.argument)] if call.argument else 1 for row in members] for call in calls]
        result.append(key + tuple(call_slow(call, column) for call, column in zip(calls, arguments, strict=True)))
    return bag(result)


def call_slow(call: AggregateCall, column: Sequence[Any]) -> Any:
    present = [value for value in column if value is not None]
    functions: dict[str, Callable[[Sequence[Any], pa.DataType], Any]] = {
        "count": lambda present, _: len(present), "sum": _sum, "avg": _avg,
        "min": lambda present, _: min(present, key=sort_key, default=None),
        "max": lambda present, _: max(present, key=sort_key, default=None),
    }  # fmt: skip
    return functions[call.function](present, call.type)


def sort_key(value: Any) -> Any:
    """Spark's order: NaN is the largest double, strings go by their UTF-8 bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def _sum(present: Sequence[Any], type_: pa.DataType) -> Any:
    if not present:
        return None
    if isinstance(present[0], float):
        return exact_float_sum(present)
    total = sum(map(Fraction, present))
    if isinstance(present[0], int):
        return int(total) if -(2**63) <= total < 2**63 else None
    return _decimal(total, type_)


def _avg(present: Sequence[Any], type_: pa.DataType) -> Any:
    if not present:
        return None
    if isinstance(present[0], float):
        return exact_float_sum(present) / len(present)
    total = sum(map(Fraction, present))
    if isinstance(present[0], int):
        return float(total) / len(present)
    # Spark sums into DECIMAL(p + 10, s) first, and the average is DECIMAL(p + 4, s + 4)
    scale = -present[0].as_tuple().exponent
    if abs(total) * 10**scale >= 10 ** min(38, type_.precision - 4 + 10):
        return None
    return _decimal(total / len(present), type_)


def exact_float_sum(present: Sequence[float]) -> float:
    """The double nearest to the true sum; special values as IEEE has them."""
    special = [value for value in present if not math.isfinite(value)]
    if special:
        return special[0] if len(set(special)) == 1 else math.nan
    total = sum(map(Fraction, present))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _decimal(value: Fraction, type_: pa.DataType) -> Decimal | None:
    """Rounded HALF_UP to the type's scale; None if it has too many digits."""
    shifted = value * 10**type_.scale
    whole = int(abs(shifted) + Fraction(1, 2))
    if whole >= 10**type_.precision:
        return None
    return EXACT.scaleb(Decimal(whole if shifted >= 0 else -whole), -type_.scale)
