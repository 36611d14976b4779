"""What the cases may name."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import re
import threading
import time
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq


class Unshowable(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


class Streamless:
    """Says that it speaks Arrow, and does not."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise KeyError("no")


def not_utf8(values: list[bytes]) -> pa.Array:
    """Bytes under the name of text."""
    return pa.array(values, pa.binary()).view(pa.string())


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(_table(columns), sink)
    return sink.getvalue()


def arrow(**columns: Any) -> bytes:
    sink, table = io.BytesIO(), _table(columns)
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _table(columns: dict[str, Any]) -> pa.Table:
    return pa.table(columns | {"ts": pa.array(columns["ts"], pa.int64()).cast(pa.timestamp("us"))})


def fails(error: Any) -> NoReturn:
    raise error


def forever() -> NoReturn:
    while True:
        pass


def stubborn() -> NoReturn:
    """Catches everything, once."""
    try:
        forever()
    except BaseException:
        forever()


def recursive(value: int) -> int:
    return recursive(value)


NAMES: dict[str, Any] = {
    "dt": dt, "np": np, "pa": pa, "pd": pd, "pl": pl, "re": re, "time": time, "threading": threading, "gzip": gzip, "Decimal": Decimal,
    "nan": float("nan"), "inf": float("inf"), "Unshowable": Unshowable, "not_utf8": not_utf8, "parquet": parquet, "arrow": arrow,
    "fails": fails, "forever": forever, "stubborn": stubborn, "recursive": recursive, "header": "header", "Streamless": Streamless,
}  # fmt: skip


def value_of(text: str, **more: Any) -> Any:
    return eval(text, NAMES | more)
