"""Millstream beside the installed peers, workload by workload: answers checked, then timed, on the same files.

    millstream bench [w1 w2 ... q0 q1 ...] [--peer NAME ...] [--variant base|window10|keys10|strings ...] [--install NAME|all]

A system first answers over 200,000 rows, and every answer is compared with DuckDB's over all rows at once.  Then it runs over two
sizes of the workload, one just large enough that its windows are full and one of four million rows more: the difference of the two is
what rows cost, without what it costs to start.  Time, processor time and memory are measured from outside, over all processes.
Whoever is slow gets fewer rows, those of 40 seconds; whoever is fast gets as many more as take it about ten seconds, 72 million at most.
Where a peer that got fewer rows took less memory, Millstream runs once more over as many.  With --repeat all systems run both sizes several
times, one after the other, so that they share what the machine does meanwhile; the figures are those of each one's pair in the middle.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import duckdb

from comparison.answers import Answers
from comparison.auctions import ALL_OF_THEM, ALL_TITLE, CHECK_EVENTS_A_SECOND, QUERIES, EventAnswers, EventData, Query
from comparison.data import FEWEST, FILE_ROWS, Data, first_size, whole_files
from comparison.measure import Run, RunFailed, measured
from comparison.peers.common import MEASURED
from comparison.results import JVM_PEERS, OURS, Measured, Outcome, keep, kept, peak_after, show
from comparison.systems import System, environment, systems
from comparison.workloads import VARIANTS, WORKLOADS, Variant, Workload, selections

CHECK_ROWS, CHECK_FILE_ROWS, CHECK_STEP_US = 200_000, 20_000, 10_000
MORE = 4_000_000
MOST = 72_000_000
FEW_SECONDS, MANY_SECONDS = 10.0, 40.0
"""Between the two sizes: with fewer it cannot be told from what starting may take, with more nothing else is learnt."""
PATIENCE = 240.0
"""Seconds for a run."""


@dataclass(frozen=True)
class Bench:
    work: Path
    scale: float

    def outcomes(self, chosen: Sequence[System], workload: Workload, repeat: int) -> Iterator[tuple[System, Outcome]]:
        """Of each that can be run, after each of its turns, what is known by then."""
        able = [system for system in chosen if system.is_installed and workload.name in system.shapes]
        found: dict[str, list[Outcome]] = {system.name: [] for system in able}
        for turn in range(repeat):
            for system in able:
                before = found[system.name]
                if turn == 0:
                    before.append(self.outcome(system, workload))
                elif before[0].failure:
                    continue
                else:
                    before.append(self._again(system, workload, min(before[0].peaks), max(before[0].peaks)))
                yield system, Outcome.middle(before)

    def outcome(self, system: System, workload: Workload) -> Outcome:
        try:
            self._check(system, workload)
            return self._timed(system, workload)
        except RunFailed as failure:
            return Outcome.failed(system.name, workload.id, str(failure))

    def _check(self, system: System, workload: Workload) -> None:
        sparse = replace(workload, keys=workload.keys // 10)
        data = self._check_data(sparse)
        answers = self.work / f"{system.name}-{workload.id}.parquet"
        self._run(system, sparse, data, CHECK_ROWS, answers)
        files = data.files(CHECK_ROWS)
        right = EventAnswers(sparse, files) if isinstance(sparse, Query) else Answers(sparse, files)
        try:
            wrong = right.differences(system.shapes[workload.name], answers)
        except duckdb.Error as error:
            raise RunFailed(f"answers that cannot be compared: {error}") from error
        answers.unlink()
        if wrong:
            raise RunFailed(f"{wrong} wrong answers")

    def _check_data(self, workload: Workload) -> Data:
        directory = self.work / "check"
        if isinstance(workload, Query):
            return EventData(directory / "auctions", workload, events_a_second=CHECK_EVENTS_A_SECOND, file_rows=CHECK_FILE_ROWS, seed=1)
        step = CHECK_STEP_US * (10 if workload.variant == "window10" else 1)
        return Data(directory / workload.id, workload, step_us=step, file_rows=CHECK_FILE_ROWS, seed=1)

    def _timed_data(self, workload: Workload) -> Data:
        directory = self.work / "rows"
        if isinstance(workload, Query):
            return EventData(directory / "auctions", workload)
        return Data(directory / f"{'-'.join(workload.streams)}-{workload.keys}-{workload.string_keys}", workload)

    def _timed(self, system: System, workload: Workload) -> Outcome:
        scale = self.scale * workload.size
        low = first_size(workload, self.scale)
        data = self._timed_data(workload)
        small = self._run_checked(system, workload, data, low)
        more = min(MORE * scale, max(FEWEST * scale, low * MANY_SECONDS / small.result["seconds"]))
        high = low + whole_files(more)
        large = self._run_checked(system, workload, data, high)
        if (seconds := large.wall - small.wall) < FEW_SECONDS:
            high = low + whole_files(min((high - low) * FEW_SECONDS / max(seconds, 0.1), MOST * scale))
            large = self._run_checked(system, workload, data, high)
        return Outcome.between(system.name, workload.id, low, small, high, large)

    def _again(self, system: System, workload: Workload, low: int, high: int) -> Outcome:
        """Over the same sizes."""
        try:
            small, large = (self._run_checked(system, workload, self._timed_data(workload), rows) for rows in (low, high))
        except RunFailed as failure:
            return Outcome.failed(system.name, workload.id, str(failure))
        return Outcome.between(system.name, workload.id, low, small, high, large)

    def with_memory_beside(self, ours: Outcome, system: System, workload: Workload, theirs: Measured) -> Outcome:
        """Where less memory was enough for fewer rows, what ours takes for as many."""
        peaks = dict(ours.peaks)
        for name in JVM_PEERS:
            if name in theirs and not theirs[name]["failure"]:
                rows = first_size(workload) + theirs[name]["rows"]
                if rows < max(peaks) and theirs[name]["peak_mb"] <= peak_after(peaks, rows):
                    try:
                        peaks[rows] = self._run(system, workload, self._timed_data(workload), rows).peak_bytes / 1e6
                    except RunFailed as failure:
                        print(f"  memory after {rows:,} rows is not known: {str(failure).splitlines()[0]}", flush=True)
        return replace(ours, peaks=peaks)

    def _run_checked(self, system: System, workload: Workload, data: Data, rows: int) -> Run:
        """A timed run.  Of ours, the answer at its end must be right, where one instant's answer can be had from the last rows alone."""
        if system.name != "millstream" or isinstance(workload, Query) or workload.name == "w6":
            return self._run(system, workload, data, rows)
        last = self.work / f"{workload.id}-last.parquet"
        run = self._run(system, workload, data, rows, last=last)
        reach = whole_files(1.2 * workload.full_after) // FILE_ROWS + 1
        wrong = Answers(workload, {stream: paths[-reach:] for stream, paths in data.files(rows).items()}).differences_at_the_end(last)
        last.unlink()
        if wrong:
            raise RunFailed(f"{wrong} wrong answers after {rows:,} rows")
        return run

    def _run(self, system: System, workload: Workload, data: Data, rows: int, answers: Path | None = None, last: Path | None = None) -> Run:
        job = self.work / "job.json"
        streams = {stream: [str(path) for path in paths] for stream, paths in data.files(rows).items()}
        one_file = {stream: str(path) for stream, path in data.one_file(rows).items()} if system.wants_one_file else {}
        asked: dict[str, Any] = {"window_s": workload.window_s, "slide_s": workload.slide_s, "string_keys": workload.string_keys}
        scratch = self.work / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        asked |= {"selections": selections(workload) if workload.name == "w6" else []}
        asked |= {"columns": {stream: workload.columns(stream) for stream in workload.streams}, "one_file": one_file}
        told = {"answers": str(answers) if answers else None, "last": str(last) if last else None}
        job.write_text(json.dumps({"workload": workload.name, "streams": streams, **asked, **told, "scratch": str(scratch)}))
        for path in (path for paths in (*streams.values(), one_file.values()) for path in paths):
            _read(path)
        until = scratch / MEASURED if last else None
        return measured([str(system.python), str(system.runner), str(job)], environment=environment(), timeout=PATIENCE, until=until)


