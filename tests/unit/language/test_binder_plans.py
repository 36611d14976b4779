"""What a query means: the plan that binding builds, node by node."""

from __future__ import annotations

import pytest

from millstream.core.schema import type_name
from millstream.plan.logical import Aggregate, Filter, Plan, Project, Scan, ToStream, Window
from millstream.plan.window import TimeWindow
from unit.language.corpus import bind, catalog


def lines(plan: Plan) -> list[str]:
    """One line a node, from the root down."""
    match plan:
        case Scan():
            return [f"scan {plan.source}"]
        case Filter():
            return [f"filter {plan.predicate}", *lines(plan.input)]
        case Project():
            return [f"project {', '.join(map(str, plan.columns))}", *lines(plan.input)]
        case Window():
            return [f"window {plan.spec}", *lines(plan.input)]
        case Aggregate():
            return [f"aggregate {', '.join(plan.keys)}: {', '.join(map(str, plan.calls))}".strip(), *lines(plan.input)]
        case ToStream():
            return [f"to_stream {plan.kind}", *lines(plan.input)]


def test_a_grouped_query() -> None:
    query = bind("SELECT sym, sum(size) AS volume FROM trades [RANGE 5 MINUTES] WHERE size > 0 GROUP BY sym HAVING sum(size) > 100000")
    assert query.names == ("sym", "volume")
    assert not query.is_stream
    assert lines(query.plan) == [
        "project sym, `_agg0` AS volume",
        "filter `_agg0` > CAST(100000 AS BIGINT)",
        "aggregate sym: sum(size) AS _agg0",
        "project sym, size",
        "filter `size` > 0",
        "window [RANGE 5 MINUTES]",
        "scan trades",
    ]


def test_a_filter_and_projection_over_the_whole_stream_is_a_stream() -> None:
    query = bind("SELECT t.sym AS s, size * 2 FROM trades t WHERE t.price > 1.5")
    assert query.is_stream
    assert query.names == ("s", "(size * 2)")
    assert lines(query.plan)[0] == "to_stream istream"
    assert lines(query.plan)[-2:] == ["window [UNBOUNDED]", "scan trades"]


@pytest.mark.parametrize(
    ("sql", "is_stream"),
    [
        ("SELECT sym FROM trades", True),
        ("SELECT sym FROM trades WHERE size > 1", True),
        ("SELECT DISTINCT sym FROM trades", True),
        ("SELECT sym FROM trades GROUP BY sym", True),
        ("SELECT sym FROM (SELECT sym, size FROM trades WHERE size > 1) WHERE size < 10", True),
        ("SELECT sym FROM trades [UNBOUNDED]", False),
        ("SELECT sym FROM trades [ROWS UNBOUNDED]", False),
        ("SELECT sym FROM trades [RANGE 1 DAY]", False),
        ("SELECT sym FROM trades [NOW]", False),
        ("SELECT count(*) FROM trades", False),
        ("SELECT sym, count(*) FROM trades GROUP BY sym", False),
        ("SELECT sym FROM trades GROUP BY sym HAVING count(*) > 1", False),
        ("SELECT sym FROM (SELECT sym FROM trades [NOW])", False),
        ("SELECT ISTREAM(sym) FROM trades [NOW]", True),
        ("SELECT DSTREAM(count(*)) FROM trades", True),
        ("SELECT RSTREAM(*) FROM trades [RANGE 1 SECOND]", True),
    ],
)
def test_which_answers_are_streams(sql: str, is_stream: bool) -> None:
    assert bind(sql).is_stream == is_stream


