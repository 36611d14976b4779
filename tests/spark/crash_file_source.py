"""A program that is killed on purpose: reads a directory of files, one a batch, then prints the whole changelog.

    python crash_file_source.py LOCATION INCOMING

It can be started again at any time and goes on where its database says it was.
"""

from __future__ import annotations

import sys

import millstream


def main(location: str, incoming: str) -> None:
    with millstream.connect(location, master="local[2]") as db:
        db.execute(
            "CREATE STREAM IF NOT EXISTS s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts "
            f"FROM 'parquet' OPTIONS (path '{incoming}', maxFilesPerTrigger 1)"
        )
        db.execute("CREATE QUERY IF NOT EXISTS q AS SELECT k, sum(v) AS s, count(*) AS n FROM s [RANGE 5 SECONDS] GROUP BY k")
        db.await_drained()
        print("changelog", flush=True)
        for instant, diff, *row in zip(*(column.to_pylist() for column in db.query("q").changes().columns), strict=True):
            print(f"{instant.isoformat()} {diff:+d} {row}")
        print("end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
