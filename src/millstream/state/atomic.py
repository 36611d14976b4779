"""Small files that are either old or new, whatever happens in between; large immutable files are elsewhere (parquet_file).

    atomic_write       replaces a file: temporary beside it, fsync, rename
    create_exclusive   creates a file that must not exist yet: temporary, fsync, hard link (which fails if the name is taken)

A crash leaves at most a temporary, whose name starts with `.tmp-`; `remove_temporaries` clears those away.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from pathlib import Path

from millstream.state.fault import fault_point

TEMPORARY = ".tmp-"
_NO_HARD_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def atomic_write(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """`mode` is what the file's permissions are at most; the process's umask takes away from it."""
    temporary = _written_temporary(path, data, mode)
    fault_point("atomic.before_replace")
    os.replace(temporary, path)
    sync_directory(path.parent)


def create_exclusive(path: Path, data: bytes) -> None:
    """Raises FileExistsError, and changes nothing, if `path` exists."""
    temporary = _written_temporary(path, data)
    try:
        fault_point("atomic.before_link")
        _link(temporary, path)
        fault_point("atomic.after_link")
    finally:
        os.unlink(temporary)
    sync_directory(path.parent)


def remove_temporaries(directory: Path) -> None:
    """What a crash in the middle of a write left in this directory.  Only for the one writer of the directory."""
    for path in directory.glob(TEMPORARY + "*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def remove_directory(directory: Path) -> None:
    """Gone under its name at once, then for good: a crash half-way leaves no half of it under its old name."""
    doomed = directory.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
    try:
        os.rename(directory, doomed)
    except FileNotFoundError:
        return
    fault_point("atomic.directory_renamed")
    if doomed.is_symlink():  # what it points to is not ours
        doomed.unlink()
    else:
        shutil.rmtree(doomed, ignore_errors=True)


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
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
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
