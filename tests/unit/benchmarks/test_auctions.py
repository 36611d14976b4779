"""Nexmark in the comparison: its events as files, the right answers, the names, and the table of ratios."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import compare
from comparison import pages
from comparison.auctions import QUERIES, STREAMS, EventAnswers, EventData, Query, read_events, schema
from comparison.data import Data
from comparison.systems import systems
from comparison.workloads import WORKLOADS
from inline import open_inline
from nexmark.check import Check
from nexmark.generator import Events, generate
from nexmark.queries import SCHEMA

EVENTS, FILE_EVENTS, A_SECOND = 4000, 400, 20
ALL_STREAMS = ("person", "auction", "bid")
WINDOWED = ("q5", "q7", "q8")
HOUSE = Query("house", "", {stream: tuple(schema(stream)) for stream in ALL_STREAMS}, 0, 0, "")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the events are, made once."""
    directory = tmp_path_factory.mktemp("events")
    files_of(HOUSE, directory)
    return directory


def files_of(query: Query, directory: Path) -> dict[str, list[Path]]:
    return EventData(directory, query, events_a_second=A_SECOND, file_rows=FILE_EVENTS).files(EVENTS)


def events_of(directory: Path) -> Events:
    return Events(**{stream: read_events(stream, paths) for stream, paths in files_of(HOUSE, directory).items()})


def last_us(events: Events) -> int:
    return max(pc.max(table["ts"]).value for table in (events.person, events.auction, events.bid))


def test_all_events_are_in_the_files_and_each_file_covers_its_time(data: Path) -> None:
    files = files_of(HOUSE, data)
    assert [len(paths) for paths in files.values()] == [EVENTS // FILE_EVENTS] * 3
    events = events_of(data)
    assert [table.num_rows for table in (events.person, events.auction, events.bid)] == [EVENTS // 50, 3 * EVENTS // 50, 46 * EVENTS // 50]
    whole = generate(EVENTS, events_per_second=A_SECOND)
    for stream in ALL_STREAMS:
        told = getattr(events, stream)
        assert told["ts"].equals(getattr(whole, stream)["ts"])  # in time, as if made at once
        for number, path in enumerate(files[stream]):
            piece = generate(FILE_EVENTS, seed=[0, number], first=number * FILE_EVENTS, events_per_second=A_SECOND)
            assert read_events(stream, [path]).equals(getattr(piece, stream)), (stream, number)
    for table in (events.person, events.auction):
        assert table["id"].to_pylist() == list(range(1000, 1000 + table.num_rows))
    assert pc.max(events.auction["seller"]).as_py() > 1000 + FILE_EVENTS // 50  # of whom there are only in later files


def test_the_same_events_each_time_whoever_asks_first(tmp_path: Path) -> None:
    one = EventData(tmp_path / "one", QUERIES["q0"], file_rows=FILE_EVENTS)
    other = EventData(tmp_path / "other", HOUSE, file_rows=FILE_EVENTS)
    few, many = one.files(800), other.files(1200)
    assert set(few) == {"bid"}
    assert [path.read_bytes() for path in few["bid"]] == [path.read_bytes() for path in many["bid"][:2]]
    assert sorted(few["bid"][0].parent.iterdir()) == few["bid"]
    assert not (tmp_path / "one" / "all" / "auction").exists()
    both = EventData(tmp_path / "one", QUERIES["q4"], file_rows=FILE_EVENTS).files(800)  # the bids are there, the auctions not yet
    assert [path.read_bytes() for path in both["auction"]] == [path.read_bytes() for path in many["auction"][:2]]
    assert (
        few["bid"][0].read_bytes() != EventData(tmp_path / "seed", HOUSE, file_rows=FILE_EVENTS, seed=1).files(400)["bid"][0].read_bytes()
    )
    without_bids = EventData(tmp_path / "thin", QUERIES["q3"], file_rows=FILE_EVENTS).files(800)
    for stream in ("person", "auction"):
        assert [path.read_bytes() for path in without_bids[stream]] == [path.read_bytes() for path in many[stream][:2]]
    with pytest.raises(AssertionError, match="not whole files"):
        one.files(500)


def spoilt(right: pa.Table) -> dict[str, pa.Table]:
    """The answer with a row less, a row twice, and in each column another value in one row."""
    place = right.num_rows // 2
    tables = {
        "missing": pa.concat_tables([right.slice(0, place), right.slice(place + 1)]),
        "twice": pa.concat_tables([right, right.slice(place, 1)]),
    }
    for number, name in enumerate(right.column_names):
        values = right.column(number).to_pylist()
        values[place] = another(values[place])
        tables[f"wrong {name} {number}"] = right.set_column(number, name, pa.array(values, right.schema.field(number).type))
    return tables


def another(value: Any) -> Any:
    if isinstance(value, str):
        return value + "x"
    return value - np.timedelta64(1, "ms").item() if hasattr(value, "year") else value + 1


@pytest.mark.parametrize("name", QUERIES)
def test_a_wrong_answer_of_a_peer_is_found(name: str, data: Path, tmp_path: Path) -> None:
    events, told = events_of(data), tmp_path / "told.parquet"
    right = Check(events).answer(name, last_us(events))
    assert right.num_rows > 0, "nothing to spoil"
    has_instant = right.column_names[0] == "instant"
    shape = "windows" if name in WINDOWED else "rows" if has_instant else "running"
    if shape == "rows":
        right = right.drop_columns(["instant"])
    checker = EventAnswers(QUERIES[name], files_of(QUERIES[name], data))
    pq.write_table(shuffled(right), told)
    assert checker.differences(shape, told) == 0
    for what, table in spoilt(right).items():
        pq.write_table(table, told)
        assert checker.differences(shape, told) > 0, what
    pq.write_table(right.slice(0, 0), told)
    assert checker.differences(shape, told) == right.num_rows
    pq.write_table(right.drop_columns([right.column_names[-1]]), told)
    assert checker.differences(shape, told) > 0


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(0).permutation(table.num_rows)))


