"""Changes of a relation that wait for their instant, one file each: `_scheduled/<number>.arrow` in the relation's directory.

What such a change does is known only at its instant, since others may still come before it; so it waits as the user gave it, and
enters the relation's log when its time has come.  The log names the last one that it has, so a crash between the log's commit and the
end of the file repeats nothing.  What a change means is the owner's business: it comes here as rows and a description.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.core.errors import DataDamaged
from millstream.core.instant import Micros
from millstream.state.atomic import atomic_write, remove_temporaries

_DIRECTORY = "_scheduled"
_DESCRIPTION = b"millstream"

Place = tuple[Micros, int]
"""In the order in which changes happen: by instant, then as they came."""


@dataclass(frozen=True)
class Scheduled:
    number: int
    instant: Micros
    description: dict[str, Any]
    rows: pa.Table

    @property
    def place(self) -> Place:
        return self.instant, self.number


class ScheduledChanges:
    """Of one relation.  Not thread-safe: the owner has the lock."""

    def __init__(self, relation_dir: Path, done: Place | None) -> None:
        """`done` is the last one that the log has."""
        self._directory = relation_dir / _DIRECTORY
        remove_temporaries(self._directory)
        self._waiting = sorted((_read(path) for path in self._directory.glob("*.arrow")), key=lambda change: change.place)
        self._last = max((change.number for change in self._waiting), default=done[1] if done else 0)
        for change in [change for change in self._waiting if done is not None and change.place <= done]:
            self.remove(change)

    def upto(self, instant: Micros) -> list[Scheduled]:
        """Those whose instant is not later, in the order in which they happen."""
        return [change for change in self._waiting if change.instant <= instant]

    def add(self, instant: Micros, description: dict[str, Any], rows: pa.Table) -> None:
        change = Scheduled(self._last + 1, instant, description, rows)
        self._directory.mkdir(exist_ok=True)
        atomic_write(self._path(change), _written(change))
        self._last = change.number
        self._waiting = sorted([*self._waiting, change], key=lambda change: change.place)

    def remove(self, change: Scheduled) -> None:
        self._path(change).unlink(missing_ok=True)
        self._waiting = [other for other in self._waiting if other is not change]

    def _path(self, change: Scheduled) -> Path:
        return self._directory / f"{change.number}.arrow"


def _written(change: Scheduled) -> bytes:
    described = json.dumps({"number": change.number, "instant": change.instant, "change": change.description})
    rows = change.rows.replace_schema_metadata({_DESCRIPTION: described.encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _read(path: Path) -> Scheduled:
    try:
        rows = pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all()
        described = json.loads(rows.schema.metadata[_DESCRIPTION])
        return Scheduled(described["number"], described["instant"], described["change"], rows.replace_schema_metadata(None))
    except (pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
        raise DataDamaged(f'"{path}" is damaged', hint="Restore it from a backup.") from error
