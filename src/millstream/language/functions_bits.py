"""Bits, and numbers written in other bases.  Shifts and wrap-arounds are the JVM's: the distance is taken modulo the width."""

from __future__ import annotations

import pyarrow as pa

from millstream.core.errors import TypeMismatch
from millstream.language.coercion import BIGINT, BINARY, BOOLEAN, INT, STRING, TINYINT, VOID, common_type, is_integral, named
from millstream.language.functions import INTEGRAL, Call, Function, Param, coerced, custom, one_of, simple
from millstream.language.scalar_casts import cast
from millstream.plan.duckdb_sql import duckdb_type
from millstream.plan.expression import Expr

BITWISE = {"&": "({0} & {1})", "|": "({0} | {1})", "^": "xor({0}, {1})"}


def bitwise_operands(operator: str, left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Both operands as whole numbers of one type."""
    type_ = INT if left.type == right.type == VOID else common_type(left.type, right.type)
    if type_ is None or not is_integral(type_):
        raise TypeMismatch(f'no operator "{operator}" for {named(left.type)} and {named(right.type)}')
    return cast(left, type_), cast(right, type_)


def _shift(call: Call) -> Expr:
    value, distance = coerced(call, 0, _SHIFTED), coerced(call, 1, Param("INT", one_of(INT).accept))
    bits = 64 if value.type == BIGINT else 32
    by = f"CAST({{1}} & {bits - 1} AS INTEGER)"
    power = f"CAST(pow(2::DOUBLE, {by}) AS HUGEINT)"
    wide = "CAST({0} AS HUGEINT)"
    if call.name == "shiftleft":
        body = _wrapped(f"{wide} * {power}", bits)
    elif call.name == "shiftright":
        body = f"CAST(({wide} - ((({wide} % {power}) + {power}) % {power})) // {power} AS {duckdb_type(value.type)})"
    else:
        unsigned = f"(CASE WHEN {{0}} < 0 THEN {wide} + {2**bits}::HUGEINT ELSE {wide} END)"
        body = _wrapped(f"{unsigned} // {power}", bits)
    return call.with_args([value, distance]).gives(value.type, body)


def _wrapped(wide: str, bits: int) -> str:
    """The low `bits` of a HUGEINT, as a signed number."""
    half, full = f"{2 ** (bits - 1)}::HUGEINT", f"{2**bits}::HUGEINT"
    type_ = "BIGINT" if bits == 64 else "INTEGER"
    return f"CAST(((({wide}) % {full} + {full} + {half}) % {full}) - {half} AS {type_})"


def _shifted_type(found: pa.DataType) -> pa.DataType | None:
    return BIGINT if found == BIGINT else one_of(INT).accept(found)


_SHIFTED = Param("INT or BIGINT", _shifted_type)
_COUNTED = Param(
    "a whole number or BOOLEAN", lambda found: found if is_integral(found) or found == BOOLEAN else INT if found == VOID else None
)
_HEXED = one_of(BIGINT, BINARY, STRING)


def _bit_count(call: Call) -> Expr:
    arg = coerced(call, 0, _COUNTED)
    body = "CAST({0} AS INTEGER)" if arg.type == BOOLEAN else "CAST(bit_count(CAST({0} AS BIGINT)) AS INTEGER)"
    return call.with_args([arg]).gives(INT, body)


def _hex(call: Call) -> Expr:
    arg = call.args[0]
    if arg.type not in (STRING, BINARY):
        arg = cast(arg, BIGINT) if _HEXED.accept(arg.type) == BIGINT else coerced(call, 0, _HEXED)
    return call.with_args([arg]).gives(STRING, "hex({0})")


FUNCTIONS: tuple[Function, ...] = (
    custom("shiftleft", "shiftright", "shiftrightunsigned", least=2, most=2, bind=_shift),
    custom("bit_count", least=1, most=1, bind=_bit_count),
    simple("bit_get", "getbit", takes=[INTEGRAL, INT], gives=TINYINT, duckdb="millstream_bit_get({0}, {1})"),
    simple("bin", takes=[BIGINT], gives=STRING, duckdb="bin({0})"),
    custom("hex", least=1, most=1, bind=_hex),
    simple("unhex", takes=[STRING], gives=BINARY, duckdb="TRY(unhex({0}))"),
)