@pytest.mark.parametrize(
    ("window", "spec"),
    [
        ("RANGE 5 SECONDS", TimeWindow.range_(5_000_000)),
        ("RANGE 5 SECONDS EXCLUSIVE", TimeWindow.range_(5_000_000, exclusive=True)),
        ("RANGE 1 MINUTE SLIDE 5 SECONDS", TimeWindow.slide(60_000_000, 5_000_000)),
        ("NOW", TimeWindow.now()),
        ("RANGE 0 SECONDS", TimeWindow.now()),
        ("UNBOUNDED", TimeWindow.unbounded()),
        ("BEGIN NOW - 9 SECONDS END NOW - 4 SECONDS", TimeWindow("BEGIN NOW - 9 SECONDS END NOW - 4 SECONDS", 4_000_000, 9_000_001)),
        (
            "BEGIN TIMESTAMP '1970-01-01T00:00:01Z' END NOW",
            TimeWindow("BEGIN TIMESTAMP '1970-01-01T00:00:01Z' END NOW", since=1_000_000),
        ),
        (
            "BEGIN TIMESTAMP '1970-01-01T00:00:01Z' END TIMESTAMP '1970-01-01T00:00:02Z'",
            TimeWindow("BEGIN TIMESTAMP '1970-01-01T00:00:01Z' END TIMESTAMP '1970-01-01T00:00:02Z'", since=1_000_000, until=2_000_000),
        ),
        (
            "BEGIN NOW - 5 SECONDS END TIMESTAMP '1970-01-01T00:00:02Z'",
            TimeWindow("BEGIN NOW - 5 SECONDS END TIMESTAMP '1970-01-01T00:00:02Z'", length_us=5_000_001, until=2_000_000),
        ),
    ],
)
def test_windows(window: str, spec: TimeWindow) -> None:
    plan = bind(f"SELECT * FROM trades [{window}]").plan
    assert isinstance(plan, Project)
    assert isinstance(plan.input, Window)
    assert plan.input.spec == spec


def test_a_star_gives_all_columns_in_order() -> None:
    names = catalog().stream("trades").schema.names
    assert bind("SELECT * FROM trades").names == names
    assert bind("SELECT t.* FROM trades AS t").names == names
    assert bind("SELECT *, sym, * EXCEPT (ts, arr, st, m) FROM trades").names == (*names, "sym", *names[1:5])


def test_equal_names_stay_for_the_user_and_differ_in_the_plan() -> None:
    query = bind("SELECT sym, sym, SYM, size AS sym_2 FROM trades")
    assert query.names == ("sym", "sym", "SYM", "sym_2")
    assert query.plan.schema.names == ("sym", "sym_2", "SYM_3", "sym_2_2")


def test_aggregates_inside_expressions_share_what_is_equal() -> None:
    query = bind(
        "SELECT sum(size) / count(*) + 1, SUM(trades.SIZE) AS s, count(1), mean(price), avg(price), max(size + 1) FROM trades [NOW]"
    )
    assert query.names == ("((sum(size) / count(1)) + 1)", "s", "count(1)", "mean(price)", "avg(price)", "max((size + 1))")
    assert lines(query.plan)[1:3] == [
        "aggregate : sum(size) AS _agg0, count(*) AS _agg1, avg(price) AS _agg2, max(_arg2) AS _agg3",
        "project size, price, `size` + 1 AS _arg2",
    ]


def test_counting_rows_reads_no_column() -> None:
    assert lines(bind("SELECT count(*) FROM trades [NOW]").plan)[1:] == ["aggregate : count(*) AS _agg0", "window [NOW]", "scan trades"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT upper(sym) AS k, count(*) AS n FROM trades GROUP BY upper(sym)",
        "SELECT upper(sym) AS k, count(*) AS n FROM trades GROUP BY UPPER(trades.SYM)",
        "SELECT upper(sym) AS k, count(*) AS n FROM trades GROUP BY k",
        "SELECT upper(sym) AS k, count(*) AS n FROM trades GROUP BY 1",
        "SELECT upper(sym) AS k, count(*) AS n FROM trades GROUP BY ALL",
        "SELECT upper(sym) AS k, count(*) AS n FROM trades GROUP BY (upper(sym)), k",
    ],
)
def test_group_by_expression_alias_position_and_all(sql: str) -> None:
    assert [line for line in lines(bind(sql).plan) if line.startswith("aggregate")] == ["aggregate _key0: count(*) AS _agg0"]


