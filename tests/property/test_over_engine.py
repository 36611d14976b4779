"""OVER and ORDER BY ... LIMIT through the whole engine: every answer at every instant equals its recomputation.

Models sort the window's rows (ts, k, v) and look at each from its place; NULL comes first, ties go by all columns.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.core.instant import BEGINNING
from millstream.plan.rewrite import RULES
from millstream.runtime import tick
from property.engine_model import DDL, WINDOWS, Action, Bag, Row, StreamModel, WindowModel, actions
from property.examples import examples
from property.test_engine import FIRST, LAST, assert_netted, changes_of, contents_at


def first(value: Any) -> tuple[Any, ...]:
    return (0,) if value is None else (1, value)


def last(value: int | None) -> tuple[Any, ...]:
    """For a descending order with NULLs last."""
    return (1,) if value is None else (0, -value)


def ties(row: Row) -> tuple[Any, ...]:
    return tuple(map(first, row))


def by_ts(row: Row) -> tuple[Any, ...]:
    return (row[0], ties(row))


def by_v_down(row: Row) -> tuple[Any, ...]:
    return (last(row[2]), ties(row))


def partitions(rows: list[Row], order: Callable[[Row], Any]) -> list[list[Row]]:
    return [sorted((row for row in rows if row[1] == k), key=order) for k in {row[1] for row in rows}]


def total(rows: list[Row]) -> int | None:
    values = [row[2] for row in rows if row[2] is not None]
    return sum(values) if values else None


def at(micros: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros)


@dataclass(frozen=True)
class OverModel:
    sql: str
    answer: Callable[[list[Row]], Bag]


def _lag(rows: list[Row]) -> Bag:
    return Counter(
        (row[1], None if i == 0 or None in (row[2], part[i - 1][2]) else row[2] - part[i - 1][2], part[i - 2][2] if i > 1 else -7)
        for part in partitions(rows, by_ts) for i, row in enumerate(part)
    )  # fmt: skip


def _numbered(rows: list[Row], first_: int, last_: int) -> Bag:
    return Counter(
        (row[1], row[2], n) for part in partitions(rows, by_v_down) for n, row in enumerate(part, 1) if first_ <= n <= last_
    )  # fmt: skip


def _top(rows: list[Row], order: Callable[[Row], Any], start: int, stop: int) -> list[Row]:
    return sorted(rows, key=order)[start:stop]


def _sums(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(k, total([row for row in rows if row[1] == k])) for k in {row[1] for row in rows}]


def _ranked_sums(rows: list[Row]) -> Bag:
    sums = _sums(rows)
    everything = total(rows)
    return Counter((k, s, 1 + sum(last(other) < last(s) for _, other in sums), everything) for k, s in sums)


def _latest(rows: list[Row]) -> int | None:
    """max_by(v, ts): the greatest v of the last instant, a NULL being less than all."""
    return max((row for row in rows if row[0] == max(other[0] for other in rows)), key=lambda row: first(row[2]))[2]


def _aggregated(rows: list[Row]) -> Bag:
    ordered, ones, out = sorted(rows, key=by_ts), sum(row[2] == 1 for row in rows), []
    for i, row in enumerate(ordered):
        before = [other for other in rows if other[1] == row[1] and other[0] <= row[0]]
        values = [other[2] for other in before if other[2] is not None]
        pair = [other[2] for other in ordered[max(0, i - 1) : i + 1] if other[2] is not None]
        out.append((
            row[1], sum(v for v in values if v > 1) if any(v > 1 for v in values) else None, any(v > 1 for v in values) if values else None,
            _latest(before), ones, sum(pair) / len(pair) if pair else None,
        ))  # fmt: skip
    return Counter(out)


MODELS = {
    "lag": OverModel(
        "SELECT k, v - lag(v) OVER w AS d, lag(v, 2, -7) OVER w AS l FROM s {window} WINDOW w AS (PARTITION BY k ORDER BY ts)", _lag
    ),
    "frames of both kinds": OverModel(
        "SELECT sum(v) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a, "
        "count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 2 MICROSECONDS PRECEDING AND CURRENT ROW) AS b FROM s {window}",
        lambda rows: Counter(
            (total(part[max(0, i - 2) : i + 2]), sum(row[0] - 2 <= other[0] <= row[0] for other in rows))
            for part in [sorted(rows, key=by_ts)] for i, row in enumerate(part)
        ),
    ),
    "running": OverModel(
        "SELECT ts, k, sum(v) OVER (PARTITION BY k ORDER BY v) AS s, first_value(ts) OVER (PARTITION BY k ORDER BY v) AS f FROM s {window}",
        lambda rows: Counter(
            (at(row[0]), row[1], total([o for o in part if first(o[2]) <= first(row[2])]), at(part[0][0]))
            for part in partitions(rows, lambda row: (first(row[2]), ties(row))) for row in part
        ),
    ),
    "any aggregate, filtered": OverModel(
        "SELECT k, sum(v) FILTER (WHERE v > 1) OVER w AS s, bool_or(v > 1) OVER w AS b, max_by(v, ts) OVER w AS m, "
        "count(*) FILTER (WHERE v = 1) OVER () AS n, median(v) OVER (ORDER BY ts ROWS 1 PRECEDING) AS h "
        "FROM s {window} WINDOW w AS (PARTITION BY k ORDER BY ts)",
        lambda rows: _aggregated(rows),
    ),
    "the whole partition": OverModel(
        "SELECT k, max(v) OVER (PARTITION BY k) AS m, count(v) OVER () AS n FROM s {window} WHERE v > 0",
        lambda rows: Counter(
            (row[1], max(other[2] for other in kept if other[2] and other[1] == row[1]), len(kept))
            for kept in [[row for row in rows if row[2]]] for row in kept
        ),
    ),
    "first rows by number": OverModel(
        "SELECT k, v, n FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM s {window}) WHERE n <= 2",
        lambda rows: _numbered(rows, 1, 2),
    ),
    "first rows, number dropped": OverModel(
        "SELECT k, v FROM (SELECT v, k, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM s {window}) WHERE 2 > n AND v >= 1",
        lambda rows: Counter((k, v) for k, v, _ in _numbered(rows, 1, 1) if v),
    ),
    "second row": OverModel(
        "SELECT k, v, n FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM s {window}) WHERE n = 2",
        lambda rows: _numbered(rows, 2, 2),
    ),
    "over groups": OverModel(
        "SELECT k, sum(v) AS s, rank() OVER (ORDER BY sum(v) DESC) AS r, sum(sum(v)) OVER () AS t FROM s {window} GROUP BY k", _ranked_sums
    ),
    "limit": OverModel(
        "SELECT v, ts FROM s {window} ORDER BY v DESC, k LIMIT 2 OFFSET 1",
        lambda rows: Counter((v, at(ts)) for ts, _, v in _top(rows, lambda r: (last(r[2]), first(r[1]), first(r[0])), 1, 3)),
    ),
    "limit without an order": OverModel(
        "SELECT k, v FROM s {window} LIMIT 3",
        lambda rows: Counter(sorted(((k, v) for _, k, v in rows), key=lambda r: tuple(map(first, r)))[:3]),
    ),
    "limit of groups": OverModel(
        "SELECT k FROM s {window} GROUP BY k ORDER BY sum(v) DESC, 1 LIMIT 1",
        lambda rows: Counter((k,) for k, _ in sorted(_sums(rows), key=lambda r: (last(r[1]), first(r[0])))[:1]),
    ),
    "limit below": OverModel(
        "SELECT count(*) AS n, sum(v) AS s FROM (SELECT v FROM s {window} ORDER BY v LIMIT 2) AS t",
        lambda rows: Counter([(min(2, len(rows)), total(_top(rows, lambda r: first(r[2]), 0, 2)))]),
    ),
    "limit of a union": OverModel(
        "SELECT v FROM s {window} UNION ALL SELECT 2 FROM s {window} ORDER BY v % 3, v LIMIT 3",
        lambda rows: Counter(
            (v,)
            for v in sorted([*(r[2] for r in rows), *(2 for _ in rows)], key=lambda v: (first(None if v is None else v % 3), first(v)))[:3]
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    window: WindowModel
    slack: int
    partition: str
    buckets: int
    rows_a_step: int
    map_stage_rows: int
    rules_off: frozenset[str]
    history: list[Action]


def cases() -> st.SearchStrategy[Case]:
    return st.builds(
        Case, name=st.sampled_from(sorted(MODELS)), window=st.sampled_from(WINDOWS), slack=st.integers(0, 4),
        partition=st.sampled_from(["", " PARTITION BY k", " PARTITION BY v"]), buckets=st.integers(1, 3),
        rows_a_step=st.sampled_from([1, 2, 5, 1000]), map_stage_rows=st.sampled_from([1, 1000]),
        rules_off=st.frozensets(st.sampled_from(sorted(RULES)), max_size=3), history=actions(),
    )  # fmt: skip


@given(case=cases())
@settings(max_examples=examples(100))
def test_answers_equal_recomputation_at_every_instant(case: Case) -> None:
    query, runner, model = MODELS[case.name], InlineRunner(case.rows_a_step), StreamModel(case.slack)
    with tempfile.TemporaryDirectory() as directory, patch.object(tick, "MAP_STAGE_ROWS", case.map_stage_rows):
        db = open_inline(directory, buckets=case.buckets, runner=runner, rules_off=case.rules_off)
        db.execute(DDL.format(slack=case.slack, partition=case.partition))
        db.execute("CREATE QUERY q AS " + query.sql.format(window=case.window.sql))
        for action in case.history:
            match action:
                case ("insert", rows):
                    db.insert("s", rows)
                    model.insert(rows)
                case ("advance", ts):
                    db.advance(ts)
                    model.advance(ts)
                case ("flush", _):
                    db.flush()
                case ("lose caches", _):
                    runner.lose_caches()
                case ("reopen", _):
                    db.close()
                    db = open_inline(directory, buckets=case.buckets, runner=runner, rules_off=case.rules_off)
        changes = changes_of(db.query("q").changes())
        assert_netted(changes)
        for t in range(FIRST, min(model.frontier, LAST) + 1):
            assert contents_at(changes, t) == query.answer(model.window(case.window, t)), t
        frontier = max(model.frontier, BEGINNING)
        assert Counter(tuple(row.values()) for row in db.query("q").result().to_pylist()) == contents_at(changes, frontier)
        db.close()
