"""Small files that are either old or new, whatever happens in between; large immutable files are elsewhere (parquet_file).

    atomic_write       replaces a file: temporary beside it, fsync, rename
    create_exclusive   creates a file that must not exist yet: temporary, fsync, hard link (which fails if the name is taken)
    writing            what the file system refuses becomes an error that names the place, here and for the large files

A crash leaves at most a temporary, whose name starts with `.tmp-`; `remove_temporaries` clears those away.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from millstream.core.errors import DiskFull, StorageFailed
from millstream.state.fault import fault_point

TEMPORARY = ".tmp-"
_OURS = re.compile(re.escape(TEMPORARY) + "([0-9a-f]{32}|[a-z0-9_]{8})")
"""A uuid, or what `tempfile` makes of the prefix."""
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_FULL = (errno.ENOSPC, errno.EDQUOT)


def atomic_write(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """`mode` is what the file's permissions are at most; the process's umask takes away from it."""
    with Replacement(path, data, mode=mode) as new:
        new.put()


class Replacement:
    """A file's next contents, on disk but not in its place yet: putting them there takes no space.

    Left without `put`, it is gone.
    """

    def __init__(self, path: Path, data: bytes, *, mode: int = 0o666) -> None:
        self._path = path
        self._kind = _kind(path)
        fault_point("atomic.before_write", self._kind)
        self._temporary = _written_temporary(path, data, mode)

    def put(self) -> None:
        with writing(self._path):
            fault_point("atomic.before_replace", self._kind)
            os.replace(self._temporary, self._path)
            sync_directory(self._path.parent)
            fault_point("atomic.after_replace", self._kind)

    def __enter__(self) -> Replacement:
        return self

    def __exit__(self, *_: object) -> None:
        remove_file(self._temporary)


def create_exclusive(path: Path, data: bytes, *, witness: Path | None = None) -> None:
    """Raises FileExistsError, and changes nothing, if `path` exists.

    `witness` becomes another name of the newest such file: if that one vanishes, the witness tells.
    """
    fault_point("atomic.before_write", _kind(path))
    temporary = _written_temporary(path, data)
    try:
        with writing(path):
            fault_point("atomic.before_link", _kind(path))
            _link(temporary, path)
            fault_point("atomic.after_link", _kind(path))
            _settle(path, temporary, witness)
    finally:
        remove_file(temporary)


def _settle(path: Path, temporary: Path, witness: Path | None) -> None:
    """Durable, or not there at all."""
    try:
        if witness is not None:
            os.replace(temporary, witness)
            fault_point("atomic.witnessed", _kind(path))
        sync_directory(path.parent)
    except OSError:
        remove_file(path)
        raise


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """FileExistsError is an answer; everything else that the file system says is a failure of what was to be written."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise storage_failure(path, error) from error


def storage_failure(path: str | Path, error: Exception) -> StorageFailed:
    code = getattr(error, "errno", None)
    if code in _FULL or any(f"os error {full}" in str(error) for full in _FULL):
        return DiskFull(
            f'there is no space left to write "{path}"', hint="Make room and do it again: what could not be written has not happened."
        )
    reason = os.strerror(code) if code else str(error)
    return StorageFailed(
        f'"{path}" cannot be written: {reason}', hint="See to the file system and do it again: what could not be written has not happened."
    )


def remove_file(path: Path) -> None:
    """Of something that did not come about.  What cannot be deleted now is swept away when the database is opened again."""
    with suppress(OSError):
        path.unlink()


def remove_temporaries(directory: Path) -> None:
    """What a crash in the middle of a write left in this directory.  Only for the one writer of the directory."""
    for path in [path for path in directory.glob(TEMPORARY + "*") if _OURS.fullmatch(path.name)]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            remove_file(path)


def remove_directory(directory: Path) -> None:
    """Gone under its name at once, then for good: a crash half-way leaves no half of it under its old name."""
    doomed = directory.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
    fault_point("atomic.before_directory", directory.parent.name)
    try:
        with writing(directory):
            os.rename(directory, doomed)
    except StorageFailed as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return
        raise
    fault_point("atomic.directory_renamed", directory.parent.name)
    if doomed.is_symlink():  # what it points to is not ours
        remove_file(doomed)
    else:
        shutil.rmtree(doomed, ignore_errors=True)
    fault_point("atomic.directory_removed", directory.parent.name)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """A new name is durable only once its directory is."""
    sync_file(directory)


def _written_temporary(path: Path, data: bytes, mode: int = 0o666) -> Path:
    temporary = path.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
    try:
        with writing(path), open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        remove_file(temporary)
        raise
    return temporary


def _link(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        # some network file systems have no hard links; the location's lock makes us the only writer, so looking first is enough
        if path.exists():
            raise FileExistsError(errno.EEXIST, "exists", str(path)) from error
        os.rename(_written_temporary(path, temporary.read_bytes()), path)


def _kind(path: Path) -> str:
    """Of which there is one for many numbered files: 000000012.json is N.json."""
    return re.sub(r"\d+", "N", path.name)
