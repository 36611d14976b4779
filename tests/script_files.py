"""The stream scripts of the project, and which of them also run on Spark, and on a cluster.

Every script runs without a JVM, under every batching that could show.  A third of them run on Spark as well, a twelfth on a
cluster: chosen by a hash of the path, so that the choice stays when others are added, and all those in which the database is
opened again.
Blocks under `onlyif functions` use Python functions that a script cannot make by itself: `lookup` and `match`.
"""

from __future__ import annotations

import zlib
from pathlib import Path

from millstream.api import Database
from millstream.cli.script_test import OpenDatabase, find_scripts, run_one
from millstream.cli.scripts.blocks import Advance, Push, Restart
from millstream.cli.scripts.format import Script, parse_script

ROOT = Path(__file__).parents[1]
PATHS = [path.relative_to(ROOT) for path in find_scripts([ROOT / "tests" / "scripts", ROOT / "examples"])]
_BATCHINGS = ["rows", "one", "random:1", "random:2"]


def read_script(path: Path) -> Script:
    return parse_script((ROOT / path).read_text(), str(path))


def batchings(path: Path) -> list[str]:
    """Without a row or an advance there is nothing to cut."""
    moves = any(isinstance(block, Push | Advance) for block in read_script(path).blocks)
    return _BATCHINGS if moves else ["default"]


def runs_on_spark(path: Path) -> bool:
    return _one_in(3, path) or _opens_again(path)


def runs_on_cluster(path: Path) -> bool:
    return _one_in(12, path) or _opens_again(path)


def _one_in(number: int, path: Path) -> bool:
    return zlib.crc32(path.as_posix().encode()) % number == 0


def _opens_again(path: Path) -> bool:
    return any(isinstance(block, Restart) for block in read_script(path).blocks)


def check_script(path: Path, open_database: OpenDatabase, batching: str, key: str) -> None:
    def open_with_functions(location: Path) -> Database:
        db = open_database(location)
        db.function("lookup", lambda address, prefix: address.startswith(prefix), "BOOLEAN")
        db.function("match", lambda data, part: part in data, "BOOLEAN")
        return db

    outcome = run_one(read_script(path), open_with_functions, batching, frozenset({"millstream", "functions", key}))
    assert outcome.passed, "\n".join(
        f"{path}:{failure.line}: {failure.title}\n  " + "\n  ".join(failure.details) for failure in outcome.failures
    )
