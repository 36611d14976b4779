from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from millstream.core.errors import DataDamaged
from millstream.core.instant import BEGINNING
from millstream.core.schema import INTERVAL, TIMESTAMP, Field
from millstream.core.signed_batch import SignedBatch
from millstream.state.changelog import Changelog, OutputFile, output_columns, write_output
from millstream.state.location import Location
from millstream.state.tick_record import TickLog
from unit.state.crash import run_until_killed

FIELDS = (Field("sym", pa.string()), Field("sum(size)", pa.int64()), Field("sym", pa.string()))
Change = tuple[int, int, str]


def opened(location: Location) -> Changelog:
    return Changelog.open(location, "hot", FIELDS)


def output(log: Changelog, changes: Sequence[Change]) -> OutputFile:
    instants, signs, symbols = zip(*changes, strict=True)
    rows = pa.RecordBatch.from_arrays(
        [pa.array(symbols), pa.array(range(len(symbols)), pa.int64()), pa.array(symbols)], names=["a", "b", "c"]
    )
    return write_output(log.directory, [SignedBatch(np.array(instants, np.int64), np.array(signs, np.int8), rows)], log.columns)


def seen(table: pa.Table) -> list[Change]:
    columns = (table.column(0).cast(pa.int64()).to_pylist(), table.column(1).to_pylist(), table.column(2).to_pylist())
    return list(zip(*columns, strict=True))


def test_changes_come_by_instant_and_diff_with_the_users_names_and_types(location: Location) -> None:
    log = opened(location)
    log.publish(1, [output(log, [(5, 1, "a"), (5, -1, "b"), (9, 1, "c")]), output(log, [(2, 1, "d"), (7, 1, "e")])])
    for log in (log, opened(location)):  # noqa: B020
        table = log.read()
        assert seen(table) == [(2, 1, "d"), (5, -1, "b"), (5, 1, "a"), (7, 1, "e"), (9, 1, "c")]
        assert table.schema.names == ["instant", "diff", "sym", "sum(size)", "sym"]
        assert table.schema.types[:2] == [TIMESTAMP, pa.int8()]


def test_many_changes_of_one_instant_keep_the_order_of_their_file(location: Location) -> None:
    log = opened(location)
    changes = [(7, 1, str(i)) for i in range(500)]
    log.publish(1, [output(log, changes), output(log, [(6, 1, "first"), (7, -1, "before")])])
    assert seen(log.read()) == [(6, 1, "first"), (7, -1, "before"), *changes]


def test_a_range_of_instants_is_open_below_and_closed_above(location: Location) -> None:
    log = opened(location)
    log.publish(1, [output(log, [(t, 1, str(t)) for t in range(5)])])
    log.publish(2, [output(log, [(t, 1, str(t)) for t in range(5, 10)])])
    assert [change[0] for change in seen(log.read(since=2, until=6))] == [3, 4, 5, 6]
    assert [change[0] for change in seen(log.read(since=9))] == []
    assert [change[0] for change in seen(log.read(until=0))] == [0]


def test_the_beginning_of_time_and_microseconds_survive_a_checkpoint(location: Location) -> None:
    log = opened(location)
    log.publish(1, [output(log, [(BEGINNING, 1, "x"), (1_700_000_000_123_457, 1, "y")])])
    log.publish(2, [output(log, [(1_700_000_000_123_458, 1, "z")])])
    log._table.log.checkpoint()
    again = opened(location)
    assert [(file.min_ts, file.max_ts) for file in again._table.index] == [(BEGINNING, 1_700_000_000_123_457), (1_700_000_000_123_458,) * 2]
    assert [change[2] for change in seen(again.read(since=1_700_000_000_123_456))] == ["y", "z"]


def test_publishing_a_tick_again_does_nothing(location: Location) -> None:
    log = opened(location)
    files = {tick: [output(log, [(tick, 1, str(tick))])] for tick in (3, 4, 5)}
    assert log.publish(3, files[3])
    assert not log.publish(3, files[3])
    again = opened(location)
    assert again.published_tick == 3
    assert again.publish_ticks(sorted(files.items()))
    assert again.version == log.version + 1
    assert [change[0] for change in seen(opened(location).read())] == [3, 4, 5]


def test_a_tick_without_changes_costs_no_commit(location: Location) -> None:
    log = opened(location)
    version = log.version
    assert log.publish(7, [])
    assert (log.published_tick, log.version) == (7, version)


def test_a_new_changelog_owes_nothing_for_ticks_before_it(location: Location) -> None:
    """The records of a dropped query of the same name are still there; their files are not."""
    log = Changelog.open(location, "hot", FIELDS, after_tick=9)
    assert not log.publish(9, [OutputFile("gone.parquet", None, 1, 1, 0, 0)])
    assert Changelog.open(location, "hot", FIELDS, after_tick=12).published_tick == 9


def test_given_files_are_read_before_they_are_published(location: Location) -> None:
    log = opened(location)
    files = [output(log, [(1, 1, "a"), (4, 1, "b")])]
    assert seen(log.read(files=files, since=1)) == [(4, 1, "b")]
    assert seen(log.read()) == []
    assert log.read().schema.names == ["instant", "diff", "sym", "sum(size)", "sym"]


def test_a_query_with_columns_that_delta_does_not_know_gets_its_types_back(location: Location) -> None:
    log = Changelog.open(location, "q", [Field("length", INTERVAL), Field("nothing", pa.null())])
    rows = pa.RecordBatch.from_arrays([pa.array([5], INTERVAL), pa.nulls(1)], names=["x", "y"])
    log.publish(1, [write_output(log.directory, [SignedBatch.arrivals(np.array([1]), rows)], log.columns)])
    assert log.read().schema.types[2:] == [INTERVAL, pa.null()]
    assert log.read().column(2).cast(pa.int64()).to_pylist() == [5]


