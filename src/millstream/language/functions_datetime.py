"""Dates, timestamps and intervals: parts, arithmetic, truncation.  The session's time zone is UTC."""

from __future__ import annotations

import re
import zoneinfo

import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.core.instant import UNITS
from millstream.core.schema import INTERVAL, TIMESTAMP, TIMESTAMP_NTZ
from millstream.language.coercion import (
    BIGINT,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    VOID,
    implicitly,
    is_timestamp,
    named,
)
from millstream.language.functions import NUMERIC, Call, Function, Param, coerced, custom, one_of, simple
from millstream.language.scalar_casts import cast
from millstream.language.scalar_literals import constant_text
from millstream.plan.expression import Expr

_MICROS = {**UNITS, "WEEK": 7 * UNITS["DAY"], "DAYOFYEAR": UNITS["DAY"]}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
UNIT_FIRST = frozenset({"date_add", "dateadd", "timestampadd", "date_diff", "datediff", "timestampdiff"})
"""With three arguments, the first is the name of a unit."""

_MOMENT = Param("TIMESTAMP", lambda found: found if is_timestamp(found) else TIMESTAMP if implicitly(found, TIMESTAMP) else None)
_DAYS = Param("INT", lambda found: INT if found in (INT, SMALLINT, TINYINT, STRING, VOID) else None)
_INT = Param("INT", lambda found: INT if NUMERIC.accept(found) is not None else None)
_BIGINT = Param("BIGINT", lambda found: BIGINT if NUMERIC.accept(found) is not None else None)

_PARTS = {
    "YEAR": "year({0})", "Y": "year({0})", "YEARS": "year({0})", "YR": "year({0})", "YRS": "year({0})", "YEAROFWEEK": "isoyear({0})",
    "QUARTER": "quarter({0})", "QTR": "quarter({0})", "MONTH": "month({0})", "MON": "month({0})",
    "MONS": "month({0})", "MONTHS": "month({0})",
    "WEEK": "week({0})", "W": "week({0})", "WEEKS": "week({0})", "DAY": "day({0})", "D": "day({0})", "DAYS": "day({0})",
    "DAYOFWEEK": "dayofweek({0}) + 1", "DOW": "dayofweek({0}) + 1", "DAYOFWEEK_ISO": "isodow({0})", "DOW_ISO": "isodow({0})",
    "DOY": "dayofyear({0})", "HOUR": "hour({0})", "H": "hour({0})", "HOURS": "hour({0})", "HR": "hour({0})", "HRS": "hour({0})",
    "MINUTE": "minute({0})", "M": "minute({0})", "MIN": "minute({0})", "MINS": "minute({0})", "MINUTES": "minute({0})",
}  # fmt: skip
_SECONDS = {"SECOND", "S", "SEC", "SECONDS", "SECS"}
_SECONDS_TYPE = pa.decimal128(8, 6)
_CLOCK = {"HOUR", "H", "HOURS", "HR", "HRS", "MINUTE", "M", "MIN", "MINS", "MINUTES"} | _SECONDS


def _int(body: str) -> str:
    return f"CAST({body} AS INTEGER)"


def _of_date(*names: str, part: str) -> Function:
    return simple(*names, takes=[DATE], gives=INT, duckdb=_int(part))


def _of_moment(*names: str, part: str) -> Function:
    return simple(*names, takes=[_MOMENT], gives=INT, duckdb=_int(part))


def _extract(call: Call) -> Expr:
    """extract(FIELD FROM source), date_part('field', source)."""
    field = (constant_text(call.args[0]) or "").upper()
    source = call.args[1]
    if source.type == INTERVAL:
        return _of_interval(call, field, source)
    wanted = _MOMENT if field in _CLOCK else one_of(DATE)
    typed = call.with_args([call.args[0], coerced(call, 1, wanted)])
    if field in _SECONDS:
        return typed.gives(_SECONDS_TYPE, _seconds("microsecond({1})"))
    if field not in _PARTS:
        raise call.refuse(f'"{field or "?"}" is not a field of {named(source.type)}')
    return typed.gives(INT, _int(_PARTS[field].replace("{0}", "{1}")))


