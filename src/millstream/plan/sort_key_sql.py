"""The order of whole rows, as byte strings that DuckDB makes: they compare, byte by byte, as the rows do column by column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millstream.core.schema import Field


def sort_key_sql(fields: Sequence[Field]) -> str:
    """Columns in this order, as Spark has them: NULL is the least, NaN the greatest number.

    0.0 and -0.0 are equal, but not the same row: where nothing else tells rows apart, the sign does.  Inside arrays and structs NULL
    comes last, as DuckDB has it.
    """
    names = {field.name: '"' + field.name.replace('"', '""') + '"' for field in fields}
    signs = [f"(NOT signbit({names[field.name]}))" for field in fields if pa.types.is_floating(field.type)]
    # with a text at the end, the key is never short enough to become a number
    ordered = ", ".join(f"{part}, 'ASC NULLS FIRST'" for part in (*names.values(), *signs, "''"))
    return f"create_sort_key({ordered})"
