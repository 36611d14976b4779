"""What kills, full disks and damaged files have shown, each by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from inline import open_inline
from millstream.api import Database
from millstream.core.errors import DataDamaged, DiskFull, MillstreamError
from millstream.state import retired_files, scheduled
from millstream.state.catalog_file import CatalogFile
from millstream.state.location import Location
from millstream.state.retired_files import RetiredFiles

STREAM = "CREATE STREAM s (ts TIMESTAMP, v INT) TIMESTAMP BY ts"


def crash(db: Database) -> None:
    """As near as a process that goes on can come to it: nothing is written any more, and the lock is free."""
    db._location.close()


def refuse(*_: object, **__: object) -> None:
    raise DiskFull("no space")


def rows(db: Database, query: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in db.query(query).result().to_pylist()]


def test_numbers_that_no_tick_record_has_hide_no_changes(tmp_path: Path) -> None:
    """Asking for results uses up numbers; a query that was created then took the ticks after a restart for old ones."""
    db = open_inline(tmp_path)
    db.execute(f"{STREAM}; CREATE STREAM t (ts TIMESTAMP, v INT) TIMESTAMP BY ts; CREATE QUERY q AS SELECT count(*) AS n FROM s")
    db.insert("s", [(1, 1), (5, 1)])
    db.flush()
    for _ in range(5):
        db.query("q").result()
    db.execute("CREATE QUERY later AS SELECT v FROM t")
    crash(db)
    with open_inline(tmp_path) as again:
        again.insert("t", [(1, 7), (9, 8)])
        again.flush()
        assert again.query("later").changes().num_rows == 1


def test_a_dropped_stream_does_not_lend_its_rows_to_a_new_one(tmp_path: Path) -> None:
    db = open_inline(tmp_path)
    db.execute(STREAM)
    db.insert("s", [(1, 1)])
    statements = db._statements
    statements._file.remove([entry.id for entry in statements._file.entries])  # DROP, killed before the directory is gone
    crash(db)
    with open_inline(tmp_path) as again:
        again.execute("CREATE STREAM s (ts TIMESTAMP, other STRING) TIMESTAMP BY ts")
        assert [(info.rows, info.late) for info in again.streams()] == [(0, 0)]


def test_a_statement_that_failed_on_a_full_disk_can_be_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place in the catalog could not be taken back: the second attempt made the database one that cannot be opened."""
    with open_inline(tmp_path) as db:
        with monkeypatch.context() as full:
            full.setattr("millstream.state.delta_log._created", refuse)
            full.setattr(CatalogFile, "remove", refuse)
            with pytest.raises(DiskFull):
                db.execute(STREAM)
        assert CatalogFile(db._location.catalog_path).entries == ()
        db.execute(STREAM)
    with open_inline(tmp_path) as again:
        assert [info.name for info in again.streams()] == ["s"]


def test_a_file_whose_removal_could_not_be_noted_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "live.parquet").write_bytes(b"rows")
    retired = RetiredFiles(tmp_path, ["live.parquet"])
    with monkeypatch.context() as full:
        full.setattr(retired_files, "atomic_write", refuse)
        with pytest.raises(DiskFull):
            retired.retire(["live.parquet"])
    assert retired.remove_expired(grace_s=-1) == 0
    assert (tmp_path / "live.parquet").exists()


def test_a_change_that_waits_is_not_lost_when_the_disk_is_full_at_its_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_inline(tmp_path) as db:
        db.execute(f"{STREAM}; CREATE RELATION r (k INT); CREATE QUERY q AS SELECT k FROM r")
        db.insert("s", [(1, 1)])
        db.insert("r", [(7,)], at=20)
        db.advance(30)
        with monkeypatch.context() as full:
            full.setattr("millstream.state.relation_log.write_chunk", refuse)
            with pytest.raises(DiskFull):
                db.flush()
        db.flush()
        assert rows(db, "q") == [(7,)]


def test_a_change_that_cannot_be_taken_off_the_list_happens_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_inline(tmp_path) as db:
        db.execute(f"{STREAM}; CREATE RELATION r (k INT); CREATE QUERY q AS SELECT k FROM r")
        db.insert("s", [(1, 1)])
        db.insert("r", [(7,)], at=20)
        db.advance(30)
        with monkeypatch.context() as full:
            full.setattr(scheduled, "atomic_write", refuse)
            with pytest.raises(DiskFull):
                db.flush()
        db.flush()
        assert rows(db, "q") == [(7,)]


def test_a_query_whose_rows_are_damaged_stops_alone_and_says_why(tmp_path: Path) -> None:
    db = open_inline(tmp_path)
    db.execute(f"{STREAM}; CREATE STREAM t (ts TIMESTAMP, v INT) TIMESTAMP BY ts")
    for stream in "st":
        db.execute(f"CREATE QUERY of_{stream} AS SELECT v FROM {stream} [RANGE 9 MICROSECONDS]")
        db.insert(stream, [(1, 1), (5, 2)])
    db.flush()
    crash(db)
    [chunk] = (tmp_path / "streams" / "s").glob("*.parquet")
    chunk.write_bytes(chunk.read_bytes()[:-1])
    with open_inline(tmp_path) as again:
        with pytest.raises(MillstreamError, match=chunk.name):
            again.query("of_s").result()
        with pytest.raises(MillstreamError, match=chunk.name):
            again.query("of_s").result()
        assert rows(again, "of_t") == [(1,)]


def test_a_damaged_snapshot_is_replaced_by_the_log(tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute(f"{STREAM}; CREATE QUERY q AS SELECT v FROM s [RANGE 9 MICROSECONDS]")
        db.insert("s", [(1, 1), (5, 2)])
        db.flush()
    snapshots = sorted(tmp_path.glob("snapshots/q/*.npz"))
    for path in snapshots:
        path.write_bytes(b"")
    with open_inline(tmp_path) as again:
        assert rows(again, "q") == [(1,)]
        again.advance(20)
        again.flush()
        assert rows(again, "q") == []


@pytest.mark.parametrize("pattern", ["streams/s/_delta_log/*.json", "ticks/*.json", "queries/q/_delta_log/*.json"])
def test_the_newest_commit_is_missed(pattern: str, tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute(f"{STREAM}; CREATE QUERY q AS SELECT v FROM s")
        db.insert("s", [(1, 1), (5, 2)])
        db.flush()
    newest = max(tmp_path.glob(pattern))
    newest.unlink()
    with Location.open(tmp_path, buckets=2) as location, pytest.raises(DataDamaged, match=newest.name):
        open_inline(tmp_path, location=location)


@pytest.mark.parametrize("name", ["millstream.json", "catalog.json"])
def test_a_database_without_its_first_files_is_not_taken_for_a_new_one(name: str, tmp_path: Path) -> None:
    with open_inline(tmp_path) as db:
        db.execute(STREAM)
    (tmp_path / name).unlink()
    with pytest.raises(DataDamaged, match=name):
        open_inline(tmp_path)
    assert (tmp_path / "streams" / "s").exists()
