"""Windows in brackets: every form, every unit, and what is refused."""

from __future__ import annotations

import pytest
from sqlglot import exp

from millstream.core.errors import WindowInvalid
from millstream.core.instant import UNITS
from millstream.language.nodes import StreamWindow, WindowEdge
from millstream.language.parser import parse_one
from millstream.language.spans import span_of
from millstream.language.statements import Select
from unit.language.corpus import parse_failure


def window_of(text: str) -> StreamWindow:
    statement = parse_one(f"SELECT a FROM s [{text}]")
    assert isinstance(statement, Select)
    window = statement.select.find(StreamWindow)
    assert window is not None
    return window


def edge(*, instant: int | None = None, back_us: int | None = None) -> WindowEdge:
    return WindowEdge(**{key: value for key, value in {"instant": instant, "back_us": back_us}.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RANGE 5 MINUTES", StreamWindow(kind="range", range_us=300_000_000)),
        ("range 0.5 seconds", StreamWindow(kind="range", range_us=500_000)),
        ("RANGE .5 SECOND", StreamWindow(kind="range", range_us=500_000)),
        ("RANGE 1e3 SECONDS", StreamWindow(kind="range", range_us=1_000_000_000)),
        ("RANGE 2 SECONDS EXCLUSIVE", StreamWindow(kind="range", range_us=2_000_000, exclusive=True)),
        ("RANGE 1 HOUR SLIDE 10 SECONDS", StreamWindow(kind="range", range_us=3_600_000_000, slide_us=10_000_000)),
        ("RANGE 0 SECONDS", StreamWindow(kind="now")),
        ("NOW", StreamWindow(kind="now")),
        ("Unbounded", StreamWindow(kind="unbounded")),
        ("RANGE UNBOUNDED", StreamWindow(kind="unbounded")),
        ("ROWS UNBOUNDED", StreamWindow(kind="unbounded")),
        ("Rows 5", StreamWindow(kind="rows", rows=5)),
        ("ROWS 5 RANGE 1 DAY", StreamWindow(kind="rows", rows=5, range_us=86_400_000_000)),
        ("PARTITION BY a ROWS 3", StreamWindow(kind="rows", rows=3, partition_by=[exp.column("a")])),
        (
            "PARTITION BY a, s.b ROWS 3 RANGE 1 MILLISECOND",
            StreamWindow(kind="rows", rows=3, partition_by=[exp.column("a"), exp.column("b", table="s")], range_us=1000),
        ),
        ("BEGIN NOW - 5 SECONDS END NOW", StreamWindow(kind="between", begin=edge(back_us=5_000_000), end=edge(back_us=0))),
        (
            "BEGIN TIMESTAMP '1970-01-01T00:00:01Z' END NOW - 3 SECONDS",
            StreamWindow(kind="between", begin=edge(instant=1_000_000), end=edge(back_us=3_000_000)),
        ),
        (
            "BEGIN TIMESTAMP '1970-01-01 01:00:00+01:00' END TIMESTAMP '1970-01-01'",
            StreamWindow(kind="between", begin=edge(instant=0), end=edge(instant=0)),
        ),
    ],
)
def test_every_window(text: str, expected: StreamWindow) -> None:
    assert window_of(text) == expected


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_singular_and_plural(unit: str) -> None:
    assert window_of(f"RANGE 7 {unit}").args["range_us"] == 7 * UNITS[unit]
    assert window_of(f"RANGE 7 {unit.lower()}s").args["range_us"] == 7 * UNITS[unit]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM s [NOW] AS t",
        "SELECT a FROM s AS t [NOW]",
        "SELECT a FROM s t [NOW]",
        "SELECT a FROM s [NOW] t",
        "SELECT a FROM s[NOW]t",
    ],
)
def test_a_window_stands_before_or_after_the_alias(sql: str) -> None:
    table = parse_one(sql).select.find(exp.Table)  # type: ignore[union-attr]
    assert table is not None
    assert table.args["stream_window"] == StreamWindow(kind="now")
    assert table.alias == "t"


@pytest.mark.parametrize("sql", ["SELECT a FROM (SELECT a FROM s) [NOW] AS t", "SELECT a FROM (SELECT a FROM s) AS t [NOW]"])
def test_a_window_behind_a_subquery(sql: str) -> None:
    subquery = parse_one(sql).select.args["from_"].this  # type: ignore[union-attr]
    assert isinstance(subquery, exp.Subquery)
    assert subquery.args["stream_window"] == StreamWindow(kind="now")
    assert subquery.alias == "t"


def test_windows_in_a_join() -> None:
    statement = parse_one("SELECT 1 FROM a [ROWS 1], b [ROWS 2] x JOIN c [ROWS 3] ON a.k = c.k")
    found = [table.args["stream_window"].args["rows"] for table in statement.select.find_all(exp.Table, bfs=False)]  # type: ignore[union-attr]
    assert sorted(found) == [1, 2, 3]