def _seconds(micros: str) -> str:
    return f"CAST(CAST({micros} AS DECIMAL(8,0)) * CAST(0.000001 AS DECIMAL(6,6)) AS DECIMAL(8,6))"


def _of_interval(call: Call, field: str, source: Expr) -> Expr:
    typed = call.with_args([call.args[0], source])
    if field in ("DAY", "D", "DAYS"):
        return typed.gives(INT, _int(f"{{1}} // {UNITS['DAY']}"))
    if field in _SECONDS:
        return typed.gives(_SECONDS_TYPE, _seconds(f"({{1}} % {UNITS['MINUTE']})"))
    if field in _CLOCK:
        unit, base = (UNITS["HOUR"], 24) if field.startswith("H") else (UNITS["MINUTE"], 60)
        return typed.gives(TINYINT, f"CAST(({{1}} // {unit}) % {base} AS TINYINT)")
    raise call.refuse(f'"{field}" is not a field of an interval')


# --- moving along time ------------------------------------------------------------------------


def _shift_days(sign: str) -> Function:
    names = ("date_add", "dateadd", "timestampadd") if sign == "+" else ("date_sub",)

    def bind(call: Call) -> Expr:
        if len(call.args) == 3:
            return _timestampadd(call)
        if call.name == "timestampadd":
            raise call.refuse("takes a unit, a number and a timestamp")
        typed = call.with_args([coerced(call, 0, one_of(DATE)), coerced(call, 1, _DAYS)])
        return typed.gives(DATE, f"TRY({{0}} {sign} {{1}})")

    return custom(*names, least=2, most=3 if sign == "+" else 2, bind=bind)


def _unit(call: Call) -> str:
    unit = (constant_text(call.args[0]) or "").upper()
    if unit not in _MICROS and unit not in _MONTHS:
        raise call.refuse(
            f'"{unit or "?"}" is not a unit of time', hint="Units are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND and below."
        )
    return unit


def _timestampadd(call: Call) -> Expr:
    unit = _unit(call)
    moment = coerced(call, 2, _MOMENT)
    typed = call.with_args([call.args[0], coerced(call, 1, _BIGINT), moment])
    if unit in _MONTHS:
        return typed.gives(moment.type, f"TRY({{2}} + to_months(CAST({{1}} * {_MONTHS[unit]} AS INTEGER)))")
    return typed.gives(moment.type, f"TRY(make_timestamp(epoch_us({{2}}) + {{1}} * {_MICROS[unit]}))")


def _difference(call: Call) -> Expr:
    """datediff(end, start) in days; timestampdiff(unit, start, end) in whole units."""
    if len(call.args) == 2:
        if call.name == "timestampdiff":
            raise call.refuse("takes a unit and two timestamps")
        typed = call.with_args([coerced(call, i, one_of(DATE)) for i in range(2)])
        return typed.gives(INT, _int("date_diff('day', {1}, {0})"))
    unit = _unit(call)
    typed = call.with_args([call.args[0], coerced(call, 1, _MOMENT), coerced(call, 2, _MOMENT)])
    if unit in _MONTHS:
        return typed.gives(BIGINT, f"(millstream_months_apart({{1}}, {{2}}) // {_MONTHS[unit]})")
    return typed.gives(BIGINT, f"TRY((epoch_us({{2}}) - epoch_us({{1}})) // {_MICROS[unit]})")


_WEEKDAYS = {name[:n]: i for i, name in enumerate(("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"), 1)
             for n in (2, 3, len(name))}  # fmt: skip


def _next_day(call: Call) -> Expr:
    day = (constant_text(call.args[1]) or "").upper()
    if day not in _WEEKDAYS:
        raise call.refuse("the day must be a weekday written in the query")
    typed = call.with_args([coerced(call, 0, one_of(DATE)), call.args[1]])
    return typed.gives(DATE, f"TRY({{0}} + CAST(({_WEEKDAYS[day]} - isodow({{0}}) + 6) % 7 + 1 AS INTEGER))")


# --- truncation -------------------------------------------------------------------------------

