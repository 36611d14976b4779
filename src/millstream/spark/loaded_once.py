"""What all Python workers of a JVM need and one process loads for them (zygote.py).

Nothing that a fork would not survive: no threads, and no connection of DuckDB, which each worker makes for itself.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
import traceback

from millstream.operators.evaluator import Evaluator
from millstream.runtime.warm_up import warm_up
from millstream.spark.garbage import leave_out_of_collections

_MODULES = (
    "pyspark.worker",
    "pyspark.sql",
    "millstream.spark.tick_jobs",
    "millstream.spark.source_tasks",
)
"""What a task for a bucket and one of a source are unpickled with, and what runs them."""
_PATIENCE_S = 2.0


def load() -> bool:
    """Whether this process may fork now; why not is said on stderr."""
    try:
        for module in _MODULES:
            importlib.import_module(module)
        warm_up(Evaluator())
        leave_out_of_collections()
    except Exception:
        traceback.print_exc()
        return False
    if (threads := _threads()) > 1:
        print(f"millstream: workers load for themselves: what is loaded has {threads} threads, a fork would have one", file=sys.stderr)
        return False
    return True


def _threads() -> int:
    """Those of a connection that was closed are gone in a moment."""
    deadline = time.monotonic() + _PATIENCE_S
    while (threads := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    return threads
