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


class EndsWhenShown(Exception):
    """Would end the process that wants to tell what has gone wrong."""

    def __repr__(self) -> str:
        raise SystemExit

    __str__ = __repr__


class Streamless:
    """Says that it speaks Arrow, and does not."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise KeyError("no")


def not_utf8(values: list[bytes]) -> pa.Array:
    """Bytes under the name of text."""
    return pa.array(values, pa.binary()).view(pa.string())


def decimals(precision: int, scale: int, *unscaled: int) -> pa.Array:
    """With as many digits as they have, whatever the type says."""
    data = b"".join(number.to_bytes(16, "little", signed=True) for number in unscaled)
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(unscaled), [None, pa.py_buffer(data)])


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(_table(columns), sink)
    return sink.getvalue()


def arrow(**columns: Any) -> bytes:
    return _arrow(_table(columns))


def arrow_twice() -> bytes:
    table = _table({"ts": [0], "k": ["a"], "v": [1]})
    return _arrow(table.append_column("v", table.column("v")))


def arrow_with_wrong_offsets() -> bytes:
    """A text that would lie far behind the end of the file."""
    offsets = pa.py_buffer(np.array([0, 2**30, 1], np.int32).tobytes())
    return arrow(ts=[0, 1], k=pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a")]), v=[1, 2])


def _arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
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
    "EndsWhenShown": EndsWhenShown,
    "decimals": decimals, "arrow_twice": arrow_twice, "arrow_with_wrong_offsets": arrow_with_wrong_offsets,
}  # fmt: skip


def value_of(text: str, **more: Any) -> Any:
    return eval(text, NAMES | more)
