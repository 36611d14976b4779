"""Changes as lines on standard output.

Printed lines cannot be taken back, so how far they got is noted in the location after they are printed: what was printed in full
is not printed again, and a crash between the two prints one batch twice.  Never is a line lost.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from millstream.core.instant import NEVER_BEFORE, Micros, format_instant
from millstream.runtime.sinks.sink import SinkTarget, note_of, noted
from millstream.state.atomic import atomic_write
from millstream.state.fault import fault_point
from millstream.state.sealed import read_sealed_json, sealed_json


class ConsoleSink:
    def __init__(self, target: SinkTarget, note: Path) -> None:
        self._name = target.name
        self._owner = target.owner
        self._note = note
        note.parent.mkdir(exist_ok=True)
        self._position = _noted(note, target.owner)

    def position(self) -> Micros:
        return self._position

    def deliver(self, changes: pa.Table, batch: Micros) -> None:
        instants = changes.column(0).cast(pa.int64()).to_pylist()
        rows = zip(*(column.to_pylist() for column in changes.columns[1:]), strict=True)
        lines = [
            f"{self._name} {format_instant(instant)} {'+' if diff > 0 else '-'} {', '.join(map(str, row))}\n"
            for instant, (diff, *row) in zip(instants, rows, strict=True)
        ]
        fault_point("sink.before_write")
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
        fault_point("sink.after_write")
        atomic_write(self._note, sealed_json(note_of(self._owner, batch)))
        fault_point("sink.after_commit")
        self._position = batch

    def close(self) -> None:
        """Nothing is held."""


def _noted(path: Path, owner: str) -> Micros:
    """NEVER_BEFORE also if the note is that of an earlier sink of this name."""
    try:
        whose, batch = read_sealed_json(path, noted, hint="Remove it: the sink then prints everything again.")
    except FileNotFoundError:
        return NEVER_BEFORE
    return batch if whose == owner else NEVER_BEFORE
