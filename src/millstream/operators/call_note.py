"""The note that a process leaves of the call of a user's function that it is in, in case it never comes back from it.

8 bytes   the row that is being called; mapped into memory, so a row costs one store, and it outlives the process
a line    who called, and what to say of it (JSON)
the rest  the arguments of a function that is called row by row, for the row to be shown (Arrow's stream format)
"""

from __future__ import annotations

import json
import mmap
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from millstream.core.value_text import value_text

_COUNTER_BYTES = 8
_MOST_ARGUMENT_BYTES = 1 << 24
"""Arguments that are larger are not noted: to write them would cost more than the calls."""
_LONGEST = 200
"""Characters of a value in a message."""


def write_note(path: Path, owner: str, told: str, arguments: Sequence[pa.Array] | None) -> memoryview:
    """Gives the counter of rows.  With `arguments`, those of the row that it is at are told too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w+b") as file:
        file.write(bytes(_COUNTER_BYTES))
        file.write(json.dumps({"owner": owner, "told": told}).encode() + b"\n")
        if arguments is not None:
            batch = pa.record_batch(list(arguments), names=[str(i) for i in range(len(arguments))])
            with pa.ipc.new_stream(file, batch.schema) as stream:
                stream.write_batch(batch)
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), _COUNTER_BYTES)).cast("q")


def read_note(path: Path) -> tuple[str, str]:
    """Who called, and what to say of the call; ValueError if the process ended before it was in it."""
    data = path.read_bytes()
    head, _, rest = data[_COUNTER_BYTES:].partition(b"\n")
    note = json.loads(head)
    if not rest:
        return note["owner"], note["told"]
    arguments = pa.ipc.open_stream(rest).read_all().columns
    row = int.from_bytes(data[:_COUNTER_BYTES], sys.byteorder)
    return note["owner"], f"{note['told']} {shown_row(row_at(arguments, row))}"


def may_be_noted(arguments: Sequence[pa.Array]) -> bool:
    return bool(sum(argument.nbytes for argument in arguments) <= _MOST_ARGUMENT_BYTES)


# --- rows in messages -------------------------------------------------------------------------


def row_at(arguments: Sequence[pa.Array | pa.ChunkedArray], row: int) -> tuple[object, ...]:
    return tuple(python_value(argument, row) for argument in arguments)


def python_value(array: pa.Array | pa.ChunkedArray, row: int) -> object:
    try:
        return array[row].as_py()
    except Exception:
        return array[row]


def shown_row(row: Sequence[object]) -> str:
    return f"({', '.join(shortened(value_text(value)) for value in row)})"


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
