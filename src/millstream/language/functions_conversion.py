"""Types as functions: `int(x)` is `CAST(x AS INT)`."""

from __future__ import annotations

import pyarrow as pa

from millstream.core.schema import type_from_name
from millstream.language.functions import Call, Function, custom
from millstream.language.scalar_casts import cast
from millstream.plan.expression import Expr

_NAMES = ("bigint", "binary", "boolean", "date", "decimal", "double", "float", "int", "smallint", "string", "timestamp", "tinyint")


def _to(type_: pa.DataType) -> Function:
    def bind(call: Call) -> Expr:
        return cast(call.args[0], type_)

    name = next(name for name in _NAMES if type_from_name(name) == type_)
    return custom(name, least=1, most=1, bind=bind)


FUNCTIONS: tuple[Function, ...] = tuple(_to(type_from_name(name)) for name in _NAMES)
