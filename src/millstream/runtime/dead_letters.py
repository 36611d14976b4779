"""Rows that a stream could not take, on their way into its table of dead letters: what they said, why not, and where from.

A part is what comes from one place at once (a call of `insert`, a file, a partition of a batch): its good rows in arrival
order, and beside them the bad ones.  Who finds bad rows does not know what becomes of them; `ON ERROR` does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.schema import TIMESTAMP
from millstream.core.value_text import value_text
from millstream.state.file_columns import DEAD_LETTER

MOST_BYTES = 4096
"""Of a row's text that are kept."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    row: str | None  # None: a whole file
    reason: str
    source: str

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"


@dataclass(frozen=True)
class Part:
    rows: pa.Table  # of the stream's columns and types
    rejected: list[DeadLetter] = field(default_factory=list)


def letters_table(letters: Sequence[DeadLetter], at: Micros) -> pa.Table:
    columns = [
        pa.array([None if letter.row is None else cut(letter.row) for letter in letters], pa.string()),
        pa.array([cut(letter.reason) for letter in letters], pa.string()),
        pa.array([cut(letter.source) for letter in letters], pa.string()),
        pa.array(np.full(len(letters), at, np.int64)).cast(TIMESTAMP),
    ]
    return pa.Table.from_arrays(columns, schema=DEAD_LETTER)


def cut(text: str) -> str:
    """At most MOST_BYTES of the text, told so if there was more.  What no UTF-8 can say is escaped."""
    # a character has at least one byte: what lies behind that many is not looked at twice
    head = text[: MOST_BYTES + 1].encode("utf-8", "backslashreplace")
    if len(head) <= MOST_BYTES:
        return head.decode()
    size = len(text.encode("utf-8", "backslashreplace"))
    return f"{head[:MOST_BYTES].decode(errors='ignore')}... ({size} bytes in all)"


def record_text(names: Sequence[str], values: Sequence[Any]) -> str:
    """A row of columns, as a JSON object."""
    return json.dumps(dict(zip(names, values, strict=True)), default=_plain, ensure_ascii=False)


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    isoformat: Callable[[], str] | None = getattr(value, "isoformat", None)
    return isoformat() if isoformat is not None else value_text(value)
