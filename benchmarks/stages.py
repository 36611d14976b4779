"""Where the time of a row goes, from CSV files to the committed changelog, and what the operators alone would reach.

Each workload of `millstream bench` that has one query runs over five million rows on Spark; `q.stats()["stages"]` says where the workers
and the driver were.  What the operators alone reach is all rows over the seconds inside them, on all cores; the end-to-end rate, from
results/comparison.json, is a part of that.

    python benchmarks/stages.py [w1 w2 ...] [--rows 5000000]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import millstream
from comparison.data import FILE_ROWS, Data
from comparison.results import kept
from comparison.workloads import WORKLOADS, Workload
from report import goal, machine, write_table

WORKERS = ("decode", "filter", "split", "operators", "write", "sync", "python")
DRIVER = ("spark", "commit", "driver")
AT_LEAST = {"w1": 0.35, "w2": 0.35}
"""Of what the operators alone reach."""


def run(workload: Workload, files: dict[str, list[Path]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as location, millstream.connect(location) as db:
        with db.sources_held():
            for stream, paths in files.items():
                columns = ", ".join(f"{name} {kind}" for name, kind in workload.columns(stream).items())
                source = f"FROM 'csv' OPTIONS (path '{paths[0].parent}')"
                db.execute(f"CREATE STREAM {stream} ({columns}) TIMESTAMP BY ts PARTITION BY key {source}")
            query = db.execute(f"CREATE QUERY q AS {workload.sql.format(w=workload.window_s, slide=workload.slide_s)}")
        db.await_drained()
        return query.stats()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [name for name, workload in WORKLOADS.items() if "{condition}" not in workload.sql]
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(known))
    parser.add_argument("--rows", type=int, default=5_000_000)
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.workloads} - {*known}):
        parser.error(f"{unknown[0]}: one of {', '.join(known)}")
    if arguments.rows <= 0 or arguments.rows % FILE_ROWS:
        parser.error(f"--rows {arguments.rows}: a multiple of {FILE_ROWS:,}")
    cores, rates = os.cpu_count() or 1, kept()
    rows, goals = [], []
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as work:
        for name in arguments.workloads or known:
            workload = WORKLOADS[name]
            stats = run(workload, Data(Path(work) / name, workload).files(arguments.rows))
            stages, ticks = stats["stages"], stats["ticks"]
            alone = cores * arguments.rows / stages["operators"]
            line = [name, *(f"{stages[stage] / arguments.rows * 1e9:.0f}" for stage in WORKERS)]
            line += [f"{stages[stage] / ticks * 1e3:.0f}" for stage in DRIVER]
            ours = rates.get(name, {}).get("millstream")
            part = ours["rows_a_second"] / alone if ours and not ours["failure"] else None
            rows.append([*line, str(ticks), f"{alone / 1e6:.1f}", f"{part:.0%}" if part is not None else ""])
            print(*rows[-1], sep="  ", flush=True)
            if part is not None and name in AT_LEAST:
                text = f"{name} reaches at least {AT_LEAST[name]:.0%} of what its operators alone do: {part:.0%}"
                goals.append(goal(text, reached=part >= AT_LEAST[name]))
    header = ["", *(f"{stage}, ns a row" for stage in WORKERS), *(f"{stage}, ms a tick" for stage in DRIVER)]
    header += ["ticks", "operators alone, million rows/s", "end to end"]
    write_table("stages", f"Where the time goes: {arguments.rows:,} rows from CSV files", header, rows, machine(), goals)


if __name__ == "__main__":
    main()
