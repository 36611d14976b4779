"""A process that has imported everything and runs nothing: it forks a child for each run of the workload, and the child may be killed.

Forked before any thread was started, so a child is a process like any other, without the seconds that imports take.  Orders come as JSON
lines on stdin, answers go as JSON lines to stdout; what children say goes to stderr.

    {"directory": ..., "fault": "tick.before_commit:2" | null, "kill_after": seconds | null, "only_open": false}
    -> {"status": 0 | -9 | ..., "seconds": ...}

A child that gets to the end leaves `seen.json`; one that counts points (fault "") leaves `reached.json`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from crash import workload
from millstream.runtime.warm_up import warm_up
from millstream.state import fault, file_journal


def child(order: dict[str, Any]) -> None:
    directory = Path(order["directory"])
    workload.tune()
    file_journal.MERGE = 3
    fault.arm(order["fault"])
    if order["only_open"]:
        workload.open_inline(directory / "db")
        (directory / "reached.json").write_text(json.dumps(fault.reached))
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        seen = workload.run(directory / "db", directory / "progress", directory / "journal")
    finally:
        (directory / "reached.json").write_text(json.dumps(fault.reached))
    (directory / "seen.json").write_text(json.dumps(seen))


def serve() -> None:
    warm_up(SimpleNamespace(mask=lambda *_: None))  # type: ignore[arg-type]  # kernels only: DuckDB would start threads
    for line in sys.stdin:
        order = json.loads(line)
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                child(order)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        ended = os.pidfd_open(pid)
        if order.get("kill_after") is not None and not select.select([ended], [], [], order["kill_after"])[0]:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(ended)
        print(json.dumps({"status": status, "seconds": time.monotonic() - began}), flush=True)


if __name__ == "__main__":
    serve()
