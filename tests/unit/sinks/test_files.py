"""Files of changes: nothing twice, nothing lost, also across restarts, and nobody else's directory."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inline import open_inline
from millstream.api import Database
from millstream.core.errors import ConfigInvalid, DataDamaged, NotSupported
from millstream.core.schema import Schema
from millstream.language.catalog import StreamEntry
from millstream.runtime.row_times import RowTimes
from millstream.spark.file_readers import fast_file_reader
from unit.sinks.workload import DDL, QUERY, changes, delivered, feed, one_more_digit, run


@pytest.mark.parametrize("format_", ["parquet", "csv", "json", "delta"])
def test_every_change_arrives_once_also_across_restarts(format_: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = f"INTO '{format_}' OPTIONS (path '{out}')"
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q {sink}")
        db.insert("s", [(i, "a", i) for i in range(6)])
        db.flush()
    for _ in range(2):
        run(tmp_path / "db", sink)
    expected = changes(tmp_path / "db")
    found = delivered(out, format_)
    assert len(found) > 50
    assert found == (sorted(expected, key=str) if format_ == "delta" else expected)
    assert list(out.glob(".*")) == []


def opened(path: Path, out: Path) -> Database:
    db = open_inline(path)
    db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'parquet' OPTIONS (path '{out}')")
    return db


def test_files_that_are_taken_away_are_not_delivered_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with opened(tmp_path / "db", out) as db:
        feed(db)
    taken = sorted(out.glob("changes-*"))
    for path in taken:
        path.unlink()
    with open_inline(tmp_path / "db") as db:
        db.insert("s", [(70, "late", 1)])
        db.advance(71)
        db.flush()
    assert len(taken) > 1
    (left,) = out.glob("changes-*")
    assert left.name > taken[-1].name


def test_a_dropped_sink_goes_on_under_its_name_with_other_options(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with opened(tmp_path / "db", out) as db:
        db.insert("s", [(1, "a", 1), (2, "b", 2)])
        db.flush()
        db.execute(f"DROP SINK o; CREATE SINK o FROM q INTO 'parquet' OPTIONS (path '{out}/../out')")
        db.insert("s", [(9, "c", 1)])
        db.advance(9)
        db.flush()
        rows = [row for path in sorted(out.glob("changes-*")) for row in pq.read_table(path).to_pylist()]
        assert rows == db.query("q").changes().to_pylist()


def test_a_directory_belongs_to_one_sink(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with opened(tmp_path / "db", out) as db:
        feed(db)
        with pytest.raises(ConfigInvalid, match="another sink"):
            db.execute(f"CREATE SINK p FROM q INTO 'parquet' OPTIONS (path '{out}')")
        db.execute(f"DROP SINK o; DROP QUERY q; {QUERY}")
        with pytest.raises(ConfigInvalid, match="another sink"):  # the same name, but another query
            db.execute(f"CREATE SINK o FROM q INTO 'parquet' OPTIONS (path '{out}')")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "changes-00000000000000000001.csv").touch()
    with open_inline(tmp_path / "db") as db, pytest.raises(ConfigInvalid, match="another sink"):
        db.execute(f"CREATE SINK o FROM q INTO 'csv' OPTIONS (path '{foreign}')")


def test_left_over_temporaries_go(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / ".changes-00000000000000000007.parquet.tmp").write_text("half")
    with opened(tmp_path / "db", out) as db:
        feed(db)
    assert not list(out.glob(".*"))


def test_a_sink_may_come_long_after_its_query(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}")
        feed(db)
        db.execute("CREATE QUERY young AS SELECT k FROM s [RANGE 7 MICROSECONDS]")
        for name in ("q", "young"):
            db.execute(f"CREATE SINK o_{name} FROM {name} INTO 'parquet' OPTIONS (path '{out / name}')")
        db.flush()
        for name in ("q", "young"):
            (path,) = (out / name).glob("changes-*")
            assert pq.read_table(path).to_pylist() == db.query(name).changes().to_pylist()


def test_every_type_in_json_and_csv(tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(DDL)
        db.execute(
            """CREATE QUERY q AS SELECT k, CAST(v AS DECIMAL(30,2)) / 3 AS d, array(v, NULL) AS a, CAST(k AS BINARY) AS b, v AS v,
            ts AS ts, named_struct('x', v) AS st, CAST('NaN' AS DOUBLE) AS f, INTERVAL 1 SECOND AS i, 1 AS v FROM s"""
        )
        for format_ in ("json", "csv"):
            db.execute(f"CREATE SINK {format_} FROM q INTO '{format_}' OPTIONS (path '{tmp_path / format_}')")
        db.insert("s", [(1, 'a"b,\n', 7), (2, None, None)])
        db.advance(2)
        db.flush()
        assert [row["error"] for row in db.execute("SHOW SINKS").to_pylist()] == [None, None]  # type: ignore[union-attr]
    (lines,) = (tmp_path / "json").glob("changes-*")
    first, second = (json.loads(line) for line in lines.read_text().splitlines())
    assert first == {
        "instant": "1970-01-01T00:00:00.000001Z", "diff": 1, "k": 'a"b,\n', "d": 2.333333, "a": [7, None],
        "b": r"\x6122622c0a", "v": 7, "ts": "1970-01-01T00:00:00.000001Z", "st": {"x": 7}, "f": "NaN", "i": 1_000_000, "v_2": 1,
    }  # fmt: skip
    assert (second["k"], second["v"], second["d"]) == (None, None, None)
    (table,) = (tmp_path / "csv").glob("changes-*")
    text = table.read_text()
    assert '"a""b,\n"' in text
    assert '"[7,null]"' in text
    assert r"\x6122622c0a" in text


def test_wrong_sinks_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    inside = tmp_path / "db" / "queries" / "q"
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}")
        for kind, match, sink in [
            (NotSupported, "no sink of format", "INTO 'carrier pigeon'"),
            (ConfigInvalid, "needs a path", "INTO 'parquet'"),
            (ConfigInvalid, "needs a path", "INTO 'delta'"),
            (ConfigInvalid, 'no option "pth"', "INTO 'csv' OPTIONS (pth '/tmp/x')"),
            (ConfigInvalid, "inside the database", f"INTO 'csv' OPTIONS (path '{inside}')"),
            (ConfigInvalid, "inside the database", f"INTO 'delta' OPTIONS (path '{tmp_path}/x/../db/y')"),
            (ConfigInvalid, "inside the database", f"INTO 'parquet' OPTIONS (path 'file://{inside}')"),
            (ConfigInvalid, "inside the database", f"INTO 'csv' OPTIONS (path 'file:{inside}')"),
            (ConfigInvalid, "inside the database", f"INTO 'json' OPTIONS (path 'FILE://localhost{inside}')"),
            (ConfigInvalid, "inside the database", f"INTO 'delta' OPTIONS (path 'file://{inside}')"),
            (ConfigInvalid, "inside the database", f"INTO 'delta' OPTIONS (path 'file:/{str(inside).replace('/', '%2f')}')"),
            (ConfigInvalid, "character NUL", "INTO 'csv' OPTIONS (path 'a\0b')"),
            (ConfigInvalid, "character NUL", "INTO 'delta' OPTIONS (path 'file:///a%00b')"),
            (ConfigInvalid, "directories of this computer", "INTO 'csv' OPTIONS (path 's3://bucket/x')"),
            (ConfigInvalid, "which is not set", "INTO 'csv' OPTIONS (path '${env:MILLSTREAM_NOWHERE}')"),
        ]:
            with pytest.raises(kind, match=match):
                db.execute(f"CREATE SINK o FROM q {sink}")
        assert db.execute("SHOW SINKS").num_rows == 0
    open_inline(tmp_path / "db").close()


@pytest.mark.parametrize("format_", ["parquet", "csv", "json", "delta"])
@pytest.mark.parametrize("scheme", ["file://", "file:", "FILE://localhost"])
def test_a_url_of_a_file_is_its_path(format_: str, scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO '{format_}' OPTIONS (path '{scheme}{tmp_path}/out%20put')")
        db.insert("s", [(1, "a", 1)])
        db.advance(1)
        db.flush()
    assert len(delivered(tmp_path / "out put", format_)) == 1
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("format_", ["parquet", "csv", "json"])
def test_a_damaged_note_is_told_and_nothing_is_skipped(format_: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO '{format_}' OPTIONS (path '{out}')")
        feed(db)
    whole = (out / "_millstream.json").read_bytes()
    one_more_digit(out / "_millstream.json")
    with open_inline(tmp_path / "db") as db:
        db.insert("s", [(70, "late", 1)])
        db.advance(71)
        db.flush()
        (row,) = db.execute("SHOW SINKS").to_pylist()  # type: ignore[union-attr]
        assert row["state"] == "retrying"
        assert row["error"] == f'the file "{out}/_millstream.json" is damaged: its checksum is another'
        db.execute("DROP SINK o")
        with pytest.raises(DataDamaged, match=r"_millstream\.json"):
            db.execute(f"CREATE SINK o FROM q INTO '{format_}' OPTIONS (path '{out}')")
        (out / "_millstream.json").write_bytes(whole)
        db.execute(f"CREATE SINK o FROM q INTO '{format_}' OPTIONS (path '{out}')")
        db.flush()
    assert delivered(out, format_) == changes(tmp_path / "db")


def test_a_note_without_a_checksum_is_one_of_an_earlier_version(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with opened(tmp_path / "db", out) as db:
        feed(db)
    note = out / "_millstream.json"
    note.write_bytes(note.read_bytes().split(b"\n#crc32")[0])
    with open_inline(tmp_path / "db") as db:
        db.insert("s", [(70, "late", 1)])
        db.advance(71)
        db.flush()
    assert delivered(out, "parquet") == changes(tmp_path / "db")


def lines_of(directory: Path) -> list[dict[str, Any]]:
    def refused(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    (path,) = directory.glob("changes-*")
    return [json.loads(line, parse_constant=refused) for line in path.read_text().splitlines()]


def test_json_is_the_same_at_the_top_and_inside(tmp_path: Path) -> None:
    values = "x AS x, CAST(x AS FLOAT) AS f, ts AS ts, b AS b, INTERVAL 1 SECOND AS i"
    inside = "'x', x, 'f', CAST(x AS FLOAT), 'ts', ts, 'b', b, 'i', INTERVAL 1 SECOND"
    with open_inline(tmp_path / "db") as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, x DOUBLE, b BINARY) TIMESTAMP BY ts")
        db.execute(f"CREATE QUERY q AS SELECT {values}, named_struct({inside}) AS st, array(array(x)) AS a, map('k', x) AS m FROM s")
        db.execute(f"CREATE SINK o FROM q INTO 'json' OPTIONS (path '{tmp_path / 'out'}')")
        numbers = [1.5, float("nan"), float("inf"), float("-inf"), None]
        db.insert("s", [(i, x, b"\x00a") for i, x in enumerate(numbers)])
        db.advance(9)
        db.flush()
        assert [row["error"] for row in db.execute("SHOW SINKS").to_pylist()] == [None]  # type: ignore[union-attr]
    rows = lines_of(tmp_path / "out")
    assert [row["x"] for row in rows] == [1.5, "NaN", "Infinity", "-Infinity", None]
    for row in rows:
        assert row["st"] == {name: row[name] for name in ("x", "f", "ts", "b", "i")}
        assert (row["a"], row["m"]) == ([[row["x"]]], {"k": row["x"]})
    assert (rows[0]["ts"], rows[0]["b"], rows[0]["i"]) == ("1970-01-01T00:00:00.000000Z", r"\x0061", 1_000_000)


def test_decimals_keep_their_digits_in_json_and_csv_also_inside(tmp_path: Path) -> None:
    great = "1234567890123456789012345678.1234567891"
    with open_inline(tmp_path / "db") as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP, d DECIMAL(38,10), small DECIMAL(4,4)) TIMESTAMP BY ts")
        db.execute("CREATE QUERY q AS SELECT d, small, array(d) AS a, named_struct('x', d) AS st, map(small, d) AS m FROM s")
        for format_ in ("json", "csv"):
            db.execute(f"CREATE SINK {format_} FROM q INTO '{format_}' OPTIONS (path '{tmp_path / format_}')")
        db.insert("s", [(1, Decimal(great), Decimal("-0.5"))])
        db.advance(1)
        db.flush()
    (lines,) = (tmp_path / "json").glob("changes-*")
    inside = f'"a":[{great}],"st":{{"x":{great}}},"m":{{"-0.5000":{great}}}'
    assert lines.read_text() == f'{{"instant":"1970-01-01T00:00:00.000001Z","diff":1,"d":{great},"small":-0.5000,{inside}}}\n'
    (table,) = (tmp_path / "csv").glob("changes-*")
    assert f'{great},-0.5000,"[{great}]","{{""x"":{great}}}","{{""-0.5000"":{great}}}"\n' in table.read_text()


def test_a_csv_source_reads_what_a_csv_sink_writes(tmp_path: Path) -> None:
    types = {
        "ts": "TIMESTAMP", "n": "TIMESTAMP_NTZ", "day": "DATE", "d": "DECIMAL(38,10)", "small": "DECIMAL(4,4)", "f": "FLOAT", "x": "DOUBLE",
        "b": "BOOLEAN", "big": "BIGINT", "tiny": "TINYINT", "t": "STRING", "i": "INTERVAL",
    }  # fmt: skip
    at, day = dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.date(1, 1, 1)
    rows: list[tuple[Any, ...]] = [
        (0, at, day, Decimal("-1234567890123456789012345678.1"), Decimal("0.5"), 0.1, 0.1, True, -(2**63), -128, 'a"b,\n\u2028', -1),
        (1, *[None] * 11),
        (2, dt.datetime(1, 1, 1), dt.date(9999, 12, 31), 0, 0, float("inf"), 5e-324, False, 2**63 - 1, 127, "", 2**62),
        (3, None, None, None, None, float("-inf"), float("nan"), None, None, None, "null", None),
    ]
    with open_inline(tmp_path / "db") as db:
        db.execute(f"CREATE STREAM s ({', '.join(f'{name} {type_}' for name, type_ in types.items())}) TIMESTAMP BY ts")
        db.execute("CREATE QUERY q AS SELECT * FROM s")
        db.execute(f"CREATE SINK o FROM q INTO 'csv' OPTIONS (path '{tmp_path / 'out'}')")
        assert db.insert("s", rows) == len(rows)
        db.advance(9)
        db.flush()
        expected = db.query("q").changes()
    (path,) = (tmp_path / "out").glob("changes-*")
    schema = Schema.of(instant="TIMESTAMP", diff="TINYINT", **types)
    options = {"path": str(path.parent), "header": "true"}
    reader = fast_file_reader(StreamEntry("s", schema, "instant", format="csv", options=options))
    assert reader is not None
    part = reader.read(str(path), RowTimes("s", "instant", 0))
    assert part.rejected == []
    assert repr(part.rows.to_pylist()) == repr(expected.cast(schema.to_arrow()).to_pylist())


def test_names_that_differ_in_case_only_and_empty_ones_are_names_in_json(tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f'{DDL}; CREATE QUERY q AS SELECT v AS a, k AS A, v + 1 AS ``, v + 2 AS `it\'s "q"` FROM s')
        db.execute(f"CREATE SINK o FROM q INTO 'json' OPTIONS (path '{tmp_path / 'out'}')")
        db.insert("s", [(1, "x", 1)])
        db.advance(1)
        db.flush()
        assert [row["error"] for row in db.execute("SHOW SINKS").to_pylist()] == [None]  # type: ignore[union-attr]
    (row,) = lines_of(tmp_path / "out")
    assert row == {"instant": "1970-01-01T00:00:00.000001Z", "diff": 1, "a": 1, "A": "x", "": 2, 'it\'s "q"': 3}


def test_the_changelogs_parts_are_whole_instants(tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}")
        feed(db)
        query = db.query("q")
        log, everything = query._running.changelog, query.changes()
        for most in (1, 2, 3, 10, 1000):
            parts, at = [], -1
            while at < query.frontier:
                part, upto = log.read_some(at, query.frontier, most)
                assert upto > at
                instants = part.column(0).unique()
                assert part.num_rows <= most or len(instants) == 1
                parts.append(part)
                at = upto
            assert pa.concat_tables(parts).to_pylist() == everything.to_pylist()
