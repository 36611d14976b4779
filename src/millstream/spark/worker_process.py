"""What a Spark task calls: the one `Worker` of this Python process, which holds its buckets' caches."""

from __future__ import annotations

import os
import socket
import tempfile
from functools import cache
from pathlib import Path

from millstream.core.errors import DataDamaged
from millstream.operators.call_limit import PROCESS
from millstream.operators.forked_copies import guard_against_copies
from millstream.runtime.invocations.messages import SoupResult, SoupTask
from millstream.runtime.messages import MapResult, MapTask, StageResult, StageTask
from millstream.runtime.worker import Worker
from millstream.spark.garbage import leave_out_of_collections
from millstream.spark.lost_workers import note_of
from millstream.state.atomic import TEMPORARY
from millstream.state.sealed import read_sealed_json


@cache
def _worker() -> Worker:
    guard_against_copies()
    worker = Worker()
    leave_out_of_collections()
    return worker


def run_stage(task: StageTask) -> StageResult:
    PROCESS.note = note_of(task)
    return _worker().run_stage(task)


def run_map(task: MapTask) -> MapResult:
    PROCESS.note = note_of(task)
    return _worker().run_map(task)


def run_soup(task: SoupTask) -> SoupResult:
    return _worker().run_soup(task)


def warm_up(_: None) -> None:
    _warmed_up()


@cache
def _warmed_up() -> None:
    """Once: what a database that was here before has left must not be kept for ever."""
    _worker().warm_up()
    leave_out_of_collections()


def process_id(_: None) -> int:
    return os.getpid()


def trouble_with(location: tuple[str, str]) -> str | None:
    """Why this process cannot work in a database's directory, given with the database's id; None: it can."""
    path, database_id = location
    try:
        header = read_sealed_json(Path(path) / "millstream.json", dict)
        with tempfile.NamedTemporaryFile(dir=path, prefix=TEMPORARY):
            return None if header["id"] == database_id else f"{socket.gethostname()} has another database there"
    except (OSError, KeyError, DataDamaged) as error:
        return f"{socket.gethostname()} says: {error}"