def test_brackets_in_expressions_are_subscripts() -> None:
    statement = parse_one("SELECT a[0], f(x)[1], (SELECT b)[2] FROM s WHERE c['k'] = 1")
    assert len(list(statement.select.find_all(exp.Bracket))) == 4  # type: ignore[union-attr]
    assert statement.select.find(StreamWindow) is None  # type: ignore[union-attr]


def test_the_span_of_a_window_covers_its_brackets() -> None:
    sql = "SELECT a FROM s [ RANGE 5 MINUTES ] AS t"
    span = span_of(parse_one(sql).select.find(StreamWindow))  # type: ignore[union-attr]
    assert span is not None
    assert sql[span.start : span.end] == "[ RANGE 5 MINUTES ]"


@pytest.mark.parametrize(
    ("text", "underlined"),
    [
        ("ROWS 0", "0"),
        ("ROWS -1", "-"),
        ("ROWS 1.5", "1.5"),
        ("ROWS x", "x"),
        ("ROWS 99999999999999999999", "99999999999999999999"),
        ("RANGE 5 SECONDS SLIDE 0 SECONDS", "SLIDE"),
        ("RANGE 0 SECONDS EXCLUSIVE", "RANGE"),
        ("RANGE 0 SECONDS SLIDE 1 SECOND", "RANGE"),
        ("RANGE 5 SECONDS EXCLUSIVE SLIDE 1 SECOND", "RANGE"),
        ("RANGE 5 SECONDS SLIDE 2 SECONDS EXCLUSIVE", "RANGE"),
        ("RANGE -5 SECONDS", "-"),
        ("RANGE 5", "]"),
        ("RANGE MINUTES", "MINUTES"),
        ("RANGE INTERVAL 5 MINUTES", "INTERVAL"),
        ("RANGE '5' MINUTES", "'5'"),
        ("RANGE 5 FORTNIGHTS", "FORTNIGHTS"),
        ("RANGE 5 MONTHS", "MONTHS"),
        ("RANGE 0.0000001 SECONDS", "0.0000001 SECONDS"),
        ("RANGE 1e-400 SECONDS", "1e-400 SECONDS"),
        ("RANGE 1e400 DAYS", "1e400 DAYS"),
        ("RANGE 9999999999 DAYS", "9999999999 DAYS"),
        ("RANGE 5 SECONDS SLID 5 SECONDS", "SLID"),
        ("LAST 5 SECONDS", "LAST"),
        ("", "]"),
        ("PARTITION BY a", "]"),
        ("PARTITION BY 1 ROWS 5", "1"),
        ("PARTITION BY a RANGE 5 SECONDS", "RANGE"),
        ("BEGIN NOW", "]"),
        ("BEGIN 5 END 6", "5"),
        ("BEGIN NOW END NOW + 5 SECONDS", "+"),
        ("BEGIN NOW END NOW - 5 SECONDS", "BEGIN NOW END NOW - 5 SECONDS"),
        ("BEGIN TIMESTAMP '2021-01-01' END TIMESTAMP '2020-01-01'", "BEGIN TIMESTAMP '2021-01-01' END TIMESTAMP '2020-01-01'"),
        ("BEGIN TIMESTAMP 'soon' END NOW", "TIMESTAMP 'soon'"),
        ("NOW 5", "5"),
    ],
)
def test_windows_that_make_no_sense(text: str, underlined: str) -> None:
    with pytest.raises(WindowInvalid) as caught:
        window_of(text)
    error = caught.value
    assert error.sql is not None
    assert error.span is not None
    assert error.sql[error.span.start : error.span.end] == underlined


def test_two_windows_are_refused() -> None:
    for sql in ("SELECT a FROM s [NOW] [NOW]", "SELECT a FROM s [NOW] AS t [NOW]"):
        with pytest.raises(WindowInvalid, match="one window only"):
            parse_one(sql)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("RNGE 5 SECONDS", 'Did you mean "RANGE"?'),
        ("RANGE 5 MINUTSE", 'Did you mean "MINUTE"?'),
        ("RANGE 5 SECONDS EXCLUSIV", 'Did you mean "EXCLUSIVE"?'),
        ("BEGIN NWO END NOW", 'Did you mean "NOW"?'),
    ],
)
def test_misspelt_words_get_a_hint(text: str, hint: str) -> None:
    with pytest.raises(WindowInvalid) as caught:
        window_of(text)
    assert caught.value.hint == hint


def test_exclusive_behind_slide_is_told_what_exclusive_before_slide_is() -> None:
    before, behind = (
        parse_failure(f"SELECT a FROM s [RANGE 5 SECONDS {words}]") for words in ("EXCLUSIVE SLIDE 2 SECONDS", "SLIDE 2 SECONDS EXCLUSIVE")
    )
    assert before is not None
    assert behind is not None
    assert (behind.message, behind.hint) == (before.message, before.hint)
