"""The comparison beside peers: its rows, the right answers, and what it measures of a program."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from compare import Bench
from comparison.answers import Answers
from comparison.auctions import QUERIES
from comparison.data import Data, cut, first_size
from comparison.measure import Run, RunFailed, measured
from comparison.results import Outcome, keep, kept, peak_after
from comparison.systems import System, systems
from comparison.workloads import WORKLOADS, as_sql, selections
from delay import delays
from inline import open_inline

ROWS, FILE_ROWS, STEP_US = 4000, 400, 400_000
FALSE = {"w1": "-1 AS total", "w2": "-1 AS total", "w3": "-1 AS top", "w4": "-1 AS total", "w7": "-1 AS top"}
SHAPES = {"rows", "rows_open", "windows", "files", "changes", "selected", "running", "tumbling"}


@pytest.mark.parametrize("name", ["w1", "w2", "w3", "w4", "w7"])
def test_our_answers_are_right_and_a_wrong_one_is_found(name: str, tmp_path: Path) -> None:
    workload = replace(WORKLOADS[name], keys=50)
    files = Data(tmp_path / "data", workload, step_us=STEP_US, file_rows=FILE_ROWS).files(ROWS)
    with open_inline(tmp_path / "db") as db:
        for stream in files:
            db.execute(f"CREATE STREAM {stream} ({', '.join(f'{n} {t}' for n, t in workload.columns(stream).items())}) TIMESTAMP BY ts")
        query = db.execute(f"CREATE QUERY q AS {workload.sql.format(w=workload.window_s, slide=workload.slide_s)}")
        for stream, paths in files.items():
            rows = duckdb.sql(f"SELECT * FROM read_csv({[str(path) for path in paths]}, header = false)").to_arrow_table()
            db.insert(stream, rows.rename_columns(list(workload.columns(stream))))
        db.flush()
        changes = query.changes()
    told = tmp_path / "changes.parquet"
    duckdb.sql(f"COPY (SELECT * FROM changes) TO '{told}'")
    assert Answers(workload, files).differences("changes", told) == 0
    place = changes.num_rows // 3
    spoilt = {
        "one is lost": f"SELECT * EXCLUDE (i) FROM (SELECT *, row_number() OVER () AS i FROM changes) WHERE i <> {place}",
        "each is told twice": "FROM changes UNION ALL FROM changes",
        "each counts double": "SELECT * REPLACE (2 * diff AS diff) FROM changes",
        "a row goes that was not there": f"FROM changes UNION ALL (SELECT * REPLACE ({FALSE[name]}, -1 AS diff) FROM changes LIMIT 1)",
    }
    for what, wrong in spoilt.items():
        duckdb.sql(f"COPY ({wrong}) TO '{told}'")
        assert Answers(workload, files).differences("changes", told) > 0, what


def test_the_same_rows_each_time_and_no_more_than_asked_for(tmp_path: Path) -> None:
    workload = WORKLOADS["w3"].varied("strings")
    one = Data(tmp_path / "one", workload, file_rows=FILE_ROWS)
    other = Data(tmp_path / "other", workload, file_rows=FILE_ROWS)
    few, many = one.files(800), other.files(1200)
    assert [path.read_text() for path in few["a"]] == [path.read_text() for path in many["a"][:2]]
    assert sorted(few["b"][0].parent.iterdir()) == few["b"]
    assert few["a"][0].read_text().splitlines()[1].startswith("2026-01-01 00:00:00.002,key-0")


def test_selections_are_the_same_for_all_and_for_somebody(tmp_path: Path) -> None:
    workload = replace(WORKLOADS["w6"], keys=100)
    wanted = selections(workload)
    assert wanted == selections(workload)
    assert len(wanted) == 1000
    files = Data(tmp_path, workload, file_rows=FILE_ROWS).files(ROWS)
    right = tmp_path / "right.parquet"
    database = duckdb.connect()
    names = [str(path) for path in files["events"]]
    database.execute(f"CREATE TABLE events AS SELECT * FROM read_csv({names}, header = false, names = ['ts', 'key', 'value'])")
    parts = [f"SELECT {number}::BIGINT AS query, * FROM events WHERE {as_sql(each)}" for number, each in enumerate(wanted)]
    database.execute(f"COPY ({' UNION ALL '.join(parts)}) TO '{right}'")
    answers = Answers(workload, files)
    assert answers.differences("selected", right) == 0
    ours = tmp_path / "ours.parquet"
    spoilt = {
        "SELECT *, ts AS instant, 1 AS diff FROM right": 0,
        "SELECT *, ts AS instant, 2 AS diff FROM right": 1,
        "SELECT *, ts + INTERVAL 1 MILLISECOND AS instant, 1 AS diff FROM right": 1,
        "(SELECT *, ts AS instant, 1 AS diff FROM right) UNION ALL (SELECT *, ts AS instant, -1 AS diff FROM right LIMIT 1)": 1,
        "SELECT *, ts AS instant, 1 AS diff FROM right WHERE query <> 500": 1,
    }
    for told, wrong in spoilt.items():
        database.execute(f"COPY ({told.replace('right', repr(str(right)))}) TO '{ours}'")
        assert min(1, answers.differences("changes", ours)) == wrong, told


def test_every_peer_says_what_it_can() -> None:
    found = systems()
    assert next(iter(found)) == "millstream"
    assert {"spark", "pyflink", "siddhi", "deephaven", "pathway", "bytewax", "duckdb"} <= set(found)
    for system in found.values():
        assert set(system.shapes) <= set(WORKLOADS | QUERIES), system.name
        assert set(system.shapes.values()) <= SHAPES, system.name
        assert system.version, system.name


def test_what_a_program_takes_with_all_that_it_starts() -> None:
    inner = "import time\nheap = bytearray(200_000_000)\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"
    outer = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {inner!r}])\nprint('RESULT {{\"seconds\": 1}}')"
    run = measured([sys.executable, "-c", outer], environment=os.environ, timeout=60)
    assert run.result == {"seconds": 1}
    assert run.cpu > 0.4
    assert run.peak_bytes > 200_000_000
    assert run.wall > 0.5


def test_nothing_is_left_of_a_program_when_measuring_it_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []

    def interrupted(pid: int) -> int:
        pids.append(pid)
        raise KeyboardInterrupt

    monkeypatch.setattr("comparison.measure._memory", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measured([sys.executable, "-c", "import time; time.sleep(60)"], environment=os.environ, timeout=60)
    assert pids
    assert not Path(f"/proc/{pids[0]}").exists()


def test_what_was_measured_is_not_lost_to_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    keep(Outcome.failed("siddhi", "w1", "no Java"), "5", path)
    assert kept(path)["w1"]["siddhi"]["failure"] == "no Java"
    keep(Outcome("siddhi", "w1", 10, 1000.0), "5", path)
    keep(Outcome.failed("siddhi", "w1", "no Java"), "5", path)
    assert kept(path)["w1"]["siddhi"]["rows_a_second"] == 1000.0


def _between(seconds: float, peak: float) -> Outcome:
    small, large = Run(5.0, 4.0, int(1e9), {}), Run(5.0 + seconds, 4.0 + seconds, int(peak * 1e6), {})
    return Outcome.between("millstream", "q4", 1_000_000, small, 5_000_000, large)


def test_of_several_runs_the_one_in_the_middle_and_the_most_memory() -> None:
    noisy = _between(-1, 1500)
    middle = Outcome.middle([_between(4, 1500), noisy, _between(1, 1600), _between(2, 1400)])
    assert (middle.rows_a_second, middle.peak_mb, middle.runs) == (2_000_000, 1600, 3)
    assert middle.peaks == {1_000_000: 1000, 5_000_000: 1600}
    assert Outcome.middle([noisy, noisy]).failure
    wrong = Outcome.failed("millstream", "q4", "3 wrong answers")
    assert Outcome.middle([_between(4, 1500), wrong, _between(1, 1600)]) == wrong


def test_systems_take_turns_and_who_fails_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they share what the machine does meanwhile."""
    asked = []

    def first(self: Bench, system: System, workload: object) -> Outcome:
        asked.append(system.name)
        return replace(_between(2, 1500), system=system.name) if system.name != "siddhi" else Outcome.failed("siddhi", "w1", "why")

    def again(self: Bench, system: System, workload: object, low: int, high: int) -> Outcome:
        asked.append((system.name, low, high))
        return replace(_between(len(asked), 1500), system=system.name)

    monkeypatch.setattr(Bench, "outcome", first)
    monkeypatch.setattr(Bench, "_again", again)
    monkeypatch.setattr(System, "is_installed", True)
    chosen = [systems()[name] for name in ("millstream", "siddhi", "duckdb")]
    told = [(system.name, outcome) for system, outcome in Bench(tmp_path, 1.0).outcomes(chosen, WORKLOADS["w1"], 2)]
    found = dict(told)
    assert [name for name, _ in told] == ["millstream", "siddhi", "duckdb", "millstream", "duckdb"]
    later = [(name, 1_000_000, 5_000_000) for name in ("millstream", "duckdb")]
    assert asked == ["millstream", "siddhi", "duckdb", *later]
    assert found["siddhi"].failure == "why"
    assert [found[name].runs for name in ("millstream", "duckdb")] == [2, 2]


