"""Nexmark: events per second through each query, from rows in memory to the committed changelog.

    inline   the workers' own code as plain calls in one process: what the operators and the files cost
    spark    the same through Spark jobs, local[*]

Each query runs alone in a database of its own, over the same events in eight pieces, the first of which warms up and is not
counted.  Its answer at the end is checked against DuckDB's over the same events (nexmark/batch) before the time counts.

    python benchmarks/nexmark_queries.py [--events 500000] [--only q4,q6] [--on inline,spark]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

import millstream
from nexmark.check import Check
from nexmark.generator import Events, generate
from nexmark.queries import QUERIES, SCHEMA, question, side_input
from report import machine, write_table

PIECES = 8
EVENTS_PER_SECOND = 10_000
Open = Callable[[str], millstream.Database]


def open_inline(path: str) -> millstream.Database:
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    import inline

    return inline.open_inline(path)


def open_on_spark(path: str) -> millstream.Database:
    return millstream.connect(path, tick_interval=None)


OPEN: dict[str, Open] = {"inline": open_inline, "spark": open_on_spark}


def run(name: str, events: Events, count: int, open_: Open) -> tuple[float, int]:
    """Events per second, and changes of the answer."""
    with tempfile.TemporaryDirectory() as directory, open_(f"{directory}/db") as db:
        db.execute(SCHEMA)
        db.insert("side_input", side_input())
        db.execute(QUERIES[name].replace("nexmark-q10", f"{directory}/files"))
        ends = np.linspace(0, count, PIECES + 1).astype(int).tolist()
        for first, last in pairwise(ends):
            if first == ends[1]:
                began = time.perf_counter()
            feed(db, events.part(first, last))
        seconds = time.perf_counter() - began
        query = db.query(name)
        changes = query.changes()
        assert not Check(events).differences(name, changes, query.frontier, is_stream=query.is_stream), f"{name} is wrong"
        return (count - ends[1]) / seconds, changes.num_rows


def feed(db: millstream.Database, events: Events) -> None:
    for stream, table in events.tables().items():
        db.insert(stream, table)
    db.advance(int(events.bid["ts"][-1].value) - 1)
    db.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--only", default=",".join(QUERIES), help="names with commas between")
    parser.add_argument("--on", default=",".join(OPEN), help="inline, spark or both")
    arguments = parser.parse_args()
    systems = arguments.on.split(",")
    events = generate(arguments.events, events_per_second=EVENTS_PER_SECOND)
    rows = []
    for name in arguments.only.split(","):
        found = [run(name, events, arguments.events, OPEN[system]) for system in systems]
        rows.append([name, question(name).split(":")[0].rstrip("."), *(f"{rate:,.0f}" for rate, _ in found), f"{found[0][1]:,}"])
        print(*rows[-1], sep="  ", flush=True)
    if arguments.only == ",".join(QUERIES):
        header = ["query", "", *(f"events/s {system}" for system in systems), "changes"]
        title = f"Nexmark: {arguments.events:,} events, {EVENTS_PER_SECOND:,} in a second of event time"
        write_table("nexmark_queries", title, header, rows, machine())


if __name__ == "__main__":
    main()
