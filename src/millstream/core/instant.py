"""Instants and durations: 64-bit microseconds since 1970, UTC.

All arithmetic inside the engine is on plain integers; this module is the border to
datetimes and text.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
from decimal import Decimal, InvalidOperation

from millstream.core.errors import TypeMismatch

Micros = int
"""An instant (microseconds since 1970-01-01T00:00:00Z) or a length of time in microseconds."""

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
BEGINNING: Micros = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z: the instant of what holds before any event."""
NEVER_BEFORE: Micros = BEGINNING - 1
"""The frontier of a stream that has none yet."""
LAST: Micros = 253_402_300_799_999_999
"""9999-12-31T23:59:59.999999Z, the greatest instant that Spark and Python both can say."""
GONE_NEVER: Micros = 2**62
"""An instant after every instant that can be said: of what ends, if at all, when somebody takes it back."""
EXACT: Micros = GONE_NEVER + 1
"""The same, of changes whose sender takes everything back from now on, also what it said would end by itself."""

UNITS: dict[str, Micros] = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
}


def to_micros(value: object) -> Micros:
    """An instant as the engine keeps it: naive datetimes are UTC, integers are microseconds already.

    Whatever a caller hands over goes through here; what is no instant of the years 1 to 9999 is a TypeMismatch.
    """
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return checked_instant((aware - EPOCH) // dt.timedelta(microseconds=1))
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeMismatch(
            f"an instant is a datetime or a number of microseconds since 1970, not {value!r:.60} ({type(value).__name__})",
            hint="Give a datetime.datetime (a naive one is UTC) or an int.",
        )
    return checked_instant(int(value))


def checked_instant(instant: Micros) -> Micros:
    """The instant itself, if datetimes and Spark can say it too."""
    if BEGINNING <= instant <= LAST:
        return instant
    raise TypeMismatch(
        f"{instant} microseconds since 1970 is outside the years 1 to 9999",
        hint="Instants are in microseconds: divide nanoseconds, as of time.time_ns(), by 1000.",
    )


def to_datetime(instant: Micros) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=instant)


def parse_instant(text: str) -> Micros:
    """Seconds since 1970 with any fraction down to microseconds, or ISO-8601 (naive is UTC).

    >>> parse_instant("10.000001"), parse_instant("1970-01-01T00:00:01Z")
    (10000001, 1000000)
    """
    text = text.strip()
    try:
        seconds = Decimal(text)
    except InvalidOperation:
        return to_micros(dt.datetime.fromisoformat(text))
    if not seconds.is_finite() or not BEGINNING // 1_000_000 <= seconds < LAST // 1_000_000 + 1:
        raise ValueError(f"{text!r} seconds since 1970 is outside the years 1 to 9999")
    micros = seconds * 1_000_000
    if micros != micros.to_integral_value():
        raise ValueError(f"{text!r} is finer than a microsecond")
    return int(micros)


def format_instant(instant: Micros) -> str:
    """ISO-8601 in UTC, with microseconds only where there are any.

    >>> format_instant(10_000_001), format_instant(0)
    ('1970-01-01T00:00:10.000001Z', '1970-01-01T00:00:00Z')
    """
    return to_datetime(instant).isoformat().replace("+00:00", "Z")


def parse_duration(text: str) -> Micros:
    """`10 minutes`, `1.5 s`, `200ms`: a length of time as people write it on a command line."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµ]+)\s*", text)
    if not match:
        raise ValueError(f"{text!r} is not a length of time such as '30 seconds'")
    unit = match[2].lower()
    short = {"us": "MICROSECOND", "µs": "MICROSECOND", "ms": "MILLISECOND", "s": "SECOND", "sec": "SECOND",
             "m": "MINUTE", "min": "MINUTE", "h": "HOUR", "d": "DAY"}  # fmt: skip
    name = short.get(unit, unit.removesuffix("s").upper())
    if name not in UNITS:
        raise ValueError(f"{match[2]!r} is not a unit of time")
    return int(Decimal(match[1]) * UNITS[name])


def format_duration(length_us: Micros) -> str:
    """The length in the largest unit that divides it: `5 MINUTES`, `1 SECOND`."""
    for unit, size in reversed(UNITS.items()):
        if length_us % size == 0 and (length_us or size == UNITS["SECOND"]):
            count = length_us // size
            return f"{count} {unit}{'' if count == 1 else 'S'}"
    return "0 SECONDS"
