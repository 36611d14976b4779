"""Constants as Spark's analyser prints them: `1.0E10`, `TIMESTAMP '2020-01-01 00:00:00'`, `INTERVAL '05' MINUTE`."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal, InvalidOperation

from sqlglot import exp

# unit -> (the unit Spark prints, how many of it one is)
_UNITS: dict[str, tuple[str, Decimal]] = {
    "WEEK": ("DAY", Decimal(7)), "DAY": ("DAY", Decimal(1)), "HOUR": ("HOUR", Decimal(1)), "MINUTE": ("MINUTE", Decimal(1)),
    "SECOND": ("SECOND", Decimal(1)), "MILLISECOND": ("SECOND", Decimal("0.001")), "MICROSECOND": ("SECOND", Decimal("0.000001")),
    "MONTH": ("MONTH", Decimal(1)), "YEAR": ("YEAR", Decimal(1)),
}  # fmt: skip


def number_name(text: str, suffix: str | None = None) -> str:
    """A number: exponents and the suffixes D and F make it a floating one, shown as Java shows it."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return text
    if suffix in ("D", "F") or (suffix is None and "e" in text.lower()):
        return double_name(float(value))
    if "." not in text and "e" not in text.lower():
        return str(value)
    return format(value, "f").removesuffix(".")


def double_name(value: float) -> str:
    if not math.isfinite(value) or value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"


def instant_name(text: str) -> str:
    """The text of a DATE or TIMESTAMP literal, in UTC."""
    try:
        value = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return text
    if len(text.strip()) == 10:
        return value.date().isoformat()
    utc = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return utc.isoformat(sep=" ").rstrip("0") if utc.microsecond else utc.isoformat(sep=" ")


def interval_name(tree: exp.Interval) -> str:
    unit = tree.args.get("unit")
    count = tree.this.name if tree.this else ""
    known = _UNITS.get(unit.name.upper().removesuffix("S")) if isinstance(unit, exp.Var) else None
    try:
        amount = Decimal(count)
    except InvalidOperation:
        known = None
    if known is None:
        return tree.sql(dialect="spark")
    name, size = known
    amount *= size
    if name in ("HOUR", "MINUTE", "SECOND"):
        whole, _, fraction = format(abs(amount), "f").partition(".")
        count = f"{'-' if amount < 0 else ''}{whole:0>2}" + (f".{fraction.rstrip('0')}" if fraction.strip("0") else "")
    else:
        count = format(amount, "f")
    return f"INTERVAL '{count}' {name}"