def test_folding_a_stream_keeps_what_reaches_beyond_the_instant(location: Location) -> None:
    log = opened(location)
    for tick in range(5):
        log.publish(tick, [output(log, [(tick * 10, 1, "a"), (tick * 10 + 5, 1, "b")])])
    assert log.fold(14, is_stream=True)
    for log in (log, opened(location)):  # noqa: B020
        assert [change[0] for change in seen(log.read())] == [10, 15, 20, 25, 30, 35, 40, 45]
        assert (log.whole_from, log.folded_to) == (6, 5)
    assert not log.fold(14, is_stream=True)


def test_folding_a_relation_keeps_the_rows_that_are_left(location: Location) -> None:
    log = opened(location)
    log.publish(1, [output(log, [(1, 1, "a")]), output(log, [(2, 1, "a")]), output(log, [(3, 1, "b")])])
    log.publish(2, [output(log, [(4, -1, "a")])])
    log.publish(3, [output(log, [(5, -1, "b"), (9, 1, "c")])])  # reaches beyond
    assert not log.fold(7, is_stream=False)  # too few to be worth it
    assert log.fold(7, is_stream=False, fewest=1)
    for log in (log, opened(location)):  # noqa: B020
        assert seen(log.read()) == [(4, 1, "a"), (4, 1, "b"), (5, -1, "b"), (9, 1, "c")]
        assert (log.folded_to, log._base_rows) == (4, 2)
    assert not log.fold(7, is_stream=False, fewest=1)


def test_folding_stops_where_files_overlap(location: Location) -> None:
    log = opened(location)
    log.publish(1, [output(log, [(1, 1, "a")])])
    log.publish(2, [output(log, [(3, 1, "b"), (9, 1, "c")]), output(log, [(4, 1, "d"), (5, -1, "a")])])
    assert log.fold(6, is_stream=False, fewest=1)
    assert log.folded_to == 1


def test_merging_keeps_every_change_in_its_place(location: Location) -> None:
    log = opened(location)
    for tick in range(20):
        log.publish(tick, [output(log, [(tick * 10 + i, 1, f"{tick}.{part}.{i}") for i in range(3)]) for part in range(2)])
    before = log.read()
    assert log.compact() == 39
    assert len(log._table.index) == 1
    for log in (log, opened(location)):  # noqa: B020
        assert log.read().equals(before)
        assert log.published_tick == 19
    assert log.vacuum(grace_s=0) == 40
    assert log.read().equals(before)


def test_spans_of_time_stay_apart_so_that_old_ones_can_be_dropped(location: Location) -> None:
    log = opened(location)
    for tick in range(40):
        log.publish(tick, [output(log, [(tick * 10, 1, "x")])])
    before = log.read(since=199)
    assert log.compact(span_us=100) == 36
    assert log.fold(199, is_stream=True)
    assert log.read().equals(before)


def test_names_on_disk_are_unique_in_any_case() -> None:
    assert output_columns(["a", "A", "a_2", "diff", "Instant", "sum(x)", "", "x y", "c.d"]) == (
        "a", "A_2", "a_2_2", "diff_2", "Instant_2", "sum_x", "column", "x_y", "c_d",
    )  # fmt: skip


def test_a_missing_output_is_named(location: Location) -> None:
    log = opened(location)
    file = output(log, [(1, 1, "a")])
    log.publish(1, [file])
    (log.directory / file.path).unlink()
    with pytest.raises(DataDamaged, match=file.path):
        log.read()


PUBLISHING = """
from millstream.core.schema import Field
from millstream.core.signed_batch import SignedBatch
from millstream.state.changelog import Changelog, write_output
from millstream.state.tick_record import TickLog, TickRecord
ticks, log = TickLog.open(location), Changelog.open(location, "q", [Field("x", pa.int64())])
for tick in range(10):
    rows = pa.RecordBatch.from_pydict({"x": [tick]})
    file = write_output(log.directory, [SignedBatch.arrivals(np.array([tick]), rows)], log.columns)
    ticks.append(TickRecord(tick, {}, {}, {"q": [file]}))
    log.publish(tick, [file])
log.compact()
log.fold(100, is_stream=True)
"""


@pytest.mark.parametrize(
    ("fault", "changes"),
    [
        ("tick.before_commit:4", [0, 1, 2]),
        ("tick.after_commit:4", [0, 1, 2, 3]),
        ("changelog.before_publish:4", [0, 1, 2, 3]),
        ("delta.before_commit:5", [0, 1, 2, 3]),  # the first commit opens the changelog
        ("delta.after_commit:5", [0, 1, 2, 3]),
        ("changelog.merged", list(range(10))),
        ("retired.listed:1", list(range(10))),
        ("delta.after_commit:12", list(range(10))),
        ("changelog.folded", list(range(10))),
        ("retired.listed:2", list(range(10))),
        ("delta.after_commit:13", []),
    ],
)
def test_a_crash_shows_nothing_twice_and_loses_no_committed_tick(tmp_path: Path, fault: str, changes: list[int]) -> None:
    run_until_killed(tmp_path, fault, PUBLISHING)
    with Location.open(tmp_path, buckets=2) as location:
        ticks, log = TickLog.open(location), Changelog.open(location, "q", [Field("x", pa.int64())])
        log.publish_ticks([(record.tick, record.outputs["q"]) for record in ticks.unpublished()])
        log.sweep()
        assert log.read().column("x").to_pylist() == changes
        log.vacuum(grace_s=0)
        assert {path.name for path in log.directory.glob("*.parquet")} == {file.path for file in log._table.index}
