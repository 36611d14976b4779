"""The queries by name, in the order of their numbers, as they stand in queries/."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

HERE = Path(__file__).parent
SCHEMA = (HERE / "schema.cql").read_text(encoding="utf-8")
QUERIES = {f"q{i}": (HERE / "queries" / f"q{i}.cql").read_text(encoding="utf-8") for i in range(23)}
STREAMS = ("person", "auction", "bid", "closing")


def question(name: str) -> str:
    """What a query asks: the first line of its file."""
    return QUERIES[name].splitlines()[0].removeprefix("-- ")


def side_input() -> pa.Table:
    """The table of q13: a value for each of ten thousand keys."""
    keys = pa.array(np.arange(10_000))
    return pa.table({"key": keys, "value": pa.compute.binary_join_element_wise("value-", keys.cast(pa.string()), "")})