def test_memory_is_compared_after_as_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept for ever grows with them, and whoever is fast is given more."""
    ran = []

    def run(self: Bench, system: object, workload: object, data: object, rows: int) -> Run:
        ran.append(rows)
        return Run(1.0, 1.0, int(1200e6), {})

    monkeypatch.setattr(Bench, "_run", run)
    few = {"failure": None, "rows": 1_500_000, "peak_mb": 1300}
    theirs = {"spark": few, "pyflink": few | {"peak_mb": 2500}, "siddhi": few | {"rows": 9_000_000}, "bytewax": few | {"peak_mb": 1}}
    ours = Bench(tmp_path, 1.0).with_memory_beside(_between(1, 2000), systems()["millstream"], QUERIES["q4"], theirs)
    rows = first_size(QUERIES["q4"]) + 1_500_000
    assert ran == [rows]
    assert ours.peaks == {1_000_000: 1000, rows: 1200, 5_000_000: 2000}
    assert (peak_after(ours.peaks, rows), peak_after(ours.peaks, rows + 1)) == (1200, 2000)


def test_more_processor_time_than_there_was_is_no_result() -> None:
    cores = os.cpu_count() or 1
    small, large = Run(10.0, 10.0, 1, {}), Run(12.0, 10.0 + 2 * cores, 1, {})
    assert not Outcome.between("a", "w1", 1000, small, 2000, large).failure
    assert Outcome.between("a", "w1", 1000, small, 2000, replace(large, cpu=11.0 + 3 * cores)).failure
    assert Outcome.between("a", "w1", 1000, large, 2000, small).failure
    assert Outcome.between("a", "w1", 1000, small, 2000, replace(large, cpu=9.0)).failure  # something else took what the small one cost


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemExit(3)", "exit status 3"),
        ("pass", "told no result"),
        ("import time\ntime.sleep(60)", "took more than"),
        ("import subprocess\nsubprocess.Popen(['sleep', '60'])\nprint('RESULT {}')", "left processes behind"),
    ],
)
def test_a_program_that_fails_is_told_and_nothing_of_it_is_left(program: str, reason: str) -> None:
    with pytest.raises(RunFailed, match=reason):
        measured([sys.executable, "-c", program], environment=os.environ, timeout=3)


def test_rows_are_cut_across_files_into_whole_slices(tmp_path: Path) -> None:
    paths = Data(tmp_path / "data", WORKLOADS["w1"], file_rows=FILE_ROWS).files(3 * FILE_ROWS)["events"]
    slices = cut(paths, tmp_path / "slices", 250)
    lines = [line for path in paths for line in path.read_text().splitlines()]
    assert [path.read_text().splitlines() for path in slices] == [lines[at : at + 250] for at in (0, 250, 500, 750)]
    assert cut(paths, tmp_path / "fewer", 1000)[0].read_text().splitlines() == lines[:1000]


def test_files_get_older_in_the_order_of_their_rows(tmp_path: Path) -> None:
    """Made side by side, the youngest was not always the last, and its elders' rows were late for us."""
    paths = Data(tmp_path, WORKLOADS["w3"], file_rows=FILE_ROWS).files(40 * FILE_ROWS)
    for stream in paths.values():
        ages = [path.stat().st_mtime_ns for path in stream]
        assert ages == sorted(set(ages))