_TRUNCATED = {
    "YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month", "MM": "month", "MON": "month", "WEEK": "week",
}  # fmt: skip
_TRUNCATED_FINER = {
    "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second", "MILLISECOND": "milliseconds",
    "MICROSECOND": "microseconds",
}  # fmt: skip


def _trunc(call: Call) -> Expr:
    unit = constant_text(call.args[1])
    typed = call.with_args([coerced(call, 0, one_of(DATE)), call.args[1]])
    if unit is None:
        raise NotSupported("trunc: the unit must be written in the query")
    word = _TRUNCATED.get(unit.upper())
    return typed.gives(DATE, f"CAST(TRY(date_trunc('{word}', {{0}})) AS DATE)" if word else "CAST(NULL AS DATE)")


def _date_trunc(call: Call) -> Expr:
    unit = constant_text(call.args[0])
    typed = call.with_args([call.args[0], cast(coerced(call, 1, _MOMENT), TIMESTAMP)])
    if unit is None:
        raise NotSupported("date_trunc: the unit must be written in the query")
    word = (_TRUNCATED | _TRUNCATED_FINER).get(unit.upper())
    return typed.gives(TIMESTAMP, f"CAST(TRY(date_trunc('{word}', {{1}})) AS TIMESTAMP)" if word else "CAST(NULL AS TIMESTAMP)")


# --- numbers and moments ----------------------------------------------------------------------


def _from_epoch(name: str, unit_us: int) -> Function:
    return simple(name, takes=[_BIGINT], gives=TIMESTAMP, duckdb=f"TRY(make_timestamp(CAST({{0}} AS BIGINT) * {unit_us}))")


def _timestamp_seconds(call: Call) -> Expr:
    if NUMERIC.accept(call.types[0]) is None or call.types[0] == STRING:
        raise call.refuse("takes a number")
    return call.with_args([cast(call.args[0], TIMESTAMP)]).gives(TIMESTAMP, "{0}")


def _to_epoch(name: str, unit_us: int) -> Function:
    body = f"millstream_floor_div(epoch_us({{0}}), {unit_us})" if unit_us > 1 else "epoch_us({0})"
    return simple(name, takes=[TIMESTAMP], gives=BIGINT, duckdb=body)


def _make_timestamp(call: Call) -> Expr:
    if len(call.args) > 6:
        raise NotSupported(f"{call.name} with a time zone is not supported", hint="Use to_utc_timestamp(make_timestamp(...), zone).")
    type_ = TIMESTAMP_NTZ if call.name.endswith("_ntz") else TIMESTAMP
    seconds = Param("DECIMAL(16,6)", lambda found: pa.decimal128(16, 6) if NUMERIC.accept(found) is not None else None)
    typed = call.with_args([*(coerced(call, i, _INT) for i in range(5)), coerced(call, 5, seconds)])
    micros = "CAST({5} * 1000000 AS BIGINT)"
    start = "TRY(make_timestamp({0}, {1}, {2}, {3}, {4}, 0.0))"
    return typed.gives(type_, f"CASE WHEN {{5}} BETWEEN 0 AND 60 THEN TRY(make_timestamp(epoch_us({start}) + {micros})) END")


def _make_dt_interval(call: Call) -> Expr:
    seconds = Param("DECIMAL(18,6)", lambda found: pa.decimal128(18, 6) if NUMERIC.accept(found) is not None else None)
    typed = call.with_args([coerced(call, i, _INT if i < 3 else seconds) for i in range(len(call.args))])
    units = (UNITS["DAY"], UNITS["HOUR"], UNITS["MINUTE"], UNITS["SECOND"])
    parts = [f"CAST({{{i}}} * CAST({units[i]} AS {'BIGINT' if i < 3 else 'DECIMAL(7,0)'}) AS BIGINT)" for i in range(len(call.args))]
    return typed.gives(INTERVAL, f"TRY({' + '.join(parts) or '0'})" if parts else "CAST(0 AS BIGINT)")


