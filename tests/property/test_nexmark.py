"""Nexmark without a JVM: every query against DuckDB's answer over the same events, at many instants.

Events come in pieces cut at random, also between events of one instant; the database is closed and opened again in between.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inline import InlineRunner, open_inline
from millstream.api import Database
from nexmark.check import Check
from nexmark.generator import FIRST_ID, Events, generate
from nexmark.queries import QUERIES, SCHEMA, side_input

EVENTS = 2000
# over midnight for what goes by days, over eight o'clock for what goes by the time of day
STARTS = [datetime(2026, 1, 1, 23, 59, 45, tzinfo=UTC), datetime(2026, 1, 1, 7, 59, 45, tzinfo=UTC)]


def events_of(seed: int, start: datetime = STARTS[0], *, uneven: bool = True) -> Events:
    """Forty seconds, about five events at an instant."""
    return generate(EVENTS, seed=seed, events_per_second=50, start=start, granularity_ms=100, auctions_in_flight=20, uneven=uneven)


@contextmanager
def ran(name: str, events: Events, cuts: list[int], restart: int, rows_a_step: int, directory: str) -> Iterator[Database]:
    """The database after all events, in pieces that end at the cuts; opened again after piece number `restart`."""
    path = str(Path(directory) / "db")
    db = open_inline(path, runner=InlineRunner(rows_a_step))
    try:
        db.execute(SCHEMA)
        if "side_input" in QUERIES[name]:
            db.insert("side_input", side_input())
        db.execute(QUERIES[name].replace("nexmark-q10", f"{directory}/nexmark-q10"))
        db.flush()
        ends = [0, *sorted(cuts), EVENTS]
        for i, (first, last) in enumerate(pairwise(ends)):
            insert(db, events.part(first, last))
            db.flush()
            if i == restart:
                db.close()
                db = open_inline(path, runner=InlineRunner(rows_a_step))
        db.advance(last_instant(events))
        db.flush()
        yield db
    finally:
        db.close()


def insert(db: Database, events: Events) -> None:
    """What is new, and that the time before its last event is over for every stream."""
    for stream, table in events.tables().items():
        if table.num_rows:
            db.insert(stream, table)
    if any(table.num_rows for table in events.tables().values()):
        db.advance(last_instant(events) - 1)


def last_instant(events: Events) -> int:
    return max(int(table["ts"][-1].value) for table in (events.person, events.auction, events.bid) if table.num_rows)


def assert_right(db: Database, name: str, events: Events, instants: list[int]) -> None:
    query, check = db.query(name), Check(events)
    changes = query.changes()
    assert changes.num_rows, "the events give this query nothing to answer"
    assert query.frontier == last_instant(events)
    assert not any(stream.late for stream in db.streams())
    assert not query.is_stream or set(changes["diff"].to_pylist()) == {1}
    for now in instants:
        assert check.differences(name, changes, now, is_stream=query.is_stream) == [], now


@pytest.mark.parametrize("name", QUERIES)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=2)
def test_every_query_is_what_batch_sql_says(name: str, seed: int) -> None:
    rng = np.random.default_rng([seed, int(name[1:])])
    events = events_of(int(rng.integers(2**32)), STARTS[rng.integers(2)], uneven=rng.random() < 0.5)
    cuts = rng.integers(1, EVENTS, rng.integers(2, 7)).tolist()
    restart, rows_a_step = int(rng.integers(3)), int(rng.choice([100, 10**6]))
    instants = [*rng.integers(int(events.bid["ts"][0].value), last_instant(events), 5).tolist(), last_instant(events)]
    with tempfile.TemporaryDirectory() as directory, ran(name, events, cuts, restart, rows_a_step, directory) as db:
        assert_right(db, name, events, instants)


def test_files_of_the_log_hold_every_bid_once(tmp_path: Path) -> None:
    events = events_of(seed=1)
    with ran("q10", events, [500, 1500], 1, 10**6, str(tmp_path)) as db:
        written = pq.read_table(tmp_path / "nexmark-q10")
        assert Check(events).differences("q10", written, last_instant(events), is_stream=True) == []
        assert written.num_rows == db.query("q10").changes().num_rows == events.bid.num_rows


def test_average_selling_price_goes_on_without_bids(tmp_path: Path) -> None:
    """An auction counts from the instant at which it closes, whether or not anything else happens then."""
    second, extra = 1_000_000, {"item": "", "description": "", "initial_bid": 1, "reserve": 1, "category": 10, "extra": ""}
    auctions = [{"id": i, "ts": 0, "expires": (20 + i) * second, "seller": 7, **extra} for i in range(12)]
    with open_inline(tmp_path) as db:
        db.execute(SCHEMA)
        db.execute(QUERIES["q6"])
        db.insert("auction", auctions)
        db.insert("closing", auctions)
        bids = [(i, 1, 100 * i, "", "", second, "") for i in range(12)] + [(3, 1, 10**6, "", "", 24 * second, "")]
        db.insert("bid", bids)
        db.advance(40 * second)
        db.flush()
        answers = [db.query("q6").result(at=at * second).to_pylist() for at in (19, 20, 21, 29, 31)]
    averages = [[row["average"] for row in answer] for answer in answers]
    # at 29 auctions 0 to 9 are closed; at 31 it is 2 to 11; the high bid for 3 came a second too late
    assert averages == [[], [0.0], [50.0], [450.0], [650.0]]


def test_ten_seconds_without_a_bid_end_a_visit(tmp_path: Path) -> None:
    second = 1_000_000
    with open_inline(tmp_path) as db:
        db.execute(SCHEMA)
        db.execute(QUERIES["q11"])
        db.insert("bid", [(1, 5, 100, "", "", ts, "") for ts in (0, 10 * second, 10 * second, 20 * second + 1)])
        db.advance(30 * second)
        db.flush()
        visits = {(row["bids"], row["began"].timestamp(), row["ended"].timestamp()) for row in db.query("q11").result().to_pylist()}
    assert visits == {(3, 0.0, 10.0), (1, 20.000001, 20.000001)}


def test_events_are_in_the_usual_proportion_and_order() -> None:
    events = generate(50_000, seed=3)
    assert (events.person.num_rows, events.auction.num_rows, events.bid.num_rows) == (1000, 3000, 46_000)
    assert events.bid.equals(generate(50_000, seed=3).bid)
    assert not events.bid.equals(generate(50_000, seed=4).bid)
    for table in events.tables().values():
        assert (np.diff(stamps(table, "ts")) >= 0).all()
    opened, registered = stamps(events.auction, "ts"), stamps(events.person, "ts")
    auction, bidder, seller = (table[column].to_numpy() - FIRST_ID for table, column in
                               ((events.bid, "auction"), (events.bid, "bidder"), (events.auction, "seller")))  # fmt: skip
    bids = stamps(events.bid, "ts")
    assert (opened[auction] <= bids).all()
    assert (registered[bidder] <= bids).all()
    assert (registered[seller] <= opened).all()
    in_time = bids <= stamps(events.auction, "expires")[auction]
    assert 0.5 < in_time.mean() < 0.95


def test_parts_of_the_events_make_the_whole() -> None:
    events = generate(1234, seed=5)
    parts = [events.part(first, last) for first, last in ((0, 1), (1, 3), (3, 60), (60, 60), (60, 1234))]
    for name, table in events.tables().items():
        assert pa.concat_tables([part.tables()[name] for part in parts]).equals(table)


def test_the_page_lists_every_query_and_shows_q6_as_it_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "nexmark.md").read_text()
    assert re.findall(r"^\| (q\d+) \|", page, re.MULTILINE)[: len(QUERIES)] == list(QUERIES)
    (shown,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert without_comments(shown) == without_comments(QUERIES["q6"])


def without_comments(sql: str) -> list[str]:
    return re.sub(r"--.*", "", sql).split()


def stamps(table: pa.Table, column: str) -> np.ndarray:
    return table[column].cast(pa.int64()).to_numpy()
