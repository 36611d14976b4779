"""The stream's columns out of what a source gives, in Spark SQL; and of the rows that it cannot take, what they were.

    the stream's columns | _millstream_row   the row as it came, if it cannot be taken; NULL for a good one
                         | _millstream_reason   why, where Spark knows it
                         | _millstream_source   the file that it stood in, or the source's format

A value that becomes NULL on its way into the declared type cannot be taken.  Text that Spark parses (JSON, CSV) tells of itself
when it is broken: Spark keeps such a record whole in a column of its own.  FLOATs stay DOUBLEs until they are sorted out
(sorting_out.py): Spark, too, makes infinity of a number that is too great.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType

from millstream.core.errors import SourceFailed
from millstream.core.schema import Field, Schema, type_name
from millstream.core.value_ranges import widened
from millstream.language.catalog import StreamEntry
from millstream.runtime.dead_letters import DeadLetter, Part
from millstream.runtime.row_times import RowTimes
from millstream.runtime.row_values import shown
from millstream.runtime.sorting_out import sorted_out

CORRUPT = "_millstream_corrupt"
ROW, REASON, SOURCE = "_millstream_row", "_millstream_reason", "_millstream_source"
_PARSED = ("json", "csv", "xml")
"""Formats whose reader keeps what it cannot parse."""
_OWN_WAY = ("mode", "columnnameofcorruptrecord")
"""With these options a user says what becomes of broken records."""


def keeps_corrupt(entry: StreamEntry) -> bool:
    """Broken records of the source come in the column CORRUPT."""
    return str(entry.format).lower() in _PARSED and not any(key.lower() in _OWN_WAY for key in entry.options)


def spark_schema(schema: Schema, *, corrupt: bool) -> str:
    """`corrupt`: of text that Spark parses, with a column for what it cannot."""
    if not corrupt:
        return ", ".join(f"`{field.name}` {type_name(field.type)}" for field in schema)
    return ", ".join([*(f"`{field.name}` {_spark_type(field)}" for field in schema), f"`{CORRUPT}` STRING"])


def _spark_type(field: Field) -> str:
    return type_name(widened(field.type))


def declared_columns(frame: DataFrame, entry: StreamEntry, *, is_file: bool = False) -> DataFrame:
    """`is_file`: Spark knows which file each row stood in."""
    source = sf.col("_metadata.file_path") if is_file else sf.lit(entry.format or "DataFrame")
    frame = frame.select("*", source.alias(SOURCE))
    is_message = str(entry.options.get("value.format", "")).lower() == "json"
    if is_message:
        frame = _unpacked(frame, entry.schema)
    own = [name for name in frame.columns if name not in (CORRUPT, SOURCE)]
    given = {name.lower(): name for name in own}
    for field in entry.schema:
        if field.name.lower() not in given:
            raise SourceFailed(
                f'the source of stream "{entry.name}" has no column "{field.name}"',
                hint=f"It has: {', '.join(own)}. Messages in JSON need OPTIONS (value.format 'json').",
            )
    columns = [sf.col(f"`{given[field.name.lower()]}`") for field in entry.schema]
    casts = [column.try_cast(_spark_type(field).lower()).alias(field.name) for column, field in zip(columns, entry.schema, strict=True)]
    losses = [_loss(column, field) for column, field in zip(columns, entry.schema, strict=True)]
    reason = sf.concat_ws("; ", *losses)
    corrupt = sf.col(CORRUPT).cast("binary") if CORRUPT in frame.columns else sf.lit(None).cast("binary")
    time = columns[entry.schema.names.index(entry.timestamp_by)]
    whole = sf.to_json(sf.struct(*(sf.col(f"`{name}`") for name in own))).cast("binary")
    row = sf.coalesce(corrupt, sf.when((reason != "") | time.isNull(), whole))
    return frame.select(
        *casts, row.alias(ROW), sf.when(reason != "", reason).alias(REASON), sf.when(row.isNotNull(), sf.col(SOURCE)).alias(SOURCE)
    )


def _unpacked(frame: DataFrame, schema: Schema) -> DataFrame:
    """Messages in JSON by the stream's columns; one that is not text, or no object, is corrupt."""
    text = sf.col("value").cast("string")
    how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    is_text = sf.is_valid_utf8(text) if isinstance(frame.schema["value"].dataType, BinaryType) else sf.lit(True)
    parsed = sf.when(is_text, sf.from_json(text, spark_schema(schema, corrupt=True), how))
    rows = frame.select(parsed.alias("row"), sf.col("value").cast("binary").alias("message"), SOURCE)
    corrupt = sf.when(sf.col("row").isNull() | sf.col(f"row.{CORRUPT}").isNotNull(), sf.col("message"))
    return rows.select(*(sf.col(f"row.`{field.name}`") for field in schema), corrupt.alias(CORRUPT), SOURCE)


def _loss(column: Column, field: Field) -> Column:
    """Said of a value that the cast makes NULL of; NULL otherwise."""
    told = sf.concat(sf.lit(f'column "{field.name}" takes {type_name(field.type)}, not '), sf.substring(column.cast("string"), 1, 60))
    lost = column.isNotNull() & column.try_cast(_spark_type(field).lower()).isNull()
    return sf.when(lost, sf.coalesce(told, sf.lit(f'column "{field.name}" does not hold {type_name(field.type)}')))


# --- on executors -----------------------------------------------------------------------------


def part_of(table: pa.Table, schema: Schema, times: RowTimes, source: str) -> Part:
    """Rows as `declared_columns` gives them, sorted out; those that Spark found good are not followed to their files."""
    is_bad = pc.is_valid(table.column(ROW))
    good, bad = table.filter(pc.invert(is_bad)), table.filter(is_bad)
    part = sorted_out(good.select(list(schema.names)), schema, times, lambda i: source)
    letters = [_letter(row, schema, times) for row in bad.to_pylist()]
    return Part(part.rows, [*letters, *part.rejected])


def _letter(row: dict[str, Any], schema: Schema, times: RowTimes) -> DeadLetter:
    text = bytes(row[ROW]).decode("utf-8", "backslashreplace")
    reason = row[REASON] or _reason(bytes(row[ROW]), row, schema, times)
    return DeadLetter(text, reason, row[SOURCE])


def _reason(message: bytes, row: dict[str, Any], schema: Schema, times: RowTimes) -> str:
    """Why Spark could not parse the message, or made no time of it."""
    try:
        value = json.loads(message.decode())
    except UnicodeDecodeError:
        return "the text is not UTF-8"
    except ValueError as error:
        return f"the text is not what the source's format has: {error}"
    if not isinstance(value, dict):
        return f"a {type(value).__name__} is not a row"
    lost = [field for field in schema if row[field.name] is None and _given(value, field.name) is not None]
    if lost:
        return "; ".join(f'column "{field.name}" takes {type_name(field.type)}, not {shown(_given(value, field.name))}' for field in lost)
    return f'column "{times.timestamp_by}" of "{times.stream}" is its timestamp and cannot be NULL'


def _given(value: dict[str, Any], name: str) -> Any:
    return next((given for key, given in value.items() if key.lower() == name.lower()), None)
