"""Casts: which Spark allows, and how DuckDB computes them.  What Spark would refuse at run time becomes NULL.

DuckDB reads and writes text more freely than Spark (`'12.7'` is a whole number to it, `1e10` is written
without an exponent), so casts from and to strings go through patterns that admit exactly Spark's forms.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import NotSupported, TypeMismatch
from millstream.core.schema import TIMESTAMP, type_name
from millstream.language.coercion import (
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT,
    STRING,
    VOID,
    is_array,
    is_datetime,
    is_decimal,
    is_float,
    is_integral,
    is_interval,
    is_map,
    is_numeric,
    is_struct,
    is_timestamp,
    named,
)
from millstream.plan.duckdb_sql import MONTHS, duckdb_type, in_template, lowered, quoted, text
from millstream.plan.expression import Expr

_SPACE = r"[\x00-\x20\x7f]*"
_WHOLE = rf"^{_SPACE}([+-]?[0-9]+){_SPACE}$"
_NUMBER = rf"^{_SPACE}([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
_DECIMAL = rf"{_NUMBER}{_SPACE}$"
_FLOATING = rf"(?i){_NUMBER}[df]?{_SPACE}$"
_TRUE, _FALSE = "'t', 'true', 'y', 'yes', '1'", "'f', 'false', 'n', 'no', '0'"
_MICROS = 1_000_000


def cast(operand: Expr, to: pa.DataType) -> Expr:
    """`operand` as `to`, where the types differ.  TYPE_MISMATCH where Spark has no such cast."""
    if operand.type == to:
        return operand
    template = cast_template(operand.type, to)
    return Expr(lowered(exp.Cast(this=operand.tree, to=data_type(to)), template), to)


def data_type(type_: pa.DataType) -> exp.DataType:
    """The type as a node of the syntax tree."""
    name = "INTERVAL YEAR TO MONTH" if type_ == MONTHS else type_name(type_)
    if type_ == VOID:
        return exp.DataType(this=exp.DType.NULL)
    return exp.DataType.from_str(name, dialect="spark")


def cast_template(source: pa.DataType, to: pa.DataType) -> str:
    """What DuckDB has to do for the cast, as a template over `{0}`."""
    if source == to:
        return "{0}"
    if source == VOID:
        return f"CAST(NULL AS {duckdb_type(to)})"
    if is_interval(source) or is_interval(to):
        raise NotSupported(f"cannot cast {named(source)} to {named(to)}", hint="Multiply or divide intervals by numbers instead.")
    template = _template(source, to)
    if template is None:
        raise TypeMismatch(f"cannot cast {named(source)} to {named(to)}")
    return template


def _template(source: pa.DataType, to: pa.DataType) -> str | None:
    if source == STRING:
        return _from_string(to)
    if to == STRING:
        return _to_string(source)
    if is_numeric(source):
        return _from_number(source, to)
    if source == BOOLEAN:
        return _plain(to) if is_numeric(to) else None
    if is_datetime(source):
        return _from_datetime(source, to)
    return _nested(source, to)


def _plain(to: pa.DataType) -> str:
    return f"TRY_CAST({{0}} AS {duckdb_type(to)})"


def _from_number(source: pa.DataType, to: pa.DataType) -> str | None:
    if is_integral(to) and not is_integral(source):
        return f"TRY_CAST(trunc({{0}}) AS {duckdb_type(to)})"  # DuckDB would round
    if is_decimal(to) and is_float(source):
        return f"TRY_CAST(CAST(CAST({{0}} AS DOUBLE) AS VARCHAR) AS {duckdb_type(to)})"  # as it is written, half up
    if to == FLOAT and not is_integral(source):
        # a DOUBLE beyond FLOAT's range is infinite
        far = "CASE WHEN {0} > 0 THEN CAST('inf' AS FLOAT) WHEN {0} < 0 THEN CAST('-inf' AS FLOAT) END"
        return f"coalesce(TRY_CAST({{0}} AS FLOAT), {far})"
    if is_numeric(to) or to == BOOLEAN:
        return _plain(to)
    if to == TIMESTAMP:
        if is_float(source):
            return f"TRY(make_timestamp(TRY_CAST(trunc({{0}} * {_MICROS}) AS BIGINT)))"
        return f"TRY(make_timestamp(TRY_CAST(trunc(CAST({{0}} AS DECIMAL(38,6)) * {_MICROS}) AS BIGINT)))"
    return None


def _from_datetime(source: pa.DataType, to: pa.DataType) -> str | None:
    if is_datetime(to):
        return "{0}" if is_timestamp(source) and is_timestamp(to) else _plain(to)
    if source == TIMESTAMP and is_integral(to):
        return f"TRY_CAST(millstream_floor_div(epoch_us({{0}}), {_MICROS}) AS {duckdb_type(to)})"
    if source == TIMESTAMP and is_float(to):
        return f"CAST(epoch_us({{0}}) / {_MICROS} AS {duckdb_type(to)})"
    if source == TIMESTAMP and is_decimal(to):
        return f"TRY_CAST(CAST(epoch_us({{0}}) AS DECIMAL(38,6)) * CAST(0.000001 AS DECIMAL(6,6)) AS {duckdb_type(to)})"
    return None


def _nested(source: pa.DataType, to: pa.DataType) -> str | None:
    if is_array(source) and is_array(to):
        inner = cast_template(source.value_type, to.value_type).format('"x"')
        return f'list_transform({{0}}, lambda "x": {in_template(inner)})'
    if is_map(source) and is_map(to):
        key = cast_template(source.key_type, to.key_type).format('"x".key')
        value = cast_template(source.item_type, to.item_type).format('"x".value')
        pair = in_template(f"{{'key': {key}, 'value': {value}}}")
        return f'map_from_entries(list_transform(map_entries({{0}}), lambda "x": {pair}))'
    if is_struct(source) and is_struct(to) and len(source) == len(to):
        fields = [_field_cast(old, new) for old, new in zip(source, to, strict=True)]
        packed = in_template("{" + ", ".join(fields) + "}")
        return f'CASE WHEN {{0}} IS NOT NULL THEN list_transform([{{0}}], lambda "x": {packed})[1] END'
    return None


def _field_cast(old: pa.Field, new: pa.Field) -> str:
    value = cast_template(old.type, new.type).format('"x".' + quoted(old.name))
    return f"{text(new.name)}: {value}"


# --- text -------------------------------------------------------------------------------------


def _from_string(to: pa.DataType) -> str | None:
    if is_integral(to):
        return _matched(_WHOLE, to)
    if is_decimal(to):
        return _matched(_DECIMAL, to)
    if is_float(to):
        return f"millstream_to_{'float' if to == FLOAT else 'double'}({{0}})"
    if to == BOOLEAN:
        trimmed = f"lower(regexp_extract({{0}}, {text(rf'^{_SPACE}(.*?){_SPACE}$')}, 1))"
        return f"CASE WHEN {trimmed} IN ({_TRUE}) THEN TRUE WHEN {trimmed} IN ({_FALSE}) THEN FALSE END"
    if to == DATE:
        return "millstream_to_date({0})"
    if is_timestamp(to):
        return "millstream_to_timestamp({0})" if to == TIMESTAMP else "millstream_to_timestamp_ntz({0})"
    if to == BINARY:
        return "encode({0})"
    return None


def _matched(pattern: str, to: pa.DataType) -> str:
    """The first group of the pattern, cast; what does not match gives an empty string, which casts to NULL."""
    return f"TRY_CAST(regexp_extract({{0}}, {text(in_template(pattern))}, 1) AS {duckdb_type(to)})"


def _to_string(source: pa.DataType) -> str | None:
    if is_float(source):
        return f"millstream_{'float' if source == FLOAT else 'double'}_to_string({{0}})"
    if source == BINARY:
        return "TRY(decode({0}))"
    if is_datetime(source):
        # a year of five digits has a sign
        return "CASE WHEN {0} >= DATE '10000-01-01' THEN '+' || CAST({0} AS VARCHAR) ELSE CAST({0} AS VARCHAR) END"
    if is_numeric(source) or source == BOOLEAN:
        return "CAST({0} AS VARCHAR)"
    return _nested_to_string(source)


def _nested_to_string(source: pa.DataType) -> str | None:
    """`[1, null]`, `{a -> 1, b -> 2}`, `{1, x}`."""
    if is_array(source):
        item = _shown(source.value_type, '"x"')
        listed = f'list_transform({{0}}, lambda "x": {item})'
        return f"CASE WHEN {{0}} IS NOT NULL THEN '[' || millstream_join({listed}, ', ') || ']' END"
    if is_map(source):
        key, value = _shown(source.key_type, '"x".key'), _shown(source.item_type, '"x".value')
        listed = f"list_transform(map_entries({{0}}), lambda \"x\": {key} || ' -> ' || {value})"
        return f"CASE WHEN {{0}} IS NOT NULL THEN '{{{{' || millstream_join({listed}, ', ') || '}}}}' END"
    if is_struct(source):
        fields = " || ', ' || ".join(_shown(field.type, f"struct_extract({{0}}, {in_template(text(field.name))})") for field in source)
        return f"CASE WHEN {{0}} IS NOT NULL THEN '{{{{' || {fields} || '}}}}' END"
    return None


def _shown(type_: pa.DataType, sql: str) -> str:
    """A part of a nested value as text, still a template."""
    cast_ = cast_template(type_, STRING).replace("{0}", sql)
    return f"coalesce({cast_}, 'null')"
