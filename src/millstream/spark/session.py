"""A Spark session fit for ticks: quiet, in UTC, with Python workers that live on between jobs, on this machine or on a cluster."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from millstream.core.errors import ConfigInvalid
from millstream.spark.executors import await_executors

LOG_FILE = os.path.join(tempfile.gettempdir(), f"millstream-spark-{os.getpid()}.log")
"""What the JVM and the workers say; with MILLSTREAM_DEBUG set they say it on the screen."""

_SETTINGS = {
    "spark.app.name": "millstream",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # a bucket's worker must be there again in the next tick
    "spark.python.worker.reuse": "true",
    # workers are forked from one that has loaded all they need
    "spark.python.daemon.module": "millstream.spark.daemon",
    # delayed acknowledgements on loopback cost more than an empty tick
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.locality.wait": "500ms",
    # a bucket that waits for its executor's core a little while is cheaper than one that goes elsewhere and is replayed there
    "spark.locality.wait.process": "10s",
    # a second copy of a task would find no caches where it runs, and be the faster one for it
    "spark.speculation": "false",
    # an executor that is idle for a minute still holds the caches of its buckets
    "spark.dynamicAllocation.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    # an idle source lists its directory at every poll: at the default of 10 ms that is half a core
    "spark.sql.streaming.pollingDelay": "100ms",
    # a Spark job that looks at 33 files costs more than looking
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.cleaner.periodicGC.interval": "5min",
    # a worker's next tick needs as much memory as its last: given back to the system in between, it costs a page fault
    # per 4 KiB, half of all system time of a tick
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "33554432",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "268435456",
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "10000",
}

_ON_THIS_MACHINE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}

_JIT = (
    "-XX:Tier4InvocationThreshold=500000 -XX:Tier4MinInvocationThreshold=60000"
    " -XX:Tier4CompileThreshold=1500000 -XX:Tier4BackEdgeThreshold=4000000"
)
"""A hundred times the defaults: the JVM plans and schedules, rows are worked on elsewhere.  Compiling that code for the highest speed
takes a core for the first minute; loops over rows (a source's own reader, one-time queries) still get there."""

_MASTERS = re.compile(r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[[^\]]+\]|yarn|(spark|k8s)://.+")
_LOOPBACK = re.compile(r"local.*|spark://(127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+")
_CONNECT_S = 5.0
_ERROR_LOGS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def create_session(master: str) -> SparkSession:
    """A session on `master`; settings of the environment (spark-defaults, SPARK_CONF_DIR) stay in force beside ours."""
    if not _MASTERS.fullmatch(master):
        hint = "Write local[*] for all cores of this machine, local[4] for four of them, spark://HOST:PORT, k8s://URL or yarn."
        raise ConfigInvalid(f'the master "{master}" is not understood', hint=hint)
    _check_answers(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    log_settings = files("millstream.spark") / "log4j2.properties"
    options = f"-Dlog4j2.configurationFile=file:{log_settings} {_JIT}"
    builder = SparkSession.builder.master(master).config("spark.driver.extraJavaOptions", options)
    here = _ON_THIS_MACHINE if _LOOPBACK.fullmatch(master) else {}
    for key, value in (_SETTINGS | here | {"spark.sql.warehouse.dir": _warehouse().name}).items():
        builder = builder.config(key, value)
    try:
        with _stderr_to(LOG_FILE):
            session = builder.getOrCreate()
    except Exception as error:
        reason = str(error).strip().splitlines()
        raise ConfigInvalid(
            f'Spark does not start on "{master}": {reason[0] if reason else type(error).__name__}',
            hint=f"Is there a Java 17 or later (JAVA_HOME, or java on the PATH), and is the master's address right? See {LOG_FILE}.",
        ) from error
    try:
        await_executors(session.sparkContext)
    except BaseException:
        session.stop()  # else the next call would get it
        raise
    return session


def _check_answers(master: str) -> None:
    """Spark itself would try for a minute before it says that nobody is there."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S):
            return
    raise ConfigInvalid(
        f'no master of Spark answers at "{master}"',
        hint="Is it running, and is this its address? `scripts/cluster start` starts one on this machine.",
    )


def keep_calls_out_of_logs() -> None:
    """py4j logs every call to the JVM with its arguments at DEBUG, also `reader.option("password", ...)`, and chats at INFO.

    Whoever sets this logger's own level to DEBUG wants to see them.
    """
    py4j = logging.getLogger("py4j")
    if py4j.level == logging.NOTSET:
        py4j.setLevel(logging.WARNING)
    logging.getLogger().addFilter(_is_no_interrupt_of_py4j)


def _is_no_interrupt_of_py4j(record: logging.LogRecord) -> bool:
    """Ctrl-C while the JVM is asked something is raised to whoever asked; py4j tells it the root logger too, with its stack."""
    return not (record.module == "java_gateway" and str(record.msg).startswith("KeyboardInterrupt"))


@contextmanager
def errors_told_by_us() -> Iterator[None]:
    """PySpark logs every complaint about a query with a JVM's stack trace, on the screen.  Not what this thread does inside."""
    here = threading.get_ident()

    def is_foreign(record: logging.LogRecord) -> bool:
        return record.thread != here

    # by PySpark's own way: a plain logger of that name would not take its arguments
    loggers = [PySparkLogger.getLogger(name) for name in _ERROR_LOGS]
    for logger in loggers:
        logger.addFilter(is_foreign)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_foreign)


@cache
def _warehouse() -> tempfile.TemporaryDirectory[str]:
    """Where Spark keeps tables of its own.  We make none, but it creates the directory: not where the user stands.

    It goes when the process ends.
    """
    return tempfile.TemporaryDirectory(prefix="millstream-warehouse-", ignore_cleanup_errors=True)


@contextmanager
def _stderr_to(path: str) -> Iterator[None]:
    """The JVM and its Python workers inherit the stream that is there when they start: a file, not the user's screen."""
    if os.environ.get("MILLSTREAM_DEBUG"):
        yield
        return
    sys.stderr.flush()
    screen = os.dup(2)
    log_file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log_file, 2)
        yield
    finally:
        os.dup2(screen, 2)
        os.close(screen)
        os.close(log_file)
