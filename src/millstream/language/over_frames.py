"""The frame of OVER: `ROWS BETWEEN 2 PRECEDING AND CURRENT ROW`, `RANGE BETWEEN INTERVAL 5 MINUTES PRECEDING AND CURRENT ROW`.

Without one a frame reaches from the first row to the last peer of the current one; where there is no order, over all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import TypeMismatch, WindowInvalid
from millstream.language.coercion import is_decimal, is_float, is_integral, named
from millstream.language.scalar_literals import interval_us
from millstream.language.spans import span_of
from millstream.language.unsupported import not_supported
from millstream.plan.ordering import WHOLE, Frame, Offset

_DAY_US = 86_400_000_000
_SPEC = {"kind", "start", "start_side", "end", "end_side"}


def bind_frame(spec: exp.WindowSpec | None, keys: Sequence[pa.DataType], place: exp.Expr, sql: str) -> Frame:
    """`keys` are the types of the sort keys."""
    if spec is None:
        return Frame("range", None, 0) if keys else WHOLE
    unit = str(spec.args.get("kind")).lower()
    if unit not in ("rows", "range") or any(value for key, value in spec.args.items() if key not in _SPEC):
        raise not_supported(f"a frame of {unit.upper()}" if unit == "groups" else "EXCLUDE in a frame", place, sql)
    key = None if unit == "rows" else keys[0] if len(keys) == 1 else pa.null()
    start = _edge(spec.args.get("start"), spec.args.get("start_side"), key, place, sql)
    stop = _edge(spec.args.get("end"), spec.args.get("end_side"), key, place, sql) if spec.args.get("end") is not None else 0
    if (start is None and spec.args.get("start_side") == "FOLLOWING") or (stop is None and spec.args.get("end_side") == "PRECEDING"):
        raise WindowInvalid("a frame cannot start at its end", span=span_of(place), sql=sql)
    if start is not None and stop is not None and start > stop:
        raise WindowInvalid("the frame ends before it starts", span=span_of(place), sql=sql)
    if unit == "range" and not keys:
        return WHOLE  # without an order all rows are peers
    return Frame("rows" if unit == "rows" else "range", start, stop)


def _edge(edge: exp.Expr | str | None, side: str | None, key: pa.DataType | None, place: exp.Expr, sql: str) -> Offset:
    """`key` is the type of the one sort key of a RANGE frame, NULL's if there is not exactly one, None for ROWS."""
    if edge == "UNBOUNDED":
        return None
    if not isinstance(edge, exp.Expr):
        return 0
    distance = _rows(edge, sql) if key is None else _distance(edge, key, place, sql)
    return -distance if side == "PRECEDING" else distance


def _rows(edge: exp.Expr, sql: str) -> int:
    if isinstance(edge, exp.Literal) and edge.is_int and len(edge.name) < 19:
        return int(edge.name)
    raise WindowInvalid("a frame of ROWS counts rows", hint="Write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW.", span=span_of(edge), sql=sql)


def _distance(edge: exp.Expr, key: pa.DataType, place: exp.Expr, sql: str) -> int | float:
    if pa.types.is_null(key):
        hint = "Order by one column, or count rows with ROWS."
        raise WindowInvalid("a RANGE frame with a distance needs exactly one sort key", hint=hint, span=span_of(place), sql=sql)
    found = _length(edge, key) if isinstance(edge, exp.Interval) else _number(edge, key)
    if found is None:
        hint = "Numbers for numbers, intervals for timestamps and dates; both constant and not negative."
        text = f"this is no distance between values of {named(key)}"
        raise TypeMismatch(text, hint=hint, span=span_of(edge) or span_of(place), sql=sql)
    return found


def _length(edge: exp.Interval, key: pa.DataType) -> int | None:
    micros = interval_us(edge)
    if micros is None or micros < 0:
        return None
    if pa.types.is_timestamp(key):
        return micros
    return micros // _DAY_US if pa.types.is_date(key) and micros % _DAY_US == 0 else None


def _number(edge: exp.Expr, key: pa.DataType) -> int | float | None:
    if not isinstance(edge, exp.Literal) or edge.is_string:
        return None
    try:
        number = Decimal(edge.name)
    except InvalidOperation:
        return None
    if is_float(key):
        return float(number)
    if is_decimal(key):
        number, whole = number.scaleb(key.scale), key.precision <= 18
    else:
        whole = is_integral(key) or pa.types.is_date(key)
    return int(number) if whole and number == number.to_integral_value() and number < 2**63 else None
