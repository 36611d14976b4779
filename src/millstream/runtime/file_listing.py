"""The files of a source's path, with the options of Spark's own file source and their meaning there.

    path                  a directory, a file, or a glob of them
    pathGlobFilter        only files whose name matches
    recursiveFileLookup   also in directories below (those of the form key=value always)
    maxFilesPerTrigger    at most so many files in a batch, 1000 unless told
    maxBytesPerTrigger    a batch ends with the file that reaches so many bytes, 128 MiB unless either of the two is told: whoever begins
                          with a directory full of files sees answers early, and nobody holds all of it at once
    latestFirst           newest files first
    maxFileAge            files so much older than the newest that was read are ignored, 7d unless told; not with latestFirst: what is not
                          read yet when the source stops would be too old when it goes on

Names that begin with a dot or an underscore are not files of the source, nor is what is no file: a pipe, a socket, a link that
leads nowhere.
"""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from millstream.core.errors import SourceFailed
from millstream.core.instant import Micros
from millstream.state.file_journal import FileJournal, FoundFile

OPTIONS = frozenset(
    {"path", "maxfilespertrigger", "maxbytespertrigger", "pathglobfilter", "recursivefilelookup", "latestfirst", "maxfileage"}
)
USUAL_BYTES = 128 << 20
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
"""What is said of a link that leads nowhere, and of a file that somebody has just taken away."""
_UNITS_US = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


@dataclass(frozen=True)
class FileListing:
    path: str
    name_filter: str | None = None
    recursive: bool = False
    max_files: int = 1000
    max_bytes: int = USUAL_BYTES
    latest_first: bool = False
    max_age_us: Micros = 7 * _UNITS_US["d"]

    @staticmethod
    def of(stream: str, options: Mapping[str, object]) -> FileListing:
        """By the options of CREATE STREAM, in any case; others than these are somebody else's."""
        given = {key.lower(): str(value) for key, value in options.items()}
        if "path" not in given:
            raise SourceFailed(f'the source of stream "{stream}" needs a path', hint="OPTIONS (path '...').")
        latest_first = given.get("latestfirst", "false").lower() == "true"
        max_age_us = _age(given.get("maxfileage", "7d"))
        listing = FileListing(
            _local(given["path"]),
            given.get("pathglobfilter"),
            given.get("recursivefilelookup", "false").lower() == "true",
            _positive("maxFilesPerTrigger", given.get("maxfilespertrigger"), 1000),
            _positive("maxBytesPerTrigger", given.get("maxbytespertrigger"), sys.maxsize if "maxfilespertrigger" in given else USUAL_BYTES),
            latest_first,
            sys.maxsize if latest_first else max_age_us,
        )
        if not glob.has_magic(listing.path) and not os.path.exists(listing.path):
            raise SourceFailed(
                f'the path "{listing.path}" of stream "{stream}" does not exist', hint="Create the directory, or correct the path."
            )
        return listing

    def new_files(self, journal: FileJournal) -> list[FoundFile]:
        """All that no batch has had yet, in the order in which they are to be read."""
        found = sorted(file for file in self._files(journal) if not journal.is_too_old(file))
        return found[::-1] if self.latest_first else found

    def batch_length(self, files: list[FoundFile]) -> int:
        """How many of these, from the first on, make the next batch."""
        size = 0
        for i, file in enumerate(files[: self.max_files]):
            size += file.bytes
            if size >= self.max_bytes:
                return i + 1
        return min(len(files), self.max_files)

    def _files(self, journal: FileJournal) -> Iterator[FoundFile]:
        is_glob = glob.has_magic(self.path)
        for root in sorted(glob.glob(self.path)) if is_glob else [self.path]:
            if os.path.isdir(root):
                yield from self._below(root, journal)
            elif self._is_wanted(os.path.basename(root)) and journal.is_new(root):
                if not is_glob:
                    os.stat(root)  # raises if it is gone: what the user has named must be there
                yield from _found(root)

    def _below(self, directory: str, journal: FileJournal) -> Iterator[FoundFile]:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.startswith((".", "_")):
                    continue
                if _is_directory(entry):
                    if self.recursive or "=" in entry.name:
                        with _unless_gone():
                            yield from self._below(entry.path, journal)
                elif self._is_wanted(entry.name) and journal.is_new(entry.path):
                    yield from _found(entry.path)

    def _is_wanted(self, name: str) -> bool:
        return not name.startswith((".", "_")) and (self.name_filter is None or fnmatch.fnmatchcase(name, self.name_filter))


def is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


def _local(path: str) -> str:
    return os.path.abspath(path.removeprefix("file://").removeprefix("file:"))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to what cannot be looked at, if only to itself
        return False


def _found(path: str) -> Iterator[FoundFile]:
    """The file, if it is one that ends: whoever opens a pipe may wait for ever."""
    with _unless_gone():
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode):
            yield FoundFile(status.st_mtime_ns // 1000, path, status.st_size)


@contextmanager
def _unless_gone() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in _GONE:
            raise


def _positive(option: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.isdigit() or int(text) == 0:
        raise SourceFailed(f"the option {option} is {text!r}, not a positive number", hint=f"OPTIONS ({option} 10).")
    return int(text)


def _age(text: str) -> Micros:
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    unit = match and (match[2] or "ms")
    if not match or unit not in _UNITS_US:
        raise SourceFailed(
            f"the option maxFileAge is {text!r}, not a duration", hint="OPTIONS (maxFileAge '7d'); units: us, ms, s, m, h, d."
        )
    return int(match[1]) * _UNITS_US[str(unit)]