def _zoned(call: Call) -> Expr:
    """A UTC timestamp as the wall clock of a zone, or the other way round."""
    zone = constant_text(call.args[1])
    if zone is None:
        raise NotSupported(f"{call.name}: the time zone must be written in the query")
    typed = call.with_args([cast(coerced(call, 0, _MOMENT), TIMESTAMP), call.args[1]])
    from_utc = call.name == "from_utc_timestamp"
    if match := re.fullmatch(r"([+-])(\d{1,2}):(\d{2})", zone):
        micros = int(match[1] + "1") * (int(match[2]) * 60 + int(match[3])) * UNITS["MINUTE"]
        return typed.gives(TIMESTAMP, f"TRY(make_timestamp(epoch_us({{0}}) + ({micros if from_utc else -micros})))")
    if zone not in zoneinfo.available_timezones():
        raise call.refuse(f"'{zone}' is not a time zone")
    a, b = ("UTC", zone) if from_utc else (zone, "UTC")
    return typed.gives(TIMESTAMP, f"TRY(timezone('{b}', timezone('{a}', {{0}})))")


_MONTHS_BETWEEN = ["millstream_months_between({0}, {1}, TRUE)", "millstream_months_between({0}, {1}, {2})"]

FUNCTIONS: tuple[Function, ...] = (
    _of_date("year", part="year({0})"),
    _of_date("quarter", part="quarter({0})"),
    _of_date("month", part="month({0})"),
    _of_date("day", "dayofmonth", part="day({0})"),
    _of_date("dayofweek", part="dayofweek({0}) + 1"),
    _of_date("weekday", part="isodow({0}) - 1"),
    _of_date("dayofyear", part="dayofyear({0})"),
    _of_date("weekofyear", part="week({0})"),
    _of_moment("hour", part="hour({0})"),
    _of_moment("minute", part="minute({0})"),
    _of_moment("second", part="second({0})"),
    simple("dayname", takes=[DATE], gives=STRING, duckdb="strftime({0}, '%a')"),
    simple("monthname", takes=[DATE], gives=STRING, duckdb="strftime({0}, '%b')"),
    custom("extract", "date_part", "datepart", least=2, most=2, bind=_extract),
    _shift_days("+"),
    _shift_days("-"),
    custom("datediff", "date_diff", "timestampdiff", least=2, most=3, bind=_difference),
    simple("add_months", takes=[DATE, _INT], gives=DATE, duckdb="CAST(TRY({0} + to_months({1})) AS DATE)"),
    simple("months_between", takes=[TIMESTAMP, TIMESTAMP, pa.bool_()], optional=1, gives=DOUBLE, duckdb=_MONTHS_BETWEEN),
    simple("last_day", takes=[DATE], gives=DATE, duckdb="CAST(TRY(last_day({0})) AS DATE)"),
    custom("next_day", least=2, most=2, bind=_next_day),
    custom("trunc", least=2, most=2, bind=_trunc),
    custom("date_trunc", least=2, most=2, bind=_date_trunc),
    custom("timestamp_seconds", least=1, most=1, bind=_timestamp_seconds),
    _from_epoch("timestamp_millis", 1000),
    _from_epoch("timestamp_micros", 1),
    _to_epoch("unix_seconds", 1_000_000),
    _to_epoch("unix_millis", 1000),
    _to_epoch("unix_micros", 1),
    simple("unix_date", takes=[DATE], gives=INT, duckdb="CAST(date_diff('day', DATE '1970-01-01', {0}) AS INTEGER)"),
    simple("date_from_unix_date", takes=[_INT], gives=DATE, duckdb="TRY(DATE '1970-01-01' + {0})"),
    simple("make_date", takes=[_INT, _INT, _INT], gives=DATE, duckdb="TRY(make_date({0}, {1}, {2}))"),
    custom("make_timestamp", "make_timestamp_ntz", "make_timestamp_ltz", "try_make_timestamp", "try_make_timestamp_ntz",
           "try_make_timestamp_ltz", least=6, most=7, bind=_make_timestamp),
    custom("make_dt_interval", least=0, most=4, bind=_make_dt_interval),
    custom("from_utc_timestamp", "to_utc_timestamp", least=2, most=2, bind=_zoned),
)  # fmt: skip