def _read(path: str) -> None:
    """So that no system waits for a disk that others did not: who ran before may have taken the memory in which the file was kept."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def titles() -> dict[str, str]:
    """What can be asked for, by name: the workloads, all queries of Nexmark, and each of them."""
    found = {name: workload.title for name, workload in WORKLOADS.items()} | {ALL_OF_THEM: ALL_TITLE}
    return dict(sorted(found.items())) | {name: query.title for name, query in QUERIES.items()}


def chosen_workloads(names: list[str], variants: list[Variant]) -> list[Workload]:
    """Those of these names, else all; ValueError if one is not there, or not in that variant."""
    chosen: dict[str, Workload] = {}
    for name in names or [*WORKLOADS, *(QUERIES if variants == ["base"] else [])]:
        if name not in titles():
            raise ValueError(f'there is no workload "{name}"')
        for each in QUERIES.values() if name == ALL_OF_THEM else [(WORKLOADS | QUERIES)[name]]:
            chosen |= {varied.id: varied for varied in map(each.varied, variants)}
    return list(chosen.values())


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """As every command of ours says what is wrong."""
        self.exit(1, f"[CONFIG_INVALID] {message}\n  hint: See millstream bench --help.\n")


def main() -> None:
    known = systems()
    parser = _Parser(prog="millstream bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(titles()))
    parser.add_argument("--peer", action="append", choices=list(known), help="only these; Millstream always runs")
    parser.add_argument("--variant", action="append", choices=list(VARIANTS), help="base unless told")
    parser.add_argument("--install", action="append", choices=[*known, "all"], default=[], help="first install the peer; then run with it")
    parser.add_argument("--scale", type=float, default=1.0, help="how many times the rows")
    parser.add_argument(
        "--repeat", type=int, default=1, help="how many times both sizes run; the figures are those of the pair in the middle"
    )
    parser.add_argument("--work", type=Path, help="where the files go, and stay; a temporary directory unless told")
    parser.add_argument("--list", action="store_true", help="only say which workloads there are")
    arguments = parser.parse_args()
    if arguments.list:
        print(*(f"{name}\t{title}" for name, title in titles().items()), sep="\n")
        return
    for system in known.values():
        if system.requirements.exists() and {system.name, "all"} & set(arguments.install):
            print(f"installing {system.name}", flush=True)
            system.install()
    if arguments.install and not arguments.workloads:
        return
    if not 0 < arguments.scale < float("inf"):
        parser.error(f"--scale {arguments.scale:g}: a number above 0, such as 0.1")
    if arguments.repeat < 1:
        parser.error(f"--repeat {arguments.repeat}: at least 1")
    chosen = [system for system in known.values() if system.name == "millstream" or not arguments.peer or system.name in arguments.peer]
    for system in chosen:
        if not system.is_installed:
            print(f"{system.name} is not installed: millstream bench --install {system.name}")
    try:
        asked = chosen_workloads(arguments.workloads, arguments.variant or ["base"])
    except ValueError as wrong:
        parser.error(str(wrong))
    work = arguments.work or Path(tempfile.mkdtemp(prefix="millstream-bench-"))
    try:
        work.mkdir(parents=True, exist_ok=True)
        lock = (work / ".lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process ends
    except BlockingIOError:
        parser.error(f"--work {work}: another run is using it")
    except OSError as error:
        parser.error(f"--work {work}: {error.strerror}")
    has_failed = False
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind then either
    try:
        bench = Bench(work, arguments.scale)
        for workload in asked:
            print(f"\n{workload.id}: {workload.title}", flush=True)
            ours: Outcome | None = None
            for system, outcome in bench.outcomes(chosen, workload, arguments.repeat):
                show(outcome)
                ours = outcome if system.name == OURS else ours
                if arguments.scale == 1.0:
                    keep(outcome, system.version)
            has_failed |= ours is not None and ours.failure is not None
            if ours is not None and not ours.failure and arguments.scale == 1.0:
                keep(bench.with_memory_beside(ours, known[OURS], workload, kept()[workload.id]), known[OURS].version)
        from comparison.pages import write_pages  # not before: it loads what draws

        write_pages()
    except KeyboardInterrupt:
        sys.exit("stopped; what was measured until then is kept")
    finally:
        if arguments.work is None:
            shutil.rmtree(work)
    sys.exit(has_failed)


if __name__ == "__main__":
    main()
