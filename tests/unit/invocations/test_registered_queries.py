"""Registered queries as a client sees them: asked, left alone, asked again by another process, refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database, RegisteredQuery
from millstream.core.errors import ClusterFailed, MillstreamError, QueryFailed, QueryNotFound
from millstream.core.instant import NEVER_BEFORE
from millstream.psoup.query import VARIANTS
from millstream.runtime.invocations.messages import SoupResult, SoupTask

SECOND = 1_000_000
STREAM = "CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts"
BIG = "SELECT sym, size FROM trades WHERE size > 5 BEGIN NOW - 10 SECONDS END NOW"


class Watched(InlineRunner):
    """Knows what the soup was told."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[SoupTask] = []

    def run_soup(self, task: SoupTask) -> SoupResult:
        self.tasks.append(task)
        return super().run_soup(task)


@pytest.fixture
def runner() -> Watched:
    return Watched()


@pytest.fixture
def db(tmp_path: Path, runner: Watched) -> Iterator[Database]:
    with open_inline(tmp_path / "db", runner=runner) as database:
        database.execute(STREAM)
        yield database


def rows(*given: tuple[float, str, int]) -> list[tuple[int, str, int]]:
    return [(int(at * SECOND), sym, size) for at, sym, size in given]


def put(db: Database, *given: tuple[float, str, int], upto: float | None = None) -> None:
    db.insert("trades", rows(*given))
    if upto is not None:
        db.advance("trades", int(upto * SECOND))


def listed(table: Any) -> list[tuple[Any, ...]]:
    assert isinstance(table, pa.Table)
    return sorted(tuple(row.values()) for row in table.to_pylist())


# --- registering and asking ---------------------------------------------------------------------


def test_old_rows_and_new_ones_are_seen(db: Database) -> None:
    put(db, (1, "A", 9), (2, "B", 1))
    big = db.register("big", BIG)
    assert big.invoke().to_pydict() == {"sym": ["A"], "size": [9]}
    put(db, (3, "C", 7), (4, "D", 2), upto=4)
    assert listed(db.invoke("big")) == [("A", 9), ("C", 7)]
    db.advance("trades", 12 * SECOND)
    assert listed(db.execute("INVOKE BIG")) == [("C", 7)]
    db.advance("trades", 14 * SECOND)
    assert big.invoke().to_pydict() == {"sym": [], "size": []}


def test_statements_do_the_same(db: Database) -> None:
    big = db.execute(f"REGISTER QUERY big WITH (materialisation = 'complete') AS {BIG}")
    assert isinstance(big, RegisteredQuery)
    assert (big.name, big.materialise, [field.name for field in big.schema]) == ("big", "complete", ["sym", "size"])
    assert db.execute(f"REGISTER QUERY IF NOT EXISTS big AS {BIG}").materialise == "complete"  # type: ignore[union-attr]
    put(db, (1, "A", 9), upto=1)
    shown = db.execute("SHOW REGISTERED").to_pylist()  # type: ignore[union-attr]
    assert [(row["name"], row["materialisation"], row["streams"], row["frontier"], row["complete_from"]) for row in shown] == [
        ("big", "complete", "trades", "1970-01-01T00:00:01Z", "")
    ]
    assert db.execute("DESCRIBE big").column("column").to_pylist() == ["sym", "size"]  # type: ignore[union-attr]
    db.execute("UNREGISTER big")
    db.execute("UNREGISTER QUERY IF EXISTS big")
    assert db.execute("SHOW REGISTERED QUERIES").num_rows == 0  # type: ignore[union-attr]


def test_before_any_row_there_is_an_answer(db: Database) -> None:
    db.register("big", BIG)
    db.register("total", "SELECT count(*) AS n, sum(size) AS total FROM trades")
    assert db.invoke("big").num_rows == 0
    assert listed(db.invoke("total")) == [(0, None)]


