"""Operator state as a file of named arrays (NumPy's .npz, uncompressed): no pickle in, no pickle out.

Each array has a checksum (zip's), and so has the list of them: a damaged file is an error and never a state.
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
            _write(temporary, arrays)
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
            if archive.comment != _seal(archive.namelist()):
                raise zipfile.BadZipFile("its list of arrays is not the one that was written")
            return {name.removesuffix(".npy"): _array(archive, name) for name in archive.namelist()}
    except FileNotFoundError as error:
        raise DataDamaged(f'the snapshot "{path}" is missing', hint=_HINT) from error
    except Exception as error:  # a damaged byte makes zip and NumPy raise almost anything
        raise DataDamaged(f'the snapshot "{path}" is damaged: {error}', hint=_HINT) from error


def _write(path: Path, arrays: Arrays) -> None:
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
        archive.comment = _seal(archive.namelist())
    sync_file(path)


def _seal(names: list[str]) -> bytes:
    """Zip has checksums for its entries, but none for its directory."""
    return b"millstream %08x" % zlib.crc32("\n".join(names).encode())


_HINT = "Remove it: the state is then rebuilt from the log, as far as the log is retained."


def _array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    with archive.open(name) as entry:
        array = np.lib.format.read_array(entry, allow_pickle=False)
        entry.read()  # to the end: only then is the checksum compared
    return np.asarray(array)
