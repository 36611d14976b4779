"""What docs/statistics.md says is so: its queries run, and its tables name what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from inline import open_inline
from millstream.api import Database
from unit.runtime.manual_clock import ManualClock

PAGE = (Path(__file__).parents[3] / "docs" / "statistics.md").read_text()
SECOND = 1_000_000


@pytest.fixture
def db(tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    with open_inline(tmp_path, clock=clock.clock) as database:
        database.execute("CREATE STREAM trades (ts TIMESTAMP, sym STRING, size INT) TIMESTAMP BY ts")
        database.execute("CREATE QUERY volume AS SELECT sym, sum(size) AS n FROM trades [RANGE 1 HOUR] GROUP BY sym")
        for sql in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL):
            database.execute(sql)
        yield database


def feed(db: Database, at: int) -> None:
    db.insert("trades", [(at * SECOND, f"symbol {at}", 1)])
    db.advance(at * SECOND)


def test_the_rates(db: Database, clock: ManualClock) -> None:
    feed(db, 1)
    db.flush()
    clock.seconds = 30.0
    feed(db, 2)
    feed(db, 3)
    db.flush()
    rates = {row["query"]: row["changes_a_second"] for row in db.query("rates").result().to_pylist()}
    assert rates["volume"] == pytest.approx(2 / 60)
    assert set(rates) == {"volume", "rates", "alarms"}


def test_the_alarms(db: Database, clock: ManualClock) -> None:
    feed(db, 1)
    clock.seconds = 5.0
    db.flush()
    assert db.query("alarms").result().num_rows == 0
    feed(db, 2)
    clock.seconds = 12.0
    db.flush()
    (alarm,) = db.query("alarms").result().to_pylist()
    assert alarm == {"query": "volume", "property": "output_delay_max", "value": 7.0}


def test_the_tables_name_what_there_is(db: Database) -> None:
    feed(db, 1)
    db.flush()
    stats = db.query("volume").stats()
    of_query, of_operator, of_source, of_stages = _tables()
    assert of_query == set(stats)
    assert of_stages == set(stats["stages"])
    assert of_operator == set(stats["operators"][0])
    assert of_source == set(stats["sources"][0])


def _tables() -> Iterator[set[str]]:
    """The names in the first column of each table on the page."""
    page, _, _ = PAGE.partition("## Output delay")
    for part in re.split("Of each operator:|Of each source,|## Where the time goes", page):
        yield set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", part, re.MULTILINE))))
