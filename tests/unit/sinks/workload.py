"""A query with retractions, equal rows and NULLs, for every kind of sink; run whole, or in a process that is killed."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from deltalake import DeltaTable

from inline import open_inline
from millstream.api import Database

DDL = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts"
QUERY = "CREATE QUERY q AS SELECT k, v % 3 AS v FROM s [RANGE 7 MICROSECONDS]"
BATCHES = [[(10 * b + i, None if i == 3 else "it's"[: i % 3], b + i) for i in range(6)] for b in range(6)]


def feed(db: Database) -> None:
    """Idempotent: what the stream has already is not sent again."""
    sent = db.streams()[0].rows // 6
    for batch in BATCHES[sent:]:
        db.insert("s", batch)
        db.flush()
    db.advance(57)
    db.flush()


def run(location: Path, sink: str) -> None:
    with open_inline(location) as db:
        if not db.streams():
            db.execute(DDL)
        if not db.queries():
            db.execute(QUERY)
        db.execute(f"CREATE SINK IF NOT EXISTS o FROM q {sink}")
        feed(db)
        (state,) = db.execute("SHOW SINKS").to_pylist()  # type: ignore[union-attr]
        assert (state["state"], state["lag"], state["error"]) == ("running", 0.0, None), state


def changes(location: Path) -> list[tuple[Any, ...]]:
    with open_inline(location) as db:
        return told(db.query("q").changes())


def told(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows with instants as microseconds, which every format can give; the empty text as NULL, which CSV readers take it for."""
    table = table.set_column(0, "instant", table.column(0).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))
    return [tuple(None if value == "" else value for value in row.values()) for row in table.to_pylist()]


def delivered(directory: Path, format_: str) -> list[tuple[Any, ...]]:
    if format_ == "delta":
        table = DeltaTable(str(directory)).to_pyarrow_table()
        return sorted(told(table), key=str)
    read = {"parquet": pq.read_table, "csv": pa.csv.read_csv, "json": pa.json.read_json}[format_]
    tables = [read(path) for path in sorted(directory.glob(f"changes-*.{format_}"))]
    return [row for table in tables for row in told(table)]


def net(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    total: Counter[tuple[Any, ...]] = Counter()
    for _, diff, *row in rows:
        total[tuple(row)] += diff
    return +total


def one_more_digit(note: Path) -> None:
    """Damages a sink's note: it then says that more was delivered."""
    whole = note.read_bytes()
    note.write_bytes(whole.replace(b'"batch":6', b'"batch":7'))
    assert note.read_bytes() != whole


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
