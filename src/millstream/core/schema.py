"""Schemas: ordered, typed columns.  Types are Arrow's; their names are Spark SQL's.

A schema inside a plan has unique column names; what users see as result names (which may repeat)
is kept beside the plan, not here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
INTERVAL = pa.duration("us")

_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "BYTE": pa.int8(), "SMALLINT": pa.int16(), "SHORT": pa.int16(),
    "INT": pa.int32(), "INTEGER": pa.int32(), "BIGINT": pa.int64(), "LONG": pa.int64(), "FLOAT": pa.float32(), "REAL": pa.float32(),
    "DOUBLE": pa.float64(), "STRING": pa.string(), "VARCHAR": pa.string(), "CHAR": pa.string(), "TEXT": pa.string(), "BINARY": pa.binary(),
    "DATE": pa.date32(), "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP, "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
    "DECIMAL": pa.decimal128(10, 0), "NUMERIC": pa.decimal128(10, 0), "INTERVAL": INTERVAL, "VOID": pa.null(),
}  # fmt: skip

_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT", pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE", pa.string(): "STRING", pa.binary(): "BINARY", pa.date32(): "DATE", TIMESTAMP: "TIMESTAMP",
    TIMESTAMP_NTZ: "TIMESTAMP_NTZ", INTERVAL: "INTERVAL DAY TO SECOND", pa.null(): "VOID",
}  # fmt: skip


def type_from_name(name: str) -> pa.DataType:
    """Spark SQL's type name to Arrow's type; ValueError if there is none.

    >>> type_from_name("decimal(10, 2)"), type_from_name("array<int>")
    (Decimal128Type(decimal128(10, 2)), ListType(list<item: int32>))
    """
    text = name.strip()
    upper = text.upper()
    if match := re.fullmatch(r"(DECIMAL|NUMERIC|DEC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", upper):
        precision, scale = int(match[2]), int(match[3] or 0)
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(f"{text} is out of range: a decimal has 1 to 38 digits")
        return pa.decimal128(precision, scale)
    if match := re.fullmatch(r"(VARCHAR|CHAR)\s*\(\s*\d+\s*\)", upper):
        return pa.string()
    if upper.startswith("INTERVAL"):
        return INTERVAL
    if match := re.fullmatch(r"(?is)(array|map|struct)\s*<(.*)>", text):
        return _nested(match[1].upper(), _split_arguments(match[2]))
    if upper not in _TYPES:
        raise ValueError(f'"{text}" is not a type')
    return _TYPES[upper]


def _nested(kind: str, arguments: list[str]) -> pa.DataType:
    if kind == "ARRAY" and len(arguments) == 1:
        return pa.list_(type_from_name(arguments[0]))
    if kind == "MAP" and len(arguments) == 2:
        return pa.map_(type_from_name(arguments[0]), type_from_name(arguments[1]))
    if kind == "STRUCT" and arguments:
        parts = [re.split(r"\s*:\s*|\s+", argument.strip(), maxsplit=1) for argument in arguments]
        if all(len(part) == 2 for part in parts):
            return pa.struct([(part[0].strip("`"), type_from_name(part[1])) for part in parts])
    raise ValueError(f"{kind} has the wrong number of type arguments")


def _split_arguments(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def type_name(arrow: pa.DataType) -> str:
    """Arrow's type by the name that Spark SQL gives it."""
    if arrow in _NAMES:
        return _NAMES[arrow]
    if isinstance(arrow, pa.Decimal128Type):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if isinstance(arrow, pa.ListType):
        return f"ARRAY<{type_name(arrow.value_type)}>"
    if isinstance(arrow, pa.MapType):
        return f"MAP<{type_name(arrow.key_type)},{type_name(arrow.item_type)}>"
    if isinstance(arrow, pa.StructType):
        return "STRUCT<" + ",".join(f"{field.name}:{type_name(field.type)}" for field in arrow) + ">"
    raise ValueError(f"no SQL name for {arrow}")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: pa.DataType

    def __str__(self) -> str:
        return f"{self.name} {type_name(self.type)}"


@dataclass(frozen=True, slots=True)
class Schema:
    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        assert len(set(self.names)) == len(self.fields), f"column names repeat: {self.names}"

    @staticmethod
    def of(**types: str) -> Schema:
        """A schema from SQL type names: `Schema.of(ts="TIMESTAMP", size="INT")`."""
        return Schema(tuple(Field(name, type_from_name(text)) for name, text in types.items()))

    @staticmethod
    def from_arrow(schema: pa.Schema) -> Schema:
        return Schema(tuple(Field(field.name, field.type) for field in schema))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Field:
        return self.fields[self.names.index(name)]

    def select(self, names: tuple[str, ...]) -> Schema:
        return Schema(tuple(self[name] for name in names))

    def to_arrow(self) -> pa.Schema:
        return pa.schema([pa.field(field.name, field.type) for field in self.fields])

    def __str__(self) -> str:
        return ", ".join(map(str, self.fields))
