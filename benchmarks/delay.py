"""How long from a row's arrival to its effect, at half of the rate that a system can keep up with.

Rows come at a steady pace, those of 50 ms at once, whether the last ones have been answered or not.  A slice's delay is from the moment at
which it is due to the moment at which its effect is there: all that is to be said of its rows has been said, or kept for a window's end.
The first quarter of the time does not count.  The rates are those that `millstream bench` has measured, each system's own.  When that is:

millstream  from the call of `insert`, at the commit after which the last row's changes are final: on disk, which none of the others is
spark       at the end of the trigger that took its files
duckdb      at the answer of the batch that it is in
pyflink     when the watermarks at the sink have passed its last row; rows come as files
siddhi      when the apps, in one process with what reads the rows, have called back
deephaven   when a listener hears of the cycle in which the answers have followed
pathway     at the end of the engine's instant in which its rows are counted
bytewax     when the sink has the answers

Whoever does not keep up has delays that grow as long as it runs, and they are shown as they are.

    python benchmarks/delay.py [w1 w2 ...] [--peer spark] [--seconds 20]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

from comparison.data import FILE_ROWS, Data, cut
from comparison.measure import RunFailed, measured
from comparison.peers.common import SLICE
from comparison.results import KEPT_DELAYS, OURS, Measured, keep_delays, kept
from comparison.systems import System, environment, systems
from comparison.workloads import WORKLOADS, Workload
from report import goal, machine, write_table

P50_S, P99_S = 0.4, 1.0
PATIENCE = 5
"""A run may take so many times as long as rows come, and a minute."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    paced = {name: system for name, system in systems().items() if system.is_paced}
    rates = {(name, system): outcome["rows_a_second"] for name, found in kept().items() for system, outcome in found.items()}
    known = [name for name, each in WORKLOADS.items() if rates.get((name, OURS)) and "{condition}" not in each.sql]
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(known))
    parser.add_argument("--peer", action="append", choices=list(paced), help="only these; Millstream always runs")
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    if unknown := sorted({*arguments.workloads} - {*known}):
        parser.error(f"{unknown[0]}: one of {', '.join(known)}, once `millstream bench` has measured it")
    asked = [system for system in paced.values() if system.name == OURS or not arguments.peer or system.name in arguments.peer]
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as work:
        for name in arguments.workloads or known:
            for system in asked:
                rate = rates.get((name, system.name))
                if not rate or not system.is_installed or name not in system.shapes:
                    continue
                try:
                    p50, p99 = delays(system, WORKLOADS[name], rate / 2, arguments.seconds, Path(work))
                except RunFailed as failure:
                    print(name, system.name, failure, sep="  ", flush=True)
                    continue
                print(f"{name}  {system.name}  {rate / 2:,.0f} rows/s  {p50 * 1e3:,.0f} ms  {p99 * 1e3:,.0f} ms", flush=True)
                keep_delays(system.name, system.version, name, rate / 2, p50, p99)
    tell(kept(KEPT_DELAYS))
    from comparison.pages import write_pages  # not before: it loads what draws

    write_pages()


def tell(found: dict[str, Measured]) -> None:
    """All that is kept, of this run and of those before it."""
    lines = [(name, system, each) for name in WORKLOADS for system, each in found.get(name, {}).items()]
    rows = [
        [name, f"{system} {each['version']}".strip(), f"{each['rows_a_second']:,.0f}", _ms(each["p50_s"]), _ms(each["p99_s"]), each["date"]]
        for name, system, each in lines
    ]
    goals = [
        goal(f"{name}: p50 below 400 ms and p99 below 1 s", reached=each["p50_s"] < P50_S and each["p99_s"] < P99_S)
        for name, system, each in lines
        if system == OURS
    ]
    header = ["", "", "rows/s, half of its most", "p50, ms", "p99, ms", "measured"]
    write_table("delay", "From a row's arrival to its effect", header, rows, machine(), goals)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f}"


def delays(system: System, workload: Workload, pace: float, seconds: float, work: Path) -> tuple[float, float]:
    """Median and 99th percentile of a run of so many seconds; the rows stay in `work`, for whoever gets the same ones after it."""
    # by streams and keys, as w1, w2 and w7 have the same rows
    data = Data(work / f"{'-'.join(workload.streams)}-{workload.keys}", workload)
    scratch = work / "scratch"
    scratch.mkdir()
    try:
        job = scratch / "job.json"
        streams = {stream: [str(path) for path in paths] for stream, paths in _files(system, data, pace, seconds, scratch).items()}
        told = {"columns": {stream: workload.columns(stream) for stream in workload.streams}, "scratch": str(scratch), "pace": pace}
        asked = {"workload": workload.name, "window_s": workload.window_s, "slide_s": workload.slide_s}
        job.write_text(json.dumps({**asked, **told, "streams": streams}))
        run = measured([str(system.python), str(system.runner), str(job)], environment=environment(), timeout=PATIENCE * seconds + 60)
    finally:
        shutil.rmtree(scratch)
    return run.result["p50"], run.result["p99"]


def _files(system: System, data: Data, pace: float, seconds: float, scratch: Path) -> dict[str, list[Path]]:
    """A file of each stream for each slice; ours is given tables, which it cuts by itself."""
    whole = data.files(-(-int(pace * seconds) // FILE_ROWS) * FILE_ROWS)
    if system.name == "millstream":
        return whole
    rows = round(pace * SLICE / len(whole))
    return {stream: cut(paths, scratch / "slices" / stream, rows)[: round(seconds / SLICE)] for stream, paths in whole.items()}


if __name__ == "__main__":
    main()
