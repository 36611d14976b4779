"""A Spark session fit for ticks: quiet, in UTC, with Python workers that live on between jobs."""

from __future__ import annotations

import os
import sys
from importlib.resources import files

from pyspark.sql import SparkSession

from millstream.core.errors import ConfigInvalid

_SETTINGS = {
    "spark.app.name": "millstream",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # a bucket's worker must be there again in the next tick
    "spark.python.worker.reuse": "true",
    # delayed acknowledgements on loopback cost more than an empty tick
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.locality.wait": "500ms",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.cleaner.periodicGC.interval": "5min",
}


def create_session(master: str) -> SparkSession:
    """A session on `master`; settings of the environment (spark-defaults, SPARK_CONF_DIR) stay in force beside ours."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    log_settings = files("millstream.spark") / "log4j2.properties"
    builder = SparkSession.builder.master(master).config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{log_settings}")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    try:
        return builder.getOrCreate()
    except Exception as error:
        reason = str(error).strip().splitlines()
        raise ConfigInvalid(
            f'Spark does not start on "{master}": {reason[0] if reason else type(error).__name__}',
            hint="Is there a Java 17 or later (JAVA_HOME, or java on the PATH), and is the master's address right?",
        ) from error
