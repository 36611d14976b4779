"""The workload on a file system that is full, then a little less full, and so on, before every step; then read-only in parts.

    unshare -rm python -m crash.full_disk MOUNTPOINT

Runs in a mount namespace of its own, so it may mount without being root.  A step may fail with DISK_FULL, or STORAGE_FAILED where the
file system is read-only, and with nothing else; then it has not happened, and the same process does it again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from crash import workload
from inline import open_inline
from millstream.api import Database
from millstream.core.errors import DiskFull, StorageFailed

FREE_PAGES = (0, 1, 2, 3, 5, 8, 14, 24, 40, 80, 160, 4000)
FOLDERS = ("streams", "relations", "queries", "ticks", "snapshots")
_PAGE = 4096


class Ballast:
    """A file that takes what is free, but for so many pages."""

    def __init__(self, place: Path) -> None:
        self._path = place / "ballast"

    def leave(self, pages: int) -> None:
        self._path.unlink(missing_ok=True)
        with open(self._path, "wb") as file:
            while (size := self._free() - pages * _PAGE) > 0:
                with suppress(OSError):  # a checkpoint that is being written beside us may take some of it
                    os.posix_fallocate(file.fileno(), 0, size)
                    return

    def _free(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_bsize


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    directory.mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", directory, directory], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)  # a checkpoint may still be reading there


def attempt(db: Database, step: workload.Step) -> StorageFailed | None:
    try:
        step.do(db)
    except StorageFailed as error:
        refusal = error
    else:
        return None
    assert refusal.hint, refusal
    assert "/db/" in refusal.message, refusal
    assert step.is_done is None or not step.is_done(db), f"{step.name} failed and has happened all the same"
    return refusal


def on_a_full_disk(place: Path) -> Counter[str]:
    """How often each kind of step was refused."""
    refused: Counter[str] = Counter()
    ballast = Ballast(place)
    with open_inline(place / "db") as db:
        for step in workload.steps():
            for pages in FREE_PAGES:
                ballast.leave(pages)
                error = attempt(db, step)
                if error is None:
                    break
                assert isinstance(error, DiskFull), error
                refused[step.name.split()[0]] += 1
            else:
                raise AssertionError(f"{step.name} is refused though there is space: {error}")
        ballast.leave(4000)
        (place / "seen").write_text(repr(workload.observe(db)))
        ballast.leave(0)  # closing must do without space
    ballast.leave(4000)
    return refused


def read_only_parts(place: Path) -> int:
    """A step while a folder cannot be written; returns how often one was refused."""
    refused = 0
    with open_inline(place / "db") as db:
        for number, step in enumerate(workload.steps()):
            with read_only(place / "db" / FOLDERS[number % len(FOLDERS)]):
                error = attempt(db, step)
            if error is not None:
                assert error.code == "STORAGE_FAILED", error
                refused += 1
                step.do(db)
        (place / "seen").write_text(repr(workload.observe(db)))
    return refused


def undisturbed(place: Path) -> str:
    with open_inline(place / "db") as db:
        for step in workload.steps():
            step.do(db)
        return repr(workload.observe(db))


def main(place: Path) -> None:
    workload.tune()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", place], check=True)
    expected = undisturbed(place)
    for disturbed in (on_a_full_disk, read_only_parts):
        shutil.rmtree(place / "db")
        print(disturbed.__name__, disturbed(place), flush=True)
        assert (place / "seen").read_text() == expected, "what is seen is not what an undisturbed run has"
        for _ in range(2):  # the first one may have to write the snapshots that the last close could not
            with open_inline(place / "db") as db:
                db._engine.maintain()
                assert repr(workload.observe(db)) == expected
        left = workload.leftovers(place / "db")
        assert left == [], left
    print("end", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