def test_windows_that_have_not_ended_do_not_count(data: Path, tmp_path: Path) -> None:
    events, told = events_of(data), tmp_path / "told.parquet"
    right = Check(events).answer("q7", last_us(events))
    checker = EventAnswers(QUERIES["q7"], files_of(QUERIES["q7"], data))
    later = Check(events).answer("q7", last_us(events) + 60_000_000)
    assert later.num_rows > right.num_rows
    pq.write_table(later, told)
    assert checker.differences("windows", told) == 0


@pytest.mark.parametrize("name", QUERIES)
def test_our_answers_are_right_and_a_wrong_one_is_found(name: str, data: Path, tmp_path: Path) -> None:
    events, told = events_of(data), tmp_path / "changes.parquet"
    with open_inline(tmp_path / "db") as db:
        db.execute(SCHEMA)
        db.execute(QUERIES[name].sql)
        for stream, table in events.tables().items():
            db.insert(stream, table)
        db.advance(last_us(events))
        db.flush()
        changes = db.query(name).changes()
    checker = EventAnswers(QUERIES[name], files_of(QUERIES[name], data))
    pq.write_table(changes, told)
    assert checker.differences("changes", told) == 0
    spoil: dict[str, Callable[[pa.Table], pa.Table]] = {
        "missing": lambda rows: pa.concat_tables([rows.slice(0, 1), rows.slice(2)]),
        "twice": lambda rows: pa.concat_tables([rows, rows.slice(1, 1)]),
        "wrong": lambda rows: rows.set_column(2, rows.column_names[2], changed(rows.column(2))),
    }
    for what, change in spoil.items():
        pq.write_table(change(changes), told)
        assert checker.differences("changes", told) > 0, what


def changed(column: pa.ChunkedArray) -> pa.Array:
    values = column.to_pylist()
    values[1] = another(values[1])
    return pa.array(values, column.type)


def test_ours_of_q6_is_compared_only_as_far_as_it_is_final(data: Path) -> None:
    q4, q6 = (EventAnswers(QUERIES[name], files_of(QUERIES[name], data)) for name in ("q4", "q6"))
    assert max(q4._instants()) - max(q6._instants()) >= 50_000_000
    assert max(q4._instants()) == last_us(events_of(data)) - FILE_EVENTS * 1_000_000 // A_SECOND  # the end of the last file but one


