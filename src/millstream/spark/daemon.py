"""What Spark starts in the place of pyspark.daemon, once for each environment: a small process that has the zygote do its work.

    JVM ──stdin, stdout, stderr──► this ──hands them over──► zygote ──forks──► pyspark.daemon ──forks──► workers
     └──────────── the name of a socket, processes to kill, end of stdin ────────────┘

The zygote (zygote.py) is one process of a JVM that has loaded what workers need.  This process only stands where Spark sees it, and ends
when its daemon does.  The daemon ends with its stdin, which Spark closes, or the system when Spark is killed.  If this process is killed
alone, the daemon and its workers go on: Java waits for the daemon's stdout, and notices nothing.

Whatever goes wrong, and where there is no Linux, this process becomes a pyspark.daemon as it always was.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
from contextlib import closing
from functools import partial
from typing import NoReturn

from millstream.spark.zygote_socket import Order, Refused, ask, connected, socket_path

_PATIENCE_S = 180.0
"""Kernels that were never compiled on this machine take the zygote twenty seconds."""
_ONE_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "_RJEM_MALLOC_CONF": "background_thread:false"}
"""The allocators of Arrow and of Delta start a thread when they are loaded, by these settings they do not."""


def main() -> None:
    os.setpgid(0, 0)  # as pyspark.daemon does: Ctrl-C on the terminal is for the driver
    daemon = _forked() if sys.platform == "linux" else None
    if daemon is None:
        runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
    else:
        _stand_for(daemon)


def _forked() -> int | None:
    """A handle of the daemon that the zygote has made; None: it has made none."""
    try:
        os.close(os.pidfd_open(os.getpid()))  # it is asked for only where there are such handles
        jvm = os.getppid()
        path, order = socket_path(jvm), Order(sys.argv, os.getcwd(), dict(os.environ))
        for _ in range(2):
            with closing(connected(path, partial(_start_zygote, jvm, path))) as connection:
                connection.settimeout(_PATIENCE_S)
                if (daemon := ask(connection, order)) is not None:
                    return daemon
        reason = "the zygote ends before it answers"
    except Refused:
        return None
    except Exception as error:  # what it may be: without a zygote all goes on
        reason = f"{type(error).__name__}: {error}"
    print(f"millstream: workers are not forked from one that has loaded: {reason}", file=sys.stderr)
    return None


def _start_zygote(jvm: int, path: str, listener: socket.socket) -> None:
    """As nobody's child: it outlives this process, and whoever inherits it waits for it when it ends."""
    if (child := os.fork()) != 0:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            os.setpgid(0, 0)
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 0)
            os.dup2(nowhere, 1)  # our own leads to Spark, which waits there for the name of a socket
            os.set_inheritable(listener.fileno(), True)
            command = [sys.executable, "-m", "millstream.spark.zygote", str(jvm), path, str(listener.fileno())]
            os.execve(sys.executable, command, {**os.environ, **_ONE_THREAD})
    finally:
        os._exit(0)


def _stand_for(daemon: int) -> NoReturn:
    """Until it ends, as a Python that has loaded nothing: 3 MB instead of 11.

    A signal may end this process before: nobody minds.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # theirs are the daemon's now: Spark is to see when it has closed them
        os.dup2(nowhere, stream)
    os.set_inheritable(daemon, True)
    wait = f"import select; daemon = select.poll(); daemon.register({daemon}, select.POLLIN); daemon.poll()"
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", wait, "millstream.spark.daemon"])


if __name__ == "__main__":
    main()
