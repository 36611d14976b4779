"""Relations that Spark reads: any batch format, and files with options that only Spark's own reader knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from millstream.api import Database


def opened(open_database: Callable[..., Database]) -> Database:
    """Spark's first job may take its time on a busy machine."""
    db = open_database()
    db._engine.pulls.patience_s = db._engine.pulls.timeout_s = 120.0
    return db


def rows_of(db: Database) -> list[dict[str, Any]]:
    answered = db.execute("SELECT * FROM r")
    assert isinstance(answered, pa.Table)
    return sorted(answered.to_pylist(), key=str)


def error_of(db: Database) -> str | None:
    shown = db.execute("SHOW RELATIONS")
    assert isinstance(shown, pa.Table)
    return shown.column("error").to_pylist()[0]


def test_a_format_of_sparks_own(open_database: Callable[..., Database], spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "r"
    frame = spark.createDataFrame([("a", 1), ("b", None)], "k STRING, v INT")
    frame.selectExpr("k AS K", "v", "TIMESTAMP '2024-01-01 00:00:00Z' AS at").write.orc(str(path))
    db = opened(open_database)
    db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING) TIMESTAMP BY ts")
    db.execute(f"CREATE RELATION r (k STRING PRIMARY KEY, v INT, at TIMESTAMP) FROM 'orc' OPTIONS (path '{path}')")
    q = db.execute("SELECT s.k, r.v, year(r.at) AS y FROM s [NOW], r WHERE s.k = r.k")
    db.insert("s", [(1, "a"), (2, "b"), (3, "c")])
    db.advance("s", 2)
    db.flush()
    assert error_of(db) is None
    assert q.changes().select(["diff", "k", "v", "y"]).to_pylist() == [  # type: ignore[union-attr]
        {"diff": 1, "k": "a", "v": 1, "y": 2024}, {"diff": -1, "k": "a", "v": 1, "y": 2024}, {"diff": 1, "k": "b", "v": None, "y": 2024},
    ]  # fmt: skip


def test_options_that_only_spark_knows_and_what_it_says_of_broken_rows(open_database: Callable[..., Database], tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("a|1\n# not this\nb|2\n")
    db = opened(open_database)
    db.execute(f"CREATE RELATION r (k STRING, v INT) FROM 'csv' OPTIONS (path '{tmp_path}/good.csv', sep '|', comment '#')")
    assert (rows_of(db), error_of(db)) == ([{"k": "a", "v": 1}, {"k": "b", "v": 2}], None)
    (tmp_path / "bad.csv").write_text("a|x\n")
    db.execute(f"DROP RELATION r; CREATE RELATION r (k STRING, v INT) FROM 'csv' OPTIONS (path '{tmp_path}/bad.csv', sep '|', comment '#')")
    assert rows_of(db) == []
    error = error_of(db)
    assert error is not None
    assert "\n" not in error
    assert "at org." not in error


def test_a_format_that_nobody_knows(open_database: Callable[..., Database]) -> None:
    db = opened(open_database)
    db.execute("CREATE RELATION r (k STRING) FROM 'no_such_thing'")
    assert rows_of(db) == []
    assert "no_such_thing" in str(error_of(db))
