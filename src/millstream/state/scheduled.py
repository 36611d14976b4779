"""Changes of a relation that wait for their instant, one file each: `_scheduled/<number>.arrow` in the relation's directory.

What such a change does is known only at its instant, since others may still come before it; so it waits as the user gave it, and
enters the relation's log when its time has come.  The log names the last one that it has, so a crash between the log's commit and the
end of the file repeats nothing.  What a change means is the owner's business: it comes here as rows and a description.

`_scheduled/waiting.json` lists the numbers.  A change waits once it is listed; a file that is not is what a crash left, and one that is
listed and not there has been taken away by somebody else.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.core.errors import DataDamaged
from millstream.core.instant import Micros
from millstream.state.atomic import atomic_write, remove_file, remove_temporaries, writing
from millstream.state.fault import fault_point
from millstream.state.sealed import RESTORE, check_own, read_sealed, read_sealed_json, sealed, sealed_json

_DIRECTORY = "_scheduled"
_LIST = "waiting.json"
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
        self._relation = relation_dir.name
        remove_temporaries(self._directory)
        self._waiting = sorted((_read(path, self._relation) for path in self._listed()), key=lambda change: change.place)
        self._last = max((change.number for change in self._waiting), default=done[1] if done else 0)
        for change in [change for change in self._waiting if done is not None and change.place <= done]:
            self.remove(change)

    def upto(self, instant: Micros) -> list[Scheduled]:
        """Those whose instant is not later, in the order in which they happen."""
        return [change for change in self._waiting if change.instant <= instant]

    def add(self, instant: Micros, description: dict[str, Any], rows: pa.Table) -> None:
        change = Scheduled(self._last + 1, instant, description, rows)
        with writing(self._directory):
            self._directory.mkdir(exist_ok=True)
        if not self._last:
            self._save([])  # before the first file: from then on a list that is missing has been taken away
        atomic_write(self._path(change.number), _written(change, self._relation))
        self._save(sorted([*self._waiting, change], key=lambda change: change.place))
        self._last = change.number

    def remove(self, change: Scheduled) -> None:
        self._save([other for other in self._waiting if other is not change])
        fault_point("scheduled.before_delete")
        remove_file(self._path(change.number))
        fault_point("scheduled.deleted")

    def _save(self, waiting: list[Scheduled]) -> None:
        atomic_write(self._directory / _LIST, sealed_json([change.number for change in waiting]))
        self._waiting = waiting

    def _listed(self) -> list[Path]:
        found = set(self._directory.glob("*.arrow"))
        try:
            listed = read_sealed_json(self._directory / _LIST, lambda numbers: [self._path(int(number)) for number in numbers])
        except FileNotFoundError:
            if found:
                raise DataDamaged(f'the file "{self._directory / _LIST}" is missing', hint=RESTORE) from None
            return []
        for path in found.difference(listed):
            remove_file(path)
        return listed

    def _path(self, number: int) -> Path:
        return self._directory / f"{number}.arrow"


def _written(change: Scheduled, relation: str) -> bytes:
    described = json.dumps({"relation": relation, "number": change.number, "instant": change.instant, "change": change.description})
    rows = change.rows.replace_schema_metadata({_DESCRIPTION: described.encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sealed(bytes(sink.getvalue()))


def _read(path: Path, relation: str) -> Scheduled:
    try:
        return read_sealed(path, lambda data: _decoded(data, int(path.stem), relation))
    except FileNotFoundError:
        raise DataDamaged(f'the file "{path}" is missing', hint=RESTORE) from None


def _decoded(data: bytes, number: int, relation: str) -> Scheduled:
    rows = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    described = json.loads(rows.schema.metadata[_DESCRIPTION])
    check_own("relation", described.get("relation"), relation)
    check_own("change", described["number"], number)
    return Scheduled(number, described["instant"], described["change"], rows.replace_schema_metadata(None))
