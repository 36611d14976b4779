"""Every bad input of tests/bad_inputs that needs no JVM gets what docs/bad-inputs.md says.

MILLSTREAM_REGENERATE=1 pytest -n 0 tests/unit/test_bad_inputs.py      writes what each gets into the page
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from bad_inputs.namespace import NAMES, value_of
from bad_inputs.page import ALL, KINDS, PAGE, SPARK, Case, line_of, page, recorded
from inline import open_inline
from millstream.api import Database
from millstream.cli.scripts.batching import batching
from millstream.cli.scripts.format import parse_script
from millstream.cli.scripts.runner import run_script
from millstream.core.errors import MillstreamError
from millstream.runtime.ingest import write_partition
from millstream.runtime.listing import rejected_rows
from millstream.spark.file_readers import fast_file_reader
from unit.runtime.manual_clock import STARTED, ManualClock

S = "(ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts"
A = "(ts TIMESTAMP, v DECIMAL(10,2)) TIMESTAMP BY ts"
W = (
    "(ts TIMESTAMP, tiny TINYINT, big BIGINT, d DOUBLE, f FLOAT, dec DECIMAL(5,2), b BOOLEAN, s STRING, bin BINARY, day DATE, iv INTERVAL,"
    " l ARRAY<INT>, m MAP<STRING,INT>, st STRUCT<a:INT>, ntz TIMESTAMP_NTZ,"
    " deep ARRAY<STRUCT<day:DATE,f:FLOAT,m:MAP<INT,TIMESTAMP_NTZ>>>, zeros MAP<DOUBLE,INT>, amounts ARRAY<DECIMAL(5,2)>,"
    " words ARRAY<STRING>, named STRUCT<x:STRING>, floats ARRAY<FLOAT>) TIMESTAMP BY ts"
)
COUNTED = ("s", "w", "ahead", "strict", "amounts")


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[Case, str]]:
    """Of all cases that ran; written to the page if asked for."""
    found: dict[Case, str] = {}
    yield found
    if os.environ.get("MILLSTREAM_REGENERATE"):
        PAGE.write_text(page(found))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with open_inline(tmp_path / "db", buckets=1, clock=ManualClock().clock) as database:
        for name, definition in (("s", S), ("w", W), ("strict", f"{S} ON ERROR FAIL"), ("ahead", f"{S} MAX AHEAD 1 HOUR"), ("amounts", A)):
            database.execute(f"CREATE STREAM {name} {definition}")
        yield database


def letters(db: Database) -> list[str]:
    """Why rows were rejected, each reason with its row or line."""
    tables = [rejected_rows(db._engine.streams[name]) for name in COUNTED]
    found = [letter for table in tables for letter in table.to_pylist()]
    for letter in found:
        assert len((letter["row"] or "").encode()) < 4200
        assert letter["at"].timestamp() * 1_000_000 == STARTED
    return [f"{letter['source'].split(', ')[-1]}: {letter['reason']}" for letter in found]


def outcome_of(db: Database, run: Callable[[Database], object]) -> str:
    before = taken(db)
    try:
        run(db)
    except MillstreamError as error:
        assert taken(db) == before, "nothing is half done after an error"
        assert not letters(db)
        return f"[{error.code}] {error.message}"
    found = letters(db)
    assert len(found) == sum(stream.rejected for stream in db.streams())
    assert sum(db.execute("SHOW STREAMS").column("rejected").to_pylist()) == len(found)
    if not found:
        return "taken"
    told = "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
    return f"rejected, {told}"


def taken(db: Database) -> int:
    return sum(stream.rows + stream.late for stream in db.streams())


def check(case: Case, outcome: str, outcomes: dict[Case, str]) -> None:
    outcomes[case] = outcome
    assert outcome.startswith((case.expected, f"[{case.expected}]")), outcome
    if not os.environ.get("MILLSTREAM_REGENERATE"):
        assert recorded(case) == line_of(case, outcome)


@pytest.mark.parametrize("case", ALL["insert"] + ALL["values"], ids=str)
def test_insert(db: Database, case: Case, outcomes: dict[Case, str]) -> None:
    rows = value_of(case.text)
    if case.kind == "values":
        rows = pa.table({"ts": [0, 1, 2]} | rows) if "pa.table" in case.section else [{"ts": 0} | rows]
    name = "s" if case.kind == "insert" else "w"
    check(case, outcome_of(db, lambda db: db.insert(name, rows)), outcomes)


@pytest.mark.parametrize("case", ALL["csv"], ids=str)
def test_files(db: Database, case: Case, outcomes: dict[Case, str], tmp_path: Path) -> None:
    given = value_of(case.text)
    data, name = given if isinstance(given, tuple) else (given, "a.csv")
    options = {"path": str(tmp_path), **({"header": "true"} if name == "header" else {})}
    path = tmp_path / ("a.csv" if name == "header" else name)
    if data is not None:
        path.write_bytes(data)
    stream = "amounts" if "amounts" in case.section else "s"
    outcome = outcome_of(db, lambda db: ingest(db, stream, path, options)).replace(str(tmp_path), "")
    # the words of pyarrow are its own
    outcome = re.sub(r"(the file cannot be read): (?!the file has|column ).*", r"\1: ...", outcome, flags=re.DOTALL)
    check(case, outcome, outcomes)


def ingest(db: Database, stream: str, path: Path, options: dict[str, str]) -> None:
    """What an executor and the driver do with a file."""
    streams = db._engine.streams
    entry = replace(streams[stream].entry, format=path.name.split(".")[1], options=options)
    reader = fast_file_reader(entry)
    assert reader is not None
    plan = streams.begin(stream, partitions=1)
    streams.commit(plan, [write_partition(plan, 0, [reader.read(str(path), plan.times)])])


@pytest.mark.parametrize("case", ALL["sql"] + ALL["calls"], ids=str)
def test_statements_and_calls(db: Database, case: Case, outcomes: dict[Case, str]) -> None:
    db.execute("CREATE RELATION r (k STRING PRIMARY KEY, v INT)")
    db.insert("r", [("a", 1)])
    db.execute("CREATE QUERY q AS SELECT v FROM s [RANGE 1 HOUR]")
    if case.kind == "calls":
        more = {"db": db, "now": STARTED, "dt_9998": 253_339_228_800_000_000}
        check(case, outcome_of(db, lambda db: value_of(case.text, **more)), outcomes)
    else:
        text = value_of("f'''" + case.text.replace("'", "\\'") + "'''")
        check(case, outcome_of(db, lambda db: db.execute(text)), outcomes)


@pytest.mark.parametrize("case", ALL["functions"], ids=str)
def test_functions(db: Database, case: Case, outcomes: dict[Case, str]) -> None:
    bystander = db.execute("SELECT v + 1 AS x FROM s [RANGE 1 HOUR]")

    def run(db: Database) -> object:
        value_of(f"db.function('f', {case.text})", db=db)
        query = db.execute("CREATE QUERY failing AS SELECT f(v) AS x FROM s [RANGE 1 HOUR]")
        db.insert("s", [(0, "a", 7), (1, "b", 8)])
        db.advance(2)
        db.flush()
        return query.result()

    try:
        run(db)
        outcome = "taken"
    except MillstreamError as error:
        outcome = f"[{error.code}] {error.message}"
        state = db.execute("SHOW QUERIES").to_pylist()
        if any(query["name"] == "failing" for query in state):
            assert [query["state"] for query in state] == ["running", "failed"]
    if db.streams()[0].rows:
        assert sorted(bystander.result().column("x").to_pylist()) == [8, 9], "the other queries go on"
    outcome = re.sub(r"0x[0-9a-f]+", "0x...", outcome)
    check(case, re.sub(r"(recursion depth exceeded).*", r"\1", outcome), outcomes)


@pytest.mark.parametrize("case", ALL["scripts"], ids=str)
def test_scripts(case: Case, outcomes: dict[Case, str], tmp_path: Path) -> None:
    text = f"statement ok\nCREATE STREAM s {S}\n\n" + case.text.replace("\\n", "\n") + "\n"
    opened: list[Database] = []

    def open_(path: Path) -> Database:
        opened.append(open_inline(path, clock=ManualClock().clock))
        return opened[0]

    try:
        result = run_script(parse_script(text, "bad.slt"), open_, tmp_path / "db", batching("one", "bad.slt"), frozenset())
        told = "; ".join(f"line {failure.line}: {' '.join(failure.details)}" for failure in result.failures)
        outcome = f"fails, {told}" if told else "rejected" if opened else "taken"
    except Exception as error:
        outcome = f"fails, {error}"
    check(case, outcome, outcomes)


def test_there_are_two_hundred_and_the_page_has_no_others() -> None:
    assert sum(map(len, ALL.values())) >= 200
    known = {case: recorded(case) for kind in KINDS for case in ALL[kind]}
    assert all(known.values()), [str(case) for case, line in known.items() if line is None]
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ``")]
    assert len(lines) == len(known)
    assert SPARK


def test_the_names_are_there() -> None:
    assert isinstance(NAMES["not_utf8"]([b"\xff"]), pa.Array)
