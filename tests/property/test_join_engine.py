"""Joins through the whole engine, without a JVM: two streams, every pair of windows, every instant, whatever happens in between."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.instant import BEGINNING
from property.engine_model import WINDOWS, Action, Bag, Row, StreamModel, WindowModel, actions
from property.engine_run import Engine, engines, running
from property.examples import examples
from property.test_engine import FIRST, LAST, assert_netted, changes_of, contents_at

DDL = "CREATE STREAM {name} (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts SLACK {slack} MICROSECONDS{partition}"


@dataclass(frozen=True)
class JoinModel:
    """`answer` gets the contents of the windows in the order in which they stand in FROM; without windows, the instant and all so far."""

    sql: str  # with {0}, {1}, ... for the windows
    streams: tuple[str, ...]
    answer: Callable[..., Bag]
    has_windows: bool = True

    def expected(self, models: dict[str, StreamModel], windows: tuple[WindowModel, ...], t: int) -> Bag:
        if self.has_windows:
            return self.answer(*(models[stream].window(window, t) for stream, window in zip(self.streams, windows, strict=False)))
        return self.answer(t, *([row for row in models[stream].rows if row[0] <= t] for stream in self.streams))


def equal(one: Any, other: Any) -> bool:
    return one is not None and one == other


def less(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def maybe(one: Any, other: Any) -> bool:
    """Equal, as far as anybody knows."""
    return one is None or other is None or one == other


def pairs(a: list[Row], b: list[Row], on: Callable[[Row, Row], bool]) -> list[tuple[Row, Row]]:
    return [(one, other) for one in a for other in b if on(one, other)]


def same_key(one: Row, other: Row) -> bool:
    return equal(one[1], other[1])


def alone(a: list[Row], b: list[Row], on: Callable[[Row, Row], bool]) -> list[Row]:
    return [one for one in a if not any(on(one, other) for other in b)]


def outer(a: list[Row], b: list[Row], on: Callable[[Row, Row], bool], *, left: bool = False, right: bool = False) -> Bag:
    found = [(x[1], x[2], y[2]) for x, y in pairs(a, b, on)]
    found += [(x[1], x[2], None) for x in alone(a, b, on)] if left else []
    found += [(None, None, y[2]) for y in alone(b, a, lambda y, x: on(x, y))] if right else []
    return Counter(found)


def known(rows: list[Row]) -> list[int]:
    return [row[2] for row in rows if row[2] is not None]


def is_in(value: Any, values: list[Any]) -> bool | None:
    if value is not None and value in values:
        return True
    return None if values and (value is None or None in values) else False


def plus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def at(ts: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=ts)


def cells(rows: list[Row]) -> Bag:
    return Counter((row[1], row[2]) for row in rows)


def once(found: Bag) -> Bag:
    return Counter(dict.fromkeys(found, 1))


def best(rows: list[Row]) -> list[str | None]:
    """The keys with the greatest sum."""
    sums = {k: [row[2] for row in rows if row[1] == k and row[2] is not None] for k in {row[1] for row in rows}}
    known = {k: sum(values) for k, values in sums.items() if values}
    return [k for k, total in known.items() if total == max(known.values())]


def grouped(found: list[tuple[Row, Row]]) -> Bag:
    groups: dict[str | None, list[int | None]] = {}
    for one, other in found:
        groups.setdefault(one[1], []).append(other[2])
    return Counter(
        (k, len(vs), sum(v for v in vs if v is not None) if any(v is not None for v in vs) else None) for k, vs in groups.items()
    )


def nearest(
    a: list[Row], b: list[Row], meets: Callable[[Row, Row], bool], *, last: bool, keeps: bool = False
) -> list[tuple[Row, Row | None]]:
    """Each row of a with the row of b that is nearest in time; ties go to the greatest, column by column, NULL being the least."""

    def rank(other: Row) -> tuple[Any, ...]:
        return other[0] if last else -other[0], *((value is not None, value) for value in other[1:])

    found: list[tuple[Row, Row | None]] = []
    for one in a:
        partners = [other for other in b if meets(one, other)]
        if partners or keeps:
            found.append((one, max(partners, key=rank) if partners else None))
    return found


def zipped(
    t: int, a: list[Row], b: list[Row], w: int, on: Callable[[Row, Row], bool], *, told: bool = False
) -> list[tuple[Row | None, Row | None]]:
    """At t: pairs while both rows are at most w old, lone rows at the instant after; with `told`, all that ever was."""

    def close(x: Row, y: Row) -> bool:
        return abs(x[0] - y[0]) <= w and on(x, y)

    found: list[tuple[Row | None, Row | None]] = [(x, y) for x, y in pairs(a, b, close) if told or min(x[0], y[0]) >= t - w]
    found += [(x, None) for x in alone(a, b, close) if x[0] + w + 1 == t or (told and x[0] + w + 1 <= t)]
    found += [(None, y) for y in alone(b, a, lambda y, x: close(x, y)) if y[0] + w + 1 == t or (told and y[0] + w + 1 <= t)]
    return found


BOTH = "s.ts AS a_ts, s.k AS a_k, s.v AS a_v, r.ts AS b_ts, r.k AS b_k, r.v AS b_v"


def shown(found: list[tuple[Row | None, Row | None]]) -> Bag:
    """The columns of BOTH."""
    nothing = (None, None, None)
    rows = [((at(x[0]), *x[1:]) if x else nothing, (at(y[0]), *y[1:]) if y else nothing) for x, y in found]
    return Counter((*x, *y) for x, y in rows)


JOINS = {
    "equal keys": JoinModel(
        "SELECT a.k, a.v, b.v AS w FROM s {0} AS a JOIN r {1} AS b ON a.k = b.k", ("s", "r"),
        lambda a, b: Counter((x[1], x[2], y[2]) for x, y in pairs(a, b, same_key)),
    ),
    "of a stream with itself": JoinModel(
        "SELECT a.v, b.k FROM s {0} AS a, s {1} AS b WHERE a.v = b.v AND a.k <> b.k", ("s", "s"),
        lambda a, b: Counter(
            (x[2], y[1])
            for x, y in pairs(a, b, lambda x, y: equal(x[2], y[2]) and None not in (x[1], y[1]) and x[1] != y[1])
        ),
    ),
    "with a rest": JoinModel(
        "SELECT k, a.v, b.v AS w FROM s {0} AS a JOIN r {1} AS b USING (k) WHERE a.v < b.v", ("s", "r"),
        lambda a, b: Counter((x[1], x[2], y[2]) for x, y in pairs(a, b, lambda x, y: same_key(x, y) and less(x[2], y[2]))),
    ),
    "with filters of each side": JoinModel(
        "SELECT a.v, b.v AS w FROM s {0} AS a JOIN r {1} AS b ON a.k = b.k AND a.v > 0 "
        "WHERE b.v < 3 AND a.v <> b.v AND a.k = 'a'", ("s", "r"),
        lambda a, b: Counter(
            (x[2], y[2])
            for x, y in pairs(a, b, lambda x, y: same_key(x, y) and x[1] == "a" and less(0, x[2]) and less(y[2], 3) and x[2] != y[2])
        ),
    ),
    "without equal keys": JoinModel(
        "SELECT a.v, b.v AS w FROM s {0} AS a JOIN r {1} AS b ON a.v < b.v", ("s", "r"),
        lambda a, b: Counter((x[2], y[2]) for x, y in pairs(a, b, lambda x, y: less(x[2], y[2]))),
    ),
    "null safe": JoinModel(
        "SELECT a.k, b.k AS l FROM s {0} AS a JOIN r {1} AS b ON a.v <=> b.v", ("s", "r"),
        lambda a, b: Counter((x[1], y[1]) for x, y in pairs(a, b, lambda x, y: x[2] == y[2])),
    ),
    "computed keys": JoinModel(
        "SELECT a.v FROM s {0} AS a JOIN r {1} AS b ON a.v + 1 = b.v * 1.0", ("s", "r"),
        lambda a, b: Counter((x[2],) for x, y in pairs(a, b, lambda x, y: x[2] is not None and equal(x[2] + 1, y[2]))),
    ),
    "then grouped": JoinModel(
        "SELECT a.k, count(*) AS n, sum(b.v) AS s FROM s {0} AS a JOIN r {1} AS b ON a.k = b.k GROUP BY a.k", ("s", "r"),
        lambda a, b: grouped(pairs(a, b, same_key)),
    ),
    "of aggregates": JoinModel(
        "SELECT n, m FROM (SELECT k, count(*) AS n FROM s {0} GROUP BY k) AS a JOIN (SELECT k, max(v) AS m FROM r {1} GROUP BY k) AS b "
        "ON a.k = b.k", ("s", "r"),
        lambda a, b: Counter(
            (sum(same_key(x, (0, k, 0)) for x in a), max((y[2] for y in b if y[1] == k and y[2] is not None), default=None))
            for k in {x[1] for x in a} & {y[1] for y in b} - {None}
        ),
    ),
    "left": JoinModel(
        "SELECT a.k, a.v, b.v AS w FROM s {0} AS a LEFT JOIN r {1} AS b ON a.k = b.k", ("s", "r"),
        lambda a, b: outer(a, b, same_key, left=True),
    ),
    "right": JoinModel(
        "SELECT a.k, a.v, b.v AS w FROM s {0} AS a RIGHT OUTER JOIN r {1} AS b ON a.k = b.k", ("s", "r"),
        lambda a, b: outer(a, b, same_key, right=True),
    ),
    "full": JoinModel(
        "SELECT a.k, a.v, b.v AS w FROM s {0} AS a FULL JOIN r {1} AS b ON a.k = b.k", ("s", "r"),
        lambda a, b: outer(a, b, same_key, left=True, right=True),
    ),
    "left with a rest": JoinModel(
        "SELECT a.k, a.v, b.v AS w FROM s {0} AS a LEFT JOIN r {1} AS b ON a.k = b.k AND a.v < b.v", ("s", "r"),
        lambda a, b: outer(a, b, lambda x, y: same_key(x, y) and less(x[2], y[2]), left=True),
    ),
    "full without equal keys": JoinModel(
        "SELECT a.k, a.v, b.v AS w FROM s {0} AS a FULL JOIN r {1} AS b ON a.v < b.v", ("s", "r"),
        lambda a, b: outer(a, b, lambda x, y: less(x[2], y[2]), left=True, right=True),
    ),
    "full, the keys as one": JoinModel(
        "SELECT k, a.v + b.v AS x FROM s {0} AS a FULL JOIN r {1} AS b USING (k)", ("s", "r"),
        lambda a, b: Counter(
            [(x[1], plus(x[2], y[2])) for x, y in pairs(a, b, same_key)]
            + [(x[1], None) for x in alone(a, b, same_key)]
            + [(y[1], None) for y in alone(b, a, same_key)]
        ),
    ),
    "left, then a condition": JoinModel(
        "SELECT a.k, a.v FROM s {0} AS a LEFT JOIN r {1} AS b ON a.k = b.k WHERE b.ts IS NULL AND a.v = 1", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in alone(a, b, same_key) if x[2] == 1),
    ),
    "semi": JoinModel(
        "SELECT k, v FROM s {0} AS a LEFT SEMI JOIN r {1} AS b ON a.k = b.k", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in a if any(same_key(x, y) for y in b)),
    ),
    "semi with a rest": JoinModel(
        "SELECT k, v FROM s {0} AS a SEMI JOIN r {1} AS b ON a.k = b.k AND a.v < b.v", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in a if any(same_key(x, y) and less(x[2], y[2]) for y in b)),
    ),
    "anti": JoinModel(
        "SELECT * FROM s {0} AS a ANTI JOIN r {1} AS b USING (k)", ("s", "r"),
        lambda a, b: Counter((x[1], at(x[0]), x[2]) for x in alone(a, b, same_key)),
    ),
    "left, then grouped": JoinModel(
        "SELECT a.k, count(*) AS n, sum(b.v) AS s FROM s {0} AS a LEFT JOIN r {1} AS b ON a.k = b.k GROUP BY a.k", ("s", "r"),
        lambda a, b: grouped(pairs(a, b, same_key) + [(x, (0, None, None)) for x in alone(a, b, same_key)]),
    ),
    "of three, one of them left": JoinModel(
        "SELECT a.v, b.v AS w, c.k FROM s {0} AS a LEFT JOIN r {1} AS b ON a.k = b.k JOIN s {2} AS c ON c.v = a.v", ("s", "r", "s"),
        lambda a, b, c: Counter(
            (x[2], y[2], z[1])
            for x, y in pairs(a, b, same_key) + [(x, (0, None, None)) for x in alone(a, b, same_key)]
            for z in c if equal(z[2], x[2])
        ),
    ),
    "union all": JoinModel(
        "SELECT k, v FROM s {0} UNION ALL SELECT k, v FROM r {1}", ("s", "r"), lambda a, b: cells(a) + cells(b),
    ),
    "union": JoinModel("SELECT k, v FROM s {0} UNION SELECT k, v FROM r {1}", ("s", "r"), lambda a, b: once(cells(a) + cells(b))),
    "intersect": JoinModel(
        "SELECT k, v FROM s {0} INTERSECT SELECT k, v FROM r {1}", ("s", "r"), lambda a, b: once(cells(a)) & once(cells(b)),
    ),
    "intersect all": JoinModel(
        "SELECT k, v FROM s {0} INTERSECT ALL SELECT k, v FROM r {1}", ("s", "r"), lambda a, b: cells(a) & cells(b),
    ),
    "except": JoinModel("SELECT k, v FROM s {0} EXCEPT SELECT k, v FROM r {1}", ("s", "r"), lambda a, b: once(cells(a)) - once(cells(b))),
    "except all": JoinModel("SELECT k, v FROM s {0} EXCEPT ALL SELECT k, v FROM r {1}", ("s", "r"), lambda a, b: cells(a) - cells(b)),
    "a union, grouped": JoinModel(
        "SELECT k, count(*) AS n FROM (SELECT k, v FROM s {0} UNION ALL SELECT k, 1.5 FROM r {1} WHERE v > 1) AS u GROUP BY k", ("s", "r"),
        lambda a, b: Counter(Counter(row[1] for row in [*a, *(y for y in b if less(1, y[2]))]).items()),
    ),
    "named parts, one of them twice": JoinModel(
        "WITH sums(k, s) AS (SELECT k, sum(v) FROM s {0} GROUP BY k), top AS (SELECT max(s) AS m FROM sums) "
        "SELECT k FROM sums JOIN top ON s = m LEFT ANTI JOIN r {1} USING (k)", ("s", "r"),
        lambda a, b: Counter((k,) for k in best(a) if not any(equal(k, y[1]) for y in b)),
    ),
    "in": JoinModel(
        "SELECT k, v FROM s {0} WHERE v IN (SELECT v FROM r {1} WHERE k = 'a') AND v > 0", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in a if less(0, x[2]) and any(equal(x[2], y[2]) and y[1] == "a" for y in b)),
    ),
    "not in": JoinModel(
        "SELECT k, v FROM s {0} WHERE v NOT IN (SELECT v FROM r {1})", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in a if not any(None in (x[2], y[2]) or x[2] == y[2] for y in b)),
    ),
    "in, two columns": JoinModel(
        "SELECT k, v FROM s {0} WHERE (k, v) IN (SELECT k, v FROM r {1})", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in a if any(same_key(x, y) and equal(x[2], y[2]) for y in b)),
    ),
    "not in, two columns": JoinModel(
        "SELECT k, v FROM s {0} WHERE (k, v) NOT IN (SELECT k, v FROM r {1})", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in alone(a, b, lambda x, y: maybe(x[1], y[1]) and maybe(x[2], y[2]))),
    ),
    "in, whole rows": JoinModel(
        "SELECT k, v FROM s {0} WHERE s IN (SELECT * FROM r {1})", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in a if None not in x and x in b),
    ),
    "in a query with a condition of its own": JoinModel(
        "SELECT k FROM s {0} WHERE k IN (SELECT k FROM r {1} WHERE v NOT IN (SELECT v FROM s {2}))", ("s", "r", "s"),
        lambda a, b, c: Counter((x[1],) for x in a if any(same_key(x, y) for y in alone(b, c, lambda y, z: maybe(y[2], z[2])))),
    ),
    "in parentheses": JoinModel(
        "SELECT a.k, b.v FROM (s {0}) AS a JOIN (r {1}) AS b ON a.k = b.k", ("s", "r"),
        lambda a, b: Counter((x[1], y[2]) for x, y in pairs(a, b, same_key)),
    ),
    "in a grouped query": JoinModel(
        "SELECT k FROM s {0} WHERE v + 0 IN (SELECT count(*) FROM r {1} GROUP BY k)", ("s", "r"),
        lambda a, b: Counter((x[1],) for x in a if x[2] in Counter(y[1] for y in b).values()),
    ),
    "exists": JoinModel(
        "SELECT k, v FROM s {0} AS a WHERE EXISTS (SELECT 1 FROM r {1} AS b WHERE b.k = a.k AND b.v > 1)", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in a if any(same_key(x, y) and less(1, y[2]) for y in b)),
    ),
    "not exists, by an inequality": JoinModel(
        "SELECT k, v FROM s {0} AS a WHERE NOT EXISTS (SELECT * FROM r {1} WHERE k = a.k AND v > a.v)", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in alone(a, b, lambda x, y: same_key(x, y) and less(x[2], y[2]))),
    ),
    "exists, of an aggregate: always": JoinModel(
        "SELECT k FROM s {0} WHERE EXISTS (SELECT count(*) FROM r {1} WHERE v > 1)", ("s", "r"), lambda a, b: Counter((x[1],) for x in a),
    ),
    "in an aggregate": JoinModel(
        "SELECT k FROM s {0} WHERE v IN (SELECT count(*) FROM r {1})", ("s", "r"),
        lambda a, b: Counter((x[1],) for x in a if x[2] == len(b)),
    ),
    "in a join by USING": JoinModel(
        "SELECT k FROM s {0} WHERE k IN (SELECT k FROM r {1} AS a JOIN s {2} AS b USING (k))", ("s", "r", "s"),
        lambda a, b, c: Counter((x[1],) for x in a if any(same_key(x, y) for y in b) and any(same_key(x, z) for z in c)),
    ),
    "exists at all": JoinModel(
        "SELECT k FROM s {0} WHERE EXISTS (SELECT k FROM r {1})", ("s", "r"), lambda a, b: Counter((x[1],) for x in a if b),
    ),
    "of three": JoinModel(
        "SELECT a.v, c.k FROM s {0} AS a JOIN r {1} AS b ON a.k = b.k JOIN s {2} AS c ON c.v = b.v", ("s", "r", "s"),
        lambda a, b, c: Counter((x[2], z[1]) for x, y in pairs(a, b, same_key) for z in c if equal(z[2], y[2])),
    ),
    "value of another query": JoinModel(
        "SELECT a.k, a.v, (SELECT max(v) FROM r {1}) AS m FROM s {0} AS a", ("s", "r"),
        lambda a, b: Counter((x[1], x[2], max(known(b), default=None)) for x in a),
    ),
    "value for each row": JoinModel(
        "SELECT a.v, (SELECT count(*) + 1 FROM r {1} AS b WHERE b.k = a.k AND b.v > 0) AS n FROM s {0} AS a "
        "WHERE a.v >= (SELECT min(c.v) FROM r {2} AS c WHERE a.k = c.k)", ("s", "r", "r"),
        lambda a, b, c: Counter(
            (x[2], 1 + sum(same_key(x, y) and less(0, y[2]) for y in b))
            for x in a
            if x[2] is not None and x[2] >= min(known([z for z in c if same_key(x, z)]), default=99)
        ),
    ),
    "groups above a value": JoinModel(
        "SELECT k, count(*) AS n, (SELECT sum(v) FROM r {1} WHERE r.k = s.k) AS w FROM s {0} GROUP BY k "
        "HAVING count(*) > (SELECT count(*) FROM r {2})", ("s", "r", "r"),
        lambda a, b, c: Counter(
            (k, n, sum(known([y for y in b if equal(k, y[1])])) if known([y for y in b if equal(k, y[1])]) else None)
            for k, n in Counter(x[1] for x in a).items()
            if n > len(c)
        ),
    ),
    "above one value": JoinModel(
        "SELECT k, v FROM s {0} WHERE v * 2 > (SELECT sum(v) FROM r {1})", ("s", "r"),
        lambda a, b: Counter((x[1], x[2]) for x in a if known(b) and less(sum(known(b)), x[2] and 2 * x[2])),
    ),
    "between two values": JoinModel(
        "SELECT v, count(*) AS n FROM s {0} WHERE v >= (SELECT min(v) FROM r {1}) AND (SELECT max(v) FROM r {1} HAVING count(*) > 1) > v "
        "AND k IS NOT NULL GROUP BY v", ("s", "r"),
        lambda a, b: Counter(
            Counter(
                x[2] for x in a if None not in x and len(b) > 1 and known(b) and min(known(b)) <= x[2] < max(known(b))
            ).items()
        ),
    ),
    "not above the value of its key": JoinModel(
        "SELECT a.k, a.v FROM s {0} AS a WHERE a.v <= (SELECT max(b.v) - 1 FROM r {1} AS b WHERE b.k = a.k)", ("s", "r"),
        lambda a, b: Counter(
            (x[1], x[2]) for x in a if x[2] is not None and x[2] < max(known([y for y in b if same_key(x, y)]), default=-99)
        ),
    ),
    "left, where NULLs fail": JoinModel(
        "SELECT a.k, a.v, b.v AS w FROM s {0} AS a LEFT JOIN r {1} AS b ON a.k = b.k AND b.v > 0 WHERE a.v + b.v < 4", ("s", "r"),
        lambda a, b: Counter((x[1], x[2], y[2]) for x, y in pairs(a, b, same_key) if less(0, y[2]) and less(plus(x[2], y[2]), 4)),
    ),
    "exists or else": JoinModel(
        "SELECT v, EXISTS (SELECT 1 FROM r {2}) AS some FROM s {0} AS a "
        "WHERE v = 1 OR NOT EXISTS (SELECT 1 FROM r {1} AS b WHERE b.k = a.k)", ("s", "r", "r"),
        lambda a, b, c: Counter((x[2], bool(c)) for x in a if x[2] == 1 or not any(same_key(x, y) for y in b)),
    ),
    "in a constant as a value": JoinModel(
        "SELECT v FROM s {0} AS a WHERE NOT a.k IN (SELECT 'a' FROM r {1}) OR v = 1", ("s", "r"),
        lambda a, b: Counter((x[2],) for x in a if x[2] == 1 or is_in(x[1], ["a" for _ in b]) is False),
    ),
    "in as a value, by the same name": JoinModel(
        "SELECT v, v IN (SELECT v FROM r {1}) AS there FROM s {0}", ("s", "r"),
        lambda a, b: Counter((x[2], is_in(x[2], [y[2] for y in b])) for x in a),
    ),
    "as of": JoinModel(
        "SELECT a.k, a.v, b.v AS w FROM s {0} AS a ASOF JOIN r {1} AS b MATCH_CONDITION (a.ts >= b.ts) ON a.k = b.k", ("s", "r"),
        lambda a, b: Counter((x[1], x[2], y[2]) for x, y in nearest(a, b, lambda x, y: same_key(x, y) and x[0] >= y[0], last=True)),
    ),
    "as of, left": JoinModel(
        "SELECT a.k, a.v, b.ts, b.v AS w FROM s {0} AS a LEFT ASOF JOIN r {1} AS b MATCH_CONDITION (b.ts < a.ts) ON a.k = b.k", ("s", "r"),
        lambda a, b: Counter(
            (x[1], x[2], y and at(y[0]), y and y[2])
            for x, y in nearest(a, b, lambda x, y: same_key(x, y) and x[0] > y[0], last=True, keeps=True)
        ),
    ),
    "as of, the next": JoinModel(
        "SELECT a.v, b.k, b.v AS w FROM s {0} AS a ASOF JOIN r {1} AS b MATCH_CONDITION (a.ts <= b.ts)", ("s", "r"),
        lambda a, b: Counter((x[2], y[1], y[2]) for x, y in nearest(a, b, lambda x, y: x[0] <= y[0], last=False)),
    ),
    "as of, ties by a column that is not shown": JoinModel(
        "SELECT k, b.v AS w FROM s {0} AS a ASOF LEFT JOIN (SELECT ts, v % 2 AS odd, v, k FROM r {1} WHERE v <> 3) AS b "
        "MATCH_CONDITION (a.ts < b.ts) USING (k)", ("s", "r"),
        lambda a, b: Counter(
            (x[1], y and y[3])
            for x, y in nearest(
                a, [(y[0], y[2] % 2, y[1], y[2]) for y in b if y[2] not in (None, 3)],
                lambda x, y: equal(x[1], y[2]) and x[0] < y[0], last=False, keeps=True,
            )
        ),
    ),
    "as of, then grouped": JoinModel(
        "SELECT b.v, count(*) AS n FROM s {0} AS a ASOF JOIN r {1} AS b MATCH_CONDITION (a.v >= b.v) ON b.k <> 'a' AND a.v > 0 "
        "GROUP BY b.v", ("s", "r"),
        lambda a, b: Counter(
            Counter(
                max(values)
                for x in a
                if less(0, x[2]) and (values := [y[2] for y in b if y[1] not in (None, "a") and y[2] is not None and y[2] <= x[2]])
            ).items()
        ),
    ),
    "zipper": JoinModel(
        f"SELECT {BOTH} FROM s ZIPPER JOIN r WITHIN 3 MICROSECONDS ON s.k = r.k", ("s", "r"),
        lambda t, a, b: shown(zipped(t, a, b, 3, same_key)), has_windows=False,
    ),
    "zipper, told once": JoinModel(
        f"SELECT ISTREAM({BOTH}) FROM s ZIPPER JOIN r WITHIN 3 MICROSECONDS ON s.k = r.k", ("s", "r"),
        lambda t, a, b: shown(zipped(t, a, b, 3, same_key, told=True)), has_windows=False,
    ),
    "zipper of one instant": JoinModel(
        f"SELECT {BOTH} FROM s ZIPPER JOIN r WITHIN 0 SECONDS", ("s", "r"),
        lambda t, a, b: shown(zipped(t, a, b, 0, lambda x, y: True)), has_windows=False,
    ),
    "zipper with a rest": JoinModel(
        "SELECT a.v, b.v AS w FROM (SELECT * FROM s WHERE v > 0) AS a ZIPPER JOIN r AS b WITHIN 2 MICROSECONDS ON a.v < b.v "
        "WHERE b.k IS NULL", ("s", "r"),
        lambda t, a, b: Counter(
            (x and x[2], y and y[2])
            for x, y in zipped(t, [x for x in a if less(0, x[2])], b, 2, lambda x, y: less(x[2], y[2]))
            if y is None or y[1] is None
        ),
        has_windows=False,
    ),
    "zipper with common columns": JoinModel(
        "SELECT k, s.v, r.v AS w FROM s ZIPPER JOIN r WITHIN 4 MICROSECONDS USING (k)", ("s", "r"),
        lambda t, a, b: Counter(
            (x[1] if x and x[1] is not None else y and y[1], x and x[2], y and y[2]) for x, y in zipped(t, a, b, 4, same_key)
        ),
        has_windows=False,
    ),
    "in as a value": JoinModel(
        "SELECT a.v, a.v IN (SELECT v FROM r {1} AS b WHERE b.k <=> 'a') AS there FROM s {0} AS a", ("s", "r"),
        lambda a, b: Counter((x[2], is_in(x[2], [y[2] for y in b if y[1] == "a"])) for x in a),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    windows: tuple[WindowModel, ...]
    slack: tuple[int, int]
    partition: tuple[str, str]
    engine: Engine
    history: list[tuple[str, Action]]  # the stream that an insertion goes to


def cases() -> st.SearchStrategy[Case]:
    steps = actions(most=10).flatmap(lambda found: st.tuples(*(st.tuples(st.sampled_from("sr"), st.just(one)) for one in found)))
    return st.builds(
        Case,
        name=st.sampled_from(sorted(JOINS)),
        windows=st.tuples(*[st.sampled_from(WINDOWS)] * 3),
        slack=st.tuples(st.integers(0, 4), st.integers(0, 4)),
        partition=st.tuples(*[st.sampled_from(["", " PARTITION BY k", " PARTITION BY v"])] * 2),
        engine=engines(),
        history=steps.map(list),
    )


@given(case=cases())
@settings(max_examples=examples(140))
def test_pairs_equal_recomputation_at_every_instant(case: Case) -> None:
    join = JOINS[case.name]
    models = dict(zip("sr", map(StreamModel, case.slack), strict=True))
    with running(case.engine, models) as run:
        for name, slack, partition in zip("sr", case.slack, case.partition, strict=True):
            run.db.execute(DDL.format(name=name, slack=slack, partition=partition))
        run.db.execute("CREATE QUERY q AS " + join.sql.format(*(window.sql for window in case.windows)))
        for stream, action in case.history:
            run.do(action, stream)
        changes = changes_of(run.db.query("q").changes())
        assert_netted(changes)
        frontier = min(models[stream].frontier for stream in join.streams)
        assert all(instant <= max(frontier, BEGINNING) for instant, _, _ in changes)
        for t in range(FIRST, min(frontier, LAST) + 1):
            assert contents_at(changes, t) == join.expected(models, case.windows, t), t
        assert Counter(tuple(row.values()) for row in run.db.query("q").result().to_pylist()) == contents_at(
            changes, max(frontier, BEGINNING)
        )
