"""One sink's troubles are its own: it retries, and neither ticks nor other sinks nor closing wait for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inline import InlineRunner, open_inline
from millstream.api import Database
from millstream.core.errors import ConfigInvalid
from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.runtime.sinks import sinks
from millstream.runtime.sinks.delivery import Delivery
from millstream.runtime.sinks.sink import SinkTarget, note_of
from millstream.state.changelog import Changelog
from millstream.state.location import Location
from millstream.state.sealed import read_sealed_json, sealed_json
from unit.sinks.workload import DDL, QUERY

SOON_S = 20.0
"""Far more than anything here takes; a test that fails takes that long to say so."""


class MemorySink:
    """Holds what it is given; `before` may fail or wait."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self.batches: list[tuple[int, Micros]] = []
        self.closed = 0
        self.before = before

    def position(self) -> Micros:
        return self.batches[-1][1] if self.batches else NEVER_BEFORE

    def deliver(self, changes: pa.Table, batch: Micros) -> None:
        self.before()
        self.batches.append((changes.num_rows, batch))

    def close(self) -> None:
        self.closed += 1


def read(since: Micros, upto: Micros) -> tuple[pa.Table, Micros]:
    """A change at every instant, ten at a time."""
    since, upto = max(since, -1), min(upto, max(since, -1) + 10)
    return pa.table({"instant": list(range(since + 1, upto + 1))}), upto


class Pauses:
    """Instead of waiting: notes how long, and goes on when it is let."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.asked, self.let = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.asked.release()
        assert self.let.acquire(timeout=SOON_S)


def test_batches_are_bounded_and_follow_one_another() -> None:
    sink = MemorySink()
    delivery = Delivery("o", lambda: sink, read)
    delivery.follow(24)
    assert delivery.await_delivered()
    assert sink.batches == [(10, 9), (10, 19), (5, 24)]
    delivery.follow(25)
    assert delivery.await_delivered()
    assert sink.batches[-1] == (1, 25)
    delivery.stop()
    assert delivery.join(SOON_S)
    assert sink.closed == 1


def test_a_failing_sink_retries_with_growing_pauses_and_recovers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    pauses, broken = Pauses(), [True]

    def before() -> None:
        if broken[0]:
            raise OSError("disk of user:hunter2@host is full")

    sink = MemorySink(before)
    delivery = Delivery("o", lambda: sink, read, lambda: ["hunter2"], pauses)
    delivery.follow(5)
    for _ in range(9):
        assert pauses.asked.acquire(timeout=SOON_S)
        assert (delivery.state, delivery.error) == ("retrying", "OSError: disk of user:***@host is full")
        assert not delivery.await_delivered()  # at once
        broken[0] = len(pauses.seconds) < 9
        pauses.let.release()
    with delivery._changed:
        assert delivery._changed.wait_for(lambda: delivery.state == "running", SOON_S)
    assert delivery.await_delivered()
    assert pauses.seconds == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert (delivery.error, sink.batches) == (None, [(6, 5)])
    assert sink.closed == 9  # opened anew each time
    assert "hunter2" not in caplog.text
    delivery.stop()
    assert delivery.join(SOON_S)


def test_what_is_wrong_in_the_statement_stops_the_sink() -> None:
    def refuse() -> MemorySink:
        raise ConfigInvalid("not yours")

    delivery = Delivery("o", refuse, read)
    delivery.follow(5)
    assert not delivery.await_delivered()
    assert delivery.join(SOON_S)
    assert (delivery.state, delivery.error) == ("stopped", "not yours")


def test_a_batch_whose_end_nobody_heard_of_is_found_done() -> None:
    sink = MemorySink()

    class Unheard(MemorySink):
        def deliver(self, changes: pa.Table, batch: Micros) -> None:
            sink.deliver(changes, batch)
            raise ConnectionError("after the commit")

    opened = iter([Unheard(), sink])
    delivery = Delivery("o", lambda: next(opened), read, pause=lambda _: None)
    delivery.follow(5)
    delivery.await_delivered()
    with delivery._changed:
        assert delivery._changed.wait_for(lambda: delivery.delivered == 5, SOON_S)
    assert sink.batches == [(6, 5)]
    delivery.stop()


def test_a_hanging_sink_is_waited_for_once_and_only_so_long() -> None:
    going_on = threading.Event()
    sink = MemorySink(lambda: going_on.wait(SOON_S) or None)  # type: ignore[arg-type,func-returns-value]
    delivery = Delivery("o", lambda: sink, read, patience_s=0.05)
    delivery.follow(5)
    assert not delivery.await_delivered()
    delivery._patience_s = SOON_S
    began = time.monotonic()
    assert not delivery.await_delivered()  # given up, and has done nothing since
    delivery.stop()
    assert not delivery.join(0.01)
    assert time.monotonic() - began < SOON_S / 2
    going_on.set()
    assert delivery.join(SOON_S)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Console sinks hang in their first batch: (it has begun, it may go on)."""
    begun, going_on = threading.Event(), threading.Event()
    real = sinks.open_sink

    def hang() -> None:
        begun.set()
        going_on.wait()

    def opened(target: SinkTarget, location: object) -> object:
        return MemorySink(hang) if target.format == "console" else real(target, location)  # type: ignore[arg-type]

    monkeypatch.setattr(sinks, "open_sink", opened)
    return begun, going_on