def test_a_cast_that_changes_nothing_is_the_same_key() -> None:
    query = bind("SELECT sym, STRING(sym), max(STRING(sym)) FROM trades GROUP BY sym, 2")
    assert lines(query.plan)[1:3] == ["aggregate sym: max(sym) AS _agg0", "project sym"]


def test_a_column_comes_before_an_alias_in_group_by() -> None:
    query = bind("SELECT size + 1 AS size, count(*) FROM trades GROUP BY size")
    assert lines(query.plan)[1] == "aggregate size: count(*) AS _agg0"
    assert lines(query.plan)[0] == "project `size` + 1 AS size, `_agg0` AS count_1"


def test_keys_match_inside_larger_expressions_whatever_their_order() -> None:
    query = bind("SELECT (1 + size) * 2, count(*) FROM trades GROUP BY size + 1")
    assert lines(query.plan)[0] == "project `_key0` * 2 AS c1_size_2, `_agg0` AS count_1"


def test_having_takes_aliases_unless_a_key_has_the_name() -> None:
    by_alias = bind("SELECT size, sum(price) AS sym FROM trades GROUP BY size HAVING sym > 1")
    assert "filter (`_agg0`) > CAST(1 AS DOUBLE)" in lines(by_alias.plan)
    by_key = bind("SELECT size AS x, sum(price) AS sym FROM trades GROUP BY size, sym HAVING sym > 'a'")
    assert "filter `sym` > 'a'" in lines(by_key.plan)


def test_a_select_item_may_use_the_aliases_before_it() -> None:
    assert lines(bind("SELECT size + 1 AS x, x * 2 AS y FROM trades").plan)[1] == "project `size` + 1 AS x, (`size` + 1) * 2 AS y"
    assert (
        lines(bind("SELECT sum(size) AS x, x + 1 AS y FROM trades [NOW]").plan)[0]
        == "project `_agg0` AS x, (`_agg0`) + CAST(1 AS BIGINT) AS y"
    )


def test_distinct_groups_by_all_columns() -> None:
    assert lines(bind("SELECT ISTREAM(DISTINCT sym AS s, size) FROM trades [NOW]").plan) == [
        "to_stream istream",
        "aggregate s, size:",
        "project `sym` AS s, size",
        "window [NOW]",
        "scan trades",
    ]


def test_a_subquery_in_from() -> None:
    query = bind("SELECT x.a + 1 FROM (SELECT size AS a FROM trades [NOW] WHERE size > 1) AS x WHERE a < 5")
    assert query.names == ("(a + 1)",)
    assert lines(query.plan) == [
        "project `a` + 1 AS a_1",
        "filter `a` < 5",
        "project `size` AS a",
        "filter `size` > 1",
        "window [NOW]",
        "scan trades",
    ]


def test_a_window_behind_a_subquery_holds_the_rows_of_the_subquery() -> None:
    query = bind("SELECT a FROM (SELECT size AS a FROM trades WHERE size > 1) [RANGE 5 SECONDS] AS x")
    assert lines(query.plan)[-4:] == ["window [RANGE 5 SECONDS]", "project `size` AS a", "filter `size` > 1", "scan trades"]
    assert not query.is_stream


def test_fields_of_structs() -> None:
    query = bind("SELECT st.x, trades.st.y, st.x + 1 FROM trades")
    assert query.names == ("x", "y", "(st.x + 1)")
    assert [type_name(field.type) for field in query.plan.schema] == ["INT", "STRING", "INT"]


def test_the_types_of_aggregates_are_sparks() -> None:
    query = bind("SELECT count(*), sum(size), sum(price), sum(cash), avg(size), avg(cash), min(sym), max(ts), sum(sym) FROM trades [NOW]")
    assert [type_name(field.type) for field in query.plan.schema] == [
        "BIGINT", "BIGINT", "DOUBLE", "DECIMAL(20,2)", "DOUBLE", "DECIMAL(14,6)", "STRING", "TIMESTAMP", "DOUBLE",
    ]  # fmt: skip


def test_the_text_is_kept() -> None:
    sql = "SELECT  sym FROM trades"
    assert bind(sql).sql == sql
