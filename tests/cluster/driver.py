"""A program with a session on a cluster that does what it is told on its standard input, one JSON object a line.

    python driver.py MASTER

Answers are JSON lines too: {"done": ...} ends a command; {"batch": n} says that a tick over batch n begins, {"warning": text}
what is logged as a warning, both at any time.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

from millstream.api import Database, connect
from millstream.core.errors import MillstreamError
from millstream.runtime import rounds
from millstream.spark import anchors
from millstream.spark.executors import executor_ids
from millstream.spark.session import create_session
from millstream.spark.tick_jobs import SparkRunner
from millstream.state.location import Location

sys.path.insert(0, str(Path(__file__).parents[1]))
from cluster import workload
from script_files import check_script

BUCKETS = 2


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


class Driver(logging.Handler):
    def __init__(self, master: str) -> None:
        super().__init__()
        logging.getLogger("millstream").addHandler(self)
        logging.getLogger("millstream").setLevel(logging.INFO)
        self._replays = 0
        self._spark = create_session(master)
        self._runner: SparkRunner | None = None
        self._db: Database | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self._replays += record.msg.startswith("caches are gone")
        if record.levelno >= logging.WARNING:
            say(warning=record.getMessage())

    @property
    def db(self) -> Database:
        assert self._db is not None
        return self._db

    def script(self, path: str) -> str | None:
        """What is wrong with a stream script's answers; None: nothing."""
        self._runner = self._runner or SparkRunner(self._spark, BUCKETS)

        def open_database(location: Path) -> Database:
            assert self._runner is not None
            return Database(Location.open(location, buckets=BUCKETS), self._runner, spark=self._spark, tick_interval=None)

        try:
            check_script(Path(path), open_database, "default", "spark")
        except AssertionError as error:
            return str(error)
        return None

    def open(self, location: str) -> None:
        self._db = connect(location, spark=self._spark, buckets=BUCKETS, tick_interval=None)
        workload.create(self._db)

    def feed(self, first: int, last: int) -> None:
        for number in range(first, last + 1):
            workload.insert(self.db, number)
            say(batch=number)
            self.db.flush()

    def processes(self) -> list[int]:
        """Of the buckets, in their order."""
        runner = self.db._engine.runner
        assert isinstance(runner, SparkRunner)
        return runner.process_ids()

    def await_executors(self, count: int) -> None:
        """Until there are exactly so many."""
        while len(executor_ids(self._spark.sparkContext)) != count:
            time.sleep(0.1)

    def replays(self) -> int:
        return self._replays

    def changes(self) -> dict[str, list[str]]:
        return workload.changes(self.db)

    def states(self) -> list[str]:
        return [self.db._engine.standing(query._running)[0] for query in self.db.queries()]

    def close(self) -> None:
        self.db.close()

    def stop_spark(self) -> None:
        self._spark.stop()


def main(master: str) -> None:
    rounds.SNAPSHOT_TICKS = 4
    anchors.REST_S = 1.0
    driver = Driver(master)
    say(done="ready")
    for line in sys.stdin:
        command = json.loads(line)
        try:
            say(done=getattr(driver, command.pop("do"))(**command))
        except MillstreamError as error:
            say(done=None, error=error.code, message=error.message)


if __name__ == "__main__":
    main(sys.argv[1])