def test_an_answer_is_that_at_the_common_frontier(db: Database) -> None:
    db.execute("CREATE STREAM quotes (ts TIMESTAMP, sym STRING, ask INT) TIMESTAMP BY ts")
    both = db.register("both", "SELECT t.size, q.ask FROM trades t, quotes q WHERE t.sym = q.sym BEGIN NOW - 5 SECONDS END NOW")
    put(db, (1, "A", 9), (3, "A", 4), upto=20)
    db.insert("quotes", [(2 * SECOND, "A", 7), (3 * SECOND, "A", 8)])
    assert both.frontier == 3 * SECOND - 1
    assert listed(both.invoke()) == [(9, 7)], "the trade of second 3 is known, and not yet final beside the quotes"
    db.advance("quotes", 3 * SECOND)
    assert listed(both.invoke()) == [(4, 7), (4, 8), (9, 7), (9, 8)]


def test_rows_within_the_slack_come_in_any_order(tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{STREAM} SLACK 5 SECONDS")
        big = db.register("big", BIG)
        put(db, (10, "A", 9), (7, "B", 8), (6, "C", 8), (4.9, "D", 8))
        assert listed(big.invoke()) == [], "nothing is final up to second 5"
        put(db, (12, "E", 6), (8, "F", 7))
        assert listed(big.invoke()) == [("C", 8)]
        db.advance("trades", 12 * SECOND)
        assert listed(big.invoke()) == [("A", 9), ("B", 8), ("C", 8), ("E", 6), ("F", 7)]


def test_the_answer_can_be_asked_on(db: Database) -> None:
    put(db, (1, "A", 9), (2, "B", 7), (3, "A", 6), upto=3)
    db.register("big", BIG)
    assert listed(db.execute("SELECT sym, sum(size) AS n FROM big GROUP BY sym")) == [("A", 15), ("B", 7)]


def test_how_a_query_was_taken_apart_can_be_read(db: Database) -> None:
    db.execute("CREATE STREAM quotes (ts TIMESTAMP, sym STRING, ask INT) TIMESTAMP BY ts")
    both = db.register(
        "both",
        "SELECT t.size * 2 AS twice FROM trades t, quotes q WHERE t.sym = q.sym AND t.size > 5 AND t.ts >= q.ts - INTERVAL 1 SECOND "
        "AND t.size + q.ask > 7 BEGIN NOW - 5 SECONDS END NOW",
    )
    assert both.explain().splitlines() == [
        "streams          0: trades, 1: quotes",
        "window           BEGIN NOW - 5 SECONDS END NOW",
        "predicate index  0.size > 5",
        "joined by        0.sym = 1.sym",
        "                 0.ts >= 1.ts - 1000000",
        'predicate list   (TRY("0.size" + "1.ask") > 7)',
        "rows             0.size",
        'when asked       Project TRY("0.size" * 2) AS twice',
        "                   the rows",
    ]
    total = db.register("total", "SELECT count(*) AS n, max(size) AS most FROM trades")
    assert total.explain().splitlines() == ["streams          0: trades", "window           everything", "ranked trees     count(*)",
                                            "                 max(0.size)"]  # fmt: skip


# --- disconnected clients -------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_another_process_comes_back_and_asks(tmp_path: Path, variant: Any) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute(STREAM)
        db.register("big", BIG, materialise=variant)
        put(db, (1, "A", 9), (2, "B", 1), upto=2)
    with open_inline(tmp_path / "db") as db:
        put(db, (3, "C", 8), upto=4)
    with open_inline(tmp_path / "db", runner=(runner := Watched())) as db:
        db.flush()
        assert not runner.tasks, "nobody has asked: nothing is read"
        (big,) = db.registered_queries()
        assert (big.name, big.materialise) == ("big", variant)
        assert listed(big.invoke()) == [("A", 9), ("C", 8)]
        assert [sum(chunk.rows for chunk in feed.chunks) for feed in runner.tasks[0].feeds] == [3]
        db.execute("UNREGISTER big")
    with open_inline(tmp_path / "db") as db:
        assert not db.registered_queries()


def test_only_what_is_new_is_read(db: Database, runner: Watched) -> None:
    db.register("big", BIG)
    put(db, (1, "A", 9), upto=1)
    db.flush()
    put(db, (2, "B", 9), (3, "C", 9))
    db.flush()
    db.flush()
    db.invoke("big")
    read = [[chunk.rows for feed in task.feeds for chunk in feed.chunks] for task in runner.tasks]
    assert read == [[1], [2], []]
    assert [task.begins for task in runner.tasks] == [True, False, False]


def test_its_process_is_kept_alive(db: Database, runner: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    registrations = db._statements.registrations
    registrations.kick()
    assert not runner.tasks, "there is none"
    db.register("big", BIG).invoke()
    registrations.kick()
    assert len(runner.tasks) == 1, "there is nothing to do"
    monkeypatch.setattr("millstream.runtime.invocations.registrations.KEEP_ALIVE_S", 0.0)
    registrations.kick()
    registrations.close()
    assert [(task.begins, task.step) for task in runner.tasks] == [(True, 0), (False, 1)]


def test_a_lost_process_costs_a_refill(db: Database, runner: Watched) -> None:
    db.register("big", BIG)
    put(db, (1, "A", 9), upto=1)
    db.flush()
    runner.lose_caches()
    put(db, (2, "B", 9), upto=2)
    assert listed(db.invoke("big")) == [("A", 9), ("B", 9)]
    assert [task.begins for task in runner.tasks] == [True, False, True]


def test_a_step_whose_answer_got_lost_is_done_once(tmp_path: Path) -> None:
    class Twice(InlineRunner):
        def run_soup(self, task: SoupTask) -> SoupResult:
            super().run_soup(task)
            return super().run_soup(task)

    with open_inline(tmp_path / "db", runner=Twice()) as db:
        db.execute(STREAM)
        db.register("total", "SELECT count(*) AS n FROM trades")
        for at in range(3):
            put(db, (at, "A", 9), upto=at)
            assert listed(db.invoke("total")) == [(at + 1,)]


def test_a_process_that_dies_each_time_is_told(tmp_path: Path) -> None:
    class Dying(InlineRunner):
        def run_soup(self, task: SoupTask) -> SoupResult:
            return SoupResult(missing=True)

    with open_inline(tmp_path / "db", runner=Dying()) as db:
        db.execute(STREAM)
        db.register("big", BIG)
        db.flush()  # of no concern to others
        with pytest.raises(ClusterFailed, match="lost again and again"):
            db.invoke("big")


def test_a_failure_is_told_and_the_next_soup_is_whole(tmp_path: Path) -> None:
    class Failing(InlineRunner):
        fails = False

        def run_soup(self, task: SoupTask) -> SoupResult:
            result = super().run_soup(task)
            return SoupResult(error=QueryFailed("no luck")) if self.fails else result

    with open_inline(tmp_path / "db", runner=(runner := Failing())) as db:
        db.execute(STREAM)
        db.register("big", BIG)
        put(db, (1, "A", 9), upto=1)
        runner.fails = True
        with pytest.raises(QueryFailed, match='"big" could not be answered: no luck'):
            db.invoke("big")
        runner.fails = False
        assert listed(db.invoke("big")) == [("A", 9)]


def test_a_longer_window_begins_the_soup_again(db: Database, runner: Watched) -> None:
    db.register("short", "SELECT size FROM trades [BEGIN NOW - 1 SECOND END NOW]")
    put(db, *((at, "A", at) for at in range(100)), upto=99)
    assert listed(db.invoke("short")) == [(98,), (99,)]
    put(db, *((at, "A", at) for at in range(100, 200)), upto=199)
    assert db.invoke("short").num_rows == 2
    db.register("long", "SELECT size FROM trades [RANGE 150 SECONDS]")
    assert listed(db.invoke("long")) == [(at,) for at in range(49, 200)]
    assert [task.begins for task in runner.tasks] == [True, False, True]


def test_a_stream_created_again_is_another_one(db: Database) -> None:
    db.execute("CREATE STREAM other (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
    db.register("stays", BIG)
    put(db, (1, "A", 9), upto=1)
    for at in (5, 3):
        db.register("of_other", "SELECT v FROM other [RANGE 1 SECOND]")
        db.insert("other", [(at * SECOND, at)])
        db.advance("other", at * SECOND)
        assert (listed(db.invoke("of_other")), listed(db.invoke("stays"))) == ([(at,)], [("A", 9)])
        db.unregister("of_other")
        db.flush()
        assert db._statements.registrations.storage()["rows"] == 1, "those of other are gone"
        db.register("of_other", "SELECT v FROM other [RANGE 1 SECOND]")
        assert listed(db.invoke("of_other")) == [(at,)]
        db.unregister("of_other")
        db.execute("DROP STREAM other")
        db.execute("CREATE STREAM other (ts TIMESTAMP, v INT) TIMESTAMP BY ts")


# --- what is kept ---------------------------------------------------------------------------------


def test_rows_that_no_window_needs_are_let_go(db: Database) -> None:
    db.register("short", "SELECT count(*) AS n FROM trades [RANGE 10 SECONDS]")
    for at in range(0, 2000, 50):
        put(db, *((at + i, "A", i) for i in range(50)), upto=at + 49)
        assert listed(db.invoke("short")) == [(11,)]
    assert db._statements.registrations.storage()["rows"] < 100


def test_unregistering_the_last_query_empties_the_soup(db: Database) -> None:
    put(db, (1, "A", 9), upto=1)
    db.register("big", BIG).invoke()
    assert db._statements.registrations.storage()["rows"] == 1
    db.unregister("big")
    db.flush()
    assert db._statements.registrations.storage() == {"rows": 0, "clauses": 0, "marks_bytes": 0, "current_bytes": 0}


def test_answers_beyond_what_is_retained_are_partial(tmp_path: Path) -> None:
    def ask(db: Database) -> None:
        held, landmark, late = (db.registered(name) for name in ("held", "landmark", "late"))
        assert (held.is_partial, held.complete_from) == (False, None)
        assert listed(held.invoke()) == [(600,)], "its streams keep what it needs"
        assert (landmark.is_partial, landmark.complete_from) == (True, None)
        assert (late.is_partial, late.complete_from) == (True, whole + 5000 * SECOND)
        assert listed(landmark.invoke()) == listed(late.invoke()) == [(len([at for at in range(4000) if at * SECOND >= whole]),)]
        shown = {row["name"]: row["complete_from"] for row in db.execute("SHOW REGISTERED").to_pylist()}  # type: ignore[union-attr]
        assert (shown["held"], shown["landmark"]) == ("", "unknown")
        assert shown["late"].startswith("1970-01-01T")

    with open_inline(tmp_path / "db") as db:
        db.execute(f"{STREAM} RETAIN 1 MINUTE")
        db.register("held", "SELECT count(*) AS n FROM trades BEGIN NOW - 599 SECONDS END NOW")
        landmark = db.register("landmark", "SELECT count(*) AS n FROM trades BEGIN TIMESTAMP '1970-01-01T00:00:00Z' END NOW")
        for at in range(0, 4000, 100):
            put(db, *((at + i, "A", 1) for i in range(100)), upto=at + 99)
        assert listed(landmark.invoke()) == [(4000,)]
        db._engine.maintain()
        whole = db._engine.streams["trades"].log.whole_from
        assert 3000 * SECOND < whole <= 3400 * SECOND
        db.register("late", "SELECT count(*) AS n FROM trades [RANGE 5000 SECONDS]")
        ask(db)
    with open_inline(tmp_path / "db") as db:
        ask(db)


def test_those_who_feed_the_stream_are_told(db: Database) -> None:
    assert db._statements.proxies.demand_on("trades").queries == 0
    db.register("big", BIG)
    demand = db._statements.proxies.demand_on("trades")
    assert (demand.queries, demand.columns) == (1, ("ts", "sym", "size"))
    assert demand.wanted(pa.table({"ts": [0, 0], "sym": ["A", "B"], "size": [9, 1]})).tolist() == [True, False]


# --- several at once ----------------------------------------------------------------------------


def test_clients_on_threads(db: Database) -> None:
    errors: list[BaseException] = []
    for at in range(4):
        db.register(f"q{at}", f"SELECT size FROM trades [RANGE 1 DAY] WHERE size > {at}")

    def client(number: int) -> None:
        try:
            for at in range(20):
                put(db, (1000 + at, "A", number))
                seen = db.invoke(f"q{number}").column("size").to_pylist()
                assert all(size > number for size in seen)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    db.advance("trades", 5000 * SECOND)
    assert db.invoke("q0").num_rows <= 60


# --- mistakes -------------------------------------------------------------------------------------


def refused(db: Database, sql: str) -> str:
    with pytest.raises(MillstreamError) as caught:
        db.execute(sql)
    return str(caught.value)


def test_unknown_names(db: Database) -> None:
    db.register("big", BIG)
    assert refused(db, "INVOKE bigg") == (
        '[QUERY_NOT_FOUND] there is no registered query "bigg"\n  INVOKE bigg\n         ^^^^\n  hint: Did you mean "big"?'
    )
    assert "QUERY_NOT_FOUND" in refused(db, "UNREGISTER small")
    db.execute("CREATE QUERY goes_on AS SELECT * FROM trades [NOW]")
    assert "hint: It goes on by itself: SELECT * FROM goes_on shows its answer." in refused(db, "INVOKE goes_on")
    assert "hint: INVOKE big asks it, UNREGISTER big ends it." in refused(db, "DROP QUERY big")
    with pytest.raises(QueryNotFound):
        db.invoke("nothing")
    with pytest.raises(QueryNotFound):
        db.unregister("nothing")
    with pytest.raises(QueryNotFound):
        db.registered("nothing")


def test_names_are_taken(db: Database) -> None:
    db.register("big", BIG)
    again = refused(db, f"REGISTER QUERY Big AS {BIG}")
    assert '[ALREADY_EXISTS] there is a registered query "big" already' in again
    assert "hint: Choose another name, or UNREGISTER big first." in again
    assert "ALREADY_EXISTS" in refused(db, f"REGISTER QUERY trades AS {BIG}")
    assert "ALREADY_EXISTS" in refused(db, "CREATE QUERY big AS SELECT * FROM trades")
    assert "hint: Unregister big first." in refused(db, "DROP STREAM trades")
    db.unregister("big")
    db.execute("DROP STREAM trades")


def test_a_handle_of_an_unregistered_query_says_so(db: Database) -> None:
    big = db.register("big", BIG)
    big.unregister()
    db.register("big", BIG)
    for call in (big.invoke, big.unregister, lambda: big.is_partial, lambda: big.frontier):
        with pytest.raises(QueryNotFound, match="has been unregistered"):
            call()


def test_nothing_goes_on_from_a_registered_query(db: Database) -> None:
    db.register("big", BIG)
    assert 'NOT_SUPPORTED] "big" is a registered query' in refused(db, "CREATE QUERY q AS SELECT * FROM big")
    assert "is asked as of now" in refused(db, "SELECT * FROM big AS OF TIMESTAMP '2020-01-01'")
    assert "NOT_SUPPORTED" in refused(db, "INSERT INTO big VALUES (1)")


def test_calls_with_the_wrong_things(db: Database) -> None:
    for call in (lambda: db.register(1, BIG), lambda: db.register("q", None), lambda: db.invoke(None), lambda: db.unregister(2)):  # type: ignore[arg-type]
        with pytest.raises(MillstreamError, match="is a str"):
            call()
    with pytest.raises(MillstreamError, match="there is no materialisation"):
        db.register("q", BIG, materialise="some")  # type: ignore[arg-type]
    with pytest.raises(MillstreamError):
        db.register("q", "DROP STREAM trades")
    with pytest.raises(MillstreamError, match="several"):
        db.register("q", f"{BIG}; {BIG}")
    assert not db.registered_queries()
    assert db.register("odd `name`", BIG).name == "odd `name`"
    assert db.invoke("odd `name`").num_rows == 0


REFUSED = [
    ("SELECT * FROM trades [ROWS 5]", "window with ROWS", "[ROWS 5]"),
    ("SELECT * FROM trades [RANGE 10 SECONDS SLIDE 5 SECONDS]", "window with SLIDE", "[RANGE 10 SECONDS SLIDE 5 SECONDS]"),
    ("SELECT * FROM trades [NOW] AS a, trades [RANGE 1 SECOND] AS b", "one window", "[RANGE 1 SECOND]"),
    ("SELECT * FROM trades [NOW] BEGIN NOW - 1 SECOND END NOW", "has a window already", "BEGIN NOW - 1 SECOND END NOW"),
    ("SELECT * FROM trades BEGIN NOW END NOW - 1 SECOND", "ends before it begins", "BEGIN NOW END NOW - 1 SECOND"),
    ("SELECT * FROM trades BEGIN NOW END NOW + 1 SECOND", "into the future", "+"),
    ("SELECT * FROM trades BEGIN NOW END NOW WHERE size > 1", "behind a window", "WHERE"),
    ("SELECT * FROM symbols", 'the relation "symbols" in FROM', "symbols"),
    ("SELECT * FROM q", 'the query "q" in FROM', "q"),
    ("SELECT * FROM SYS", 'the system stream "SYS"', "SYS"),
    ("SELECT * FROM (SELECT * FROM trades) AS t", "anything but streams", None),
    ("SELECT * FROM trades WHERE size > (SELECT max(size) FROM trades)", "a query inside it", None),
    ("SELECT * FROM trades WHERE sym IN (SELECT sym FROM symbols)", "a query inside it", None),
    ("SELECT * FROM trades AS a LEFT JOIN trades AS b ON a.sym = b.sym", "LEFT JOIN", None),
    ("SELECT * FROM trades AS a LEFT ANTI JOIN trades AS b ON a.sym = b.sym", "LEFT ANTI JOIN", None),
    ("SELECT * FROM trades AS a ASOF JOIN trades AS b MATCH_CONDITION (a.ts >= b.ts) ON a.sym = b.sym", "ASOF JOIN", None),
    ("SELECT sym FROM trades UNION SELECT sym FROM trades", "UNION", None),
    ("WITH t AS (SELECT 1 AS a FROM trades) SELECT * FROM trades", "WITH", None),
    ("SELECT ISTREAM(sym) FROM trades [NOW]", "ISTREAM", None),
    ("SELECT * FROM trades AS OF NOW", "AS OF", None),
    ("SELECT twice(size) FROM trades", "functions in Python", None),
    ("SELECT prise FROM trades", 'column "prise"', "prise"),
    ("SELECT * FROM tredes", '"tredes"', "tredes"),
    ("SELECT sym, sum(size) FROM trades", "neither in GROUP BY", "sym"),
]


@pytest.mark.parametrize(("sql", "said", "underlined"), REFUSED)
def test_what_the_soup_cannot_take(db: Database, sql: str, said: str, underlined: str | None) -> None:
    db.execute("CREATE RELATION symbols (sym STRING, sector STRING)")
    db.execute("CREATE QUERY q AS SELECT * FROM trades")
    db.function("twice", lambda x: 2 * x, "INT")
    statement = f"REGISTER QUERY bad AS {sql}"
    with pytest.raises(MillstreamError) as caught:
        db.execute(statement)
    error = caught.value
    assert said in error.message
    assert error.span is not None
    assert error.sql == statement
    if underlined is not None:
        assert statement[error.span.start : error.span.end] == underlined
    assert not db.registered_queries()
    assert db.definition("bad") is None


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("REGISTER q AS SELECT 1 FROM trades", 'expected QUERY, found "q"'),
        ("REGISTER QUERY q SELECT 1 FROM trades", 'expected AS, found "SELECT"'),
        ("REGISTER QUERY q WITH (materialisation = 'some') AS SELECT 1 FROM trades", 'there is no materialisation "some"'),
        ("REGISTER QUERY q WITH (materialise = 'none') AS SELECT 1 FROM trades", 'no option "materialise"'),
        ("REGISTER QUERY q WITH (materialisation none, materialisation none) AS SELECT 1 FROM trades", "given twice"),
        ("REGISTER QUERY q.r AS SELECT 1 FROM trades", "has no dots"),
        ("REGISTER QUERY _q AS SELECT 1 FROM trades", "is reserved"),
        ("REGISTER QUERY q AS SELECT 1 FROM trades WITH EXPIRY negative", "only a query has an EXPIRY"),
        ("REGISTER QUERY q AS", "too early"),
        ("INVOKE", "expected the name of a registered query"),
        ("INVOKE a b", 'unexpected "b"'),
        ("UNREGISTER", "expected the name of a registered query"),
    ],
)
def test_statements_that_cannot_be_read(db: Database, sql: str, said: str) -> None:
    assert said in refused(db, sql)


def test_nothing_is_left_of_a_query_that_was_refused(db: Database) -> None:
    refused(db, "REGISTER QUERY big AS SELECT nothing FROM trades")
    db.register("big", BIG)
    assert db.registered("big").frontier == NEVER_BEFORE
