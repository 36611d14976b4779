"""Output delay: from when a change could be known to when its tick was committed, by a clock that the tests move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inline import open_inline
from millstream.api import Database
from millstream.core.signed_batch import SignedBatch
from millstream.runtime import output_delay, tick
from millstream.runtime.output_delay import FrontierMoves, OutputDelay, count_released, releases
from unit.runtime.manual_clock import ManualClock

SECOND = 1_000_000
STREAM = "CREATE STREAM {} (ts TIMESTAMP, v INT) TIMESTAMP BY ts"


@pytest.fixture
def db(tmp_path: Path, clock: ManualClock) -> Iterator[Database]:
    with open_inline(tmp_path, clock=clock.clock) as database:
        database.execute(STREAM.format("s"))
        yield database


def delay(db: Database, name: str) -> Any:
    return db.query(name).stats()["output_delay"]


def test_nothing_has_changed_yet(db: Database) -> None:
    db.execute("CREATE QUERY q AS SELECT v FROM s [RANGE 5 SECONDS]")
    db.flush()
    assert delay(db, "q") is None


def test_each_change_counts_from_the_rows_that_let_it_be_known(db: Database, clock: ManualClock) -> None:
    db.execute("CREATE QUERY q AS SELECT ISTREAM(v) FROM s [NOW]")
    db.insert("s", [(10 * SECOND, 1)])
    clock.seconds = 1.0
    db.insert("s", [(20 * SECOND, 2), (20 * SECOND, 3)])  # now 10 s has come
    clock.seconds = 5.0
    db.insert("s", [(30 * SECOND, 4)])  # and now 20 s
    clock.seconds = 6.0
    db.flush()
    # one change after 5 s and two after 1 s each; the last row waits, as its instant may go on
    assert delay(db, "q") == {"mean": pytest.approx((5 + 1 + 1) / 3), "max": 5.0}
    assert db.query("q").stats()["waiting"] == 1
    clock.seconds = 8.0
    db.advance("s", 30 * SECOND)
    clock.seconds = 8.5
    db.flush()
    assert delay(db, "q") == {"mean": pytest.approx((5 + 1 + 1 + 0.5) / 4), "max": 5.0}


def test_expiries_count_as_well(db: Database, clock: ManualClock) -> None:
    db.execute("CREATE QUERY q AS SELECT v FROM s [RANGE 5 SECONDS]")
    db.insert("s", [(0, 1)])
    db.advance(0)
    db.flush()
    assert delay(db, "q") == {"mean": 0.0, "max": 0.0}
    clock.seconds = 100.0
    db.advance(6 * SECOND)
    clock.seconds = 103.0
    db.flush()
    assert delay(db, "q") == {"mean": 1.5, "max": 3.0}


def test_the_last_of_several_streams_decides(db: Database, clock: ManualClock) -> None:
    db.execute(STREAM.format("t"))
    db.execute("CREATE QUERY q AS SELECT s.v FROM s [RANGE 1 MINUTE], t [RANGE 1 MINUTE] WHERE s.v = t.v")
    db.insert("s", [(SECOND, 7)])
    db.insert("t", [(SECOND, 7)])
    db.advance("s", 50 * SECOND)
    clock.seconds = 4.0
    db.advance("t", 50 * SECOND)
    clock.seconds = 6.0
    db.flush()
    assert delay(db, "q") == {"mean": 2.0, "max": 2.0}


def test_a_query_over_a_query_counts_from_the_stream(db: Database, clock: ManualClock) -> None:
    db.execute("CREATE QUERY q AS SELECT v FROM s [RANGE 1 MINUTE]")
    db.execute("CREATE QUERY r AS SELECT v + 1 AS w FROM q")
    db.insert("s", [(SECOND, 7)])
    db.advance("s", SECOND)
    clock.seconds = 2.0
    db.flush()
    assert delay(db, "q") == delay(db, "r") == {"mean": 2.0, "max": 2.0}


def test_over_a_relation_the_first_stream_decides(db: Database, clock: ManualClock) -> None:
    db.execute(STREAM.format("t"))
    db.execute("CREATE RELATION r (v INT)")
    db.execute("CREATE QUERY q AS SELECT v FROM r")
    db.advance("s", 10 * SECOND)
    db.flush()
    db.insert("r", [(1,)])  # one microsecond later
    clock.seconds = 1.0
    db.advance("s", 20 * SECOND)
    clock.seconds = 3.0
    db.advance("t", 30 * SECOND)
    clock.seconds = 4.0
    db.flush()
    assert delay(db, "q") == {"mean": 3.0, "max": 3.0}


def test_a_query_that_catches_up_counts_from_its_creation(db: Database, clock: ManualClock) -> None:
    db.insert("s", [(i * SECOND, i) for i in range(10)])
    clock.seconds = 100.0
    db.execute("CREATE QUERY q AS SELECT v FROM s [RANGE 1 HOUR]")
    assert delay(db, "q") == {"mean": 0.0, "max": 0.0}, "its first answer is there when CREATE QUERY returns"


def test_opened_again_it_counts_from_there(tmp_path: Path, clock: ManualClock) -> None:
    with open_inline(tmp_path, clock=clock.clock) as db:
        db.execute(STREAM.format("s"))
        db.execute("CREATE QUERY q AS SELECT ISTREAM(v) FROM s [NOW]")
        db.insert("s", [(SECOND, 1), (2 * SECOND, 2)])
        db.query("q").stop()  # so that closing does not do it
    clock.seconds = 1000.0
    with open_inline(tmp_path, clock=clock.clock) as db:
        clock.seconds = 1003.0
        db.flush()
        assert delay(db, "q") == {"mean": 3.0, "max": 3.0}


def test_a_backlog_in_several_ticks(db: Database, clock: ManualClock) -> None:
    """Each tick asks its own clock; here every tick takes a second."""
    db.execute("CREATE QUERY q AS SELECT ISTREAM(v) FROM s [NOW]")
    db.advance(-SECOND)
    db.flush()
    for i in range(5):
        db.insert("s", [(i * SECOND, i)])
    engine = db._engine
    committed = engine.rounds._commit

    def slowly(outcomes: Any) -> None:
        clock.seconds += 1.0
        committed(outcomes)

    with patch.object(tick, "MOST_ROWS", 2), patch.object(engine.rounds, "_commit", slowly):
        db.flush()
    assert db.query("q").stats()["changes"] == 4
    assert delay(db, "q") == {"mean": pytest.approx((1 + 1 + 2 + 2) / 4), "max": 2.0}


@pytest.mark.parametrize(("expiry", "delays"), [("negative", [0.25, 0, 0.5, 0.5]), ("input_triggered", [0.25, 8.5, 0.5, 0.5])])
def test_rows_that_stay_because_nobody_tells_the_time(expiry: str, delays: list[float], db: Database, clock: ManualClock) -> None:
    """From the end of the row, which comes with `advance`, to when the answer shows it: with the next row, 8 s later."""
    db.execute(f"CREATE QUERY q AS SELECT v FROM s [RANGE 5 SECONDS] WITH EXPIRY {expiry}")
    db.insert("s", [(10 * SECOND, 1)])
    db.advance("s", 10 * SECOND)
    clock.seconds = 0.25
    db.flush()
    clock.seconds = 1.0
    db.advance("s", 18 * SECOND)
    db.flush()
    clock.seconds = 9.0
    db.insert("s", [(30 * SECOND, 2), (30 * SECOND, 3)])
    db.advance("s", 30 * SECOND)
    clock.seconds = 9.5
    db.flush()
    changes = delays if expiry == "negative" else [*delays, 0.5]  # that the row is taken back is a change of 30 s, too
    assert delay(db, "q") == {"mean": pytest.approx(sum(changes) / len(changes)), "max": max(delays)}


# --- the parts ----------------------------------------------------------------------------------

frontiers = st.lists(st.integers(0, 30), min_size=1, max_size=8, unique=True).map(sorted)


def noted(moves: list[tuple[int, float]]) -> FrontierMoves:
    found = FrontierMoves()
    for frontier, seconds in moves:
        found.note(frontier, seconds)
    return found


@given(
    st.lists(frontiers, min_size=1, max_size=3), st.integers(-1, 30), st.lists(st.integers(0, 30), max_size=20),
    st.lists(st.integers(0, 30), max_size=5), st.booleans(),
)  # fmt: skip
def test_between_two_moves_all_changes_are_alike(
    streams: list[list[int]], at: int, instants: list[int], ends: list[int], any_will_do: bool
) -> None:
    """What the pieces count equals what the definition says of each change by itself."""
    moves = [[(frontier, float(10 * i + s)) for i, frontier in enumerate(stream)] for s, stream in enumerate(streams)]
    frontier = (max if any_will_do else min)(stream[-1] for stream in streams)
    changes = np.sort(np.array([t for t in instants if at < t <= frontier], np.int64))
    if frontier <= at:
        return
    late = np.array([t for t in ends if t <= frontier], np.int64)
    found = releases([noted(each) for each in moves], -1 if len(late) else at, frontier, 5.0, 1e9, any_will_do=any_will_do)
    counted = OutputDelay()
    parts = [SignedBatch.arrivals(half, pa.RecordBatch.from_pydict({"x": half})) for half in np.split(changes, [len(changes) // 2])]
    counted.count(1000.0, found.since, count_released(parts, [late[1:], late[:1]], found.upto))

    def since(t: int) -> float:
        reached = [min((seconds for move, seconds in each if move >= t), default=1e9) for each in moves]
        return max((min if any_will_do else max)(reached), 5.0)

    delays = [1000.0 - since(t) for t in (*changes.tolist(), *late.tolist())]
    assert counted.changes == len(delays)
    assert counted.total == pytest.approx(sum(delays))
    assert counted.greatest == max(delays, default=0.0)


def test_many_moves_become_fewer_and_older() -> None:
    with patch.object(output_delay, "_MOST_MOVES", 4):
        moves = noted([(frontier, float(frontier)) for frontier in range(1, 6)])
    found, seconds = moves.arrays()
    assert found.tolist() == [2, 4, 5]
    assert seconds.tolist() == [1.0, 3.0, 5.0]


def test_the_last_move_is_never_forgotten() -> None:
    moves = noted([(1, 1.0), (2, 2.0), (3, 3.0)])
    moves.forget(1)
    assert moves.arrays()[0].tolist() == [2, 3]
    moves.forget(9)
    assert moves.arrays()[0].tolist() == [3]
    moves.note(3, 4.0)
    assert moves.arrays()[1].tolist() == [3.0], "a frontier that stands still does not move"
