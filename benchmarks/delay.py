"""How long from a row's arrival to its effect, at half of the rate that a system can keep up with.

Rows come at a steady pace, those of 50 ms at once, whether the last ones have been answered or not.  A slice's delay is from the moment at
which it is due to the moment at which its effect is there: of ours, from the call of `insert` to the commit after which its last row's
changes are final; of Spark, to the end of the trigger that took its files; of DuckDB, to the answer of the batch that it is in.  The first
quarter of the time does not count.  The rates are those that `millstream bench` has measured.

    python benchmarks/delay.py [w1 w2 ...] [--peer spark] [--seconds 25]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from comparison.data import FILE_ROWS, Data
from comparison.measure import RunFailed, measured
from comparison.peers.common import SLICE
from comparison.results import kept
from comparison.systems import System, environment, systems
from comparison.workloads import WORKLOADS, Workload
from report import goal, machine, write_table

P50_S, P99_S = 0.4, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    paced = {name: system for name, system in systems().items() if system.is_paced}
    rates = {(name, system): outcome.get("rows_a_second") for name, found in kept().items() for system, outcome in found.items()}
    known = [name for name, each in WORKLOADS.items() if rates.get((name, "millstream")) and "{condition}" not in each.sql]
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(known))
    parser.add_argument("--peer", action="append", choices=list(paced), help="only these; Millstream always runs")
    parser.add_argument("--seconds", type=float, default=25.0)
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.workloads} - {*known}):
        parser.error(f"{unknown[0]}: one of {', '.join(known)}, once `millstream bench` has measured it")
    rows, goals = [], []
    for name in arguments.workloads or known:
        for system in paced.values():
            rate = rates.get((name, system.name))
            is_asked = system.name == "millstream" or not arguments.peer or system.name in arguments.peer
            if not rate or not system.is_installed or not is_asked:
                continue
            pace = float(rate) / 2  # type: ignore[arg-type]
            try:
                p50, p99 = _delays(system, WORKLOADS[name], pace, arguments.seconds)
            except RunFailed as failure:
                print(name, system.name, failure, sep="  ", flush=True)
                continue
            rows.append([name, system.name, f"{pace:,.0f}", f"{p50 * 1e3:,.0f}", f"{p99 * 1e3:,.0f}"])
            print(*rows[-1], sep="  ", flush=True)
            if system.name == "millstream":
                goals.append(goal(f"{name}: p50 below 400 ms and p99 below 1 s", reached=p50 < P50_S and p99 < P99_S))
    header = ["", "", "rows/s, half of its most", "p50, ms", "p99, ms"]
    write_table("delay", "From a row's arrival to its effect", header, rows, machine(), goals)


def _delays(system: System, workload: Workload, pace: float, seconds: float) -> tuple[float, float]:
    # ours is given tables, which it cuts by itself
    file_rows = FILE_ROWS if system.name == "millstream" else round(pace * SLICE / len(workload.streams)) * len(workload.streams)
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as work:
        files = Data(Path(work) / "rows", workload, file_rows=file_rows).files(int(pace * seconds) // file_rows * file_rows)
        job = Path(work) / "job.json"
        streams = {stream: [str(path) for path in paths] for stream, paths in files.items()}
        asked = {"window_s": workload.window_s, "slide_s": workload.slide_s, "scratch": work, "pace": pace}
        job.write_text(json.dumps({"workload": workload.name, "streams": streams, **asked}))
        run = measured([str(system.python), str(system.runner), str(job)], environment=environment(), timeout=10 * seconds + 60)
    return run.result["p50"], run.result["p99"]


if __name__ == "__main__":
    main()
