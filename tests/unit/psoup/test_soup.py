"""PSoup by examples: windows, sharing, late queries, what goes wrong and how it is said."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.core.errors import (
    AlreadyExists,
    ArityMismatch,
    ColumnNotFound,
    InstantPassed,
    MillstreamError,
    NotSupported,
    QueryNotFound,
    StreamNotFound,
    TypeMismatch,
    WindowInvalid,
)  # fmt: skip
from millstream.core.schema import Schema
from millstream.kernels.predicate_index import Factor
from millstream.psoup.query import VARIANTS, Aggregate, Clause, ColumnOf, Condition, JoinFactor, Now, Query, Selection, Source, Variant
from millstream.psoup.soup import Soup

SCHEMA = Schema.of(sym="STRING", price="DECIMAL(9,2)", size="INT")
TRADES = Source("t", "trades")
QUOTES = Source("q", "quotes")
LAST_TEN, NOW = Now(10), Now()


def new_soup(variant: Variant = "partial", **options: Any) -> Soup:
    soup = Soup(variant, **options)
    soup.add_stream("trades", SCHEMA)
    soup.add_stream("quotes", SCHEMA)
    return soup


def put(soup: Soup, stream: str, *rows: tuple[int, str | None, str, int | None]) -> None:
    """(timestamp, sym, price, size)"""
    columns = [pa.array([row[1] for row in rows], pa.string()), pa.array([Decimal(row[2]) for row in rows], pa.decimal128(9, 2))]
    columns.append(pa.array([row[3] for row in rows], pa.int32()))
    soup.insert(stream, pa.RecordBatch.from_arrays(columns, schema=SCHEMA.to_arrow()), np.array([row[0] for row in rows]))


def sizes_over(least: int, *, begin: Any = LAST_TEN, end: Any = NOW, **other: Any) -> Query:
    clause = Clause((TRADES,), (Selection("t", Factor("size", ">", least)),))
    return Query(clause, (("size", ColumnOf("t", "size")),), begin, end, **other)


def sizes(soup: Soup, number: int, now: int | None = None) -> list[int]:
    return soup.invoke(number, now).column("size").to_pylist()


@pytest.mark.parametrize("variant", VARIANTS)
def test_snapshot_landmark_and_sliding_windows(variant: Variant) -> None:
    soup = new_soup(variant)
    put(soup, "trades", (1, "A", "1.00", 5), (4, "A", "1.00", 7), (9, "A", "1.00", 1))
    snapshot = soup.register(sizes_over(2, begin=2, end=12))
    landmark = soup.register(sizes_over(2, begin=4, end=Now()))
    sliding = soup.register(sizes_over(2, begin=Now(8), end=Now(2)))
    assert [sizes(soup, number) for number in (snapshot, landmark, sliding)] == [[7], [7], [5, 7]]
    put(soup, "trades", (12, "B", "1.00", 8), (13, "B", "1.00", 9))
    assert [sizes(soup, number) for number in (snapshot, landmark, sliding)] == [[7, 8], [7, 8, 9], []]
    assert sizes(soup, sliding, 15) == [8, 9]
    assert sizes(soup, sliding, 30) == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_client_may_be_away_and_come_back(variant: Variant) -> None:
    """Nothing is delivered; an answer is what the window holds when somebody asks, however long nobody did."""
    soup = new_soup(variant)
    number = soup.register(sizes_over(0, begin=Now(100)))
    for instant in range(0, 1000, 10):
        put(soup, "trades", (instant, "A", "1.00", instant))
    assert sizes(soup, number) == list(range(890, 1000, 10))
    soup.unregister(number)
    with pytest.raises(QueryNotFound, match=f"query {number} does not exist"):
        soup.invoke(number)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_join_finds_old_rows_and_new_ones(variant: Variant) -> None:
    soup = new_soup(variant)
    put(soup, "trades", (1, "A", "10.00", 5), (2, "B", "20.00", 6))
    put(soup, "quotes", (3, "A", "9.00", 1), (3, "A", "11.00", 2))
    joins = (JoinFactor(ColumnOf("t", "sym"), "=", ColumnOf("q", "sym")), JoinFactor(ColumnOf("t", "price"), "<", ColumnOf("q", "price")))
    clause = Clause((TRADES, QUOTES), (Selection("t", Factor("size", ">=", 5)),), joins)
    number = soup.register(Query(clause, (("ts", ColumnOf("t", "size")), ("qs", ColumnOf("q", "size"))), Now(5), Now()))

    def pairs(now: int | None = None) -> list[tuple[int, int]]:
        return sorted((row["ts"], row["qs"]) for row in soup.invoke(number, now).to_pylist())

    assert pairs() == [(5, 2)]
    put(soup, "quotes", (5, "B", "21.00", 3))
    put(soup, "trades", (7, "B", "1.00", 9))
    assert pairs(6) == [(5, 2), (6, 3)]
    assert pairs() == [(6, 3), (9, 3)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_added_to_a_decimal_is_a_value_of_it(variant: Variant) -> None:
    soup = new_soup(variant)
    put(soup, "trades", (1, "A", "10.00", 5))
    put(soup, "quotes", (2, "A", "9.00", 1), (3, "A", "9.50", 2), (4, "A", "9.49", 3))
    join = JoinFactor(ColumnOf("t", "price"), "<=", ColumnOf("q", "price"), Decimal("0.5"))
    query = Query(Clause((TRADES, QUOTES), (), (join,)), (("size", ColumnOf("q", "size")),), Now(10), Now())
    assert sizes(soup, soup.register(query)) == [2]
    with pytest.raises(TypeMismatch, match="cannot be added"):
        soup.register(replace(query, clause=replace(query.clause, joins=(replace(join, plus=Decimal("0.001")),))))


def test_aggregates_have_the_types_of_spark_and_name_a_column_as_often_as_they_like() -> None:
    soup = new_soup()
    put(soup, "trades", (1, "A", "1.01", 5), (2, "B", "2.02", None), (3, None, "2.02", 7))
    price, size = ColumnOf("t", "price"), ColumnOf("t", "size")
    calls = (
        Aggregate("n", "count"), Aggregate("sizes", "count", size), Aggregate("volume", "sum", size), Aggregate("mean", "avg", size),
        Aggregate("least", "min", ColumnOf("t", "sym")), Aggregate("prices", "sum", price), Aggregate("price", "avg", price),
    )  # fmt: skip
    number = soup.register(Query(Clause((TRADES,)), (), Now(10), Now(), aggregates=calls))
    answer = soup.invoke(number)
    assert answer.to_pylist() == [
        {"n": 3, "sizes": 2, "volume": 12, "mean": 6.0, "least": "A", "prices": Decimal("5.05"), "price": Decimal("1.683333")}
    ]
    assert answer.schema.field("prices").type == pa.decimal128(19, 2)
    assert answer.schema.field("price").type == pa.decimal128(13, 6)
    assert soup.invoke(number, 100).to_pylist() == [
        {"n": 0, "sizes": 0, "volume": None, "mean": None, "least": None, "prices": None, "price": None}
    ]


def test_queries_with_one_clause_share_it() -> None:
    soup = new_soup()
    numbers = [soup.register(sizes_over(2, begin=Now(length))) for length in (5, 10, 20)]
    total = replace(sizes_over(2), select=(), aggregates=(Aggregate("n", "count"),))
    numbers.append(soup.register(total))
    assert soup.storage()["clauses"] == 1
    for number in numbers[:-1]:
        soup.unregister(number)
    put(soup, "trades", (1, "A", "1.00", 5))
    assert soup.invoke(numbers[-1]).to_pylist() == [{"n": 1}]
    soup.unregister(numbers[-1])
    assert soup.storage()["clauses"] == 0


def test_what_each_variant_keeps() -> None:
    kept = {}
    for variant in VARIANTS:
        soup = new_soup(variant)
        for least in range(50):
            soup.register(sizes_over(least, begin=Now(500)))
        put(soup, "trades", *((instant, "A", "1.00", instant % 60) for instant in range(1000)))
        kept[variant] = soup.storage()
    assert kept["none"]["clauses"] == kept["none"]["marks_bytes"] == 0
    assert 0 < kept["partial"]["marks_bytes"] <= 50 * 1000 / 8 + 1000
    assert kept["partial"]["current_bytes"] == 0
    assert kept["complete"]["current_bytes"] > kept["complete"]["marks_bytes"] == kept["partial"]["marks_bytes"]


def test_marks_of_clauses_that_are_gone_go_too() -> None:
    soup = new_soup()
    kept = soup.register(sizes_over(500))
    for least in range(1100):
        number = soup.register(sizes_over(least + 1000))
        put(soup, "trades", (least, "A", "1.00", least + 2000))
        soup.unregister(number)
    assert soup.storage()["clauses"] == 1
    assert soup.storage()["marks_bytes"] < 2000
    assert len(sizes(soup, kept)) == 11


def test_windows_that_move_back_and_forth_between_their_rows() -> None:
    """The same instant is due again after something else was due before it."""
    soup = new_soup("complete")
    numbers = [soup.register(sizes_over(0, begin=Now(begin), end=Now(end))) for begin, end in ((9, 0), (9, 3), (9, 9), (5, 2))]
    for instant in range(0, 60, 2):
        put(soup, "trades", (instant, "A", "1.00", instant + 1), (instant, "A", "1.00", instant + 2))
        for number, (begin, end) in zip(numbers, ((9, 0), (9, 3), (9, 9), (5, 2)), strict=True):
            if instant % 3:
                expected = [at + more for at in range(0, instant + 1, 2) for more in (1, 2) if instant - begin <= at <= instant - end]
                assert sizes(soup, number) == expected


def test_the_smaller_structure_is_chosen() -> None:
    """One row in a hundred is a short list; one in two is a bitmap."""
    kept = {}
    for least in (990, 500):
        for structure in ("list", "bitmap", "smaller"):
            soup = new_soup(structure=structure)
            soup.register(sizes_over(least))
            put(soup, "trades", *((instant, "A", "1.00", instant) for instant in range(1000)))
            kept[least, structure] = soup.storage()["marks_bytes"]
    assert kept[990, "smaller"] == kept[990, "list"] < kept[990, "bitmap"]
    assert kept[500, "smaller"] == kept[500, "bitmap"] < kept[500, "list"]


def test_retention_bounds_what_is_kept_and_says_so() -> None:
    soup = new_soup(retention_us=100)
    number = soup.register(sizes_over(-1, begin=0, end=Now()))
    recent = soup.register(sizes_over(-1, begin=Now(50)))
    for instant in range(0, 5000, 2):
        put(soup, "trades", (instant, f"sym{instant}", "1.00", instant))
    assert soup.storage()["rows"] == 51
    assert sizes(soup, number) == list(range(4898, 5000, 2))
    assert not soup.is_complete(number)
    assert soup.is_complete(recent)


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_instant_before_one_that_was_asked_for(variant: Variant) -> None:
    soup = new_soup(variant)
    number = soup.register(sizes_over(0, begin=Now(10), end=Now(2)))
    put(soup, "trades", (1, "A", "1.00", 5), (8, "A", "1.00", 7))
    assert sizes(soup, number, 14) == [7]
    assert sizes(soup, number, 9) == [5]
    put(soup, "trades", (9, "A", "1.00", 8))
    assert sizes(soup, number, 9) == [5]
    assert sizes(soup, number, 14) == [7, 8]


# --- what goes wrong --------------------------------------------------------------------------


def test_mistakes_in_a_query_name_it_and_give_a_hint() -> None:
    soup, good = new_soup(), sizes_over(1)
    size = ColumnOf("t", "size")
    cases: list[tuple[type[MillstreamError], Query]] = [
        (StreamNotFound, replace(good, clause=Clause((Source("t", "trade"),)))),
        (StreamNotFound, replace(good, select=(("size", ColumnOf("x", "size")),))),
        (ColumnNotFound, replace(good, select=(("size", ColumnOf("t", "sise")),))),
        (TypeMismatch, replace(good, clause=Clause((TRADES,), (Selection("t", Factor("size", "<", "one")),)))),
        (NotSupported, replace(good, clause=Clause((TRADES, TRADES)))),
        (NotSupported, replace(good, clause=Clause((TRADES, QUOTES), (), (JoinFactor(size, "<", ColumnOf("q", "sym")),)))),
        (NotSupported, replace(good, clause=Clause((TRADES,), (), (JoinFactor(size, "<", size),)))),
        (NotSupported, replace(good, clause=Clause((TRADES,), (), (), (Condition((), "true"),)))),
        (NotSupported, replace(good, aggregates=(Aggregate("n", "count"),))),
        (NotSupported, replace(good, select=(), aggregates=(Aggregate("n", "sum"),))),
        (TypeMismatch, replace(good, select=(), aggregates=(Aggregate("n", "sum", ColumnOf("t", "sym")),))),
        (WindowInvalid, replace(good, begin=5, end=4)),
        (WindowInvalid, replace(good, begin=Now(1), end=Now(2))),
    ]
    for error, query in cases:
        with pytest.raises(error) as found:
            soup.register(query)
        assert found.value.hint, found.value
    with pytest.raises(WindowInvalid):
        Now(-1)
    assert soup.storage()["clauses"] == 0


def test_rows_that_do_not_fit_change_nothing() -> None:
    soup = new_soup()
    number = soup.register(sizes_over(0))
    put(soup, "trades", (5, "A", "1.00", 5))
    with pytest.raises(InstantPassed):
        put(soup, "trades", (4, "A", "1.00", 6))
    rows = pa.RecordBatch.from_arrays([pa.array([1])], names=["size"])
    with pytest.raises(ArityMismatch):
        soup.insert("trades", rows, np.array([6]))
    with pytest.raises(StreamNotFound):
        soup.insert("trade", rows, np.array([6]))
    with pytest.raises(AlreadyExists):
        soup.add_stream("trades", SCHEMA)
    assert sizes(soup, number) == [5]
