"""The commit of a tick: one small file that says all it consumed and produced.  What it names exists from then on.

    ticks/000000123.json      written once, atomically; the highest number is where the database stands

Changelogs follow their tick: after a crash, `unpublished` gives the ticks whose outputs may not be in them yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from millstream.core.errors import DataDamaged, InternalError
from millstream.core.instant import Micros
from millstream.state.atomic import create_exclusive, writing
from millstream.state.fault import fault_point
from millstream.state.location import Location
from millstream.state.output_file import OutputFile
from millstream.state.sealed import RESTORE, check_own, read_sealed_json, sealed_json

_NEWEST = "newest"  # another name of the newest record


@dataclass(frozen=True, slots=True)
class TickRecord:
    tick: int
    frontiers: Mapping[str, Micros]  # per query: its answer is final up to here
    stream_versions: Mapping[str, int]  # per stream: the version of its log that the tick saw
    outputs: Mapping[str, Sequence[OutputFile]] = field(default_factory=dict)  # per query
    snapshots: Mapping[str, Sequence[str]] = field(default_factory=dict)  # per query: files below its snapshot directory
    plan_version: int = 0
    previous: int | None = field(default=None, compare=False)  # the tick before, if its record was still kept

    def to_json(self) -> dict[str, Any]:
        return {
            "tick": self.tick,
            "frontiers": dict(self.frontiers),
            "stream_versions": dict(self.stream_versions),
            "outputs": {query: [file.to_json() for file in files] for query, files in self.outputs.items()},
            "snapshots": {query: list(paths) for query, paths in self.snapshots.items()},
            "plan_version": self.plan_version,
            "previous": self.previous,
        }

    @staticmethod
    def from_json(fields: dict[str, Any]) -> TickRecord:
        outputs = {query: [OutputFile.from_json(file) for file in files] for query, files in fields["outputs"].items()}
        return TickRecord(**{**fields, "outputs": outputs})


class TickLog:
    """The committed ticks that are still kept, oldest first.  For the driver's one tick loop; not thread-safe."""

    def __init__(self, directory: Path, records: list[TickRecord]) -> None:
        self._directory = directory
        self._records = records
        self._published = -1

    @staticmethod
    def open(location: Location) -> TickLog:
        location.tick_dir.mkdir(parents=True, exist_ok=True)
        paths = sorted(location.tick_dir.glob("*.json"), key=lambda path: int(path.stem))
        records = [read_sealed_json(path, partial(_own_record, int(path.stem))) for path in paths]
        _require_all(location.tick_dir, records)
        return TickLog(location.tick_dir, records)

    @property
    def last(self) -> TickRecord | None:
        return self._records[-1] if self._records else None

    @property
    def records(self) -> tuple[TickRecord, ...]:
        return tuple(self._records)

    def append(self, record: TickRecord) -> None:
        """The tick is committed when this returns; InternalError, and nothing changes, if it is not a later one than the last."""
        if self.last is not None and record.tick <= self.last.tick:
            raise InternalError(f"tick {record.tick} is committed already, the last one is {self.last.tick}")
        record = replace(record, previous=None if self.last is None else self.last.tick)
        fault_point("tick.before_commit")
        try:
            create_exclusive(_path(self._directory, record.tick), sealed_json(record.to_json()), witness=self._directory / _NEWEST)
        except FileExistsError as error:
            raise InternalError(f"tick {record.tick} is committed already") from error
        self._records.append(record)
        fault_point("tick.after_commit")

    def unpublished(self) -> list[TickRecord]:
        """Ticks not marked as published since the open: publishing one again does nothing, so the mark needs no place on disk."""
        return [record for record in self._records if record.tick > self._published]

    def mark_published(self, tick: int) -> None:
        """All outputs up to this tick are in their changelogs."""
        self._published = max(self._published, tick)

    def prune(self, keep_from: int) -> int:
        """Removes records before `keep_from`, but never the last, nor one that is not published; returns how many."""
        if not self._records:
            return 0
        limit = min(keep_from, self._published + 1, self._records[-1].tick)
        gone = [record for record in self._records if record.tick < limit]
        for record in gone:
            with writing(_path(self._directory, record.tick)):
                _path(self._directory, record.tick).unlink(missing_ok=True)
            fault_point("tick.pruned")
        self._records = self._records[len(gone) :]
        return len(gone)


def _own_record(tick: int, fields: dict[str, Any]) -> TickRecord:
    check_own("tick", fields["tick"], tick)
    return TickRecord.from_json(fields)


def _path(directory: Path, tick: int) -> Path:
    return directory / f"{tick:09d}.json"


def _require_all(directory: Path, records: Sequence[TickRecord]) -> None:
    """No record between the oldest that is kept and the newest that was written is missing."""
    try:
        expected = [read_sealed_json(directory / _NEWEST, TickRecord.from_json).tick]
    except FileNotFoundError:
        expected = []
    expected += [record.previous for record in records[1:] if record.previous is not None]
    for tick in sorted(set(expected) - {record.tick for record in records}):
        raise DataDamaged(f'the record of a tick, "{_path(directory, tick)}", is missing', hint=RESTORE)
