"""Relations that Spark reads: any format of its `read`, each time as a whole."""

from __future__ import annotations

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from millstream.core.errors import ColumnNotFound, SourceFailed, did_you_mean
from millstream.runtime.pulls.origin import Origin
from millstream.spark.declared_columns import spark_schema
from millstream.spark.once import spark_reason
from millstream.spark.session import errors_told_by_us

_PARSED = ("json", "csv", "xml")
"""Formats whose files do not say what their columns are."""


def read_batch(spark: SparkSession, origin: Origin) -> pa.Table:
    """The relation's columns by name; values that do not fit are found when they are taken."""
    try:
        with errors_told_by_us():
            reader = spark.read.format(origin.format).options(**origin.options)
            if origin.format in _PARSED:
                reader = reader.schema(spark_schema(origin.schema, corrupt=False)).option("mode", "FAILFAST")
            frame = reader.load()
            there = {name.lower(): name for name in frame.columns}
            for name in origin.schema.names:
                if name.lower() not in there:
                    hint = did_you_mean(name, there) or f"It has: {', '.join(frame.columns)}."
                    raise ColumnNotFound(f'"{origin.format}" gives no column "{name}"', hint=hint)
            return frame.select(*(frame[f"`{there[name.lower()]}`"].alias(name) for name in origin.schema.names)).toArrow()
    except (PySparkException, Py4JJavaError) as error:
        raise SourceFailed(spark_reason(error)) from error
