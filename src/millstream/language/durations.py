"""Lengths of time and instants in statements: `5 MINUTES`, `0.5 SECONDS`, `TIMESTAMP '2024-01-01T00:00:00Z'`.

Exact down to the microsecond, or an error: nothing is ever rounded.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, InvalidOperation

from millstream.core.errors import MillstreamError, ParseError, WindowInvalid, did_you_mean
from millstream.core.instant import BEGINNING, LAST, UNITS, Micros, to_micros
from millstream.language.cursor import Cursor

LONGEST_US: Micros = LAST - BEGINNING
"""No two instants are further apart."""

_UNITS = UNITS | {f"{unit}S": size for unit, size in UNITS.items()}


def parse_duration(cursor: Cursor, what: str, error: type[MillstreamError] = ParseError) -> Micros:
    """A number and a unit; `what` names the clause in messages."""
    start = cursor.span
    if cursor.at("-"):
        raise error(f"{what} cannot be negative", span=start, sql=cursor.sql)
    digits = cursor.number()
    if digits is None:
        hint = "Write a number and a unit, without INTERVAL and quotes: 5 MINUTES."
        raise error(f"{what} needs a length of time, found {cursor.shown}", hint=hint, span=cursor.span, sql=cursor.sql)
    unit_us = _unit(cursor, what, error)
    length = _exact(digits, unit_us)
    span = cursor.since(start)
    if length is None:
        raise error(f"{what} is finer than a microsecond", hint="The shortest length is 1 MICROSECOND.", span=span, sql=cursor.sql)
    if length > LONGEST_US:
        raise error(f"{what} is longer than all of time", hint="The longest length is about 10000 years.", span=span, sql=cursor.sql)
    return length


def _unit(cursor: Cursor, what: str, error: type[MillstreamError]) -> Micros:
    unit = _UNITS.get(cursor.word)
    if unit is None:
        hint = did_you_mean(cursor.word, _UNITS) or f"Units are {', '.join(UNITS)}, singular or plural."
        # an unknown unit has one code wherever it stands; that none is there is a mistake of the clause
        kind = error if cursor.at_end or not cursor.word.isidentifier() else WindowInvalid
        raise kind(f"{what} needs a unit of time, found {cursor.shown}", hint=hint, span=cursor.span, sql=cursor.sql)
    cursor.accept(cursor.word)
    return unit


def _exact(digits: str, unit_us: Micros) -> Micros | None:
    """Microseconds, None if there is a rest.  Anything beyond all of time is as good as one beyond it."""
    try:
        number = Decimal(digits)
    except InvalidOperation:
        return None
    if number.adjusted() > 20:
        return LONGEST_US + 1
    if number and number.adjusted() < -20:
        return None
    micros = number * unit_us
    return int(micros) if micros == micros.to_integral_value() else None


def parse_timestamp(cursor: Cursor, error: type[MillstreamError] = ParseError) -> Micros:
    """TIMESTAMP '...': ISO-8601, UTC unless it names a zone offset."""
    start = cursor.expect("TIMESTAMP", hint="An instant is written TIMESTAMP '2024-01-01T00:00:00Z'.")
    text = cursor.string("a timestamp in quotes").text
    try:
        return to_micros(dt.datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        hint = "Write it as '2024-01-31T12:00:00Z'."
        raise error(f"'{text[:60]}' is not a timestamp", hint=hint, span=cursor.since(start), sql=cursor.sql) from None
