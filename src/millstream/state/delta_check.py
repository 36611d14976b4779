"""Whether the log of a Delta table is all there and as it was written, before anybody reads it.

    _delta_log/<version>.json              ours carry a checksum of themselves, their version and their table in their commitInfo
    _checkpoint.json                       has that of the first commit or, later, of the newest checkpoint
    _newest_commit                         another name of the newest commit: tells if that one has vanished

A damaged or missing file is an error that names it.  What a crash left half done is put right: a checkpoint that has no checksum yet is
taken away, since the commits that it sums up are removed only after it got one.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from millstream.core.errors import DataDamaged
from millstream.state.atomic import atomic_write
from millstream.state.sealed import RESTORE, check_own, read_sealed_json, sealed_json

WITNESS = "_newest_commit"
_CHECKPOINT = "_checkpoint.json"
_LAST_CHECKPOINT = "_last_checkpoint"
_CREATE = "CREATE TABLE"
"""The operation of a table's first commit, which is not ours and does not say that it is the first."""
_SEAL = re.compile(rb',"crc32":"([0-9a-f]{8})"}}\Z')


def version_path(directory: Path, version: int) -> Path:
    return directory / "_delta_log" / f"{version:020d}.json"


def sealed_commit(lines: Sequence[str]) -> bytes:
    """The commit's text; the first line, its commitInfo, gets the checksum of everything else."""
    plain = "\n".join(lines).encode() + b"\n"
    first, _, rest = plain.partition(b"\n")
    return first.removesuffix(b"}}") + b',"crc32":"%08x"}}\n' % zlib.crc32(plain) + rest


def seal_created(directory: Path) -> None:
    """The first commit is deltalake's, so its checksum is beside the log."""
    path = version_path(directory, 0)
    atomic_write(directory / _CHECKPOINT, sealed_json({"version": -1, "crc32": {path.name: zlib.crc32(path.read_bytes())}}))


def seal_checkpoint(directory: Path, version: int) -> None:
    log = directory / "_delta_log"
    files = [*_checkpoint_files(log).get(version, ()), log / _LAST_CHECKPOINT]
    sums = {path.name: zlib.crc32(path.read_bytes()) for path in files if path.exists()}
    atomic_write(directory / _CHECKPOINT, sealed_json({"version": version, "crc32": sums}))


def check_table(directory: Path) -> None:
    """DataDamaged if anything of the log is missing or damaged; nothing happens if there is no table."""
    log = directory / "_delta_log"
    _remove_unfinished(log)
    commits = {int(path.stem): path for path in log.glob("*.json") if path.stem.isdigit()}
    checkpoint = _checked_checkpoint(directory, commits)
    first = 0 if checkpoint is None else checkpoint
    last = max([*commits, first, _witnessed(directory)], default=first)
    if not commits and checkpoint is None and last == 0:
        return
    for version in range(first, last + 1):
        if version in commits:
            _check_commit(directory, version)
        elif version != checkpoint or version == last:  # the newest one also carries our state
            raise DataDamaged(f'the file "{version_path(directory, version)}" is missing', hint=RESTORE)


def table_name(directory: Path) -> str:
    """What commits call their table: a database may be moved, its tables stay where they are in it."""
    return f"{directory.parent.name}/{directory.name}"


def _check_commit(directory: Path, version: int) -> None:
    """A commit of ours has a checksum, its version and its table's name; those of others have none, and JSON must do."""
    path = version_path(directory, version)
    try:
        info = _checked_info(path.read_bytes())
        check_own("version", 0 if info.get("operation") == _CREATE else info.get("version"), version)
        check_own("table", info.get("table"), table_name(directory))
    except (ValueError, TypeError) as error:
        raise DataDamaged(f'the file "{path}" is damaged: {error}', hint=RESTORE) from error


def _checked_info(data: bytes) -> dict[str, Any]:
    """The commitInfo, empty if there is none; ValueError if the commit is not as it was written."""
    first, newline, rest = data.partition(b"\n")
    seal = _SEAL.search(first)
    if seal is None and b"crc32" in first:
        raise ValueError("its checksum cannot be read")
    if seal is not None and zlib.crc32(first[: seal.start()] + b"}}" + newline + rest) != int(seal[1], 16):
        raise ValueError("its checksum is another")
    if not first:
        raise ValueError("it is empty")
    lines = [json.loads(line) for line in (data.splitlines() if seal is None else [first])]
    return dict(next((line["commitInfo"] for line in lines if "commitInfo" in line), {}))


def _witnessed(directory: Path) -> int:
    """The version of the newest commit."""
    try:
        first = (directory / WITNESS).read_bytes().partition(b"\n")[0]
        return int(json.loads(first)["commitInfo"]["version"])
    except FileNotFoundError:
        return 0
    except (ValueError, KeyError, TypeError) as error:
        raise DataDamaged(f'the file "{directory / WITNESS}" is damaged', hint=RESTORE) from error


def _checked_checkpoint(directory: Path, commits: dict[int, Path]) -> int | None:
    """The version of the newest checkpoint that can be trusted."""
    log = directory / "_delta_log"
    found = _checkpoint_files(log)
    try:
        seal: dict[str, Any] = read_sealed_json(directory / _CHECKPOINT, lambda seal: {**seal, "version": int(seal["version"])})
    except FileNotFoundError:
        seal = {"version": -1, "crc32": {}}
    for version in [version for version in found if version > seal["version"]]:
        if all(older in commits for older in range(max(seal["version"], 0), version + 1)):
            for path in (*found.pop(version), log / _LAST_CHECKPOINT):
                path.unlink(missing_ok=True)
    _compare(log, seal["crc32"])
    return max(found, default=None)


def _compare(log: Path, sums: dict[str, int]) -> None:
    for name, expected in sums.items():
        path = log / name
        if path.exists() and zlib.crc32(path.read_bytes()) == expected:
            continue
        if name == _LAST_CHECKPOINT:  # only a hint: readers look for themselves without it
            path.unlink(missing_ok=True)
            continue
        raise DataDamaged(f'the file "{path}" is {"damaged" if path.exists() else "missing"}', hint=RESTORE)


def newest_checkpoint(directory: Path) -> int:
    """Its version; that of the first commit if there is no checkpoint yet."""
    return max(_checkpoint_files(directory / "_delta_log"), default=0)


def _checkpoint_files(log: Path) -> dict[int, list[Path]]:
    found: dict[int, list[Path]] = {}
    for path in log.glob("*.checkpoint*.parquet"):
        if (version := path.name.partition(".")[0]).isdigit():
            found.setdefault(int(version), []).append(path)
    return found


def _remove_unfinished(log: Path) -> None:
    """Files that deltalake had not renamed yet when the process ended."""
    for pattern in ("*#*", "_commit_*.tmp"):
        for path in log.glob(pattern):
            path.unlink(missing_ok=True)
