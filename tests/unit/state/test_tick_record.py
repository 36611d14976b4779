from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from millstream.core.errors import DataDamaged, InternalError
from millstream.state.location import Location
from millstream.state.output_file import OutputFile
from millstream.state.tick_record import TickLog, TickRecord
from unit.state.crash import run_until_killed


def record(tick: int) -> TickRecord:
    return TickRecord(
        tick,
        frontiers={"hot": tick * 10},
        stream_versions={"trades": tick + 1},
        outputs={"hot": [OutputFile("a.parquet", None, 3, 100, 5, tick)]},
        snapshots={"hot": [f"{tick}-0.npz"]},
        plan_version=2,
    )


def test_ticks_are_there_after_reopening(location: Location) -> None:
    ticks = TickLog.open(location)
    assert ticks.last is None
    for tick in (1, 2, 10):
        ticks.append(record(tick))
    again = TickLog.open(location)
    assert again.records == tuple(record(tick) for tick in (1, 2, 10)) == ticks.records
    assert again.last == record(10)


@pytest.mark.parametrize("tick", [4, 5])
def test_a_tick_is_committed_once(location: Location, tick: int) -> None:
    ticks = TickLog.open(location)
    ticks.append(record(5))
    with pytest.raises(InternalError, match=f"tick {tick}"):
        ticks.append(record(tick))
    assert TickLog.open(location).records == (record(5),)


def test_two_logs_cannot_commit_the_same_tick(location: Location) -> None:
    first, second = TickLog.open(location), TickLog.open(location)
    first.append(record(1))
    with pytest.raises(InternalError, match="tick 1"):
        second.append(record(1))


def test_after_an_open_everything_kept_may_be_unpublished(location: Location) -> None:
    ticks = TickLog.open(location)
    for tick in range(4):
        ticks.append(record(tick))
    ticks.mark_published(2)
    assert [kept.tick for kept in ticks.unpublished()] == [3]
    assert [kept.tick for kept in TickLog.open(location).unpublished()] == [0, 1, 2, 3]


def test_pruning_keeps_the_last_and_what_is_not_published(location: Location) -> None:
    ticks = TickLog.open(location)
    for tick in range(6):
        ticks.append(record(tick))
    assert ticks.prune(keep_from=4) == 0
    ticks.mark_published(2)
    assert ticks.prune(keep_from=4) == 3
    ticks.mark_published(5)
    assert ticks.prune(keep_from=100) == 2
    assert [kept.tick for kept in TickLog.open(location).records] == [5]
    assert ticks.last == record(5)


def test_a_damaged_record_is_named(location: Location) -> None:
    TickLog.open(location).append(record(1))
    (location.tick_dir / "000000001.json").write_text("{}")
    with pytest.raises(DataDamaged, match=r"000000001\.json"):
        TickLog.open(location)


@pytest.mark.parametrize(
    ("fault", "committed"),
    [("tick.before_commit:2", 1), ("atomic.before_link:2", 1), ("atomic.after_link:2", 2), ("tick.after_commit:2", 2)],
)
def test_a_crash_leaves_the_tick_before_or_after(tmp_path: Path, fault: str, committed: int) -> None:
    run_until_killed(
        tmp_path,
        fault,
        """
        from millstream.state.tick_record import TickLog, TickRecord
        ticks = TickLog.open(location)
        for tick in (1, 2, 3):
            ticks.append(TickRecord(tick, {}, {}))
        """,
    )
    with Location.open(tmp_path, buckets=2) as location:
        ticks = TickLog.open(location)
        assert ticks.last is not None
        assert ticks.last.tick == committed
        ticks.append(TickRecord(committed + 1, {}, {}))
        assert not list(location.tick_dir.glob(".tmp-*"))


def test_a_record_that_is_another_ones_is_damaged(location: Location) -> None:
    """Its checksum is right; what it says would be taken for a tick that was different."""
    ticks = TickLog.open(location)
    for tick in (1, 2, 3):
        ticks.append(record(tick))
    shutil.copy(location.tick_dir / "000000001.json", location.tick_dir / "000000002.json")
    with pytest.raises(DataDamaged, match=r'000000002\.json" is damaged: it is that of tick 1'):
        TickLog.open(location)
