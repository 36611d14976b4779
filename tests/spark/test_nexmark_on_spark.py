"""Nexmark through real Spark jobs: many queries at once over the same streams, opened again in the middle."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from millstream.api import Database
from nexmark.generator import generate
from nexmark.queries import QUERIES, SCHEMA, side_input
from property.test_nexmark import assert_right, insert, last_instant

EVENTS = 20_000
# each kind of operator once: row by row, joins, groups of groups, pieces of time, OVER, first rows, queries over queries, a relation
NAMES = ["q1", "q3", "q4", "q5", "q6", "q8", "q9", "q11", "q13", "q15", "q18", "q19", "q21"]


def test_many_queries_at_once_are_what_batch_sql_says(open_database: Callable[..., Database]) -> None:
    events = generate(EVENTS, seed=11, events_per_second=400, granularity_ms=10)
    db = open_database()
    db.execute(SCHEMA)
    db.insert("side_input", side_input())
    for name in NAMES:
        db.execute(QUERIES[name])
    for first, last in pairwise([0, 4321, 11_111, EVENTS]):
        insert(db, events.part(first, last))
        db.flush()
        if first == 4321:
            db.close()
            db = open_database()
    db.advance(last_instant(events))
    db.flush()
    instants = np.linspace(int(events.bid["ts"][0].value), last_instant(events), 5).astype(np.int64).tolist()
    for name in NAMES:
        assert_right(db, name, events, instants)
