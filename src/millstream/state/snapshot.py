"""Operator state as a file of named arrays (NumPy's .npz, uncompressed): no pickle in, no pickle out.

Each array has a checksum (zip's), and so has the list of them, with the file's own name: a damaged file, or another's under its name, is
an error and never a state.
"""

from __future__ import annotations

import os
import uuid
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from millstream.core.errors import DataDamaged
from millstream.state.atomic import TEMPORARY, remove_file, sync_directory, sync_file, writing
from millstream.state.fault import fault_point
from millstream.state.sealed import check_own

Arrays = Mapping[str, npt.NDArray[Any]]


def prune_snapshots(directory: Path, keep: Collection[str]) -> int:
    """Removes a query's snapshots that no kept tick record names; returns how many."""
    gone = [path for path in directory.glob("*") if path.name not in keep]
    for path in gone:
        with writing(path):
            path.unlink(missing_ok=True)
        fault_point("snapshot.pruned")
    return len(gone)


def save_arrays(path: Path, arrays: Arrays) -> int:
    """The file appears whole or not at all; returns its size."""
    temporary = path.parent / f"{TEMPORARY}{uuid.uuid4().hex}"
    fault_point("snapshot.before_write")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(temporary, arrays, _own_name(path))
            fault_point("snapshot.before_replace")
            os.replace(temporary, path)
            sync_directory(path.parent)
            fault_point("snapshot.after_replace")
            return os.path.getsize(path)
    except BaseException:
        remove_file(temporary)
        raise


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of the file; DataDamaged if it is missing or not whole."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check(archive, path)
            return {name.removesuffix(".npy"): _array(archive, name) for name in archive.namelist()}
    except FileNotFoundError as error:
        raise DataDamaged(f'the snapshot "{path}" is missing', hint=_HINT) from error
    except Exception as error:  # a damaged byte makes zip and NumPy raise almost anything
        raise DataDamaged(f'the snapshot "{path}" is damaged: {error}', hint=_HINT) from error


def _write(path: Path, arrays: Arrays, own_name: str) -> None:
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
        archive.comment = _seal(archive.namelist(), own_name)
    sync_file(path)


def _own_name(path: Path) -> str:
    """Says everything: the directory is the query's, and the name has the tick, the fragment and the bucket."""
    return f"{path.parent.name}/{path.name}"


def _seal(names: list[str], own_name: str = "") -> bytes:
    """Zip has checksums for its entries, but none for its directory.  With the file's own name: it may lie under another's."""
    named = [own_name.encode()] if own_name else []
    checksum = zlib.crc32(b"\n".join([*map(str.encode, names), *named]))
    return b" ".join([b"millstream", b"%08x" % checksum, *named])


def _check(archive: zipfile.ZipFile, path: Path) -> None:
    """A file without a name in its seal was written before there were any."""
    own_name = archive.comment.decode().partition(" ")[2].partition(" ")[2]
    if archive.comment != _seal(archive.namelist(), own_name):
        raise zipfile.BadZipFile("its list of arrays is not the one that was written")
    check_own("snapshot", own_name or None, _own_name(path))


_HINT = "Remove it: the state is then rebuilt from the log, as far as the log is retained."


def _array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    with archive.open(name) as entry:
        array = np.lib.format.read_array(entry, allow_pickle=False)
        entry.read()  # to the end: only then is the checksum compared
    return np.asarray(array)
