"""A program whose Python daemons end, with their workers, while nothing runs; run by test_forked_workers.py.

Its first process is an init that buries orphans at once, as those of most machines do: what is not buried seems alive to Spark.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import millstream

_PR_SET_CHILD_SUBREAPER = 36


def children(process: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(entry.name))
    return found


def end_daemons(init: int) -> None:
    (zygote,) = [process for process in children(init) if b"millstream.spark.zygote" in Path(f"/proc/{process}/cmdline").read_bytes()]
    daemons = children(zygote)
    ending = [*daemons, *(worker for daemon in daemons for worker in children(daemon))]
    assert len(ending) >= 4, f"a daemon of buckets and one of sources, and a worker of each: {ending}"
    for daemon in daemons:
        os.kill(daemon, signal.SIGTERM)
    while any(Path(f"/proc/{process}").exists() for process in ending):
        time.sleep(0.01)


def main(directory: Path, init: int) -> None:
    (directory / "files").mkdir()
    with millstream.connect(directory / "db", master="local[2]") as db:
        db.execute("CREATE STREAM inserted (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts")
        db.execute(f"CREATE STREAM read (ts TIMESTAMP, k BIGINT) TIMESTAMP BY ts FROM 'csv' OPTIONS (path '{directory / 'files'}')")
        queries = [db.execute(f"SELECT count(*) AS n FROM {stream} [UNBOUNDED]") for stream in ("inserted", "read")]
        for turn in range(3):
            for part in range(2):
                path = directory / f"{turn}-{part}.csv"
                path.write_text("".join(f"1970-01-01 00:00:{10 + turn}.{i:06d},{i}\n" for i in range(50)))
                path.rename(directory / "files" / path.name)
            db.insert("inserted", [((10 + turn) * 1_000_000 + i, i) for i in range(100)])
            db.await_drained()
            db.advance((10 + turn) * 1_000_000 + 500_000)
            db.flush()
            if turn < 2:
                end_daemons(init)
        print(*(row["n"] for query in queries for row in query.result().to_pylist()), flush=True)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours = os.getpid()
    if (program := os.fork()) == 0:
        main(Path(sys.argv[1]), ours)
        sys.exit()
    status = 0
    with suppress(ChildProcessError):
        while True:
            process, ended = os.wait()
            status = ended if process == program else status
    sys.exit(os.waitstatus_to_exitcode(status))
