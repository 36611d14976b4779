"""A fork of the zygote becomes one of Spark's daemons, and its forks become workers that differ where they have to."""

from __future__ import annotations

import os
import runpy
import socket
import sys
import time
import traceback
import zipimport
from contextlib import suppress
from functools import partial
from typing import NoReturn

import numpy as np

from millstream.spark.zygote_socket import Order, take


def become_daemon(connection: socket.socket, order: Order, streams: list[int]) -> NoReturn:
    """pyspark.daemon, as if it had been started as the order says."""
    status = 1
    try:
        _be_where(order)
        take(connection)
        connection.close()
        for place, stream in enumerate(streams):
            os.dup2(stream, place)
            os.close(stream)
        os.register_at_fork(after_in_child=partial(_begin_worker, os.getpid()))
        runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else status
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)  # there is a zygote's stack below


def _be_where(order: Order) -> None:
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    sys.argv[:] = order.arguments
    bucket = order.environment.get("MILLSTREAM_BUCKET")
    with suppress(OSError), open("/proc/self/comm", "w") as comm:  # all have the zygote's command line: `ps -o comm` tells them apart
        comm.write(f"bucket {bucket}" if bucket else "spark worker")


def _begin_worker(daemon: int) -> None:
    if os.getppid() != daemon:
        return  # what a worker forks is its user's business
    # numpy's own generator would give all workers the same numbers; Python's sees to it by itself
    np.random.seed()
    # PySpark's first task has all caches of finders read again: for its archives that is 80 ms, and 20 MB in each worker.
    # They are made again without reading when something is looked for, and archives of the user's come later
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]
