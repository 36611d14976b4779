"""Python functions in queries, from `db.function` to the answer, without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database, Query
from millstream.core.errors import (
    AlreadyExists,
    ArityMismatch,
    FunctionFailed,
    FunctionNotFound,
    MillstreamError,
    NotSupported,
    ParseError,
    TypeMismatch,
)

SECOND = 1_000_000
DDL = "CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts RETAIN 5 SECONDS"
ROWS = [(0, "ab", 1), (SECOND, None, 2), (2 * SECOND, "b", None), (3 * SECOND, "ax", 4)]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = open_inline(tmp_path / "db")
    database.execute(DDL)
    with_functions(database)
    yield database
    database.close()


def with_functions(db: Database) -> None:
    db.function("twice", lambda x: None if x is None else 2 * x, "BIGINT")
    db.function("starts_with_a", lambda text: text.startswith("a"), "BOOLEAN")
    db.function("plus", lambda a, b: pc.add(a, b), pa.int64(), vectorized=True)


def fed(db: Database, rows: list[tuple[Any, ...]] = ROWS, upto: int = 4 * SECOND) -> None:
    db.insert("s", rows)
    db.advance(upto)
    db.flush()


def answer(query: Query) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in query.result().to_pylist()), key=repr)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT twice(v) + 1 AS x FROM s [RANGE 1 HOUR]", [(3,), (5,), (9,), (None,)]),
        ("SELECT plus(v, twice(v)) AS x FROM s [RANGE 1 HOUR]", [(12,), (3,), (6,), (None,)]),
        ("SELECT v FROM s [RANGE 1 HOUR] WHERE TWICE(v) > 2", [(2,), (4,)]),
        ("SELECT k FROM s [RANGE 1 HOUR] WHERE k IS NOT NULL AND starts_with_a(k)", [("ab",), ("ax",)]),
        ("SELECT k FROM s [RANGE 1 HOUR] WHERE NOT (k IS NULL OR NOT starts_with_a(k))", [("ab",), ("ax",)]),
        (
            "SELECT CASE WHEN k IS NULL THEN 0 WHEN starts_with_a(k) THEN twice(v) ELSE -1 END AS x FROM s [RANGE 1 HOUR]",
            [(-1,), (0,), (2,), (8,)],
        ),
        ("SELECT sum(twice(v)) AS n, plus(count(*), max(v)) AS m FROM s [RANGE 1 HOUR]", [(14, 8)]),
        (
            "SELECT twice(v) % 4 AS g, count(*) AS n FROM s [RANGE 1 HOUR] GROUP BY twice(v) % 4 HAVING twice(count(*)) > 2",
            [(0, 2)],
        ),
        ("SELECT a.v, b.v AS w FROM s [RANGE 1 HOUR] a JOIN s [RANGE 1 HOUR] b ON twice(a.v) = b.v", [(1, 2), (2, 4)]),
        ("SELECT a.v FROM s [RANGE 1 HOUR] a LEFT ANTI JOIN s [RANGE 1 HOUR] b ON twice(a.v) = b.v", [(4,), (None,)]),
        ("SELECT DISTINCT twice(twice(v)) IS NULL AS x FROM s [RANGE 1 HOUR]", [(False,), (True,)]),
        ("SELECT x FROM (SELECT twice(v) AS x FROM s [RANGE 1 HOUR]) WHERE plus(x, 1) = 5", [(4,)]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rules_off", [(), ("merge_filters", "push_filter_below_window", "push_project_below_window")])
def test_in_every_clause(tmp_path: Path, sql: str, expected: list[tuple[Any, ...]], rules_off: tuple[str, ...]) -> None:
    with open_inline(tmp_path / "other", rules_off=rules_off) as db:
        db.execute(DDL)
        with_functions(db)
        query = db.execute(sql)
        fed(db)
        assert answer(query) == expected


def test_in_a_question_that_is_answered_once(db: Database) -> None:
    db.execute("CREATE QUERY q AS SELECT v FROM s [RANGE 1 HOUR]")
    fed(db)
    assert db.execute("SELECT sum(twice(v)) AS n FROM q").to_pylist() == [{"n": 14}]


def test_it_is_called_once_for_a_row(tmp_path: Path, db: Database) -> None:
    """A call that stands twice in an expression is made once; a replayed row is evaluated again."""
    calls = tmp_path / "calls"

    def counted(x: int) -> int:
        with calls.open("a") as file:
            file.write("x")
        return x

    db.function("counted", counted, "INT")
    db.execute("SELECT counted(v) AS a, counted(v) + 1 AS b FROM s [NOW]")
    fed(db)
    # every bucket reads the chunk and keeps its own rows
    assert len(calls.read_text()) == len(ROWS) * 2


def test_a_failure_stops_its_query_alone(db: Database) -> None:
    failing = db.execute("CREATE QUERY failing AS SELECT starts_with_a(k) AS a FROM s [RANGE 1 HOUR]")
    other = db.execute("SELECT twice(v) AS x FROM s [RANGE 1 HOUR]")
    fed(db, ROWS[:1], upto=SECOND - 1)
    assert answer(failing) == [(True,)]
    fed(db, ROWS[1:])
    with pytest.raises(FunctionFailed, match=r'query "failing" has stopped: function "starts_with_a" failed on \(None\): AttributeError'):
        failing.result()
    assert len(answer(other)) == 4
    state = {row["name"]: (row["state"], row["reason"]) for row in db.execute("SHOW QUERIES").to_pylist()}
    assert state["query_1"] == ("running", "")
    assert state["failing"][0] == "failed"
    assert 'function "starts_with_a" failed' in state["failing"][1]


def test_a_query_that_fails_over_history_is_not_created(db: Database) -> None:
    fed(db)
    with pytest.raises(FunctionFailed):
        db.execute("CREATE QUERY q AS SELECT starts_with_a(k) AS a FROM s [RANGE 1 HOUR]")
    assert db.queries() == []


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT twise(v) FROM s", FunctionNotFound, 'Did you mean "twice"?'),
        ("SELECT twice(v, v) FROM s", ArityMismatch, "twice takes 1 argument, found 2"),
        ("SELECT plus() FROM s", ArityMismatch, "plus takes 2 arguments, found 0"),
        ("SELECT dice(v) FROM s", NotSupported, "another value each time"),
        ("SELECT transform(array(v), x -> twice(x)) FROM s", NotSupported, "inside a lambda"),
        ("SELECT twice(INTERVAL '1' MONTH) FROM s", TypeMismatch, "months"),
        ("SELECT twice(nothing) FROM s", MillstreamError, "nothing"),
    ],
)
def test_wrong_calls(db: Database, sql: str, error: type[MillstreamError], message: str) -> None:
    db.function("dice", lambda x: 4, "INT", deterministic=False)
    with pytest.raises(error, match=None) as refused:
        db.execute(sql)
    assert message in str(refused.value)
    assert "^" in str(refused.value)
    assert db.queries() == []


@pytest.mark.parametrize(
    ("name", "body", "type_", "error"),
    [
        ("upper", lambda x: x, "STRING", AlreadyExists),
        ("SUM", lambda x: x, "INT", AlreadyExists),
        ("rand", lambda: 4, "INT", AlreadyExists),
        ("transform", lambda x: x, "INT", AlreadyExists),
        ("two words", lambda x: x, "INT", ParseError),
        ("select", lambda x: x, "INT", ParseError),
        ("case", lambda x: x, "INT", ParseError),
        ("f", 5, "INT", TypeMismatch),
        ("f", lambda x: x, "NUMBER", TypeMismatch),
        ("f", lambda x: x, pa.uint8(), TypeMismatch),
        ("f", lambda x, *, y: x, "INT", ArityMismatch),
        (5, lambda x: x, "INT", TypeMismatch),
    ],
)
def test_wrong_declarations(db: Database, name: Any, body: Any, type_: Any, error: type[MillstreamError]) -> None:
    with pytest.raises(error):
        db.function(name, body, type_)


def test_what_cannot_be_sent_is_refused(db: Database) -> None:
    lock = db._engine.lock
    with pytest.raises(NotSupported, match="cannot be sent to the workers"):
        db.function("locked", lambda x: lock.acquire() and x, "INT")


def test_registered_again_it_serves_new_queries(db: Database) -> None:
    old = db.execute("SELECT twice(v) AS x FROM s [RANGE 1 HOUR]")
    fed(db, ROWS[:1], upto=0)
    db.function("Twice", lambda x: -1, "INT")
    new = db.execute("SELECT twice(v) AS x FROM s [RANGE 1 HOUR]")
    db._engine.runner.lose_caches()
    fed(db, ROWS[1:])
    assert answer(old) == [(2,), (4,), (8,), (None,)]
    assert answer(new) == [(-1,)] * 4


def test_a_saved_query_waits_for_its_functions(db: Database, tmp_path: Path) -> None:
    db.execute("CREATE QUERY q AS SELECT v, plus(v, twice(v)) AS x FROM s [RANGE 1 HOUR]")
    db.execute("CREATE QUERY over AS SELECT count(*) AS n, sum(x) AS x FROM q")
    fed(db)
    db.close()
    assert not [path for path in (tmp_path / "db").rglob("*") if path.is_file() and b"cloudpickle" in path.read_bytes()]
    with open_inline(tmp_path / "db") as again:
        fed(again, [(10 * SECOND, "c", 10)], upto=20 * SECOND)
        again._engine.maintain()
        q, over = again.query("q"), again.query("over")
        (state,) = [row for row in again.execute("SHOW QUERIES").to_pylist() if row["name"] == "q"]
        assert (state["state"], state["reason"]) == ("waiting", 'waits for function "plus", "twice"')
        assert repr(q).endswith(", waiting>")
        assert answer(over) == [(4, 21)]
        assert len(answer(q)) == 4
        with pytest.raises(MillstreamError, match="in use by q"):
            again.execute("DROP STREAM s")
        again.function("twice", lambda x: None if x is None else 2 * x, "BIGINT")
        again.flush()
        assert again.execute("SHOW QUERIES").to_pylist()[0]["reason"] == 'waits for function "plus"'
        with pytest.raises(TypeMismatch, match='"q" was made with a function "plus" that gives BIGINT, not INT'):
            again.function("plus", lambda a, b: pc.add(a, b), "INT", vectorized=True)
        with pytest.raises(ArityMismatch):
            again.function("plus", lambda a: a, "BIGINT", vectorized=True)
        again.function("plus", lambda a, b: pc.add(a, b), "BIGINT", vectorized=True)
        again.flush()
        assert answer(over) == [(5, 51)]
        assert again.execute("SHOW QUERIES").column("state").to_pylist() == ["running", "running"]
        fed(again, [(30 * SECOND, "d", 1)], upto=31 * SECOND)
        assert answer(over) == [(6, 54)]


def test_a_query_over_one_that_waits_waits_too(db: Database, tmp_path: Path) -> None:
    db.execute("CREATE QUERY q AS SELECT twice(v) AS x FROM s [RANGE 1 HOUR]")
    db.execute("CREATE QUERY over AS SELECT count(*) AS n FROM q; CREATE QUERY top AS SELECT max(n) AS n FROM over")
    db.execute("CREATE QUERY beside AS SELECT count(*) AS n FROM s [RANGE 1 HOUR]")
    db.close()
    with open_inline(tmp_path / "db") as again:
        shown = {row["name"]: (row["state"], row["reason"]) for row in again.execute("SHOW QUERIES").to_pylist()}
        assert shown == {
            "q": ("waiting", 'waits for function "twice"'),
            "over": ("waiting", 'waits for query "q" (waiting)'),
            "top": ("waiting", 'waits for query "over" (waiting)'),
            "beside": ("running", ""),
        }
        assert repr(again.query("top")).endswith(", waiting>")
        again.function("twice", lambda x: None if x is None else 2 * x, "BIGINT")
        assert again.execute("SHOW QUERIES").column("state").to_pylist() == ["running"] * 4
        again.query("q").stop()
        shown = {row["name"]: (row["state"], row["reason"]) for row in again.execute("SHOW QUERIES").to_pylist()}
        assert shown["over"] == ("waiting", 'waits for query "q" (stopped)')


def test_a_query_that_waits_can_be_dropped(db: Database, tmp_path: Path) -> None:
    db.execute("CREATE QUERY q AS SELECT twice(v) AS x FROM s [RANGE 1 HOUR]")
    db.close()
    with open_inline(tmp_path / "db") as again:
        again.execute("DROP QUERY q; DROP STREAM s")


def test_a_query_that_waits_is_still_there_after_another_run(db: Database, tmp_path: Path) -> None:
    db.execute("CREATE QUERY q AS SELECT count(twice(v)) AS n FROM s [RANGE 1 HOUR]")
    fed(db)
    db.close()
    with open_inline(tmp_path / "db") as between:
        between.execute("SELECT k FROM s [NOW]")
        for second in range(10, 60, 10):
            fed(between, [(second * SECOND, "c", 1)], upto=second * SECOND)
            between._engine.maintain()
    with open_inline(tmp_path / "db", runner=InlineRunner()) as again:
        with_functions(again)
        again.flush()
        assert answer(again.query("q")) == [(8,)]


def test_explain_shows_the_calls(db: Database) -> None:
    text = db.explain("SELECT twice(v) AS x FROM s [NOW] WHERE k IS NOT NULL AND starts_with_a(lower(k))")
    assert '- call twice("v") AS _call0' in text
    assert 'call starts_with_a(lower("k")) AS _call0 where' in text


def test_columns_may_be_called_like_our_own(db: Database) -> None:
    query = db.execute("SELECT twice(_call0) AS _call0, _CALL1 FROM (SELECT v AS _call0, k AS _CALL1 FROM s [NOW])")
    fed(db, ROWS[:1], upto=0)
    assert answer(query) == [(2, "ab")]