def test_names(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(QUERIES) == ["q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q15", "q16", "q17", "q18"]
    assert not set(QUERIES) & set(WORKLOADS)
    monkeypatch.setattr("sys.argv", ["compare.py", "--list"])
    compare.main()
    listed = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert list(listed) == ["w1", "w2", "w3", "w4", "w5", "w6", "w7", *QUERIES]
    assert "q18" in listed["w5"]
    assert listed["q1"] == "Nexmark, currency conversion: every bid in euros"


def test_a_query_is_asked_for_by_name_and_all_by_w5() -> None:
    def ids(names: list[str], variants: list[Any]) -> list[str]:
        return [workload.id for workload in compare.chosen_workloads(names, variants)]

    assert ids(["w5"], ["base"]) == list(QUERIES)
    assert ids(["q4", "w2", "q7"], ["base"]) == ["q4", "w2", "q7"]
    assert ids(["q4", "w5"], ["base"]) == ["q4", *(name for name in QUERIES if name != "q4")]  # each once
    assert ids([], ["base"]) == [*WORKLOADS, *QUERIES]
    assert ids([], ["strings"]) == [f"{name}-strings" for name in WORKLOADS]
    with pytest.raises(ValueError, match="q4 is as Nexmark has it: there is no variant strings"):
        ids(["q4"], ["strings"])
    with pytest.raises(ValueError, match='no workload "q9"'):
        ids(["q9"], ["base"])


@pytest.mark.parametrize(("asked", "reason"), [(["q4", "--variant", "keys10"], "no variant keys10"), (["q9"], 'no workload "q9"')])
def test_what_is_not_there_is_told(
    asked: list[str], reason: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["compare.py", *asked, "--peer", "spark"])
    with pytest.raises(SystemExit) as ended:
        compare.main()
    assert ended.value.code == 1
    shown = capsys.readouterr().err
    assert shown.startswith("[CONFIG_INVALID]")
    assert reason in shown


def test_two_runs_do_not_share_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each swept away what the other was running in, and both told nonsense."""
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setattr("sys.argv", ["compare.py", "w1", "--work", str(tmp_path)])
        with pytest.raises(SystemExit) as ended:
            compare.main()
    assert ended.value.code == 1
    assert "another run is using it" in capsys.readouterr().err


def test_streams_of_each_query_are_those_that_it_reads() -> None:
    for name, query in QUERIES.items():
        read = set(re.findall(r"(?:FROM|JOIN) (\w+)", query.sql.replace("closing", "auction"))) & set(ALL_STREAMS)
        assert read == set(STREAMS[name]), name


def test_who_runs_what() -> None:
    found = systems()
    assert set(QUERIES) <= set(found["millstream"].shapes)
    assert set(QUERIES) - set(found["pyflink"].shapes) == {"q6"}
    assert set(QUERIES) - set(found["spark"].shapes) == {"q4", "q6"}


def test_each_kind_of_rows_comes_from_its_own_data(tmp_path: Path) -> None:
    bench = compare.Bench(tmp_path, 1.0)
    for pick in (bench._check_data, bench._timed_data):
        assert isinstance(pick(QUERIES["q0"]), EventData)
        assert type(pick(WORKLOADS["w1"])) is Data


def measured(**rates: float) -> dict[str, dict[str, Any]]:
    """As in comparison.json; no rows a second: failed."""
    return {
        name: {
            "system": name, "rows": 1_000_000, "rows_a_second": rate, "cpu_us_a_row": 1.0, "start_s": 1.0, "peak_mb": 1.0,
            "version": "", "date": "2026-01-01", "machine": "", "failure": None if rate else "wrong",
        }
        for name, rate in rates.items()
    }  # fmt: skip


def test_the_table_of_ratios_and_the_goals() -> None:
    assert pages._ratios({}) == []
    assert pages._ratios({"q0": measured(spark=100.0)}) == []
    assert pages._ratios({"q0": measured(millstream=100.0)}) == []
    everything = {
        "q0": measured(millstream=900.0, spark=100.0, pyflink=100.0),
        "q1": measured(millstream=600.0, spark=100.0, pyflink=0.0),
        "q2": measured(millstream=100.0, spark=100.0, pyflink=50.0),
        "q18": measured(millstream=0.0, spark=100.0),
        "w1": measured(millstream=1.0, spark=1.0),
    }
    text = "\n".join(pages._ratios(everything))
    assert "| Millstream is | q0 | q1 | q2 | q18 | median |" in text
    assert "| times spark | 9.0 | 6.0 | 1.0 | 0.0 | 3.5 |" in text
    assert "| times pyflink | 9.0 |  | 2.0 |  | 5.5 |" in text
    assert "MISSED: ahead of spark on every query that it can run: on 2 of 4, not on q2, q18" in text
    assert "MISSED: 5 times spark in the median: 3.5" in text
    assert "Reached: ahead of pyflink on every query that it can run: on 2 of 2" in text
    assert "Reached: 5 times pyflink in the median: 5.5" in text


def test_what_a_longer_window_costs_beside_the_usual_one() -> None:
    usual, longer = WORKLOADS["w1"], WORKLOADS["w1"].varied("window10")
    ours = measured(millstream=1000.0)["millstream"]
    raw = (6_000_000 - 600_000) * 24 / 1e6
    flat = ours | {"rows_a_second": 800.0, "peak_mb": ours["peak_mb"] + 2.9 * raw}
    told = "\n".join(pages._of_the_longer_window(usual, ours, longer, flat))
    assert "Reached: a row costs at most 1.3 times as much with the longer window: 1.25 by the clock, 1.00 of processor time" in told
    assert "Reached: the 130 MB of rows that it holds more take at most 3 times that: 376 MB, 2.9 times" in told
    steep = ours | {"rows_a_second": 700.0, "peak_mb": ours["peak_mb"] + 3.1 * raw}
    assert "\n".join(pages._of_the_longer_window(usual, ours, longer, steep)).count("MISSED") == 2
    assert pages._of_the_longer_window(usual, ours, longer, ours | {"failure": "wrong"}) == []


def test_memory_is_told_after_as_many_rows_as_the_peer_had() -> None:
    both = measured(millstream=2.0, spark=1.0)
    both["millstream"] |= {"peak_mb": 4.0, "peaks": {"500000": 0.5, "1500000": 0.75, "9000000": 4.0}}
    assert "Reached: less memory than spark after the same 1.5 million rows: 1 against 1 MB" in pages._goals(QUERIES["q4"], both)
    both["spark"]["rows"] = 2_000_000
    assert "MISSED: less memory than spark: 4 against 1 MB" in pages._goals(QUERIES["q4"], both)


@pytest.mark.parametrize("with_queries", [False, True])
def test_pages_are_made_with_and_without_queries(with_queries: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {"w1": measured(millstream=2.0, spark=1.0), "w3": measured(millstream=2.0, siddhi=0.0)} | (
        {"q3": measured(millstream=2.0, spark=1.0)} if with_queries else {}
    )
    delays = {"w1": {"millstream": {"rows_a_second": 1.0, "p50_s": 0.1, "p99_s": 0.2}}}
    monkeypatch.setattr(pages, "kept", lambda path=None: everything if path is None else delays)
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    page = tmp_path / "performance.md"
    page.write_text("before\n<!-- workloads: x -->\nold\n<!-- end -->\n<!-- delays: x -->\n<!-- end -->\nafter\n")
    monkeypatch.setattr(pages, "draw", partial(pages.draw, directory=tmp_path))
    monkeypatch.setattr(pages, "fill", partial(pages.fill, page=page))
    pages.write_pages()
    filled = page.read_text()
    table = "|  | Millstream | Spark | Siddhi |\n|---|---|---|---|\n| w1 | 0 | 0 (2.0) |  |\n| w3 | 0 |  | failed |\n"
    assert filled.startswith(f"before\n<!-- workloads: x -->\n{table}<!-- end -->\n")
    assert filled.endswith("| w1 | 100 / 200 |\n<!-- end -->\nafter\n")
    assert {picture.stem for picture in tmp_path.glob("*.svg")} == {"rows_a_second", "nexmark", "variants", "delays"}
    text = (tmp_path / "comparison.md").read_text()
    assert ("## q3: Nexmark, local item suggestion" in text) == with_queries
    assert ("## w5: all queries of Nexmark" in text) == with_queries
