"""One database on disk: its directory, its lock, its format version, and where everything lies in it.

    millstream.json              format version, number of buckets, id
    lock                         held as long as the database is open; says who holds it
    catalog.json                 catalog_file.py
    streams/<name>/              stream_log.py; <name>.late/ and <name>.rejected/ beside it
    relations/<name>/            relation_log.py
    queries/<name>/              changelog.py
    ticks/<number>.json          tick_record.py
    snapshots/<query>/           snapshot.py
    checkpoints/<name>/          Spark's own, for the source that fills a stream
    sinks/<name>.json            how far a sink is that cannot be asked itself: the console
    exchange/                    scratch between the stages of a tick

Only names and the lock live here; nothing that is inside those files.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any

from millstream.core.errors import ConfigInvalid, DataDamaged, FormatVersion, LocationInUse
from millstream.state.atomic import atomic_write, remove_directory, remove_temporaries
from millstream.state.names import encode_name
from millstream.state.sealed import RESTORE, read_sealed_json, read_unsealed_json, sealed_json

FORMAT_VERSION = 1
_FOLDERS = ("streams", "relations", "queries", "snapshots", "checkpoints", "sinks", "ticks")
_SYSTEM = ("sys", "sys.late")
"""The directories of the stream that is there without having been created."""


class Location:
    """Open with `Location.open`; exactly one holder at a time, in this process or any other."""

    def __init__(self, path: Path, lock: int, *, buckets: int, database_id: str) -> None:
        self.path = path
        self.buckets = buckets
        self.id = database_id
        self._lock: int | None = lock

    @staticmethod
    def open(path: str | Path, *, buckets: int | None = None, new_buckets: int = 1) -> Location:
        """Opens the database at `path`, creating it if there is none.

        From now on it has this number of buckets; without one an existing database keeps its own, and a new one gets `new_buckets`.
        """
        assert (buckets or new_buckets) > 0, "a database has at least one bucket"
        root = _directory(path)
        lock = _locked(root)
        try:
            header = _header(root, buckets, new_buckets)  # before anything is touched: it may not be ours
            for folder in ("", *_FOLDERS):
                remove_temporaries(root / folder)
            remove_directory(root / "exchange")
        except BaseException:
            os.close(lock)
            raise
        return Location(root, lock, buckets=header["buckets"], database_id=header["id"])

    def close(self) -> None:
        """Gives the location back.  May be called twice."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Location:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def stream_dir(self, name: str) -> Path:
        return self.path / "streams" / encode_name(name)

    def late_dir(self, name: str) -> Path:
        return self.path / "streams" / (encode_name(name) + ".late")

    def rejected_dir(self, name: str) -> Path:
        return self.path / "streams" / (encode_name(name) + ".rejected")

    def relation_dir(self, name: str) -> Path:
        return self.path / "relations" / encode_name(name)

    def query_dir(self, name: str) -> Path:
        return self.path / "queries" / encode_name(name)

    def snapshot_dir(self, query: str) -> Path:
        return self.path / "snapshots" / encode_name(query)

    def checkpoint_dir(self, name: str) -> Path:
        return self.path / "checkpoints" / encode_name(name)

    def sink_path(self, name: str) -> Path:
        return self.path / "sinks" / f"{encode_name(name)}.json"

    @property
    def tick_dir(self) -> Path:
        return self.path / "ticks"

    @property
    def exchange_dir(self) -> Path:
        return self.path / "exchange"

    def reading_dir(self, stream: str) -> Path:
        """Scratch too: which files of the stream's source are being read."""
        return self.exchange_dir / f"reading-{encode_name(stream)}"

    @property
    def dropped_frontier_path(self) -> Path:
        return self.path / "dropped.json"

    @property
    def catalog_path(self) -> Path:
        return self.path / "catalog.json"

    def require_catalog(self) -> None:
        """Without it everything here would be nobody's, and be swept away."""
        if _is_used(self.path) and not self.catalog_path.exists():
            raise DataDamaged(f'the file "{self.catalog_path}" is missing', hint=RESTORE)

    def drop_stream(self, name: str) -> None:
        for directory in (self.stream_dir(name), self.late_dir(name), self.rejected_dir(name), self.checkpoint_dir(name)):
            remove_directory(directory)

    def drop_relation(self, name: str) -> None:
        remove_directory(self.relation_dir(name))

    def drop_sink(self, name: str) -> None:
        self.sink_path(name).unlink(missing_ok=True)

    def drop_query(self, name: str) -> None:
        for directory in (self.query_dir(name), self.snapshot_dir(name)):
            remove_directory(directory)

    def sweep(self, *, streams: Collection[str], relations: Collection[str], queries: Collection[str]) -> None:
        """Deletes what others than these left behind: queries of a session, and whatever was dropped just before a crash."""
        kept = {
            "streams": {d.name for name in streams for d in (self.stream_dir(name), self.late_dir(name), self.rejected_dir(name))},
            "checkpoints": set(map(encode_name, streams)),
            "relations": set(map(encode_name, relations)),
            "queries": set(map(encode_name, queries)),
            "snapshots": set(map(encode_name, queries)),
        }
        for folder, names in kept.items():
            for directory in (self.path / folder).glob("*"):
                if directory.name not in names:
                    remove_directory(directory)


