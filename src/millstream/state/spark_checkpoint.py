"""What Spark keeps of a streaming query from one run to the next, looked over before Spark goes on with it.

    <directory>/metadata           the query's id
    <directory>/offsets/12         what batch 12 reads, written before it begins: a version, settings, a line for each source
    <directory>/sources/0/7        the files that the first source found, if it reads files: its line above says {"logOffset":7}
    <directory>/commits/12         batch 12 is done
    <directory>/offsets/.12.crc    Hadoop's checksums of the file 12; each of the others has such a one too

Where its files are gone, Spark begins anew with batch 0.  The log knows that number as done, and rows would be lost without a word.
"""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

from millstream.core.errors import DataDamaged
from millstream.state.sealed import RESTORE

_CHECKSUMS = (".metadata.crc", "offsets/.[0-9]*.crc", "commits/.[0-9]*.crc", "sources/*/.[0-9]*.crc")
_HEADER = struct.Struct(">4sI")
"""Of a file of checksums: a word that is always the same, and how many bytes each checksum is of."""


def check_checkpoint(directory: Path, committed: int | None) -> None:
    """Raises DataDamaged if Spark could not go on behind batch `committed`, the last one that the log has."""
    try:
        newest = _newest_batch(directory)
        require_batch(directory, newest, committed)
        if newest is not None:
            _require(directory / "metadata")
            _require(directory / "offsets" / str(max(0, newest - 1)))  # Spark goes on from the last two
            _check_found_files(directory, directory / "offsets" / str(newest))
        for checksums in (path for pattern in _CHECKSUMS for path in directory.glob(pattern)):
            _check_sums(checksums.with_name(checksums.name[1 : -len(".crc")]), checksums)
    except OSError as error:
        raise DataDamaged(f'the directory "{directory}" cannot be read: {error}', hint=RESTORE) from error


def require_batch(directory: Path, newest: int | None, committed: int | None) -> None:
    """A source's directory knows each of its batches before the log does."""
    if committed is not None and (newest is None or newest < committed):
        state = f"knows of no batch after {newest}" if newest is not None else "holds nothing" if directory.exists() else "is missing"
        raise DataDamaged(f'the directory "{directory}" {state}, but the log has batches up to {committed}', hint=RESTORE)


def _newest_batch(directory: Path) -> int | None:
    return max((int(path.name) for path in directory.glob("offsets/*") if path.name.isdigit()), default=None)


def _check_found_files(directory: Path, offsets: Path) -> None:
    """A source whose newest files are not noted any more would find them again, as those of another batch."""
    for number, line in enumerate(offsets.read_text(errors="replace").splitlines()[2:]):
        noted = re.fullmatch(r'\{"logOffset":(\d+)\}', line)
        if noted:
            path = directory / "sources" / str(number) / noted[1]
            _require(path.with_suffix(".compact") if path.with_suffix(".compact").exists() else path)


def _require(path: Path) -> None:
    if not path.exists():
        raise DataDamaged(f'the file "{path}" is missing', hint=RESTORE)


def _check_sums(path: Path, checksums: Path) -> None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:  # the checksums go after their file, and a crash may come between
        return
    sums = checksums.read_bytes()
    size = _HEADER.unpack_from(sums)[1] if len(sums) >= _HEADER.size else 0
    if not size or sums[_HEADER.size :] != b"".join(
        zlib.crc32(data[start : start + size]).to_bytes(4, "big") for start in range(0, len(data), size)
    ):
        raise DataDamaged(f'the file "{path}" is damaged: its checksum is another', hint=RESTORE)
