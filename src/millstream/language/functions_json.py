"""JSON kept in strings.  Text that is not JSON gives NULL."""

from __future__ import annotations

import re

import pyarrow as pa

from millstream.core.errors import NotSupported
from millstream.language.coercion import INT, STRING
from millstream.language.functions import Call, Function, coerced, custom, exactly, simple
from millstream.language.scalar_literals import constant_text, string
from millstream.plan.expression import Expr

_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_\- ]*)|\[(\d+)\]|\['([^']+)'\]")


def _path(call: Call) -> str:
    """The path in DuckDB's form; only names and indexes."""
    path = constant_text(call.args[1])
    if path is None:
        raise NotSupported(f"{call.name}: the path must be written in the query")
    if not path.startswith("$"):
        raise NotSupported(f"{call.name}: the path '{path}' does not start with $")
    result, position = "$", 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise NotSupported(f"{call.name}: the path '{path}' is not supported", hint="Use names and indexes: $.a.b[0].")
        name = step[1] or step[3]
        result += f'."{name}"' if name else f"[{step[2]}]"
        position = step.end()
    return result


def _get_json_object(call: Call) -> Expr:
    typed = call.with_args([coerced(call, 0, exactly(STRING)), string(_path(call))])
    return typed.gives(STRING, "TRY(json_extract_string({0}, {1}))")


FUNCTIONS: tuple[Function, ...] = (
    custom("get_json_object", least=2, most=2, bind=_get_json_object),
    simple("json_array_length", takes=[STRING], gives=INT,
           duckdb="CASE WHEN TRY(json_type({0})) = 'ARRAY' THEN CAST(TRY(json_array_length({0})) AS INTEGER) END"),
    simple("json_object_keys", takes=[STRING], gives=pa.list_(STRING),
           duckdb="CASE WHEN TRY(json_type({0})) = 'OBJECT' THEN TRY(json_keys({0})) END"),
)  # fmt: skip