def test_every_system_can_tell_its_delay() -> None:
    assert all(system.is_paced for system in systems().values())


PACED = [(system.name, name) for system in systems().values() for name in ("w1", "w2", "w3", "w4", "w7") if name in system.shapes]
WITHOUT_JAVA = ("duckdb", "bytewax", "pathway")


@pytest.mark.parametrize(("system", "name"), [pytest.param(*each, id="-".join(each)) for each in PACED if each[0] in WITHOUT_JAVA])
def test_delays_are_told_of_rows_at_a_pace(system: str, name: str, tmp_path: Path) -> None:
    if not systems()[system].is_installed:
        pytest.skip(f"{system} is not installed")
    p50, p99 = delays(systems()[system], WORKLOADS[name], pace=6000, seconds=2.0, work=tmp_path)
    assert 0 < p50 <= p99 < 60
    assert [path.name for path in tmp_path.iterdir()] == [f"{'-'.join(WORKLOADS[name].streams)}-{WORKLOADS[name].keys}"]


@pytest.mark.spark
@pytest.mark.parametrize(("system", "name"), [pytest.param(*each, id="-".join(each)) for each in PACED if each[0] not in WITHOUT_JAVA])
def test_delays_are_told_of_rows_at_a_pace_with_java(system: str, name: str, tmp_path: Path) -> None:
    test_delays_are_told_of_rows_at_a_pace(system, name, tmp_path)
