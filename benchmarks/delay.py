"""How long from `insert` to the committed change, at half of the rate that Millstream can keep up with.

Rows come at a steady pace, those of 50 ms at once, whether the last ones have been answered or not.  A slice's delay is from the moment at
which it is due to the commit after which its last row's effect is final.  The first quarter of the time does not count.

    python benchmarks/delay.py [w1 w2 ...] [--seconds 15]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from comparison.data import FILE_ROWS, Data
from comparison.measure import measured
from comparison.results import kept
from comparison.systems import environment, systems
from comparison.workloads import WORKLOADS
from report import goal, machine, write_table

P50_S, P99_S = 0.4, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    rates = {name: found["millstream"]["rows_a_second"] for name, found in kept().items() if "millstream" in found and name in WORKLOADS}
    known = [name for name in rates if "{condition}" not in WORKLOADS[name].sql]
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(known))
    parser.add_argument("--seconds", type=float, default=15.0)
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.workloads} - {*known}):
        parser.error(f"{unknown[0]}: one of {', '.join(known)}, once `millstream bench` has measured it")
    ours, rows, goals = systems()["millstream"], [], []
    for name in arguments.workloads or known:
        workload, pace = WORKLOADS[name], float(rates[name]) / 2  # type: ignore[arg-type]
        with tempfile.TemporaryDirectory(prefix="millstream-bench-") as work:
            count = int(pace * arguments.seconds) // FILE_ROWS * FILE_ROWS
            files = Data(Path(work) / "rows", workload).files(count)
            job = Path(work) / "job.json"
            streams = {stream: [str(path) for path in paths] for stream, paths in files.items()}
            asked = {"window_s": workload.window_s, "slide_s": workload.slide_s, "scratch": work, "pace": pace}
            job.write_text(json.dumps({"workload": name, "streams": streams, **asked}))
            run = measured([str(ours.python), str(ours.runner), str(job)], environment=environment(), timeout=10 * arguments.seconds + 60)
        p50, p99 = run.result["p50"], run.result["p99"]
        rows.append([name, f"{pace:,.0f}", f"{p50 * 1e3:,.0f}", f"{p99 * 1e3:,.0f}"])
        print(*rows[-1], sep="  ", flush=True)
        goals.append(goal(f"{name}: p50 below 400 ms and p99 below 1 s", reached=p50 < P50_S and p99 < P99_S))
    header = ["", "rows/s, half of the most", "p50, ms", "p99, ms"]
    write_table("delay", "From `insert` to the committed change", header, rows, machine(), goals)


if __name__ == "__main__":
    main()
