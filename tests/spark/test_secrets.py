"""What Spark is told of a source's secrets, it alone is told."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import millstream
from millstream.core.errors import SourceFailed
from millstream.spark.session import LOG_FILE

SECRET = "hunter2-hunter2"


def test_sources_tell_no_secrets(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLSTREAM_TEST_SECRET", SECRET)
    caplog.set_level(logging.DEBUG)
    said = ""
    with millstream.connect(tmp_path / "db", spark=spark, buckets=1) as db:
        for number, source in enumerate([
            f"'kafka' OPTIONS (kafka.bootstrap.servers 'nowhere:1', subscribe 'x', kafka.sasl.jaas.config '{SECRET}')",
            f"'csv' OPTIONS (path 's3a://me:{SECRET}@bucket/x', password '{SECRET}')",
            "'socket' OPTIONS (host 'localhost', port '1', password '${env:MILLSTREAM_TEST_SECRET}')",
        ]):  # fmt: skip
            with pytest.raises(SourceFailed) as caught:
                db.execute(f"CREATE STREAM s{number} (ts TIMESTAMP) TIMESTAMP BY ts FROM {source}")
            said += "".join(traceback.format_exception(caught.value))
        source = f"'rate' OPTIONS (rowsPerSecond 100, password '{SECRET}', token '${{env:MILLSTREAM_TEST_SECRET}}')"
        db.execute(f"CREATE STREAM r (timestamp TIMESTAMP, value BIGINT) TIMESTAMP BY timestamp FROM {source}")
        query = db.execute("SELECT value FROM r")
        assert isinstance(query, millstream.Query)
        next(query.subscribe())
        said += str(db.execute("SHOW STREAMS")) + str(db.definition("r"))
    log = Path(LOG_FILE)
    said += log.read_text() if log.exists() else ""
    assert SECRET not in said + caplog.text
    assert "***" in said
