"""Cells: the text of a value in a stream script, read and written by the type of its column.

A row is CSV (RFC 4180).  A cell without quotes and without characters is NULL; `""` is the empty string.

    TIMESTAMP        seconds since 1970 with a fraction, or ISO-8601
    INTERVAL         seconds, or a length such as 5 MINUTES
    BINARY           hexadecimal digits
    ARRAY, MAP, STRUCT   JSON; a map is a list of pairs

Values are plain and hashable, so that rows can be counted: instants and lengths of time are integers
of microseconds, nested values are tuples.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.core.instant import Micros, format_instant, parse_duration, parse_instant, to_micros
from millstream.core.schema import type_name

Row = tuple[Any, ...]

_BOOLEANS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_SECONDS_UNTIL: Micros = 100_000_000_000_000
"""Instants from 1970 to this one (1973) are written as seconds: they are the small numbers of a script."""


def split_record(text: str) -> list[str | None]:
    """The cells of one row; None for a cell that is not there.

    >>> split_record('4,,"",a "b"')
    ['4', None, '', 'a "b"']
    """
    cells: list[str | None] = []
    at = 0
    while True:
        cell, at = _split_cell(text, at)
        cells.append(cell)
        if at >= len(text):
            return cells
        at += 1  # the comma


def _split_cell(text: str, at: int) -> tuple[str | None, int]:
    if not text.startswith('"', at):
        end = text.find(",", at)
        end = len(text) if end < 0 else end
        return text[at:end] or None, end
    match = re.compile(r'"((?:[^"]|"")*)"(?=,|\Z)', re.DOTALL).match(text, at)
    if match is None:
        raise ValueError("a quoted cell ends with a quote and a comma")
    return match[1].replace('""', '"'), match.end()


def read_row(text: str, types: Sequence[pa.DataType]) -> Row:
    """The values of one row; ValueError, saying which cell, if it does not fit the types."""
    cells = split_record(text)
    if len(cells) != len(types):
        raise ValueError(f"{len(types)} cells are wanted, {len(cells)} are there")
    return tuple(_read_cell(i, cell, type_) for i, (cell, type_) in enumerate(zip(cells, types, strict=True)))


def _read_cell(index: int, cell: str | None, type_: pa.DataType) -> Any:
    if cell is None:
        return None
    try:
        return read_value(cell, type_)
    except (ValueError, ArithmeticError):
        raise ValueError(f"cell {index + 1}, {cell!r}, is not a value of type {shown_type(type_)}") from None


def shown_type(type_: pa.DataType) -> str:
    """By its SQL name; an answer may have types that no column can be declared with."""
    try:
        return type_name(type_)
    except ValueError:
        return str(type_)


def read_value(text: str, type_: pa.DataType) -> Any:
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return text
    if pa.types.is_nested(type_):
        return _from_json(json.loads(text), type_)
    text = text.strip()
    if pa.types.is_boolean(type_):
        if text.lower() not in _BOOLEANS:
            raise ValueError(text)
        return _BOOLEANS[text.lower()]
    if pa.types.is_integer(type_):
        return int(text)
    if pa.types.is_floating(type_):
        # a FLOAT column holds the nearest of 32 bits, and so must what is compared with it
        return float(np.float32(text)) if type_ == pa.float32() else float(text)
    if pa.types.is_decimal(type_):
        return Decimal(text)
    if pa.types.is_timestamp(type_):
        return parse_instant(text)
    if pa.types.is_duration(type_):
        return _read_duration(text)
    if pa.types.is_date(type_):
        return dt.date.fromisoformat(text)
    if pa.types.is_binary(type_):
        return bytes.fromhex(text)
    raise ValueError(f"values of type {type_} cannot be written in a script")


def _read_duration(text: str) -> Micros:
    return parse_instant(text) if re.fullmatch(r"[+-]?[0-9.]+", text) else parse_duration(text)


def _from_json(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(type_):
        return tuple((_from_json(key, type_.key_type), _from_json(item, type_.item_type)) for key, item in value)
    if pa.types.is_struct(type_):
        return tuple((field.name, _from_json(value.get(field.name), field.type)) for field in type_)
    if pa.types.is_list(type_):
        return tuple(_from_json(item, type_.value_type) for item in value)
    return value if isinstance(value, str) and pa.types.is_string(type_) else read_value(_json_text(value), type_)


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def plain(value: Any) -> Any:
    """A value as Arrow gives it to Python, in the form that `read_value` gives."""
    match value:
        case dt.datetime():
            return to_micros(value)
        case dt.timedelta():
            return value // dt.timedelta(microseconds=1)
        case dict():
            return tuple((name, plain(item)) for name, item in value.items())
        case list() | tuple():
            return tuple(plain(item) for item in value)
        case _:
            return value


def for_arrow(value: Any, type_: pa.DataType) -> Any:
    """A plain value in the form that Arrow makes arrays of: a struct by the names of its fields."""
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {name: for_arrow(item, type_.field(name).type) for name, item in value}
    if pa.types.is_map(type_):
        return [(for_arrow(key, type_.key_type), for_arrow(item, type_.item_type)) for key, item in value]
    if pa.types.is_list(type_):
        return [for_arrow(item, type_.value_type) for item in value]
    return value


def table_rows(table: pa.Table) -> list[Row]:
    """The rows of a table as plain values.  Columns go by position: names may repeat."""
    columns = [[plain(value) for value in table.column(i).to_pylist()] for i in range(table.num_columns)]
    return list(zip(*columns, strict=True)) if columns else []


def write_row(row: Row, types: Sequence[pa.DataType]) -> str:
    """The row as a line that `read_row` reads back."""
    return ",".join(_write_cell(value, type_) for value, type_ in zip(row, types, strict=True))


def _write_cell(value: Any, type_: pa.DataType) -> str:
    if value is None:
        return ""
    text = write_value(value, type_)
    # a first cell that looks like a comment, a sign or an instant would be read as one
    if not text or text != text.strip() or text[0] in "#+@-" or any(char in text for char in ',"\r\n'):
        return text if _is_number(text) else '"' + text.replace('"', '""') + '"'
    return text


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-(\d[\d.eE+-]*|Infinity)", text) is not None


def write_value(value: Any, type_: pa.DataType) -> str:
    if pa.types.is_boolean(type_):
        return "true" if value else "false"
    if pa.types.is_floating(type_):
        return _write_float(value, type_)
    if pa.types.is_timestamp(type_):
        return write_instant(value)
    if pa.types.is_duration(type_):
        return _write_seconds(value)
    if pa.types.is_binary(type_):
        return bytes(value).hex()
    if pa.types.is_nested(type_):
        return json.dumps(_to_json(value, type_))
    return str(value)


def _write_float(value: float, type_: pa.DataType) -> str:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = str(np.float32(value)) if type_ == pa.float32() else repr(float(value))
    return text.removesuffix(".0")


def write_instant(instant: Micros) -> str:
    """
    >>> write_instant(10_000_001), write_instant(4_000_000), write_instant(-1)
    ('10.000001', '4', '1969-12-31T23:59:59.999999Z')
    """
    return _write_seconds(instant) if 0 <= instant < _SECONDS_UNTIL else format_instant(instant)


def _write_seconds(micros: Micros) -> str:
    whole, fraction = divmod(abs(micros), 1_000_000)
    text = f"{whole}.{fraction:06}".rstrip("0").rstrip(".")
    return f"-{text}" if micros < 0 else text


def _to_json(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(type_):
        return [[_to_json(key, type_.key_type), _to_json(item, type_.item_type)] for key, item in value]
    if pa.types.is_struct(type_):
        return {name: _to_json(item, type_.field(name).type) for name, item in value}
    if pa.types.is_list(type_):
        return [_to_json(item, type_.value_type) for item in value]
    is_json = pa.types.is_integer(type_) or pa.types.is_boolean(type_) or pa.types.is_floating(type_)
    return value if is_json else write_value(value, type_)