def test_ticks_other_sinks_and_close_do_not_wait_for_one_that_hangs(
    tmp_path: Path, hanging: tuple[threading.Event, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, going_on = hanging
    monkeypatch.setattr(sinks, "CLOSE_S", 0.05)
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK stuck FROM q INTO 'console'")
        db.execute(f"CREATE SINK o FROM q INTO 'parquet' OPTIONS (path '{tmp_path / 'out'}')")
        stuck, healthy = (delivery for _, delivery in db._statements.sinks)
        stuck._patience_s = 0.05
        for t in range(5):
            db.insert("s", [(t, "a", t)])
            db.flush()
        assert begun.wait(SOON_S)
        assert healthy.delivered == db.query("q").frontier == 3
        shown = {row["name"]: row for row in db.execute("SHOW SINKS").to_pylist()}  # type: ignore[union-attr]
        # at the first flush the frontier was just before the first row: there was nothing to deliver up to there
        assert (shown["stuck"]["delivered"], shown["stuck"]["lag"]) == ("1969-12-31T23:59:59.999999Z", 4e-06)
        assert (shown["o"]["delivered"], shown["o"]["lag"]) == ("1970-01-01T00:00:00.000003Z", 0.0)
    going_on.set()
    assert stuck.join(SOON_S)


def test_sinks_follow_the_ticker(tmp_path: Path) -> None:
    with Database(Location.open(tmp_path / "db", buckets=2), InlineRunner(), tick_interval=0.01) as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'parquet' OPTIONS (path '{tmp_path / 'out'}')")
        db.insert("s", [(1, "a", 1), (2, "a", 2)])
        ((_, delivery),) = db._statements.sinks
        with delivery._changed:
            assert delivery._changed.wait_for(lambda: delivery.delivered == 1, SOON_S)
    (path,) = (tmp_path / "out").glob("changes-*")
    assert pq.read_table(path)["k"].to_pylist() == ["a"]


def test_a_sink_can_be_dropped_while_it_delivers(tmp_path: Path, hanging: tuple[threading.Event, threading.Event]) -> None:
    begun, going_on = hanging
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK stuck FROM q INTO 'console'")
        ((_, delivery),) = db._statements.sinks
        delivery._patience_s = 0.05
        db.insert("s", [(1, "a", 1), (2, "a", 2)])
        db.flush()
        assert begun.wait(SOON_S)
        db.execute("DROP SINK stuck; DROP QUERY q")
        assert db.execute("SHOW SINKS").num_rows == 0
        going_on.set()
        assert delivery.join(SOON_S)
        assert (delivery.state, delivery.error) == ("stopped", None)


def test_a_sink_that_cannot_be_reached_any_more_does_not_keep_the_database_from_opening(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY}; CREATE SINK o FROM q INTO 'parquet' OPTIONS (path '{out}')")
        db.insert("s", [(1, "a", 1), (2, "a", 2)])
        db.flush()
    for path in out.iterdir():
        path.unlink()
    out.rmdir()
    out.write_text("a file is in the way")
    with open_inline(tmp_path / "db") as db:
        db.flush()
        (shown,) = db.execute("SHOW SINKS").to_pylist()  # type: ignore[union-attr]
        assert shown["state"] in ("stopped", "retrying")
        assert "cannot write to" in shown["error"]
        assert db.query("q").changes().num_rows == 1


def test_what_a_sink_has_not_got_is_not_folded(
    tmp_path: Path, hanging: tuple[threading.Event, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Changelog.fold, "__kwdefaults__", {"fewest": 1})
    _, going_on = hanging
    with open_inline(tmp_path / "db") as db:
        db.execute(f"{DDL}; {QUERY.replace('QUERY q', 'QUERY q RETAIN 5 MICROSECONDS')}")
        db.execute("CREATE SINK stuck FROM q INTO 'console'")
        db.execute(f"CREATE SINK o FROM q INTO 'parquet' OPTIONS (path '{tmp_path / 'out'}')")
        next(delivery for entry, delivery in db._statements.sinks if entry.name == "stuck")._patience_s = 0.05
        log = db._engine.queries["q"].changelog

        def tick(t: int) -> None:
            db.insert("s", [(t, "a", t)])
            db.flush()
            db._engine.maintain()

        for t in range(10, 100, 10):
            tick(t)
        assert log.folded_to == NEVER_BEFORE
        # also who comes while the past is being added up is in time
        assert not log.fold(60, lambda: NEVER_BEFORE, is_stream=False)
        whole = db.query("q").changes().to_pylist()
        db.execute("DROP SINK stuck")
        going_on.set()
        for t in range(100, 150, 10):
            tick(t)
        assert log.folded_to > 80
        # a healthy sink had everything by then, one by one; a new one begins with the answer where the past was folded
        parts = [pq.read_table(path) for path in sorted((tmp_path / "out").glob("changes-*"))]
        assert pa.concat_tables(parts).to_pylist()[: len(whole)] == whole
        db.execute(f"CREATE SINK young FROM q INTO 'parquet' OPTIONS (path '{tmp_path / 'young'}')")
        db.flush()
        (young,) = (tmp_path / "young").glob("changes-*")
        assert pq.read_table(young).to_pylist() == db.query("q").changes().to_pylist()
        assert len(db.query("q").changes()) < len(whole)
    # a target that was set back cannot be served any more, and says so
    note = tmp_path / "young" / "_millstream.json"
    note.write_bytes(sealed_json(note_of(read_sealed_json(note, lambda written: str(written["sink"])), 20)))
    young.unlink()
    with open_inline(tmp_path / "db") as db:
        db.flush()
        shown = {row["name"]: row for row in db.execute("SHOW SINKS").to_pylist()}  # type: ignore[union-attr]
        assert shown["o"]["state"] == "running"
        assert shown["young"]["state"] == "retrying"
        assert "keeps its past only from" in shown["young"]["error"]