def _directory(path: str | Path) -> Path:
    text = os.fspath(path)
    if "://" in text or "%" in text:
        raise ConfigInvalid(f'the location "{text}" is not a directory name', hint='Use a path on a file system, without "%" in it.')
    root = Path(text).expanduser().absolute()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigInvalid(
            f'the location "{root}" cannot be used: {error.strerror}', hint="Choose a directory that you may write to."
        ) from error
    return root


def _locked(root: Path) -> int:
    try:
        lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ConfigInvalid(
            f'the location "{root}" cannot be used: {error.strerror}', hint="Choose a directory that you may write to."
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(lock, 64, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise LocationInUse(
            f'the location "{root}" is in use by process {holder}', hint="Close that database first, or choose another location."
        ) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _header(root: Path, buckets: int | None, new_buckets: int) -> dict[str, Any]:
    path = root / "millstream.json"
    if not path.exists():
        if any(root.glob("catalog.json")) or any(root.glob("ticks/*")) or _is_used(root):
            raise DataDamaged(f'the file "{path}" is missing', hint=RESTORE)
        if foreign := [name for name in (*_FOLDERS, "exchange") if (root / name).exists()]:
            raise ConfigInvalid(
                f'the location "{root}" is no database, but has "{foreign[0]}" in it, as a database would',
                hint="Choose an empty directory, or one that is not there yet.",
            )
        header = {"format_version": FORMAT_VERSION, "buckets": buckets or new_buckets, "id": str(uuid.uuid4())}
        atomic_write(path, sealed_json(header))
        return header
    _require_version(path)
    header = read_sealed_json(path, _decoded)
    if buckets is not None and header["buckets"] != buckets:
        header["buckets"] = buckets
        atomic_write(path, sealed_json(header))
    return header


def _require_version(path: Path) -> None:
    """Before anything else of the header, its checksum too: of another version we know nothing but that it has this number."""
    version = read_unsealed_json(path, lambda header: header["format_version"])
    if type(version) is not int or version != FORMAT_VERSION:  # true is no number here
        raise FormatVersion(
            f'the file "{path}" has format version {json.dumps(version)}, this is version {FORMAT_VERSION}',
            hint="Open it with the Millstream that wrote it, or choose another location.",
        )


def _decoded(header: dict[str, Any]) -> dict[str, Any]:
    if int(header["buckets"]) < 1:
        raise ValueError(f"{header['buckets']} buckets")
    return {"format_version": FORMAT_VERSION, "buckets": int(header["buckets"]), "id": str(header["id"])}


def _is_used(root: Path) -> bool:
    """Statements have made something here, which the catalog must know."""
    return any(entry.name not in _SYSTEM for folder in ("streams", "relations") for entry in root.glob(f"{folder}/*"))
