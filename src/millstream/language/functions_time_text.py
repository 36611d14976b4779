"""Dates and timestamps as text, and back."""

from __future__ import annotations

import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.core.schema import TIMESTAMP, TIMESTAMP_NTZ
from millstream.language.coercion import BIGINT, DATE, STRING, VOID, implicitly, is_datetime, is_timestamp, named
from millstream.language.functions import NUMERIC, Call, Function, Param, coerced, custom
from millstream.language.functions_time_patterns import printed, read
from millstream.language.scalar_casts import cast, cast_template
from millstream.language.scalar_literals import constant_text
from millstream.plan.expression import Expr

DEFAULT_PATTERN = "yyyy-MM-dd HH:mm:ss"

_MOMENT = Param("TIMESTAMP", lambda found: found if is_timestamp(found) else TIMESTAMP if implicitly(found, TIMESTAMP) else None)
_BIGINT = Param("BIGINT", lambda found: BIGINT if NUMERIC.accept(found) is not None else None)


def _pattern(call: Call, position: int, default: str | None = None) -> str:
    """The pattern, which must be written in the query."""
    if len(call.args) <= position:
        assert default is not None
        return default
    pattern = constant_text(call.args[position])
    if pattern is None:
        raise NotSupported(f"{call.name}: the pattern must be written in the query")
    return pattern


def _date_format(call: Call) -> Expr:
    typed = call.with_args([coerced(call, 0, _MOMENT), call.args[1]])
    return typed.gives(STRING, printed(_pattern(call, 1), "{0}"))


def _from_unixtime(call: Call) -> Expr:
    typed = call.with_args([coerced(call, 0, _BIGINT), *call.args[1:]])
    return typed.gives(STRING, printed(_pattern(call, 1, DEFAULT_PATTERN), "TRY(make_timestamp({0} * 1000000))"))


def _to(type_: pa.DataType) -> Function:
    names = {DATE: ("to_date", "try_to_date"), TIMESTAMP: ("to_timestamp", "to_timestamp_ltz", "try_to_timestamp"),
             TIMESTAMP_NTZ: ("to_timestamp_ntz",)}[type_]  # fmt: skip

    def bind(call: Call) -> Expr:
        if len(call.args) == 1:
            return Expr(cast(call.args[0], type_).tree, type_) if call.types[0] != type_ else call.gives(type_, "{0}")
        if call.types[0] != STRING and call.types[0] != VOID:
            if is_datetime(call.types[0]):
                return call.gives(type_, cast_template(call.types[0], type_))
            raise call.refuse(f"takes STRING with a pattern, found {named(call.types[0])}")
        typed = call.with_args([cast(call.args[0], STRING), call.args[1]])
        body = read(_pattern(call, 1), "{0}")
        return typed.gives(type_, f"CAST({body} AS DATE)" if type_ == DATE else body)

    return custom(*names, least=1, most=2, bind=bind)


def _unix_timestamp(call: Call) -> Expr:
    if not call.args:
        raise NotSupported("unix_timestamp() reads the clock", hint="An answer may depend on the data alone; use a timestamp column.")
    arg, rest = call.args[0], call.args[1:]
    if is_datetime(arg.type):
        moment = cast(arg, TIMESTAMP) if arg.type == DATE else arg
        return call.with_args([moment, *rest]).gives(BIGINT, "(epoch_us({0}) // 1000000)")
    if arg.type not in (STRING, VOID):
        raise call.refuse(f"takes a date, a timestamp or STRING, found {named(arg.type)}")
    body = read(_pattern(call, 1, DEFAULT_PATTERN), "{0}")
    return call.with_args([cast(arg, STRING), *rest]).gives(BIGINT, f"(epoch_us({body}) // 1000000)")


FUNCTIONS: tuple[Function, ...] = (
    custom("date_format", least=2, most=2, bind=_date_format),
    custom("from_unixtime", least=1, most=2, bind=_from_unixtime),
    _to(DATE),
    _to(TIMESTAMP),
    _to(TIMESTAMP_NTZ),
    custom("unix_timestamp", "to_unix_timestamp", least=0, most=2, bind=_unix_timestamp),
)
